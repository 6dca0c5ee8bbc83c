/* The rows of the working set when rows are kept: taken from the cache or computed when their
 * points enter, added to the gradient from memory, given back when they leave. */
#ifndef LARDER_SVM_HELD_ROWS_H
#define LARDER_SVM_HELD_ROWS_H

#include "svm/kept_rows.h"
#include "svm/kernel.h"
#include "svm/team.h"

typedef struct larder__held {
    larder__kept_rows *rows;
    const larder__row_part *parts; /* of all points: those of this problem, in order */
    size_t part_count;
    const larder__kernel *kernel;
    const larder__panel *all; /* of this problem */
    larder__team *team;
    void **scratch;        /* of the kernel, a thread each */
    larder__panel missing; /* points to be computed */
    larder_buf **row;      /* a point each: held, or NULL */
    uint32_t *column;      /* a point each: its number among all */
    float **tile;          /* a thread each */
    unsigned threads;
    double kernel_seconds, cache_seconds;
    uint64_t made, values; /* rows of which something had to be computed, and how much */
} larder__held;

/* rows, parts, part_count, kernel, all, team, scratch and threads are set by the caller. */
int larder__held_open(larder__held *);
void larder__held_close(larder__held *);
int larder__held_take(larder__held *, const uint32_t *points, size_t n);
void larder__held_leave(larder__held *, const uint32_t *points, const float *dist, size_t n);
/* sum += weight times row, over these points. */
void larder__held_add(larder__held *, const uint32_t *points, const double *weight, size_t n,
                      double *sum);
void larder__held_score(larder__held *, const float *dist);
/* Its values are at h->column of each point. */
static inline const float *larder__held_row(const larder__held *h, uint32_t point) {
    return larder_buf_data(h->row[point]);
}

/* Measured on this machine: microseconds to compute a row of all points straight into the gradient,
 * and to write one row and add one from memory instead. */
int larder__held_measure(const larder__kernel *, const larder__panel *all, double *make_us,
                         double *keep_us);

#endif
