/* What the files behind redis/group.h share. Nobody else includes this. */
#ifndef LARDER_REDIS_GROUP_INSIDE_H
#define LARDER_REDIS_GROUP_INSIDE_H

#include "redis/group.h"
#include "redis/journal.h"
#include "redis/values_inside.h"

typedef struct larder__leaving { /* a value that we evicted, and with which record */
    larder__left value;
    uint64_t record;
    bool promised; /* it was not made then */
} larder__leaving;

typedef struct larder__group {
    larder__client *client;
    larder__redis_values *far;
    larder__journal *journal;
    larder__agreement mine;
    larder__machine_conf machine_conf;
    uint32_t ttl;
    pthread_mutex_t state;    /* the machine, against those who look in while we talk */
    larder__machine *machine; /* NULL: not joined; changed with this and the client's lock */
    larder_slot *table;
    uint32_t job, number; /* number: of our records */
    bool again;
    double retry_at, retry_after;
    _Atomic double impatient_until;

    larder_writer queue; /* records to send with the next question */
    size_t ends[8];      /* of each of them */
    size_t queued;
    larder_writer room;     /* for the list of a record that is applied */
    larder__replies got;    /* what our last question came to */
    larder__reply *answers; /* of these */
    uint64_t *keys;
    size_t answer_room, key_room;
    larder__leaving *left; /* to be deleted, oldest first */
    size_t left_count, left_cap;
    uint64_t records;                        /* applied so far */
    uint64_t heard[LARDER__MACHINE_JOBS][3]; /* which were each job's last, newest first */

    pthread_mutex_t lists;
    larder__left *made; /* to be told */
    size_t made_count, made_cap;
    larder__left *told; /* of those, with the next question */
    size_t told_count, told_cap;
    struct passage *waiting, *waiting_last; /* for other jobs to make something; oldest first */
    larder__stats *stats;
    larder__stat waited, stuck, joined, renewed;
} larder__group;

static inline void larder__group_count(larder__group *g, larder__stat s) {
    if (g->stats)
        larder__stat_add(g->stats, s, 1);
}

/* group_talk.c, all with the client's lock held. */
bool larder__group_there(void *group);
void larder__group_tell(void *group, const larder__op *); /* goes with the next question */
bool larder__group_ask(void *group, const larder__op *, larder__replies *out);
int larder__group_join(larder__group *);
/* Sends what is queued and applies what came, ours and others'. False: we are alone now. */
bool larder__group_step(larder__group *);
void larder__group_queue_made(larder__group *);
void larder__group_note_down(larder__left **list, size_t *count, size_t *cap, const larder__left *);
/* Values that nobody was promised any more; `all`: those too that somebody was. */
void larder__group_delete(larder__group *, bool all);

/* group_fill.c: from decisions to bytes; as in larder__carrier. */
void larder__group_board(void *group, const larder__reply *, const larder_access *, size_t n,
                         larder__ticket *out);
void larder__group_collect(larder__group *); /* what is waited for and made by now */
void larder__group_refuse(void *group, const larder__reply *, size_t n);
void larder__group_fill(void *group, larder__ticket *, larder_buf *);
void larder__group_fail(void *group, larder__ticket *, int code);
int larder__group_wait(void *group, larder__ticket *, larder_buf **out);
int larder__group_receive(void *group, larder__ticket *, larder_buf *token, larder_buf **out);

#endif
