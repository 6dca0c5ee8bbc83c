/* Rows of a data set with repeats taken out. Points are distinct vectors; samples are distinct
 * pairs of vector and key (class, target or set of labels), and count the rows they stand for: n
 * equal rows of bound C are one variable of bound nC with the same optimum. */
#ifndef LARDER_SVM_SAMPLES_H
#define LARDER_SVM_SAMPLES_H

#include "svm/svm_data.h"

typedef struct larder__samples {
    size_t n, points;
    uint32_t *row;       /* a sample each: the first row that is it */
    double *count;       /* a sample each: rows, or the sum of their weights */
    uint32_t *point;     /* a sample each */
    uint32_t *point_row; /* a point each: the first row that has it */
    uint32_t *sample_of; /* a row of the list each */
} larder__samples;

/* `rows` (n of them, NULL: all of the data) with a key each. Without `merge` every row is its own
 * sample and point. Samples and points are numbered as they first appear. */
int larder__samples_open(larder__samples *, const larder_svm_data *, const uint32_t *rows, size_t n,
                         const uint64_t *keys, bool merge);
/* Sorts samples by cell (a number below `cells` each), and makes each of them its own point. `also`
 * is another figure a sample each, which moves along. `start`: cells + 1, gets where each begins.
 */
int larder__samples_sort(larder__samples *, size_t rows, uint32_t *cell, uint32_t *also,
                         size_t cells, size_t *start);
void larder__samples_close(larder__samples *);

#endif
