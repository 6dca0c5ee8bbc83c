/* What the files behind redis/group.h share. Nobody else includes this. */
#ifndef LARDER_REDIS_GROUP_INSIDE_H
#define LARDER_REDIS_GROUP_INSIDE_H

#include "redis/far_inside.h"
#include "redis/group.h"
#include "redis/journal.h"

enum { LARDER__PICKS_AT_ONCE = 256 };

typedef struct larder__group {
    larder__far *far;
    larder__journal *journal;
    larder__agreement mine;
    larder__replica_conf replica_conf;
    bool exchanges;
    uint32_t ttl;
    pthread_mutex_t talk;     /* all but what `state` and `lists` are for */
    pthread_mutex_t state;    /* the replica, against those who look in while we talk */
    larder__replica *replica; /* NULL: not joined; changed with both */
    larder_slot *table;
    uint32_t job, number; /* number: of our records */
    bool again;
    double retry_at, retry_after;
    _Atomic double impatient_until;

    larder_writer queue; /* records to send with the next question */
    size_t ends[8];      /* of each of them */
    size_t queued;
    larder__ticket *answers; /* to an exchange: rows, then what is fetched besides */
    size_t answer_room, rows, fetched;
    uint64_t picks[LARDER__PICKS_AT_ONCE];
    double shares[LARDER__PICKS_AT_ONCE];
    size_t picked, pick_at;
    uint64_t *keys; /* answer to a fetch */
    size_t key_count;
    larder__doomed *doomed; /* to be deleted: those of before the last question, and the rest */
    size_t doomed_count, doomed_old, doomed_cap;

    uint64_t *seen; /* one bit a sample that was served in this epoch; NULL: nobody exchanges */
    const uint8_t *tags;
    uint64_t epoch;
    bool epoch_begun;
    larder_stream stream; /* where the others were when we came */
    bool streaming;

    pthread_mutex_t lists;
    larder__doomed *made; /* to be told */
    size_t made_count, made_cap;
    larder__doomed *told; /* of those, with the next question; under `talk` */
    size_t told_count, told_cap;
    struct passage *waiting; /* for other jobs to make something */
    larder__stats *stats;
    larder__stat alone, waited, stuck, joined, renewed;
} larder__group;

static inline void larder__group_count(larder__group *g, larder__stat s) {
    if (g->stats)
        larder__stat_add(g->stats, s, 1);
}

static inline size_t larder__group_seen_words(const larder__group *g) {
    return (size_t)(g->mine.keys / 64 + 1);
}

/* group_talk.c, all with `talk` held. A record goes with the next question: begin, write what
 * belongs to it, end. `room`: whether there is anybody to tell, and room for one more. */
larder_writer *larder__group_begin(larder__group *, larder__rec_type);
void larder__group_end(larder__group *);
void larder__group_queue_made(larder__group *);
void larder__group_note_down(larder__doomed **list, size_t *count, size_t *cap,
                             const larder__doomed *);
void larder__group_queue_epoch(larder__group *);
bool larder__group_room(larder__group *);
int larder__group_join(larder__group *);
/* Sends what is queued and applies what came, ours and others'. False: we are alone now. */
bool larder__group_step(larder__group *);
/* A question, which `write` writes; once more where the group has gone on without us. */
bool larder__group_ask(larder__group *, void (*write)(larder__group *, const void *, size_t),
                       const void *arg, size_t n);
void larder__group_delete(larder__group *); /* values that nobody was promised any more */

/* group_fill.c: from decisions to bytes. */
void larder__group_alone(larder__group *, const larder_access *, larder__ticket *);
/* The first n of the answers, as tickets of the loader's; what is in Redis is sent for. */
void larder__group_board(larder__group *, const larder_access *, size_t n, larder__ticket *);
void larder__group_made(larder__group *, const larder__doomed *); /* or never will be */
void larder__group_fill(void *group, larder__ticket *, larder_buf *);
void larder__group_fail(void *group, larder__ticket *, int code, const char *why);
int larder__group_wait(void *group, larder__ticket *, larder_buf **out);
int larder__group_receive(void *group, larder__ticket *, larder_buf *token, larder_buf **out);

#endif
