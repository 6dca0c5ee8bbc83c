/* Kernel rows kept between rounds, solvers and grid points: larder's cache with points as keys and
 * rows of floats as entries. A round takes its rows at once: all are looked up before the missing
 * ones enter. The caller fills those that are missing, in place, by any threads, and gives each
 * back when its point leaves the working set. Rows in the caller's hands stay valid whatever the
 * cache decides; nothing is copied. One cache serves all solvers that share data and kernel, one
 * after the other: calls come from one thread at a time. */
#ifndef LARDER_SVM_ROW_CACHE_H
#define LARDER_SVM_ROW_CACHE_H

#include <larder/plugin.h>

typedef struct larder__row_cache larder__row_cache;

typedef struct larder__row_cache_conf {
    const char *policy; /* "hcst", with parameters as everywhere */
    size_t rows;        /* keys are 0..rows-1, and a whole row has as many values */
    uint64_t budget;    /* bytes of rows */
    uint64_t seed;
    /* Where rows come from that do not lie in memory of this process: a buffer that stands for one,
     * whose bytes nobody looks at. NULL: from a pool of the cache's own. */
    larder_buf *(*take)(void *arg);
    void *take_arg;
} larder__row_cache_conf;

int larder__row_cache_open(larder__row_cache **, const larder__row_cache_conf *);
void larder__row_cache_close(larder__row_cache **); /* rows still held stay valid */

/* out[i]: one reference to a whole row. missing[i]: the caller writes all values and calls
 * larder__row_cache_filled before anything else. ids are distinct. On failure nothing is held. */
int larder__row_cache_take(larder__row_cache *, const uint32_t *ids, size_t n, larder_buf **out,
                           bool *missing);
void larder__row_cache_filled(larder__row_cache *); /* ends the round */

/* Every round, before leave: how far each row is from being selected again, by id. For policies
 * that ask the solver (kkt); the others do not listen. */
void larder__row_cache_scores(larder__row_cache *, const float *dist);
/* Does the policy listen? Else the solver need not compute distances of all rows: it has no use for
 * them (any more), or all rows fit and nobody will ever have to leave. */
bool larder__row_cache_listens(larder__row_cache *);
/* Rows that leave the working set; the caller drops its references afterwards. `dist` may be NULL
 * where nobody listens. */
void larder__row_cache_leave(larder__row_cache *, const uint32_t *ids, const float *dist, size_t n);

typedef struct larder__row_cache_figures {
    uint64_t asked, hits, resident, resident_bytes, evictions;
    uint64_t held_bytes; /* in the hands of solvers alone */
    uint64_t metadata_bytes;
} larder__row_cache_figures;
void larder__row_cache_read(larder__row_cache *, larder__row_cache_figures *);
/* The i-th switch of a policy that switches (hcst). */
bool larder__row_cache_switched(larder__row_cache *, uint64_t i, larder_switch *out);

#endif
