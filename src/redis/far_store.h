/* A store for a cache of one's own whose bytes lie in Redis, with an embedded one in front if
 * wanted. The cache decides as ever; this says only where the bytes are. */
#ifndef LARDER_REDIS_FAR_STORE_H
#define LARDER_REDIS_FAR_STORE_H

#include "cache/store.h"
#include "redis/far.h"

extern const larder__store larder__store_redis;

typedef struct larder__far_store_conf {
    const larder__redis_conf *redis;
    uint64_t fingerprint; /* of data set and, where pixels or rows are kept, of how they are made */
    uint64_t slots;
    uint64_t front; /* bytes of the cache in front; 0: none */
    larder__stats *stats;
} larder__far_store_conf;

/* State for larder__cache_conf.store_state. */
int larder__far_store_open(void **out, const larder__far_store_conf *);
larder__far *larder__far_store_far(void *state);

#endif
