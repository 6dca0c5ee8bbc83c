/* Kernel rows kept between rounds, solvers and grid points: larder's cache with points as keys and
 * rows of floats as entries. A round takes its rows at once, fills those that are missing, and
 * gives each back when its point leaves the working set. Rows in the solver's hands stay valid
 * whatever the cache decides. One solver at a time. */
#ifndef LARDER_SVM_ROW_CACHE_H
#define LARDER_SVM_ROW_CACHE_H

#include <larder/larder.h>

typedef struct larder__row_cache larder__row_cache;

typedef struct larder__row_cache_conf {
    const char *policy; /* "hcst", with parameters as everywhere */
    size_t rows;        /* keys are 0..rows-1, and a row is as long */
    uint64_t budget;    /* bytes of rows */
    uint64_t seed;
} larder__row_cache_conf;

int larder__row_cache_open(larder__row_cache **, const larder__row_cache_conf *);
void larder__row_cache_close(larder__row_cache **);
/* out[i]: one reference. missing[i]: nobody has its values yet; the caller writes them all and
 * calls larder__row_cache_filled before anything else. ids are distinct, at most LARDER__WS. */
int larder__row_cache_take(larder__row_cache *, const uint32_t *ids, size_t n, uint32_t cost_us,
                           larder_buf **out, bool *missing);
void larder__row_cache_filled(larder__row_cache *);
/* Rows that leave the working set, and how far each is from being selected again. */
void larder__row_cache_leave(larder__row_cache *, const uint32_t *ids, const float *dist, size_t n);

typedef struct larder__row_cache_figures {
    uint64_t asked, hits, resident, resident_bytes;
} larder__row_cache_figures;
void larder__row_cache_read(larder__row_cache *, larder__row_cache_figures *);

#endif
