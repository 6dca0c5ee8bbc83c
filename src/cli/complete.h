/* What may be typed next: the answers behind the completion of shells, from the tables that the
 * parser and the plug-ins have, so that those from outside complete too. */
#ifndef LARDER_CLI_COMPLETE_H
#define LARDER_CLI_COMPLETE_H

#include <stdio.h>

#define LARDER__COMPLETE "__complete" /* larder __complete WORDS…, as the scripts of shells ask */

/* Answers for the last word, which may be empty; the others stand before it, "larder" not among
 * them. A line each: the whole word, a tab, what it is. ":files", a tab, N: names of files go on
 * after the first N bytes of the word. Returns an exit code. */
int larder__complete(FILE *to, int count, char **words);

#endif
