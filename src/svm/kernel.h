/* Kernel values in blocks: rows of one panel of points times columns of another. Three engines do
 * the products, and which one suits a data set is chosen when the kernel is opened:
 *
 *   bits     binary features, packed; a value is a popcount and a table look-up
 *   dense    blocked SGEMM, or sums of squared differences where few features make that cheaper or
 *            large norms make it necessary
 *   sparse   sixteen rows at a time against the non-zeros of each column
 *   given    precomputed kernels: looked up
 *
 * A kernel does not change once open; threads share it, each with its own scratch. A value depends
 * on the two points, the engine and the tile it lies in, never on the thread. */
#ifndef LARDER_SVM_KERNEL_H
#define LARDER_SVM_KERNEL_H

#include "svm/svm_data.h"

typedef struct larder__kernel_conf {
    larder_svm_kernel type;
    int degree;
    double gamma, coef0;
} larder__kernel_conf;

typedef enum {
    LARDER__ENGINE_AUTO,
    LARDER__ENGINE_BITS,
    LARDER__ENGINE_DENSE,
    LARDER__ENGINE_SPARSE,
    LARDER__ENGINE_GIVEN
} larder__engine;

typedef struct larder__panel { /* points laid out for an engine; what it does not use is NULL */
    size_t n;
    size_t stride;   /* n rounded up to LARDER__LANES: from one plane to the next */
    float *norm;     /* squared length */
    uint32_t *words; /* bits: n x words */
    uint32_t *word_planes;
    float *dense; /* n x dim */
    float *dense_planes;
    uint64_t *begin, *end; /* sparse: a point's pairs */
    uint32_t *index;       /* feature numbers of the kernel's map */
    float *value;
    bool borrowed;    /* index and value are another panel's */
    uint32_t *serial; /* given: column of this point in the matrix */
} larder__panel;

enum { LARDER__LANES = 16, LARDER__TILE = 512 /* columns a thread takes at a time */ };

typedef struct larder__kernel {
    larder__kernel_conf conf;
    larder__engine engine;
    bool direct;      /* dense: differences, not products */
    bool few;         /* dense: so few products that opening CBLAS would take longer */
    size_t dim;       /* features in use, or columns of a given matrix */
    size_t words;     /* bits: 32-bit words a point */
    size_t longest;   /* most non-zeros of a point */
    uint32_t *map;    /* feature index -> 0..dim-1, UINT32_MAX: not in use */
    uint32_t map_n;   /* indices below this are in the map; 0: `known` is searched */
    uint32_t *known;  /* where indices are too large for a map: those in use, ascending */
    float *shift;     /* dense RBF: taken off each feature, distances stay */
    float *table;     /* bits: kernel value by popcount */
    size_t table_n;   /* padded to a whole number of lanes */
    bool flipped;     /* given: values lie with the right panel, serials with the left */
    bool by_distance; /* bits: the count is of differing bits, else of common ones */
} larder__kernel;

/* Fits the engine to both sets (`b` may be NULL): features of either, values of either. */
int larder__kernel_open(larder__kernel *, const larder__kernel_conf *, const larder_svm_data *a,
                        const larder_svm_data *b, larder__engine);
void larder__kernel_close(larder__kernel *);
const char *larder__kernel_engine(const larder__kernel *);
/* The number of a feature in the kernel, UINT32_MAX: none of the points has it. */
uint32_t larder__kernel_feature(const larder__kernel *, uint32_t index);
/* Bytes of scratch that a thread needs for blocks of up to `rows` rows. */
size_t larder__kernel_scratch(const larder__kernel *, size_t rows);
/* How many of its first bytes must be zero before its first use. */
size_t larder__kernel_zeroed(const larder__kernel *);

/* Points of a data set; features that the kernel does not know count in the norm alone. */
int larder__panel_fill(larder__panel *, const larder__kernel *, const larder_svm_data *,
                       const uint32_t *rows, size_t n);
/* Room for `n` points, filled by larder__panel_pick. */
int larder__panel_room(larder__panel *, const larder__kernel *, size_t n);
/* Points at `ids` of another panel; `to` has room for them. Sparse points stay with `from`. */
void larder__panel_pick(larder__panel *to, const larder__kernel *, const larder__panel *from,
                        const uint32_t *ids, size_t n);
void larder__panel_free(larder__panel *);

/* out[(r - r0) * stride + (c - c0)] = K(left r, right c). */
void larder__kernel_block(const larder__kernel *, const larder__panel *left, size_t r0, size_t r1,
                          const larder__panel *right, size_t c0, size_t c1, float *out,
                          size_t stride, void *scratch);
/* sum[c - c0] += over r of weight[r] K(left r, right c), in doubles. */
void larder__kernel_add(const larder__kernel *, const larder__panel *left, size_t rows,
                        const double *weight, const larder__panel *right, size_t c0, size_t c1,
                        double *sum, void *scratch);
/* K(x, x) of each point. */
void larder__kernel_diagonal(const larder__kernel *, const larder__panel *, float *out);

/* ---- inside: one engine each ----------------------------------------------------------------- */

void larder__bits_block(const larder__kernel *, const larder__panel *left, size_t r0, size_t r1,
                        const larder__panel *right, size_t c0, size_t c1, float *out,
                        size_t stride);
void larder__bits_add(const larder__kernel *, const larder__panel *left, size_t rows,
                      const double *weight, const larder__panel *right, size_t c0, size_t c1,
                      double *sum);
/* Products, before the kernel function. */
void larder__sparse_products(const larder__kernel *, const larder__panel *left, size_t r0,
                             size_t r1, const larder__panel *right, size_t c0, size_t c1,
                             float *out, size_t stride, void *scratch);
/* Squared distances. */
void larder__direct_distances(const larder__kernel *, const larder__panel *left, size_t r0,
                              size_t r1, const larder__panel *right, size_t c0, size_t c1,
                              float *out, size_t stride);
/* In place, n values of one row: products (with the norms) or squared distances to kernel values.
 */
void larder__kernel_apply(const larder__kernel_conf *, float *row, size_t n, bool distances,
                          float norm, const float *norms);
/* sum += weight * row. */
void larder__add_row(double *sum, const float *row, double weight, size_t n);
/* The same of m rows for several lines of sums, each with a line of weights, a row each. `quick`:
 * products are floats and so are sums of a few of them, which is off no more than the values are;
 * where none of these can be beyond a float. */
void larder__add_rows(double *sum, size_t sum_stride, const double *weight, size_t weight_stride,
                      size_t lines, const float *rows, size_t m, size_t stride, size_t n,
                      bool quick);
/* How large values of points of these squared lengths can be, times how many units in the last
 * place of a float they may be off. Not of given kernels. */
double larder__kernel_size(const larder__kernel *, double norm, double other);
double larder__kernel_value(const larder__kernel_conf *, double product, double distance);

#endif
