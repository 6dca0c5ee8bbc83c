/* The order of everything that the jobs of a group do, kept in Redis: a list of records, changed by
 * scripts alone, so that appending, seeing what others appended and expelling those whose lease is
 * over is one step. All keys of a group have one hash tag: they lie on one node of a cluster.
 *
 * All of them belong to one generation, which has a number nobody can guess. Where they do not fit
 * together any more (evicted, deleted, cut, of another), whoever joins next begins another one;
 * everybody else notices at the next step, and joins that. */
#ifndef LARDER_REDIS_JOURNAL_H
#define LARDER_REDIS_JOURNAL_H

#include "base/state.h"
#include "redis/values.h"

typedef struct larder__journal larder__journal;

typedef struct larder__record {
    const void *bytes;
    size_t size;
} larder__record;

typedef struct larder__history { /* lives until the next call */
    const void *snapshot;        /* state before the first record; size 0: nothing yet */
    size_t snapshot_size;
    larder__record *records;
    size_t count;
} larder__history;

int larder__journal_open(larder__journal **out, larder__redis_values *, const char *group,
                         uint64_t identity, double lease, uint32_t ttl);
void larder__journal_close(larder__journal **);

typedef enum {
    LARDER__WAS_THERE,
    LARDER__BEGAN,      /* there was nothing */
    LARDER__BEGAN_ANEW, /* what was there did not fit together, or was condemned */
} larder__began;

typedef struct larder__membership { /* lives until the next call */
    uint32_t job;                   /* the number it has there */
    larder__began began;
    uint64_t generation;
    larder_reader agreement; /* what the group has agreed on: `mine` if there was nothing */
    larder__history history;
} larder__membership;

/* Connects anew and joins, in one step with beginning a generation where that is due. `join`: the
 * body of the record it joins with. `core`: of `mine`, what has to agree. E_ARGS, without a
 * sentence: it does not. E_FULL: there is no number left. E_FORMAT: the snapshot is damaged. */
int larder__journal_join(larder__journal *, const larder_writer *join, const larder_writer *mine,
                         uint64_t core, larder__membership *);
/* What lies there makes no sense: the next to join begins another generation, unless somebody else
 * has done so. */
void larder__journal_condemn(larder__journal *);
/* Appends records and gets all that came since the last time, these included. E_CHANGED: this job
 * was expelled, or the journal is not what it was; then join again. */
int larder__journal_step(larder__journal *, const larder__record *, size_t n, larder__history *);
/* The state after all records seen so far; older records may go. */
int larder__journal_snapshot(larder__journal *, const larder_writer *state);
uint64_t larder__journal_since_snapshot(const larder__journal *);
void larder__journal_leave(larder__journal *);

#endif
