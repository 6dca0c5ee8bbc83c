/* One data set in the daemon: a machine that decides (shared/machine.h), the arena its bytes lie
 * in, and what each job holds of it. Knows no sockets. Single-threaded: the daemon's loop calls it.
 *
 * What replies refer to is kept alive by leases: a number the client gives back when it is done
 * with the bytes. When a client dies, larder__served_leave gives back everything it held. */
#ifndef LARDER_UNIX_SERVED_SET_H
#define LARDER_UNIX_SERVED_SET_H

#include "shared/machine.h"
#include "unix/message.h"
#include "unix/pages.h"
#include "unix/witness.h"

typedef struct larder__served larder__served;

typedef struct larder__served_conf {
    uint64_t identity;
    larder__agreement about; /* its budget: bytes of payload the cache may hold */
    bool movable;            /* shares of forms follow the jobs' rates */
    uint32_t size;           /* of every sample; 0: SIZES will tell */
    uint64_t spare; /* bytes more in the arena, for what jobs still read of what has left */
    uint32_t pins;  /* entries a job may hold without asking, where the policy allows it */
    larder__all_pages *all_pages; /* of the daemon; NULL: none */
    double mean;                  /* bytes of a sample */
    uint32_t batch;               /* of the first job */
    uint64_t promise;             /* bytes that all of it may come to, but for its jobs, */
    uint64_t entries;             /* of which there were reckoned to be so many */
} larder__served_conf;

enum { LARDER__SERVED_JOBS = LARDER__MACHINE_JOBS };

/* Bytes of the tables of such a set, whatever its budget: found out by making them, of `most`
 * bytes; E_NOMEM: they are more. Also the policy that its text means. */
int larder__served_measure(const larder__served_conf *, uint64_t most, uint64_t *bytes,
                           const larder_policy **);
int larder__served_open(larder__served **out, const larder__served_conf *);
void larder__served_close(larder__served **); /* jobs that are left are made to leave */

/* A job number, below LARDER__SERVED_JOBS; E_FULL when there are that many. `quota`: bytes of the
 * cache that this job may bring in and keep, 0: no limit of its own. */
int larder__served_join(larder__served *, uint64_t quota, bool again, uint64_t seed, uint32_t *job);
/* It gets no more than was reckoned, whatever it said of its samples: so many leases at once, and
 * entries that leave room for the notes of all others. */
void larder__served_bound(larder__served *, uint32_t job, uint32_t leases);
void larder__served_leave(larder__served *, uint32_t job);
/* Before a set is closed that has no jobs: nobody reads any more what was lent to them, and its
 * pages go back although they may keep descriptors. */
void larder__served_vacate(larder__served *);
/* A tray for what it makes, until it leaves: the descriptor, lent, or a code. */
int larder__served_tray(larder__served *, uint32_t job);
/* It will keep no promise any more; what it holds stays its own until it leaves. */
void larder__served_break(larder__served *, uint32_t job);
/* What a job says. The answer to CLAIM and EXCHANGE is written as a body of TICKETS, that to PICKS
 * and FETCH as one of KEYS; `out` is what was decided. */
int larder__served_apply(larder__served *, uint32_t job, const larder__op *, larder_writer *answer,
                         larder__outcome *out);
/* The answer to CLAIM and EXCHANGE, as it was written. */
static inline larder__reply *larder__served_replies(const larder_writer *answer) {
    return (larder__reply *)(void *)(answer->bytes + LARDER__TICKETS_HEAD);
}
/* Both ignore leases the job does not hold. */
void larder__served_release(larder__served *, uint32_t job, uint32_t lease);
void larder__served_made(larder__served *, uint32_t job, uint32_t lease, int code);

/* A piece of what it promised, written here for it. Ignores leases the job does not hold; E_FORMAT:
 * the piece does not fit. */
int larder__served_bytes(larder__served *, uint32_t job, larder_reader *);
/* All of it, from its tray. The lease comes back. */
int larder__served_laid(larder__served *, uint32_t job, larder_reader *);

/* Looks at what is being made: bytes that are there are taken over at once, and the promises of a
 * job that has kept none for two seconds are void. A job that asks for nothing much longer than is
 * its way does not count for the policy until it asks again. `now`: seconds. False: there is
 * nothing to watch. */
bool larder__served_watch(larder__served *, double now);

larder__machine *larder__served_machine(const larder__served *);
larder__cache *larder__served_cache(const larder__served *); /* the machine's */

/* The arena and the table, lent; `sealed`: to be read and never written, of which the arena is not
 * otherwise. */
int larder__served_memory(larder__served *, bool sealed, int out[2]);
larder__witness *larder__served_witness(larder__served *);
int larder__served_pins_fd(const larder__served *, uint32_t job); /* -1: it has to ask */
uint64_t larder__served_arena_bytes(const larder__served *);
const larder__served_conf *larder__served_about(const larder__served *);

typedef struct larder__served_figures {
    uint32_t jobs;
    uint64_t leases, leased_bytes;
    uint64_t arena_bytes, arena_taken;
    uint64_t pinned;   /* blocks that only somebody who took them without asking still reads */
    uint64_t no_block; /* entries that found no place in the arena */
    uint64_t capped;   /* answers without a lease because the job held too much already */
    uint64_t overdue;  /* entries whose maker was silent for too long, left to another */
    bool huge_pages;
} larder__served_figures;
void larder__served_read_figures(const larder__served *, larder__served_figures *);

#endif
