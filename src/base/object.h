/* Reading one flat JSON object: members with plain values (numbers, strings, true, false, null), no
 * arrays and no objects inside. Takes bytes from anywhere: bounded, and every refusal says where.
 */
#ifndef LARDER_BASE_OBJECT_H
#define LARDER_BASE_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct larder__object_value {
    bool is_text;    /* else `number`: null is NAN, true 1, false 0 */
    bool is_integer; /* and `whole` holds it exactly */
    double number;
    uint64_t whole;
    char text[256];
    const char *long_text; /* of larder__object_parse_long: instead of `text`, lent */
} larder__object_value;

/* Called for every member in its order; a negative answer ends the reading and is its result. */
typedef int (*larder__member_fn)(void *arg, const char *key, const larder__object_value *);

/* `where` goes in front of every refusal: a file, or a file and a line. */
int larder__object_parse(const char *text, const char *where, larder__member_fn, void *arg);
/* The same with strings of up to cap - 1 bytes, which pass through `room`. */
int larder__object_parse_long(const char *text, const char *where, char *room, size_t cap,
                              larder__member_fn, void *arg);

#endif
