/* A cache in Redis that the jobs of several machines share, as a carrier (shared/client.h). Bytes
 * lie in Redis (redis/values.h), every job feeds a machine of its own (shared/machine.h) and comes
 * to the same, in an order that Redis keeps (redis/journal.h). */
#ifndef LARDER_REDIS_GROUP_H
#define LARDER_REDIS_GROUP_H

#include "redis/values.h"
#include "shared/client.h"
#include "shared/machine.h"

typedef struct larder__group_conf {
    const larder__redis_conf *redis; /* with the group's name */
    larder__agreement agreement;     /* what this job would have */
    uint64_t identity; /* of the bytes: jobs with others are another group of the same name */
    uint32_t size;     /* of each sample; 0: ask size_of */
    uint32_t (*size_of)(void *arg, uint64_t id);
    void *size_arg;
    larder__stats *stats;
} larder__group_conf;

/* Joining has to work the first time. */
int larder__group_open(larder__cache **out, const larder__group_conf *);

#endif
