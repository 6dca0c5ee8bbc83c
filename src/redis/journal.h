/* The order of everything that the jobs of a group do, kept in Redis: a list of records, changed by
 * scripts alone, so that appending, seeing what others appended and expelling those whose lease is
 * over is one step. All keys of a group have one hash tag: they lie on one node of a cluster. */
#ifndef LARDER_REDIS_JOURNAL_H
#define LARDER_REDIS_JOURNAL_H

#include "base/state.h"
#include "redis/far.h"

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

int larder__journal_open(larder__journal **out, larder__far *, const char *group, uint64_t identity,
                         double lease, uint32_t ttl);
void larder__journal_close(larder__journal **);

/* Connects anew and settles what the group has agreed on: `mine` if there was nothing. */
int larder__journal_agree(larder__journal *, const larder_writer *mine, larder_reader *agreed);
/* Joins as a job with this number, which E_FULL says there is none left of. */
int larder__journal_join(larder__journal *, bool again, uint32_t *job, larder__history *);
/* Appends records and gets all that came since the last time, these included. E_CHANGED: this job
 * was expelled, or the journal is not what it was; then agree and join again. */
int larder__journal_step(larder__journal *, const larder__record *, size_t n, larder__history *);
/* The state after all records seen so far; older records may go. */
int larder__journal_snapshot(larder__journal *, const larder_writer *state);
uint64_t larder__journal_since_snapshot(const larder__journal *);
void larder__journal_leave(larder__journal *);

#endif
