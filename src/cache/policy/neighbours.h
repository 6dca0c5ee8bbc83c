/* Who may stand in for whom: each key has at most one hub, each hub a chain of the keys it has. All
 * of it lies in three numbers a key, so finding a hub is one look, and dropping a hub takes as many
 * steps as it has keys and leaves none behind.
 *
 * The newest hub to name a key has it. Under FIFO nothing is lost by that: the hub it was taken
 * from leaves the cache earlier. */
#ifndef LARDER_CACHE_POLICY_NEIGHBOURS_H
#define LARDER_CACHE_POLICY_NEIGHBOURS_H

#include <larder/plugin.h>

typedef struct larder__neighbour { /* of a key; numbers are key + 1, 0: none; zeroed: all alone */
    uint32_t hub;
    uint32_t next, before; /* in its hub's chain; before the first: 0 */
    uint32_t first;        /* as a hub: its chain */
} larder__neighbour;

/* `of` has one element a key, `stride` bytes apart, in a struct that begins with it. */
typedef struct larder__neighbours {
    void *of;
    size_t stride;
    uint64_t claimed; /* keys that have a hub */
} larder__neighbours;

static inline larder__neighbour *larder__neighbour_of(const larder__neighbours *n, uint64_t key) {
    return (larder__neighbour *)(void *)((char *)n->of + key * n->stride);
}

/* The hub of a key into *hub; false: it has none. */
static inline bool larder__neighbours_find(const larder__neighbours *n, uint64_t key,
                                           uint64_t *hub) {
    uint32_t at = larder__neighbour_of(n, key)->hub;
    *hub = at - (uint64_t)1;
    return at != 0;
}

void larder__neighbours_claim(larder__neighbours *, uint64_t hub, uint64_t key);
void larder__neighbours_drop(larder__neighbours *, uint64_t hub); /* all its keys */
static inline bool larder__neighbours_any(const larder__neighbours *n, uint64_t hub) {
    return larder__neighbour_of(n, hub)->first != 0;
}

#endif
