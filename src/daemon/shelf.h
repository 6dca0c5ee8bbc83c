/* One data set in the daemon: its cache, the arena its bytes lie in, and what each job holds of it.
 * Knows no sockets. Single-threaded: the daemon's loop calls it.
 *
 * A job's claim is decided by the cache as if the job were in this process. What the answers refer
 * to is kept alive by leases: a number the client gives back when it is done with the bytes. When a
 * client dies, larder__shelf_leave gives back everything it held. */
#ifndef LARDER_DAEMON_SHELF_H
#define LARDER_DAEMON_SHELF_H

#include "cache/cache.h"
#include "wire/message.h"

typedef struct larder__shelf larder__shelf;

typedef struct larder__shelf_conf {
    uint64_t identity, keys, seed;
    uint64_t budget;    /* bytes of payload the cache may hold */
    uint64_t spare;     /* bytes more in the arena, for what jobs still read of evicted entries */
    uint32_t pins;      /* entries a job may hold without asking, where the policy allows it */
    double mean;        /* bytes of a sample */
    uint32_t batch;     /* of the first job */
    uint64_t promise;   /* bytes that all of it may come to, but for its jobs */
    const char *policy; /* with its parameters */
    uint64_t forms_id;  /* what pixels and rows depend on */
    larder__forms forms;
} larder__shelf_conf;

enum { LARDER__SHELF_JOBS = 64 };

/* Bytes of the tables of such a shelf, whatever its budget: found out by making them, of `most`
 * bytes; E_NOMEM: they are more. Also the policy that its text means. */
int larder__shelf_measure(const larder__shelf_conf *, uint64_t most, uint64_t *bytes,
                          const larder_policy **);
int larder__shelf_open(larder__shelf **out, const larder__shelf_conf *);
void larder__shelf_close(larder__shelf **); /* jobs that are left are made to leave */

/* A job number, below LARDER__SHELF_JOBS; E_FULL when there are that many. `quota`: bytes of the
 * cache that this job may bring in and keep, 0: no limit of its own. */
int larder__shelf_join(larder__shelf *, uint64_t quota, bool again, uint32_t *job);
void larder__shelf_leave(larder__shelf *, uint32_t job);
/* This job's next epoch; `seen` (NULL: none): one bit a sample, in whole words, served already. */
void larder__shelf_epoch(larder__shelf *, uint32_t job, uint64_t epoch, const uint64_t *seen);

/* Bytes of samples from..from+n-1. Where the policy brings in samples that nobody asked for, it has
 * to be known how large they are; before all are told it brings in none. */
int larder__shelf_sizes(larder__shelf *, uint32_t from, const uint32_t *sizes, size_t n);
int larder__shelf_one_size(larder__shelf *, uint32_t size); /* all of them are alike */
bool larder__shelf_wants_sizes(const larder__shelf *);

/* `out` has room for n answers. E_RANGE for keys that do not exist: the client lies. */
int larder__shelf_claim(larder__shelf *, uint32_t job, const larder__wire_access *, size_t n,
                        larder__wire_ticket *out);
/* A batch of samples that are wanted. The policy says what is served instead; that is claimed, and
 * up to `fetch` entries that it wants besides. The answers follow each other: n, then *fetched;
 * `out` has room for n + fetch. */
int larder__shelf_exchange(larder__shelf *, uint32_t job, const larder__wire_access *, size_t n,
                           size_t fetch, larder__wire_ticket *out, size_t *fetched);
/* A batch of residents that this job has taken without asking. */
int larder__shelf_touch(larder__shelf *, uint32_t job, const larder__touch *, size_t n);
/* Both ignore leases the job does not hold. */
void larder__shelf_release(larder__shelf *, uint32_t job, uint32_t lease);
void larder__shelf_made(larder__shelf *, uint32_t job, uint32_t lease, int code);

/* Looks at what is being made: bytes that are there are taken over at once, and the promises of a
 * job that has kept none for two seconds are void. A job that asks for nothing much longer than is
 * its way does not count for the policy until it asks again. `now`: seconds. False: there is
 * nothing to watch. */
bool larder__shelf_watch(larder__shelf *, double now);

/* The place of the jobs in the stream of fresh samples they share: that of who is farthest. */
void larder__shelf_stream(larder__shelf *, const larder_stream *);
bool larder__shelf_streaming(const larder__shelf *, larder_stream *); /* false: nobody does */

/* Scores of one job; where several jobs share, the policy hears the highest of a sample's ranks
 * among each job's own scores. */
int larder__shelf_score(larder__shelf *, uint32_t job, const uint32_t *keys, const float *scores,
                        size_t n);
larder__cache *larder__shelf_cache(larder__shelf *);

int larder__shelf_arena_fd(const larder__shelf *);
int larder__shelf_table_fd(const larder__shelf *);
int larder__shelf_pins_fd(const larder__shelf *, uint32_t job); /* -1: it has to ask */
uint64_t larder__shelf_arena_bytes(const larder__shelf *);
const char *larder__shelf_policy(const larder__shelf *); /* its name */
const larder__shelf_conf *larder__shelf_about(const larder__shelf *);

typedef struct larder__shelf_figures {
    uint32_t jobs;
    uint64_t leases, leased_bytes;
    uint64_t arena_bytes, arena_taken;
    uint64_t limbo;    /* blocks that only somebody who took them without asking still reads */
    uint64_t no_block; /* entries that found no place in the arena */
    uint64_t capped;   /* answers without a lease because the job held too much already */
    bool huge_pages;
} larder__shelf_figures;
void larder__shelf_read_figures(const larder__shelf *, larder__shelf_figures *);

#endif
