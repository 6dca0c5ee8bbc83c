/* Writing JSON to a stream, one value after the other; commas and escapes are its business.
 * Numbers have nine digits; NaN and infinities become null. */
#ifndef LARDER_BASE_JSON_H
#define LARDER_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct larder__json {
    FILE *to;
    unsigned depth;
    bool filled[32]; /* does this level have a member already? */
} larder__json;

/* What programs read from larder says in its outermost object which form that has. It goes up when
 * a member goes away or means something else; new ones come without a word. */
enum { LARDER__JSON_SCHEMA = 1 };

/* An object; where it is the outermost one, "schema" is its first member. */
void larder__json_begin(larder__json *);
/* `key` is NULL for array elements and the outermost value. */
void larder__json_open(larder__json *, const char *key, char bracket); /* '{' or '[' */
void larder__json_close(larder__json *, char bracket);                 /* '}' or ']' */
void larder__json_text(larder__json *, const char *key, const char *value);
void larder__json_u64(larder__json *, const char *key, uint64_t value);
void larder__json_f64(larder__json *, const char *key, double value);
void larder__json_bool(larder__json *, const char *key, bool value);

#endif
