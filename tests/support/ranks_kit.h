/* What ranks may share, for tests that hold for all of it: a Redis server, a cluster of them, or a
 * daemon of larder's in a process of its own. */
#ifndef LARDER_TEST_RANKS_KIT_H
#define LARDER_TEST_RANKS_KIT_H

#include "redis_kit.h"

typedef enum { KIT_REDIS, KIT_CLUSTER, KIT_DAEMON } kit_store_kind;

typedef struct kit_store {
    kit_store_kind kind;
    kit_redis redis;
    kit_cluster cluster;
    int owner, heir; /* of what ranks say, once it was killed; nodes of the cluster */
    bool moved;
    char folder[32], socket[64];
    pid_t pid, next; /* daemons: the one that serves, and one that will when told to */
    int tell;
} kit_store;

/* Skips the test where it cannot be had. */
#define kit_store_or_skip(kind)                                                                    \
    do {                                                                                           \
        if ((kind) != KIT_DAEMON)                                                                  \
            kit_redis_or_skip();                                                                   \
    } while (0)

/* While the test has no other threads. */
void kit_store_start(kit_store *, kit_store_kind);
/* At once. A cluster is never away for long: the first time the owner gives its keys to its
 * replica, the second time that one is killed and they go back. */
void kit_store_kill(kit_store *);
void kit_store_again(kit_store *); /* empty, at the same place; once */
void kit_store_stop(kit_store *);
/* The cache text of a job. */
const char *kit_store_cache(const kit_store *, char *out, size_t cap, const char *budget,
                            const char *job, unsigned patience);
/* Until nothing is left of any job's values; false: something stays. */
bool kit_store_emptied(const kit_store *);

#endif
