#include "svm/kernel.h"

#include "base/err.h"
#include "base/gemm.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BITS_MOST = 4096,   /* binary features: beyond, popcounts cost more than sparse products */
    DIRECT_DIM = 16,    /* fewer features than this: differences are as quick as SGEMM */
    DENSE_PENALTY = 24, /* a product of SGEMM against one of the sparse engine, in time */
    FEW = 1 << 24,      /* multiplications: 2 ms, as long as it takes to open CBLAS */
    SUB_ROWS = 256      /* rows of a block before they are added up; with a tile: 512 KiB */
};
/* gamma |x|^2 above which rounding of |x|^2 + |y|^2 - 2xy in floats would show in the objective. */
static const double direct_norm = 100;

/* Products of larger values, or values of a given kernel beyond the second, are no floats. */
static const double most_value = 1e17, most_given = 1e37;

typedef struct look { /* at one or two data sets */
    bool binary;
    uint64_t pairs;
    size_t rows, longest;
    uint32_t highest;
} look;

static void look_at(look *l, const larder_svm_data *d) {
    if (!d)
        return;
    l->rows += d->rows;
    l->pairs += d->start[d->rows];
    l->highest = d->features > l->highest ? d->features : l->highest;
    for (size_t i = 0; i < d->rows; i++) {
        size_t n = (size_t)(d->start[i + 1] - d->start[i]);
        l->longest = n > l->longest ? n : l->longest;
    }
    for (uint64_t p = 0; p < d->start[d->rows] && l->binary; p++)
        l->binary = d->value[p] == 1 || d->value[p] == 0;
}

static int check_range(const larder_svm_data *d, double most) {
    for (size_t i = 0; d && i < d->rows; i++)
        for (uint64_t p = d->start[i]; p < d->start[i + 1]; p++)
            if (!(fabs(d->value[p]) <= most))
                return larder__fail(LARDER_E_ARGS,
                                    "row %zu: %u:%g is beyond what kernel rows of floats can hold "
                                    "(%g); scale the values, as larder svm-scale does",
                                    i + 1, d->index[p], d->value[p], most);
    return 0;
}

/* ---- features -------------------------------------------------------------------------------- */

static void mark(uint32_t *map, const larder_svm_data *d) {
    for (uint64_t p = 0; d && p < d->start[d->rows]; p++)
        if (d->value[p] != 0)
            map[d->index[p]] = 0;
}

static int compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static size_t copy_indices(uint32_t *to, size_t n, const larder_svm_data *d) {
    for (uint64_t p = 0; d && p < d->start[d->rows]; p++)
        if (d->value[p] != 0)
            to[n++] = d->index[p];
    return n;
}

/* A few large indices must not cost a map of all below them. */
static int list_features(larder__kernel *k, const look *l, const larder_svm_data *a,
                         const larder_svm_data *b) {
    k->known = larder__malloc((l->pairs + 1) * sizeof *k->known);
    if (!k->known)
        return larder__fail(LARDER_E_NOMEM, "no memory for %llu features",
                            (unsigned long long)l->pairs);
    size_t n = copy_indices(k->known, copy_indices(k->known, 0, a), b);
    qsort(k->known, n, sizeof *k->known, compare);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || k->known[i] != k->known[i - 1])
            k->known[k->dim++] = k->known[i];
    return 0;
}

uint32_t larder__kernel_feature(const larder__kernel *k, uint32_t index) {
    if (!k->known)
        return index < k->map_n ? k->map[index] : UINT32_MAX;
    size_t lo = 0, hi = k->dim;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (k->known[mid] < index)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < k->dim && k->known[lo] == index ? (uint32_t)lo : UINT32_MAX;
}

/* Features nobody has take no place. */
static int map_features(larder__kernel *k, const look *l, const larder_svm_data *a,
                        const larder_svm_data *b) {
    int rc = 0;
    if (l->highest / 64 > l->pairs + 65536) {
        rc = list_features(k, l, a, b);
    } else {
        k->map_n = l->highest + 1;
        k->map = larder__malloc(k->map_n * sizeof *k->map);
        if (!k->map)
            return larder__fail(LARDER_E_NOMEM, "no memory for %u features", k->map_n);
        memset(k->map, 0xff, k->map_n * sizeof *k->map);
        mark(k->map, a);
        mark(k->map, b);
        for (uint32_t i = 0; i < k->map_n; i++)
            if (k->map[i] == 0)
                k->map[i] = (uint32_t)k->dim++;
    }
    k->dim += k->dim == 0; /* all points are zero: one feature that none has */
    return rc;
}

static double squared_norm(const larder_svm_data *d, size_t row) {
    double sum = 0;
    for (uint64_t p = d->start[row]; p < d->start[row + 1]; p++)
        sum += d->value[p] * d->value[p];
    return sum;
}

static double largest_norm(const larder_svm_data *d) {
    double most = 0;
    for (size_t i = 0; d && i < d->rows; i++)
        most = fmax(most, squared_norm(d, i));
    return most;
}

/* Distances do not change when all points move. A feature far from zero is moved near it by a
 * multiple of 1/16, which keeps whole numbers whole. */
static int choose_shift(larder__kernel *k, const larder_svm_data *a) {
    double *mean = larder__calloc(k->dim, sizeof *mean);
    k->shift = larder__calloc(k->dim, sizeof *k->shift);
    if (!mean || !k->shift) {
        larder__free(mean);
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu features", k->dim);
    }
    for (uint64_t p = 0; p < a->start[a->rows]; p++)
        if (a->value[p] != 0)
            mean[larder__kernel_feature(k, a->index[p])] += a->value[p];
    for (size_t f = 0; f < k->dim; f++)
        k->shift[f] = (float)(rint(16 * mean[f] / (double)a->rows) / 16);
    larder__free(mean);
    return 0;
}

/* ---- which engine ---------------------------------------------------------------------------- */

static larder__engine choose(const larder__kernel *k, const look *l) {
    if (l->binary && k->dim <= BITS_MOST &&
        (double)k->dim / 32 < 4 * ((double)l->pairs / (double)l->rows + 1))
        return LARDER__ENGINE_BITS;
    double cells = (double)l->rows * (double)k->dim;
    return (double)l->pairs * DENSE_PENALTY < cells ? LARDER__ENGINE_SPARSE : LARDER__ENGINE_DENSE;
}

static int make_table(larder__kernel *k, size_t longest) {
    static const size_t shapes[] = {2, 4};
    k->words = (k->dim + 31) / 32;
    for (size_t i = 0; i < 2; i++)
        if (k->words <= shapes[i]) {
            k->words = shapes[i];
            break;
        }
    k->by_distance = k->conf.type == LARDER_SVM_RBF;
    size_t most = k->by_distance ? 2 * longest : longest;
    most = most < k->words * 32 ? most : k->words * 32;
    k->table_n = (most + LARDER__LANES) / LARDER__LANES * LARDER__LANES;
    k->table = larder__malloc(k->table_n * sizeof *k->table);
    if (!k->table)
        return larder__fail(LARDER_E_NOMEM, "no memory for a kernel");
    for (size_t i = 0; i < k->table_n; i++)
        k->table[i] = (float)larder__kernel_value(&k->conf, (double)i, (double)i);
    return 0;
}

static int open_engine(larder__kernel *k, const look *l, const larder_svm_data *a,
                       const larder_svm_data *b) {
    if (k->engine == LARDER__ENGINE_BITS)
        return make_table(k, l->longest);
    if (k->engine != LARDER__ENGINE_DENSE || k->conf.type != LARDER_SVM_RBF)
        return 0;
    int rc = choose_shift(k, a);
    double norm = fmax(largest_norm(a), largest_norm(b));
    k->direct = k->dim <= DIRECT_DIM || k->conf.gamma * norm > direct_norm;
    return rc;
}

int larder__kernel_open(larder__kernel *k, const larder__kernel_conf *conf,
                        const larder_svm_data *a, const larder_svm_data *b, larder__engine engine) {
    look l = {.binary = true};
    *k = (larder__kernel){.conf = *conf, .engine = engine};
    look_at(&l, a);
    look_at(&l, b);
    k->longest = l.longest;
    double most = conf->type == LARDER_SVM_PRECOMPUTED ? most_given : most_value;
    int rc = check_range(a, most);
    if (rc == 0)
        rc = check_range(b, most);
    if (rc < 0)
        return rc;
    if (conf->type == LARDER_SVM_PRECOMPUTED) {
        k->engine = LARDER__ENGINE_GIVEN;
        k->dim = (size_t)l.highest + 1;
        return 0;
    }
    rc = map_features(k, &l, a, b);
    if (rc == 0 && engine == LARDER__ENGINE_BITS && !l.binary)
        rc = larder__fail(LARDER_E_ARGS, "the bits engine wants values 0 and 1");
    if (rc == 0 && engine == LARDER__ENGINE_AUTO)
        k->engine = choose(k, &l);
    if (rc == 0)
        rc = open_engine(k, &l, a, b);
    if (rc < 0)
        larder__kernel_close(k);
    k->few = (double)l.rows * (double)l.rows * (double)k->dim < FEW;
    if (rc == 0 && k->engine == LARDER__ENGINE_DENSE && !k->direct && !k->few)
        larder__gemm_threads(1); /* the tiles are shared out among our own threads */
    return rc;
}

void larder__kernel_close(larder__kernel *k) {
    larder__free(k->map);
    larder__free(k->known);
    larder__free(k->shift);
    larder__free(k->table);
    *k = (larder__kernel){0};
}

const char *larder__kernel_engine(const larder__kernel *k) {
    static const char *const names[] = {"auto", "bits", "dense", "sparse", "given"};
    return k->direct ? "direct" : names[k->engine];
}

size_t larder__kernel_zeroed(const larder__kernel *k) {
    size_t lines = k->longest * LARDER__LANES;
    if (k->engine != LARDER__ENGINE_SPARSE)
        return 0;
    lines = (lines < k->dim ? lines : k->dim) + 1;
    return ((k->dim + LARDER__LANES) + lines * LARDER__LANES) * sizeof(float);
}

size_t larder__kernel_scratch(const larder__kernel *k, size_t rows) {
    size_t most = rows < SUB_ROWS ? rows : SUB_ROWS;
    if (k->engine == LARDER__ENGINE_BITS)
        return 64;
    return larder__kernel_zeroed(k) + most * LARDER__TILE * sizeof(float);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void look_up_given(const larder__kernel *k, const larder__panel *left, size_t r0, size_t r1,
                          const larder__panel *right, size_t c0, size_t c1, float *out,
                          size_t stride) {
    for (size_t r = r0; r < r1; r++)
        for (size_t c = c0; c < c1; c++)
            out[(r - r0) * stride + (c - c0)] = k->flipped
                                                    ? right->dense[c * k->dim + left->serial[r]]
                                                    : left->dense[r * k->dim + right->serial[c]];
}

static void products(const larder__kernel *k, const larder__panel *left, size_t r0, size_t r1,
                     const larder__panel *right, size_t c0, size_t c1, float *out, size_t stride,
                     void *scratch) {
    if (k->direct)
        larder__direct_distances(k, left, r0, r1, right, c0, c1, out, stride);
    else if (k->engine == LARDER__ENGINE_SPARSE)
        larder__sparse_products(k, left, r0, r1, right, c0, c1, out, stride, scratch);
    else
        (k->few ? larder__gemm_plain : larder__gemm)(
            r1 - r0, c1 - c0, k->dim, (larder__matrix){left->dense + r0 * k->dim, k->dim, false},
            (larder__matrix){right->dense + c0 * k->dim, k->dim, true}, false, out, stride);
}

void larder__kernel_block(const larder__kernel *k, const larder__panel *left, size_t r0, size_t r1,
                          const larder__panel *right, size_t c0, size_t c1, float *out,
                          size_t stride, void *scratch) {
    if (r0 == r1 || c0 == c1)
        return;
    if (k->engine == LARDER__ENGINE_BITS) {
        larder__bits_block(k, left, r0, r1, right, c0, c1, out, stride);
        return;
    }
    if (k->engine == LARDER__ENGINE_GIVEN) {
        look_up_given(k, left, r0, r1, right, c0, c1, out, stride);
        return;
    }
    products(k, left, r0, r1, right, c0, c1, out, stride, scratch);
    for (size_t r = r0; r < r1; r++)
        larder__kernel_apply(&k->conf, out + (r - r0) * stride, c1 - c0, k->direct, left->norm[r],
                             right->norm + c0);
}

void larder__kernel_add(const larder__kernel *k, const larder__panel *left, size_t rows,
                        const double *weight, const larder__panel *right, size_t c0, size_t c1,
                        double *sum, void *scratch) {
    if (k->engine == LARDER__ENGINE_BITS) {
        larder__bits_add(k, left, rows, weight, right, c0, c1, sum);
        return;
    }
    /* The sparse engine's tables come first: they have to stay zero between calls. */
    size_t n = c1 - c0, most = rows < SUB_ROWS ? rows : SUB_ROWS;
    float *tile =
        (float *)scratch + larder__kernel_scratch(k, most) / sizeof(float) - most * LARDER__TILE;
    for (size_t r = 0; r < rows; r += SUB_ROWS) {
        size_t m = rows - r < SUB_ROWS ? rows - r : SUB_ROWS;
        larder__kernel_block(k, left, r, r + m, right, c0, c1, tile, n, scratch);
        for (size_t i = 0; i < m; i++)
            larder__add_row(sum, tile + i * n, weight[r + i], n);
    }
}

void larder__kernel_diagonal(const larder__kernel *k, const larder__panel *p, float *out) {
    for (size_t i = 0; i < p->n; i++)
        out[i] = k->engine == LARDER__ENGINE_GIVEN
                     ? p->dense[i * k->dim + p->serial[i]]
                     : (float)larder__kernel_value(&k->conf, (double)p->norm[i], 0);
}

double larder__kernel_size(const larder__kernel *k, double norm, double other) {
    larder__kernel_conf c = k->conf;
    double reach = sqrt(norm * other);
    switch (c.type) {
    case LARDER_SVM_RBF: /* |x|^2 + |y|^2 - 2xy loses what the norms have above the distance */
        return k->engine == LARDER__ENGINE_BITS ? 0.25 : 1 + c.gamma * (norm + other + 2 * reach);
    case LARDER_SVM_SIGMOID:
        return 1 + fabs(c.gamma) * reach;
    case LARDER_SVM_POLY:
        c.gamma = fabs(c.gamma), c.coef0 = fabs(c.coef0);
        return (1 + c.degree) * larder__kernel_value(&c, reach, 0);
    case LARDER_SVM_LINEAR:
    case LARDER_SVM_PRECOMPUTED:
        break;
    }
    return reach;
}
