/* What benchmarks share: medians and spread of a few rounds. */
#ifndef LARDER_BENCH_MEASURE_H
#define LARDER_BENCH_MEASURE_H

#include <stdlib.h>

static inline int measure_order(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts; the middle one. */
static inline double measure_median(double *v, size_t n) {
    qsort(v, n, sizeof *v, measure_order);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

#endif
