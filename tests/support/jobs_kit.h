/* Several jobs that share a cache ruled by ods, over nothing: the deciding half of what a daemon
 * does, with the loader's own sampler as each job's half. Checks what must hold as it goes. */
#ifndef LARDER_TEST_JOBS_KIT_H
#define LARDER_TEST_JOBS_KIT_H

#include "cache_kit.h"

enum { JOBS_MOST = 12 };

typedef struct kit_job {
    bool there, rests;
    uint32_t number; /* the cache's name for it */
    larder_draw_env env;
    void *sampler;
    larder__cache *cache;
    larder_pick *picks;
    uint64_t epoch, drawn; /* epoch under way; drawn in it */
    uint8_t *times;        /* how often each id came in this epoch */
    uint64_t *tensors;     /* one bit a mark: augmented entries it had */
    uint64_t *order;       /* ids in the order they came, of this epoch */
} kit_job;

typedef struct jobs_kit {
    larder__cache *cache;
    uint64_t n, now, most; /* samples; requests so far, and as many as there may be */
    double share[LARDER_FORMS];
    uint64_t served, hits, misses, background; /* since they were last zeroed */
    uint64_t form_hits[LARDER_FORMS];
    kit_job jobs[JOBS_MOST];
} jobs_kit;

/* A cache of `cached` of n samples of 1000 bytes in every form, shared out by `split`; no job. */
void jobs_open(jobs_kit *, uint64_t n, double cached, const char *split, uint64_t seed,
               uint64_t most_requests);
void jobs_close(jobs_kit *);
void jobs_join(jobs_kit *, size_t which, uint64_t batch, uint64_t seed);
void jobs_leave(jobs_kit *, size_t which);
/* It is gone between being told what it gets and asking for it. */
void jobs_kill(jobs_kit *, size_t which);
void jobs_rest(jobs_kit *, size_t which, bool rests);
/* One batch of this job, and what is brought in with it. True: it was the last of its epoch, which
 * was found to be complete. */
bool jobs_step(jobs_kit *, size_t which);
/* All of them, batch by batch, until the first has finished so many epochs. */
void jobs_in_step(jobs_kit *, size_t count, uint64_t epochs);
/* Storage reads per sample served, and the counters start again. */
double jobs_reads(jobs_kit *);

#endif
