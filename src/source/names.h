/* Many short names, numbered from 0, in one block of memory: the text itself, a zero byte, and
 * half a byte of index a name. Filled once, then read by any thread. */
#ifndef LARDER_SOURCE_NAMES_H
#define LARDER_SOURCE_NAMES_H

#include <stddef.h>
#include <stdint.h>

enum { LARDER__NAMES_BLOCK = 16 };

typedef struct larder__names {
    char *bytes;
    size_t size, cap;
    uint64_t *starts; /* where every 16th name begins (LARDER__NAMES_BLOCK) */
    size_t starts_cap;
    uint64_t count;
} larder__names;

/* `text` has no zero byte within `len`. */
int larder__names_add(larder__names *, const char *text, size_t len);
const char *larder__names_get(const larder__names *, uint64_t i);
/* Gives back what growing left over. */
void larder__names_trim(larder__names *);
void larder__names_free(larder__names *);

#endif
