/* The pieces of LIBSVM text: numbers, index:value pairs, label lists, with line and column of what
 * is wrong. Works on one line at a time and trusts nothing in it. */
#ifndef LARDER_SVM_SVM_TEXT_H
#define LARDER_SVM_SVM_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct larder__line {
    const char *at, *end; /* what is left of it; end is behind the last byte, before the newline */
    const char *begin;
    const char *stop; /* bytes before this may be looked at; NULL: before `end` */
    const char *name; /* of the file, for sentences */
    size_t number;    /* counted from 1 */
} larder__line;

/* Goes over blanks; true when something is left. A carriage return at the end counts as blank. */
bool larder__line_more(larder__line *);
/* A finite number that ends at a blank, a comma or the end. `what` completes "expected …". */
int larder__line_number(larder__line *, double *out, const char *what);
/* "index:value" with an index above `last`; `first` is the lowest index allowed. */
int larder__line_pair(larder__line *, int64_t last, uint32_t first, uint32_t *index, double *value);
/* As many of the pairs that come next as are plain: blanks, digits, ':', and a number without
 * exponent; at most `room`. The same result as larder__line_pair's, which has to be asked about
 * what stands at l->at then. *last: as above, and moves on. Returns how many. */
size_t larder__line_plain_pairs(larder__line *, int64_t *last, uint32_t first, uint32_t *index,
                                double *value, size_t room);
/* x as printf's %.8g writes it; returns the length, 0: ask printf. */
size_t larder__text_short(char out[24], double x);
/* E_FORMAT: "name: line 3, column 9: expected …, found …". */
int larder__line_fail(const larder__line *, const char *at, const char *expected);

#endif
