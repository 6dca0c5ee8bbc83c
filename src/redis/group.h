/* A cache in Redis that the jobs of several machines share: the door to it, as wire/attach.h is to
 * a daemon's. Bytes lie in Redis (redis/far.h), everybody decides for themselves and comes to the
 * same (redis/replica.h), in an order that Redis keeps (redis/journal.h). When Redis is away every
 * request is answered with "make it yourself". */
#ifndef LARDER_REDIS_GROUP_H
#define LARDER_REDIS_GROUP_H

#include "cache/link.h"
#include "redis/far.h"
#include "redis/replica.h"

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
/* Why Redis was last away or refused something. */
void larder__group_note(void *link_state, char *out, size_t cap);
extern const larder__link larder__link_group;

#endif
