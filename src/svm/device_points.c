/* Points and kernel values in device memory. */
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "svm/device_work.h"

#include <string.h>

enum {
    DEEP = 16,  /* features of a tile: points are filled up to a multiple */
    WIDE = 128, /* points of a tile */
    TILE_THREADS = 256,
    CHUNK = 1 << 22, /* pairs that go over at once */
    SPREAD_THREADS = 128,
    SPARE = 256 << 20 /* bytes that are left to others */
};

/* ---- points ---------------------------------------------------------------------------------- */

typedef struct chunk { /* some points, as pairs */
    size_t first, n, most;
    uint64_t *start;
    uint32_t *index;
    float *value;
    larder__gpu_ptr d_start, d_index, d_value, base;
} chunk;

static size_t pairs_of(const larder_svm_data *d, uint32_t row) {
    return (size_t)(d->start[row + 1] - d->start[row]);
}

static void fill_chunk(chunk *c, const larder__kernel *k, const larder_svm_data *d,
                       const uint32_t *rows, float *norm) {
    uint64_t at = 0;
    for (size_t i = 0; i < c->n; i++) {
        uint32_t row = rows ? rows[c->first + i] : (uint32_t)(c->first + i);
        double sum = 0;
        c->start[i] = at;
        for (uint64_t p = d->start[row]; p < d->start[row + 1]; p++) {
            uint32_t f = larder__kernel_feature(k, d->index[p]);
            double x = d->value[p];
            sum += x * x;
            if (f == UINT32_MAX || x == 0)
                continue;
            c->index[at] = f;
            c->value[at++] = (float)(x - (k->shift ? (double)k->shift[f] : 0));
        }
        norm[c->first + i] = (float)sum; /* of what is not shifted */
    }
    c->start[c->n] = at;
}

static int send_chunk(chunk *c, larder__svm_device *d, const larder__kernel *k,
                      const larder__device_points *p) {
    uint64_t pairs = c->start[c->n], stride = p->stride;
    uint32_t dim = (uint32_t)k->dim, shifted = k->shift != NULL, first = (uint32_t)c->first;
    int rc = larder__gpu_put(d->gpu, c->d_start, c->start, (c->n + 1) * sizeof *c->start, NULL);
    if (rc == 0)
        rc = larder__gpu_put(d->gpu, c->d_index, c->index, pairs * sizeof *c->index, NULL);
    if (rc == 0)
        rc = larder__gpu_put(d->gpu, c->d_value, c->value, pairs * sizeof *c->value, NULL);
    void *args[] = {(void *)(uintptr_t)&p->x,
                    &stride,
                    &dim,
                    &c->base,
                    &c->d_start,
                    &c->d_index,
                    &c->d_value,
                    (void *)(uintptr_t)&p->norm,
                    &shifted,
                    &first};
    larder__gpu_shape shape = {.grid = {(unsigned)c->n}, .block = {SPREAD_THREADS}};
    if (rc == 0)
        rc = larder__gpu_launch(d->gpu, d->spread, shape, NULL, args);
    return rc < 0 ? rc : larder__gpu_wait(d->gpu, NULL); /* the chunk is used again */
}

static int open_chunk(chunk *c, larder__svm_device *d, const larder__kernel *k,
                      const larder_svm_data *data, const uint32_t *rows, size_t n) {
    size_t longest = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        size_t m = pairs_of(data, rows ? rows[i] : (uint32_t)i);
        longest = m > longest ? m : longest;
        all += m + 1; /* a point without any wants a place too */
    }
    c->most = all < CHUNK ? all : CHUNK;
    c->most = c->most > longest ? c->most : longest;
    c->start = larder__malloc((c->most + 2) * sizeof *c->start);
    c->index = larder__malloc((c->most + 1) * sizeof *c->index);
    c->value = larder__malloc((c->most + 1) * sizeof *c->value);
    float *base = k->shift ? larder__malloc(k->dim * sizeof *base) : NULL;
    int rc = c->start && c->index && c->value && (base || !k->shift)
                 ? 0
                 : larder__fail(LARDER_E_NOMEM, "no memory for %zu points", n);
    for (size_t f = 0; rc == 0 && base && f < k->dim; f++)
        base[f] = -k->shift[f];
    if (rc == 0)
        rc = larder__gpu_alloc(d->gpu, &c->d_start, (c->most + 2) * sizeof *c->start, "points");
    if (rc == 0)
        rc = larder__gpu_alloc(d->gpu, &c->d_index, (c->most + 1) * sizeof *c->index, "points");
    if (rc == 0)
        rc = larder__gpu_alloc(d->gpu, &c->d_value, (c->most + 1) * sizeof *c->value, "points");
    if (rc == 0 && base)
        rc = larder__gpu_alloc(d->gpu, &c->base, k->dim * sizeof *base, "points");
    if (rc == 0 && base)
        rc = larder__gpu_put(d->gpu, c->base, base, k->dim * sizeof *base, NULL);
    if (rc == 0)
        rc = larder__gpu_wait(d->gpu, NULL);
    larder__free(base);
    return rc;
}

static void close_chunk(chunk *c, larder__svm_device *d) {
    larder__free(c->start);
    larder__free(c->index);
    larder__free(c->value);
    larder__gpu_free(d->gpu, c->d_start);
    larder__gpu_free(d->gpu, c->d_index);
    larder__gpu_free(d->gpu, c->d_value);
    larder__gpu_free(d->gpu, c->base);
}

/* As many points as a chunk takes, at least one. */
static void next_chunk(chunk *c, const larder_svm_data *d, const uint32_t *rows, size_t n) {
    size_t pairs = 0;
    c->first += c->n;
    for (c->n = 0; c->first + c->n < n; c->n++) {
        size_t at = c->first + c->n, m = pairs_of(d, rows ? rows[at] : (uint32_t)at);
        if (c->n == c->most || (c->n && pairs + m > c->most))
            break;
        pairs += m;
    }
}

static int send_points(const larder__device_points *p, larder__svm_device *d,
                       const larder__kernel *k, const larder_svm_data *data, const uint32_t *rows,
                       float *norm) {
    chunk c = {0};
    int rc = open_chunk(&c, d, k, data, rows, p->n);
    for (next_chunk(&c, data, rows, p->n); rc == 0 && c.n; next_chunk(&c, data, rows, p->n)) {
        fill_chunk(&c, k, data, rows, norm);
        rc = send_chunk(&c, d, k, p);
    }
    close_chunk(&c, d);
    if (rc == 0) /* whoever knows the lengths says them to the other */
        rc = k->shift ? larder__gpu_get(d->gpu, norm, p->norm, p->n * sizeof *norm, NULL)
                      : larder__gpu_put(d->gpu, p->norm, norm, p->n * sizeof *norm, NULL);
    return rc < 0 ? rc : larder__gpu_wait(d->gpu, NULL);
}

int larder__device_points_open(larder__device_points *p, larder__svm_device *d,
                               const larder__kernel *k, const larder_svm_data *data,
                               const uint32_t *rows, size_t n, float *norm) {
    *p = (larder__device_points){.n = n, .stride = (k->dim + DEEP - 1) / DEEP * DEEP};
    int rc = larder__gpu_alloc(d->gpu, &p->x, (n + 1) * p->stride * sizeof(float),
                               "the points, features that are zero included");
    if (rc == 0)
        rc = larder__gpu_alloc(d->gpu, &p->norm, (n + 1) * sizeof(float), "points");
    if (rc == 0 && n)
        rc = send_points(p, d, k, data, rows, norm);
    if (rc < 0)
        larder__device_points_close(p, d);
    return rc;
}

void larder__device_points_close(larder__device_points *p, larder__svm_device *d) {
    larder__gpu_free(d->gpu, p->x);
    larder__gpu_free(d->gpu, p->norm);
    *p = (larder__device_points){0};
}

/* ---- kernel values --------------------------------------------------------------------------- */

/* `making` of svm.cu, field for field. */
typedef struct making {
    larder__gpu_ptr left, right, left_norm, right_norm, left_ids, right_ids, places, out, state;
    uint64_t stride, out_stride;
    uint32_t rows, columns, type, mirror;
    int32_t degree;
    float gamma, coef0;
    double gamma_double, coef0_double;
} making;

/* With few features differences cost little more than products, and what |x|^2 + |y|^2 - 2xy loses
 * would show where support vectors are many: 500,000 x 54 would end in doubles. */
static bool by_differences(const larder__kernel *k) {
    enum { FEW = 64 };
    return k->direct || (k->conf.type == LARDER_SVM_RBF && k->dim <= FEW);
}

int larder__device_make(larder__svm_device *d, const larder__kernel *k,
                        const larder__device_block *b, larder__gpu_stream stream) {
    making m = {.left = b->left->x,
                .right = b->right->x,
                .left_norm = b->left->norm,
                .right_norm = b->right->norm,
                .left_ids = b->left_ids,
                .right_ids = b->right_ids,
                .places = b->places,
                .out = b->out,
                .state = b->state,
                .stride = b->left->stride,
                .out_stride = b->out_stride,
                .rows = (uint32_t)b->rows,
                .columns = (uint32_t)b->columns,
                .type = (uint32_t)k->conf.type,
                .mirror = b->mirror,
                .degree = k->conf.degree,
                .gamma = (float)k->conf.gamma,
                .coef0 = (float)k->conf.coef0,
                .gamma_double = k->conf.gamma,
                .coef0_double = k->conf.coef0};
    if (b->rows == 0 || b->columns == 0)
        return 0;
    larder__gpu_shape shape = {.grid = {(unsigned)((b->columns + WIDE - 1) / WIDE),
                                        (unsigned)((b->rows + WIDE - 1) / WIDE)},
                               .block = {TILE_THREADS}};
    void *args[] = {&m};
    return larder__gpu_launch(d->gpu, by_differences(k) ? d->differences : d->products, shape,
                              stream, args);
}

/* ---- a session ------------------------------------------------------------------------------- */

/* Bytes for rows: what is asked for, at most what is free. */
static int find_budget(larder__svm_shared *s, const larder__svm_shared_conf *c) {
    size_t there, all;
    int rc = larder__gpu_free_bytes(s->device->gpu, &there, &all);
    if (rc < 0)
        return rc;
    uint64_t most = there > SPARE ? (uint64_t)(there - SPARE) / 16 * 15 : 0;
    uint64_t row = s->stride * sizeof(float), wanted = c->rows ? c->rows * row : c->budget;
    s->most = most;
    s->budget = wanted < most ? wanted : most;
    return 0;
}

static int make_all(larder__svm_shared *s) {
    double start = larder__now();
    size_t n = s->points.n;
    int rc = larder__gpu_alloc(s->device->gpu, &s->values, n * s->stride * sizeof(float),
                               "kernel values of all points");
    larder__device_block b = {.left = &s->points,
                              .right = &s->points,
                              .rows = n,
                              .columns = n,
                              .out = s->values,
                              .out_stride = s->stride,
                              .mirror = true};
    if (rc == 0)
        rc = larder__device_make(s->device, s->kernel, &b, NULL);
    if (rc == 0)
        rc = larder__gpu_wait(s->device->gpu, NULL);
    s->seconds = larder__now() - start;
    return rc;
}

int larder__svm_shared_open(larder__svm_shared **out, larder__svm_device *d,
                            const larder__kernel *k, const larder_svm_data *data,
                            const uint32_t *point_row, size_t points, float *norm,
                            const larder__svm_shared_conf *c) {
    larder__svm_shared *s = *out = larder__calloc(1, sizeof *s);
    if (!s)
        return larder__fail(LARDER_E_NOMEM, "no memory to train");
    pthread_mutex_init(&s->lock, NULL);
    s->device = d, s->kernel = k;
    s->policy = c->policy, s->seed = c->seed;
    s->stride = (points + 31) / 32 * 32;
    int rc = larder__device_points_open(&s->points, d, k, data, point_row, points, norm);
    if (rc == 0)
        rc = find_budget(s, c);
    if (rc == 0 && !c->never_all && points * s->stride * sizeof(float) <= s->budget)
        rc = make_all(s);
    if (rc < 0)
        larder__svm_shared_close(out);
    return rc;
}

void larder__svm_shared_close(larder__svm_shared **slot) {
    larder__svm_shared *s = *slot;
    *slot = NULL;
    if (!s)
        return;
    larder__device_work_close_all(s);
    larder__gpu_free(s->device->gpu, s->values);
    larder__device_points_close(&s->points, s->device);
    pthread_mutex_destroy(&s->lock);
    larder__free(s);
}
