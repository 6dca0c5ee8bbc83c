/* What relay.c and relay_meet.c share. Nobody else includes this. */
#ifndef LARDER_REDIS_RELAY_INSIDE_H
#define LARDER_REDIS_RELAY_INSIDE_H

#include "redis/far_inside.h"
#include "redis/relay.h"

#include <pthread.h>

enum { LARDER__RELAY_KEY = 176 };

typedef struct larder__posted { /* a record of ours */
    struct larder__posted *next;
    uint64_t number;
    size_t size;
    char kind;
    bool sent, over;
    unsigned char bytes[];
} larder__posted;

struct larder__relay {
    larder__far *far; /* knows the nodes; nothing is stored through it */
    uint32_t rank, world;
    double patience;
    char prefix[112], nonce[20];

    pthread_mutex_t asking; /* one gather at a time */
    pthread_mutex_t lock;   /* all of what follows but `conn` and `session`, the thread's */
    pthread_cond_t work, heard;
    larder__posted *posted, **last;
    larder__relayed *wish; /* what somebody waits for; NULL: nobody does */
    char wish_kind;
    uint64_t wish_number, serial; /* serial: which wish this is */
    size_t missing;
    double wished_at, heard_at; /* when it was; Redis' last answer */
    double *seen;               /* by rank: its last sign of life; 0: we have not met */
    bool *left;                 /* by rank: it said good-bye */
    bool stop, interrupted, met;
    int failed; /* of the wish, and why */
    char why[300], trouble[300];
    pthread_t thread;
    bool running;

    larder__conn conn;
    char session[20];
    double alive_at, connected_at;
};

/* With the thread's connection. A reply is the caller's. */
int larder__relay_ask(larder__relay *, struct redisReply **out, int argc, const char *const *argv,
                      const size_t *lengths);
int larder__relay_set(larder__relay *, const char *key, const void *bytes, size_t size,
                      unsigned seconds);

/* relay_meet.c: one step of finding the others. 1: all have met, and `session` names them; 0: not
 * yet. */
int larder__relay_meet(larder__relay *);

#endif
