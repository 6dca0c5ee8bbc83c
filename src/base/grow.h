/* Arrays that grow by half of their size each time: the largest ones, of sources being opened,
 * hold hundreds of megabytes, where doubling would waste more than it saves. */
#ifndef LARDER_BASE_GROW_H
#define LARDER_BASE_GROW_H

#include "base/err.h"
#include "base/limit.h"
#include "base/mem.h"

#include <string.h>

enum { LARDER__GROWN_MUCH = 64 << 20 }; /* bytes from which on it is looked at what there is */

/* Makes room for `need` elements of `size` bytes. `items` is the address of the pointer to them,
 * of whatever type; what is there stays. */
static inline int larder__grow(void *items, size_t *cap, size_t need, size_t size) {
    if (need <= *cap)
        return 0;
    size_t more = *cap + *cap / 2 < 16 ? 16 : *cap + *cap / 2;
    if (more < need)
        more = need;
    if (more > SIZE_MAX / 2 / size)
        return larder__fail(LARDER_E_NOMEM, "out of memory asking for %zu entries", need);
    if (more * size > LARDER__GROWN_MUCH && larder__memory_allows(more * size) < 0)
        return LARDER_E_NOMEM;
    void *old;
    memcpy(&old, items, sizeof old);
    void *grown = larder__realloc(old, more * size);
    if (!grown)
        return LARDER_E_NOMEM;
    memcpy(items, &grown, sizeof grown);
    *cap = more;
    return 0;
}

/* The same of exactly so many, where what is there is not needed any more. */
static inline int larder__room(void *items, size_t *cap, size_t need, size_t size) {
    if (need <= *cap)
        return 0;
    void *old;
    memcpy(&old, items, sizeof old);
    larder__free(old);
    void *fresh = larder__malloc(need * size);
    memcpy(items, &fresh, sizeof fresh);
    *cap = fresh ? need : 0;
    return fresh ? 0 : LARDER_E_NOMEM;
}

#endif
