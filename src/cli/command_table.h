/* The commands as a table, for those who look through all of them: main.c, help, man pages,
 * completion and the hint that an option belongs to another command. */
#ifndef LARDER_CLI_COMMAND_TABLE_H
#define LARDER_CLI_COMMAND_TABLE_H

#include "cli/options.h"

typedef struct larder__entry {
    const char *name; /* as typed: "svm-train" */
    int (*run)(int argc, char **argv);
    const char *about; /* one line */
} larder__entry;

/* The i-th command, NULL after the last. */
const larder__entry *larder__command_nth(size_t i);
const larder__entry *larder__command_named(const char *word); /* NULL: there is none */

/* What a command takes stands in its own function. Run this way it shows that to `see` and does
 * nothing else. */
typedef void larder__seer(void *arg, const larder__command *);
void larder__command_shown(const larder__entry *, larder__seer *see, void *arg);

#endif
