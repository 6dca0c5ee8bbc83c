/* Kernel rows that are kept, over the points of one problem or of all problems of a task: pairs of
 * classes and folds of a cross validation use parts of the same rows. Points lie in cells (a class,
 * a fold of it), one after the other; a problem is some of the cells, and a row is filled cell by
 * cell when a problem first wants them. */
#ifndef LARDER_SVM_KEPT_ROWS_H
#define LARDER_SVM_KEPT_ROWS_H

#include "svm/kernel.h"
#include "svm/row_cache.h"

typedef struct larder__row_part { /* points local.. of a problem are points at.. of all */
    size_t local, at, n;
    size_t cell;
} larder__row_part;

typedef struct larder__kept_rows {
    larder__row_cache *cache;
    const larder__panel *panel; /* all points; the caller's */
    size_t cells, words;        /* 64-bit words of `filled` a row */
    uint64_t *filled;           /* rows x words: which cells of a kept row are there */
    float *dist;                /* a row each: what solvers last said, where the policy listens */
} larder__kept_rows;

int larder__kept_rows_open(larder__kept_rows **, const larder__row_cache_conf *,
                           const larder__panel *, size_t cells);
void larder__kept_rows_close(larder__kept_rows **);
/* Distances of a problem's points; rows of other points keep theirs. */
void larder__kept_rows_score(larder__kept_rows *, const float *dist, const larder__row_part *parts,
                             size_t n);
static inline bool larder__kept_has(const larder__kept_rows *k, size_t row, size_t cell) {
    return k->filled[row * k->words + cell / 64] >> cell % 64 & 1;
}

#endif
