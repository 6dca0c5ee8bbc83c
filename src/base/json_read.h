/* Looking something up in a JSON text that comes from anywhere: what is on the way to it is
 * checked, the rest is not read. */
#ifndef LARDER_BASE_JSON_READ_H
#define LARDER_BASE_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum larder__json_type {
    LARDER__JSON_NULL,
    LARDER__JSON_BOOL,
    LARDER__JSON_NUMBER,
    LARDER__JSON_TEXT,
    LARDER__JSON_ARRAY,
    LARDER__JSON_OBJECT
} larder__json_type;

typedef struct larder__json_value {
    larder__json_type type;
    const char *at; /* its text, quotes and brackets included */
    size_t n;
} larder__json_value;

/* What stands at a path: keys and, in arrays, numbers, with dots between; a dot of a key is written
 * "\.". "": the whole text. E_NOTFOUND, or E_FORMAT for what is no JSON. */
int larder__json_find(const char *text, size_t n, const char *path, larder__json_value *out);

/* A number or truth value: *whole when it is written as an integer that fits, then also *integer.
 */
int larder__json_number(const larder__json_value *, double *out, int64_t *integer, bool *whole);
/* Numbers of an array, arrays in it laid out one after the other, all of the same shape. Writes at
 * most `most` and says in *n how many there are; `integers`, if not NULL, gets them too where
 * *whole comes back. */
int larder__json_numbers(const larder__json_value *, double *out, int64_t *integers, size_t most,
                         size_t *n, uint64_t *shape, uint32_t *ndim, uint32_t ndim_most,
                         bool *whole);
/* A text without its escapes, at most as long as it is written; returns its bytes. */
int larder__json_unescape(const larder__json_value *, char *out, size_t *n);

#endif
