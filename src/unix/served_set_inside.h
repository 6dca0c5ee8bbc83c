/* What a served set is made of, for the files that make it up: served_set.c (jobs, opening),
 * served_claims.c (the answers to batches) and served_makers.c (entries that jobs have promised to
 * make). */
#ifndef LARDER_UNIX_SERVED_SET_INSIDE_H
#define LARDER_UNIX_SERVED_SET_INSIDE_H

#include "plan/replan.h"
#include "unix/arena.h"
#include "unix/lease.h"
#include "unix/pinned_blocks.h"
#include "unix/served_set.h"
#include "unix/tray.h"
#include "unix/witness.h"

enum { LARDER__MAKING_BUCKETS = 4096, LARDER__BLOCK_HEAD = sizeof(larder__block_head) };

typedef struct larder__waiter { /* a ticket of somebody who wants what another job makes */
    struct larder__waiter *next;
    larder__ticket ticket;
} larder__waiter;

/* An entry somebody has promised to make. */
typedef struct larder__promised {
    struct larder__promised *next; /* of the bucket */
    uint64_t key;
    uint32_t job, lease; /* the maker's */
    larder_buf *buf;
    uint32_t got; /* bytes of it that came as BYTES */
    larder__ticket maker;
    larder__waiter *waiters;
} larder__promised;

typedef struct larder__served_job {
    bool here;
    larder__leases leases;
    uint32_t leases_most;    /* 0: as many as their bytes allow */
    uint64_t quota, brought; /* bytes this job may keep in the cache, and has brought in */
    double kept_at;          /* when it last kept a promise, or had none to keep */
    uint32_t promises;
    bool rests;       /* it does not count for the policy until it asks again */
    larder_pace pace; /* as it told last, and the threads it prepares with; 0: not told */
    double cores;
    double asked_at, pause; /* its last batch; the longest time between two, fading */
    larder__tray *tray;     /* NULL: none */
    int tray_fd;
    uint32_t taken; /* bytes, from there */
} larder__served_job;

struct larder__served {
    larder__served_conf conf;
    larder__machine *machine;
    larder__cache *cache; /* the machine's */
    larder__arena *arena;
    larder__pinned pinned;
    bool open_hand; /* residents may be taken without asking */
    bool vacant;    /* nobody reads here any more */
    int table_fd;
    int views[2]; /* arena and table, for jobs of other users; -1: none has come */
    larder__witness witness;
    larder__table_head *table; /* slots of all keys behind it */
    size_t table_bytes;
    larder__promised *buckets[LARDER__MAKING_BUCKETS];
    larder__served_job jobs[LARDER__SERVED_JOBS];
    larder__waiter *spare_waiters;
    size_t spares;
    uint64_t no_block, capped, overdue;
    uint64_t makings;
    double clock;          /* seconds, of this look */
    larder__replan replan; /* of forms that may move */
    uint64_t batches;      /* answered so far */
};

void larder__served_plan_open(larder__served *);

/* served_claims.c: larder__machine_conf.may. */
larder__may larder__served_may(void *set, uint32_t job);
/* Feeds the machine with something nobody said. */
void larder__served_feed(larder__served *, uint32_t job, const larder__op *);

/* The one that this ticket waits for, NULL: it has landed. */
larder__promised *larder__promised_find(larder__served *, const larder__ticket *);
/* A block for what this ticket is to make; NULL: there is no room. */
larder__promised *larder__promised_start(larder__served *, const larder__ticket *);
/* The claim has reserved a waiter for it. */
void larder__promised_wait(larder__served *, larder__promised *, const larder__ticket *);
void larder__served_land(larder__served *); /* takes over all bytes that are there */
uint64_t larder__served_offset(const larder__served *, larder_buf *); /* of its head in the arena */
larder__block_head *larder__head_of(larder_buf *);                    /* of a buffer in the arena */
void larder__served_note_table(larder__served *); /* what everybody may know of the residents */

#endif
