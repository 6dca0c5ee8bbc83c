/* What redis_relay.c and redis_meet.c share. Nobody else includes this. */
#ifndef LARDER_REDIS_REDIS_RELAY_INSIDE_H
#define LARDER_REDIS_REDIS_RELAY_INSIDE_H

#include "redis/redis_relay.h"
#include "redis/values_inside.h"
#include "shared/relay_inside.h"

enum { LARDER__RELAY_KEY = 176 };

typedef struct larder__redis_relay {
    larder__relay core;
    larder__redis_values *far; /* knows the nodes; nothing is stored through it */
    char prefix[112], nonce[20], identity[20];
    double *seen;   /* by rank: its last sign of life; 0: we have not met. Under the core's lock */
    double met_at;  /* likewise */
    uint64_t *left; /* by rank: the wish without an answer when it had said good-bye; likewise */
    bool stop;      /* likewise */
    char apart[sizeof((larder__relay){0}.why)]; /* why they will never begin; likewise */
    pthread_t thread;
    bool running;

    larder__conn conn; /* this and what follows is the thread's */
    char session[20];
    char *words; /* rank 0's last: all have come */
    double alive_at, connected_at;
} larder__redis_relay;

/* With the thread's connection. A reply is the caller's. */
int larder__redis_relay_ask(larder__redis_relay *, struct redisReply **out, int argc,
                            const char *const *argv, const size_t *lengths);
int larder__redis_relay_set(larder__redis_relay *, const char *key, const void *bytes, size_t size,
                            unsigned seconds);

/* redis_meet.c: one step of finding the others. 1: all have met, and `session` names them; 0: not
 * yet. */
int larder__redis_relay_meet(larder__redis_relay *);
/* After that: what others may not have heard is said once more. */
int larder__redis_relay_meet_again(larder__redis_relay *);

#endif
