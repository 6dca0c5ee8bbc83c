/* Decision values on the device: kernel values of some rows with some support vectors at a time,
 * added up in doubles there. What follows from the sums is svm_predict.c's, as on the CPU. */
#include "base/err.h"
#include "base/mem.h"
#include "svm/svm_device.h"

enum {
    ROWS = 16384,   /* of a call */
    VECTORS = 8192, /* of a block */
    THREADS = 128,
    LINES = 8 /* of coefficients, a thread */
};

struct larder__device_decide {
    larder__svm_device *device;
    const larder__kernel *kernel;
    const larder_svm_model *model;
    const larder_svm_data *data;
    const uint32_t *rows;
    uint32_t *ids; /* work: rows of a call */
    size_t step, lines, classes;
    float *row_norm;
    larder__device_points vectors;
    larder__gpu_ptr coef, class_start, values, sums;
};
typedef larder__device_decide decide;

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static int send_model(decide *d) {
    const larder_svm_model *m = d->model;
    larder__gpu *g = d->device->gpu;
    size_t vectors = m->vectors->rows, bytes = d->lines * vectors * sizeof(double), at = 0;
    uint32_t *start = larder__calloc(d->classes + 1, sizeof *start);
    if (!start)
        return larder__fail(LARDER_E_NOMEM, "no memory to predict");
    for (size_t c = 0; c < d->classes; c++) {
        at += d->classes > 1 ? (size_t)m->class_vectors[c] : vectors;
        start[c + 1] = (uint32_t)least(at, vectors);
    }
    int rc = larder__gpu_alloc(g, &d->coef, bytes, "coefficients");
    if (rc == 0)
        rc = larder__gpu_alloc(g, &d->class_start, (d->classes + 1) * sizeof *start, "classes");
    if (rc == 0)
        rc = larder__gpu_put(g, d->coef, m->coef, bytes, NULL);
    if (rc == 0)
        rc = larder__gpu_put(g, d->class_start, start, (d->classes + 1) * sizeof *start, NULL);
    if (rc == 0)
        rc = larder__gpu_wait(g, NULL);
    larder__free(start);
    return rc;
}

static size_t sum_bytes(const decide *d) {
    return d->classes * d->lines * d->step * sizeof(double);
}

int larder__device_decide_open(decide **out, larder__svm_device *device,
                               const larder__kernel *kernel, const larder_svm_model *m,
                               const larder_svm_data *data, const uint32_t *rows, size_t n,
                               size_t classes, float *vector_norm, float *row_norm) {
    decide *d = *out = larder__calloc(1, sizeof *d);
    if (!d)
        return larder__fail(LARDER_E_NOMEM, "no memory to predict %zu rows", n);
    size_t vectors = m->vectors->rows;
    *d = (decide){.device = device,
                  .kernel = kernel,
                  .model = m,
                  .data = data,
                  .rows = rows,
                  .step = least(n, ROWS),
                  .lines = m->coefs,
                  .classes = classes,
                  .row_norm = row_norm};
    d->ids = larder__malloc((d->step + 1) * sizeof *d->ids);
    int rc = d->ids ? 0 : larder__fail(LARDER_E_NOMEM, "no memory to predict %zu rows", n);
    if (rc == 0)
        rc = larder__device_points_open(&d->vectors, device, kernel, m->vectors, NULL, vectors,
                                        vector_norm);
    if (rc == 0)
        rc = send_model(d);
    if (rc == 0)
        rc = larder__gpu_alloc(device->gpu, &d->values,
                               least(vectors, VECTORS) * d->step * sizeof(float),
                               "kernel values of rows");
    if (rc == 0)
        rc = larder__gpu_alloc(device->gpu, &d->sums, sum_bytes(d), "decision values");
    if (rc < 0)
        larder__device_decide_close(out);
    return rc;
}

size_t larder__device_decide_step(const decide *d) { return d->step; }

/* The part of some support vectors. */
static int add_vectors(decide *d, const larder__device_points *rows, size_t first, size_t last) {
    uint64_t stride = d->step, vectors = d->model->vectors->rows;
    uint32_t columns = (uint32_t)rows->n, from = (uint32_t)first, to = (uint32_t)last;
    uint32_t lines = (uint32_t)d->lines;
    larder__device_points some = d->vectors;
    some.x += first * some.stride * sizeof(float);
    some.norm += first * sizeof(float);
    larder__device_block b = {.left = &some,
                              .right = rows,
                              .rows = last - first,
                              .columns = rows->n,
                              .out = d->values,
                              .out_stride = d->step};
    int rc = larder__device_make(d->device, d->kernel, &b, NULL);
    void *args[] = {&d->values, &stride,         &columns, &d->coef, &vectors, &from,
                    &to,        &d->class_start, &lines,   &d->sums, &stride};
    larder__gpu_shape shape = {.grid = {(columns + THREADS - 1) / THREADS,
                                        (lines + LINES - 1) / LINES, (unsigned)d->classes},
                               .block = {THREADS}};
    return rc < 0 ? rc : larder__gpu_launch(d->device->gpu, d->device->weigh, shape, NULL, args);
}

int larder__device_decide_sums(decide *d, size_t from, size_t to, double *sums) {
    larder__gpu *g = d->device->gpu;
    larder__device_points rows;
    size_t vectors = d->model->vectors->rows;
    for (size_t i = from; i < to; i++)
        d->ids[i - from] = d->rows ? d->rows[i] : (uint32_t)i;
    int rc = larder__device_points_open(&rows, d->device, d->kernel, d->data, d->ids, to - from,
                                        d->row_norm + from);
    if (rc < 0)
        return rc;
    rc = larder__gpu_zero(g, d->sums, sum_bytes(d), NULL);
    for (size_t v = 0; rc == 0 && v < vectors; v += VECTORS)
        rc = add_vectors(d, &rows, v, least(v + VECTORS, vectors));
    if (rc == 0)
        rc = larder__gpu_get(g, sums, d->sums, sum_bytes(d), NULL);
    if (rc == 0)
        rc = larder__gpu_wait(g, NULL);
    larder__device_points_close(&rows, d->device);
    return rc;
}

void larder__device_decide_close(decide **slot) {
    decide *d = *slot;
    *slot = NULL;
    if (!d)
        return;
    larder__gpu *g = d->device->gpu;
    larder__device_points_close(&d->vectors, d->device);
    larder__gpu_free(g, d->coef);
    larder__gpu_free(g, d->class_start);
    larder__gpu_free(g, d->values);
    larder__gpu_free(g, d->sums);
    larder__free(d->ids);
    larder__free(d);
}
