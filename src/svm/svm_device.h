/* Training and prediction on a GPU (gpu/gpu.h): what src/gpu/code/svm.cu does, from here.
 *
 * The device holds the points as floats and, where they fit, all kernel values, which pairs of
 * classes and folds share; else rows that a policy of larder's keeps, in device memory. It runs
 * rounds of the solver by itself; the host looks in now and then, with the gradient and the
 * solution brought back: whether it is optimal, whether floats are enough (float_doubt.c) and what
 * follows is decided there, by the same code as without a GPU, and goes on there where it has to be
 * doubles.
 *
 * Values are computed as plain floats, by products or by differences just as the CPU's engines do:
 * S = 60,000 points of 784 features are 5.6 TFLOP, a tenth of a second, so tensor cores (TF32 three
 * times, bf16 nine times) would gain less than they cost in digits. */
#ifndef LARDER_SVM_SVM_DEVICE_H
#define LARDER_SVM_SVM_DEVICE_H

#include "gpu/gpu.h"
#include "svm/model.h"
#include "svm/solver.h"

#include <pthread.h>

#define LARDER__NO_POINT UINT32_MAX
/* Not kkt, as on the CPU: it wants the distances of all points on the host in every round, which at
 * 500,000 of them took three times as long as no cache (docs/results/svm-gpu.md). */
#define LARDER__DEVICE_POLICY "lru"
enum { LARDER__DEVICE_SLOTS = 1024, LARDER__DEVICE_SLICES = 8, LARDER__DEVICE_END_BLOCKS = 512 };

typedef struct larder__svm_device { /* one a process and GPU; never closed: starting is dear */
    larder__gpu *gpu;
    larder__gpu_function spread, products, differences, keys, choose, seat, gather, small, add,
        fold, distance, weigh;
    double start_seconds; /* context and code */
} larder__svm_device;

/* "cpu" (or NULL): *out is NULL. "cuda", "cuda:1": the device or a sentence. "auto": the device, or
 * NULL and the sentence in `note`. */
int larder__svm_device_find(larder__svm_device **out, const char *spec, char *note, size_t cap);
/* The same where nobody asks why; NULL too where there is no `use` for one. */
int larder__svm_device_for(larder__svm_device **out, const char *spec, bool use);
/* E_ARGS where it is none of these. */
int larder__svm_device_check(const char *spec);

/* ---- points and their kernel values ---------------------------------------------------------- */

typedef struct larder__device_points {
    larder__gpu_ptr x, norm; /* floats: `stride` apart; squared lengths */
    size_t n, stride;
} larder__device_points;

/* Points of a data set, as floats. `norm`: a point each, is set. */
int larder__device_points_open(larder__device_points *, larder__svm_device *,
                               const larder__kernel *, const larder_svm_data *,
                               const uint32_t *rows, size_t n, float *norm);
void larder__device_points_close(larder__device_points *, larder__svm_device *);

typedef struct larder__device_block { /* kernel values to be made; addresses are the device's */
    const larder__device_points *left, *right;
    larder__gpu_ptr left_ids, right_ids, places; /* 0: 0, 1, … */
    size_t rows, columns;
    larder__gpu_ptr out, state; /* state: of the problem whose time it is, or 0 */
    size_t out_stride;
    bool mirror; /* left and right are the same, and so are rows and columns */
} larder__device_block;
int larder__device_make(larder__svm_device *, const larder__kernel *, const larder__device_block *,
                        larder__gpu_stream);

/* ---- what the problems of a session share ---------------------------------------------------- */

typedef struct larder__device_work larder__device_work;

typedef struct larder__svm_shared {
    larder__svm_device *device;
    const larder__kernel *kernel;
    larder__device_points points;
    larder__gpu_ptr values; /* of all points with all; 0: they do not fit */
    size_t stride;
    uint64_t budget, most; /* bytes for rows where they do not: as asked, and what there is */
    const char *policy;    /* of these; "none": each is made when it is wanted */
    uint64_t seed;
    double seconds;            /* that making all values took */
    pthread_mutex_t lock;      /* of what follows */
    larder__device_work *idle; /* memory and streams for problems */
} larder__svm_shared;

typedef struct larder__svm_shared_conf {
    uint64_t budget; /* UINT64_MAX: most of what is free */
    uint64_t rows;   /* counts instead, where not 0 */
    bool never_all;  /* a policy is asked for: not all values, even if they fit */
    const char *policy;
    uint64_t seed;
} larder__svm_shared_conf;
int larder__svm_shared_open(larder__svm_shared **, larder__svm_device *, const larder__kernel *,
                            const larder_svm_data *, const uint32_t *point_row, size_t points,
                            float *norm, const larder__svm_shared_conf *);
void larder__svm_shared_close(larder__svm_shared **);

/* ---- one problem ----------------------------------------------------------------------------- */

typedef struct larder__device_rounds larder__device_rounds;

/* `of`: the number of each of this problem's points among all; NULL: the same. The gradient is
 * computed from beta where the problem does not know it. */
int larder__device_begin(larder__device_rounds **, larder__svm_shared *, const larder__qp *,
                         size_t points, const uint32_t *of, const float *diagonal, double *f);
void larder__device_end(larder__device_rounds **);
/* Some rounds: until the gap is at most `target`, for so long that somebody should look, or until
 * step `last`. Brings beta (of the problem) and f back, and counts in `out`. `moved`: something
 * changed. */
int larder__device_run(larder__device_rounds *, double target, uint64_t last, double *f,
                       larder__solved *out, bool *moved);
/* Rows found, where rows are kept. */
uint64_t larder__device_hits(const larder__device_rounds *);

/* ---- decision values ------------------------------------------------------------------------- */

/* Sums as svm_predict.c has them: of rows from..to, (class * coefs + line) * stride + row - from;
 * `classes`: 1 where coefficients do not stand by class. */
typedef struct larder__device_decide larder__device_decide;
int larder__device_decide_open(larder__device_decide **, larder__svm_device *,
                               const larder__kernel *, const larder_svm_model *,
                               const larder_svm_data *, const uint32_t *rows, size_t n,
                               size_t classes, float *vector_norm, float *row_norm);
size_t larder__device_decide_step(const larder__device_decide *); /* rows of a call, at most */
int larder__device_decide_sums(larder__device_decide *, size_t from, size_t to, double *sums);
void larder__device_decide_close(larder__device_decide **);

#endif
