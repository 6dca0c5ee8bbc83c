/* Where a cache keeps its bytes, by slot. A store does not decide anything and is called under the
 * cache's lock. `null` keeps nothing and answers every get: the simulator's store. */
#ifndef LARDER_CACHE_STORE_H
#define LARDER_CACHE_STORE_H

#include <larder/plugin.h>

typedef struct larder__store {
    const char *name;
    bool real;        /* false: entries count as filled at once, nobody makes or reads bytes */
    size_t slot_size; /* its bytes of metadata a slot */
    int (*open)(void **st, uint64_t slots);
    void (*close)(void **st);
    void (*put)(void *st, larder_slot, larder_buf *); /* takes its own reference */
    larder_buf *(*get)(void *st, larder_slot);        /* a new reference; NULL: bytes are gone */
    void (*drop)(void *st, larder_slot);
    /* Optional: soon asked for. First where the entry is noted, and later its head. */
    void (*prefetch)(const void *st, larder_slot, bool head);
} larder__store;

extern const larder__store larder__store_heap, larder__store_null;

#endif
