/* Text from elsewhere, as a person may see it: names of files and classes, labels, answers of
 * servers. Nothing in it moves a cursor, begins a line or turns the direction of what follows.
 * Controls (ASCII's and U+0080 to 9F) and bytes that are no UTF-8 become \xNN or \u00NN, marks of
 * direction and separators of lines \uNNNN; all else stays, so showing twice changes nothing. */
#ifndef LARDER_BASE_ESCAPE_H
#define LARDER_BASE_ESCAPE_H

#include <stddef.h>
#include <stdio.h>

enum { LARDER__SHOWN_BYTES = 8 }; /* of one character, with the zero behind it */

/* Bytes of the UTF-8 character at `s`, which ends in a zero; 0: it is none. */
size_t larder__utf8_length(const char *s);
/* Is this character (of larder__utf8_length bytes) one that is not shown as it is? */
unsigned larder__hidden(const char *s, size_t length); /* its code; 0: no */

/* The first character of `text`; how many bytes of it that was. */
size_t larder__shown_one(char out[LARDER__SHOWN_BYTES], const char *text);
/* As many whole characters as fit, and a zero; the bytes written without it. */
size_t larder__shown(char *out, size_t cap, const char *text);
void larder__shown_print(FILE *, const char *text);

#endif
