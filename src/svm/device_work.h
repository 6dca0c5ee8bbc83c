/* Inside training on a device: memory and a stream for one problem at a time, and rows that are
 * kept where not all of them fit. */
#ifndef LARDER_SVM_DEVICE_WORK_H
#define LARDER_SVM_DEVICE_WORK_H

#include "svm/row_cache.h"
#include "svm/svm_device.h"

/* ---- `state` and `problem` of svm.cu, field for field ---------------------------------------- */

typedef struct larder__device_state {
    double gap, target, mid[2], ends[4];
    uint64_t steps, most_steps, rounds, stamp, spent[6];
    uint32_t phase, done, from, to, new_from, new_to, changed, entered;
} larder__device_state;
enum { LARDER__DEVICE_GOING, LARDER__DEVICE_OPTIMAL, LARDER__DEVICE_STUCK, LARDER__DEVICE_RAN_OUT };

typedef struct larder__device_problem {
    larder__gpu_ptr f, beta, linear, lo, hi, point, column, diagonal, rows;
    uint64_t stride;
    larder__gpu_ptr group, seat, keys, lists, found, mark, ends, var, where, place, k, list_place,
        list_weight, part, dist, state;
    uint32_t n, points, groups, places;
    float share, tight;
} larder__device_problem;

/* ---- memory and a stream --------------------------------------------------------------------- */

struct larder__device_work {
    larder__gpu_ptr memory;
    size_t bytes;
    larder__gpu_stream stream;
    void *pinned;
    size_t pinned_bytes;
    larder__device_work *next;
};

/* One of at least this size; idle ones are used again. */
int larder__device_work_take(larder__svm_shared *, larder__device_work **, size_t bytes,
                             size_t pinned);
void larder__device_work_leave(larder__svm_shared *, larder__device_work *);
void larder__device_work_close_all(larder__svm_shared *);

/* ---- rows that are kept (device_kept.c) ------------------------------------------------------ */

typedef struct larder__device_kept {
    larder__svm_shared *shared;
    size_t points, stride, rows; /* room for so many rows */
    larder__gpu_ptr memory;
    larder__row_cache *cache; /* NULL: the policy is "none" */
    uint32_t *spare;          /* rows that nobody uses */
    size_t spares;
    char *names;       /* a row each: what a buffer points at; nobody looks */
    larder_buf **held; /* a point each: in a working set, else NULL */
    uint32_t *place;   /* a point each: the row, while it is held */
    uint16_t *users;   /* a point each: slots */
    uint64_t asked, hits, made;
    double seconds; /* deciding */
} larder__device_kept;

int larder__device_kept_open(larder__device_kept **, larder__svm_shared *, size_t points);
void larder__device_kept_close(larder__device_kept **);
bool larder__device_kept_listens(const larder__device_kept *);
/* Points leave, n of them: how far each is from being chosen again; `all`: of all points, or NULL.
 */
void larder__device_kept_leave(larder__device_kept *, const uint32_t *points, const float *dist,
                               size_t n, const float *all);
/* Points enter; those whose rows have to be made are put to the front of `make`. */
int larder__device_kept_enter(larder__device_kept *, const uint32_t *points, size_t n,
                              uint32_t *make, size_t *made);

#endif
