/* A store for a cache of one's own whose bytes lie in Redis, but for those of residents that the
 * cache has placed in front. It decides nothing. */
#ifndef LARDER_REDIS_REDIS_STORE_H
#define LARDER_REDIS_REDIS_STORE_H

#include "cache/store.h"
#include "redis/values.h"

extern const larder__store larder__store_redis;

typedef struct larder__redis_store_conf {
    const larder__redis_conf *redis;
    uint64_t identity; /* of the bytes and, where pixels or rows are kept, of how they are made */
    uint64_t slots;
    larder__stats *stats;
} larder__redis_store_conf;

/* State for larder__cache_conf.store_state. */
int larder__redis_store_open(void **out, const larder__redis_store_conf *);

#endif
