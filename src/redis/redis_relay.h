/* The relay of a job's ranks through Redis: keys that are set and asked for. */
#ifndef LARDER_REDIS_REDIS_RELAY_H
#define LARDER_REDIS_REDIS_RELAY_H

#include "shared/redis_address.h"
#include "shared/relay.h"

typedef struct larder__redis_relay_conf {
    const larder__redis_conf *redis; /* its `job` and `patience`; copied */
    uint64_t fingerprint;            /* with the job's name: by this ranks find each other */
    uint64_t identity;               /* of the bytes: the same for all, or nobody begins */
    uint32_t rank, world;
} larder__redis_relay_conf;

int larder__redis_relay_open(larder__relay **out, const larder__redis_relay_conf *);

#endif
