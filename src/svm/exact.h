/* Kernel values in doubles, from the data itself: what rows of floats are measured against, and
 * what the solver goes on with where they are not enough. Dearer by far than an engine's, so
 * nothing here runs where floats will do. Points are numbers into `row`. Threads share it, each
 * with its own scratch. */
#ifndef LARDER_SVM_EXACT_H
#define LARDER_SVM_EXACT_H

#include "svm/kernel.h"

typedef struct larder__exact {
    const larder__kernel *kernel;
    const larder_svm_data *data;
    const uint32_t *row; /* of the data, a point each */
    size_t n;
    uint64_t *begin;  /* a point's pairs: begin[i] .. begin[i + 1]; all but given kernels */
    uint32_t *index;  /* features of the kernel's map */
    double *value;    /* from the mean, where that is taken off */
    double *rest;     /* what rounding left out of those values; NULL: they are the data's own */
    double *norm;     /* squared length */
    double *mean;     /* of each feature, where it is taken off; NULL: it is not */
    double *held;     /* n rows of n values, or NULL: they are made when they are wanted */
    double held_size; /* then what larder__exact_size says */
} larder__exact;

/* Where few features are zero their mean is taken off: distances stay. Products do not, but where
 * weights sum up to zero (`balanced`) those of the linear kernel change a sum over them by one
 * number for all points, larder__exact_moved. */
int larder__exact_open(larder__exact *, const larder__kernel *, const larder_svm_data *,
                       const uint32_t *row, size_t n, bool balanced);
/* All values at once, for many problems over few points. Not where products were moved. */
int larder__exact_hold(larder__exact *);
void larder__exact_close(larder__exact *);
/* Bytes a thread needs, zeroed before its first use. */
size_t larder__exact_scratch(const larder__exact *);
/* out[r * stride + c] = K(left[r], right[c]). */
void larder__exact_block(const larder__exact *, const uint32_t *left, size_t rows,
                         const uint32_t *right, size_t columns, double *out, size_t stride,
                         void *scratch);
/* sum[c] += over r of weight[r] K(left[r], right[c]). */
void larder__exact_add(const larder__exact *, const uint32_t *left, const double *weight,
                       size_t rows, const uint32_t *right, size_t columns, double *sum,
                       void *scratch);
/* The same in long doubles, from points that no rounding has moved; sum is set, not added to. */
void larder__exact_sum(const larder__exact *, const uint32_t *left, const double *weight,
                       size_t rows, const uint32_t *right, size_t columns, double *sum,
                       void *scratch);
/* What sums of the data's own products are above those of larder__exact_add, at their mean. */
double larder__exact_moved(const larder__exact *, const uint32_t *left, const double *weight,
                           size_t rows);
/* A value from a product or a squared distance. */
long double larder__exact_value(const larder__kernel_conf *, long double product,
                                long double distance);
/* How large values can be, times how many units in the last place they may be off. */
double larder__exact_size(const larder__exact *);

#endif
