/* Kernel values of all points with all, where there are few enough of them: pairs of classes, folds
 * and all C take what they want from it, training and prediction alike. Filled when it is opened;
 * threads share it. */
#ifndef LARDER_SVM_GRAM_H
#define LARDER_SVM_GRAM_H

#include "svm/kernel.h"
#include "svm/team.h"

typedef struct larder__gram {
    size_t n, stride;
    float *k; /* n rows, `stride` apart */
} larder__gram;

typedef struct larder__gram_run { /* columns that lie side by side here and there */
    uint32_t to, from, n;
} larder__gram_run;

int larder__gram_open(larder__gram *, const larder__kernel *, const larder__panel *,
                      larder__team *);
void larder__gram_close(larder__gram *);
/* So many values are computed for n points: kernels are symmetric. */
uint64_t larder__gram_values(size_t n);
static inline const float *larder__gram_row(const larder__gram *g, size_t point) {
    return g->k + point * g->stride;
}
/* Points `ids` (NULL: 0 .. n - 1) as runs, at most n of them. Returns how many. */
size_t larder__gram_runs(larder__gram_run *out, const uint32_t *ids, size_t n);
/* to[i] = row[ids[i]]. */
void larder__gram_copy(float *to, const float *row, const larder__gram_run *runs, size_t n);
/* The same, without runs. */
void larder__gram_pick(float *to, const float *row, const uint32_t *ids, size_t n);
/* sum[i] += weight * row[ids[i]]. */
void larder__gram_add(double *sum, const float *row, double weight, const larder__gram_run *runs,
                      size_t n);

#endif
