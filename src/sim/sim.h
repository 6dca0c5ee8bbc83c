/* The simulator: the loader's own deciding half (sampler, policy, ledger, feedback lag) over the
 * null store, so that what it says is what a real run does, without reading a byte. */
#ifndef LARDER_SIM_SIM_H
#define LARDER_SIM_SIM_H

#include "sim/feed.h"
#include "svm/access.h"

#include <larder/plugin.h>

typedef struct larder__sim_conf {
    bool refuse_unscored; /* a policy that decides by scores where nothing gives any */
    const char *recipe, *cache;
    uint64_t n, epochs, batch, seed;
    uint32_t size;            /* bytes of each sample */
    uint32_t decoded, row;    /* bytes of its pixels, and of its row of a batch; 0: `size` */
    uint32_t lag;             /* 0: as the loader's default */
    const char *trace;        /* folder of a recorded training, NULL: none; then n comes from it */
    const char *data;         /* a data set, NULL: none; then n and all sizes come from it … */
    const char *augment;      /* … and what is read of a sample follows from its crop */
    larder_parts parts;       /* of `data` */
    const larder__tape *tape; /* a recorded job, NULL: none; then samples, sizes, batch, seed and
                                 lag are its own, and training says what it said there */
    const _Atomic int *stop;  /* becomes non-zero: end cleanly; NULL: never */
    void (*progress)(void *arg, uint64_t epoch, uint64_t served); /* now and then; NULL: none */
    void *progress_arg;
} larder__sim_conf;

typedef struct larder__sim_result {
    uint64_t n;
    larder_figures *epochs; /* one a finished epoch; free with larder__sim_free */
    uint64_t count;
    const larder_figure *figures;    /* what the policy shows, NULL: nothing */
    double (*shown)[LARDER_FIGURES]; /* its values after each of the epochs */
    double *precision; /* of each epoch's beginning, see precision.h; NAN: nothing to compare */
    double precision_mean;
    larder_figures total;                 /* sums; touched: the mean */
    double hit_ratio;                     /* hits / served over all epochs */
    uint64_t evictions, metadata_bytes;   /* of cache, sampler and ledger together */
    bool forms;                           /* the cache was shared out between forms */
    bool tiers;                           /* it had another in front */
    double seconds, waited, later_waited; /* with `tape`: by its rates; waited for batches, and of
                                             that in epochs after the first */
    double later_seconds;
} larder__sim_result;

/* 0, E_CANCELLED with the epochs so far, or another negative code. */
int larder__sim_run(const larder__sim_conf *, larder__sim_result *out);
void larder__sim_free(larder__sim_result *);
/* A batch of a replay, for which storage gives so many bytes. */
void larder__sim_keep_time(larder__sim_result *, larder__feed_clock *, uint64_t bytes,
                           size_t samples);
/* One more epoch, whose precision is there already. */
void larder__sim_add_epoch(larder__sim_result *, const larder_figures *);

/* The requests of a recorded job, in its order, through another policy ("lru", "name:key=value")
 * and size of cache. */
int larder__sim_requests(const larder__tape *, const char *policy, const char *cache,
                         const _Atomic int *stop, larder__sim_result *out);

/* ---- raw access sequences -------------------------------------------------------------------- */

typedef struct larder__replay_conf {
    const uint32_t *ids;
    uint64_t count;
    const char *policy; /* "lru", "lfu", "name:key=value" */
    uint64_t entries;   /* the cache holds this many */
    uint64_t batch;     /* 0: one by one; else a whole batch is looked up before its misses enter */
    uint64_t seed;
    const _Atomic int *stop;
    /* Recorded rounds instead of ids, count and batch: rows that leave are offered, scores are
     * given, and rows asked for at several lengths grow; `entries` are whole rows then. */
    const larder__accesses *rows;
} larder__replay_conf;

enum { LARDER__REPLAY_SWITCHES = 64 };

typedef struct larder__replay_result {
    uint64_t accesses, hits, evictions;
    double hit_ratio;
    uint64_t switches; /* changes of mind of the policy, the first few of them kept */
    larder_switch switched[LARDER__REPLAY_SWITCHES];
} larder__replay_result;

int larder__replay_run(const larder__replay_conf *, larder__replay_result *out);

/* Reads a file of little-endian u32 ids, plain or .zst. Free with larder__free. */
int larder__replay_read(const char *path, uint32_t **ids, uint64_t *count);

/* next[i]: position of the next access to ids[i], UINT32_MAX: never. */
int larder__next_uses(const uint32_t *ids, uint64_t count, uint64_t keys, uint32_t **next);

#endif
