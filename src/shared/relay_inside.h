/* A relay as those see it who carry its records: what is to be said, and what is waited for. */
#ifndef LARDER_SHARED_RELAY_INSIDE_H
#define LARDER_SHARED_RELAY_INSIDE_H

#include "shared/relay.h"

#include <pthread.h>

/* A rank, the number of all, and the rank that still waits. */
#define LARDER__RELAY_ENDED "rank %u of %u has ended, and rank %u has not"

/* Which of them, or "". */
#define LARDER__RELAY_COPIES                                                                       \
    "the ranks of this job do not have the same files%s; if these are copies of one data set, "    \
    "say "                                                                                         \
    "so to all ranks with ?content=NAME behind it"

typedef struct larder__posted { /* a record of ours */
    struct larder__posted *next;
    uint64_t number;
    size_t size;
    char kind;
    bool sent, over;
    unsigned char bytes[];
} larder__posted;

typedef struct larder__relay_ops {
    void (*wake)(larder__relay *); /* there is something to do; with the lock held */
    void (*stop)(larder__relay *); /* no thread uses it any more */
    void (*free)(larder__relay *);
} larder__relay_ops;

struct larder__relay { /* the first member of what a carrier has */
    const larder__relay_ops *ops;
    uint32_t rank, world;
    double patience; /* seconds a rank, or the server, may be silent */

    pthread_mutex_t asking; /* one gather at a time */
    pthread_mutex_t lock;   /* all of what follows */
    pthread_cond_t work, heard;
    larder__posted *posted, **last;
    larder__relayed *wish; /* what somebody waits for; NULL: nobody does */
    char wish_kind;
    uint64_t wish_number, serial; /* serial: which wish this is */
    size_t missing;
    double wished_at, heard_at; /* when it was; the server's last answer */
    bool interrupted, met;
    int failed; /* of the wish, and why */
    char why[300], trouble[300];
};

/* `r` comes zeroed. */
int larder__relay_init(larder__relay *r, const larder__relay_ops *, uint32_t rank, uint32_t world,
                       double patience);

/* By the carrier's thread, which alone takes records out of the list: the next one that is to be
 * sent or, where it is over, deleted; NULL: none. Then either of: */
larder__posted *larder__relay_next(larder__relay *, bool *over);
void larder__relay_sent(larder__relay *, larder__posted *);
void larder__relay_take_out(larder__relay *, larder__posted *);
void larder__relay_unsend(larder__relay *); /* the server may have come back empty */

/* All that follow with the lock held. Does somebody wait for this rank's record? */
bool larder__relay_waits(const larder__relay *, uint32_t rank);
/* Its record has come. */
void larder__relay_deliver(larder__relay *, uint32_t rank, const void *bytes, size_t size);
/* The wish has failed. */
void larder__relay_give_up(larder__relay *, int code, const char *why);
/* Has the server been silent for too long, or have the ranks looked for each other for too long? */
void larder__relay_judge(larder__relay *, double now, const char *server);

#endif
