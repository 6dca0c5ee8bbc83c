#include "signal/graph_centres.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/state.h"
#include "signal/graph_project.h"

#include <math.h>

enum { WINDOW = 512 }; /* rows that a mean remembers */

void larder__graph_centres_free(larder__graph_centres *c) {
    larder__free(c->mean);
    larder__free(c->seen);
    larder__free(c->square);
    larder__free(c->scale);
    larder__free(c->matrix);
    *c = (larder__graph_centres){.dim = c->dim};
}

static bool grow(void **array, size_t old, size_t count, size_t size) {
    char *grown = larder__realloc(*array, count * size);
    if (!grown)
        return false;
    memset(grown + old * size, 0, (count - old) * size);
    *array = grown;
    return true;
}

static size_t strip_size(const larder__graph_centres *c) { return (size_t)c->dim * LARDER__STRIP; }

int larder__graph_centres_grow(larder__graph_centres *c, uint32_t count) {
    if (count <= c->count || count > LARDER__CENTRES_MAX)
        return 0;
    size_t old = c->count, strips = larder__strips(c->count);
    if (!grow((void **)&c->mean, old * c->dim, (size_t)count * c->dim, sizeof *c->mean) ||
        !grow((void **)&c->seen, old, count, sizeof *c->seen) ||
        !grow((void **)&c->square, old, count, sizeof *c->square) ||
        !grow((void **)&c->scale, old, count, sizeof *c->scale) ||
        !grow((void **)&c->matrix, strips * strip_size(c), larder__strips(count) * strip_size(c),
              sizeof *c->matrix))
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for %u centres", count);
    c->count = count;
    return 0;
}

static void copy_mean(larder__graph_centres *c, uint32_t class) {
    const float *mean = c->mean + (size_t) class * c->dim;
    double square = 0;
    for (uint32_t i = 0; i < c->dim; i++)
        square += (double)mean[i] * (double)mean[i];
    c->scale[class] = larder__graph_direction_set(c->matrix, c->dim, class, mean);
    c->square[class] = (float)square;
}

void larder__graph_centres_follow(larder__graph_centres *c, uint32_t class, const float *row) {
    if (class >= c->count)
        return;
    float *mean = c->mean + (size_t) class * c->dim;
    c->seen[class] += c->seen[class] < WINDOW;
    float share = 1 / (float)c->seen[class];
    for (uint32_t i = 0; i < c->dim; i++)
        mean[i] += (row[i] - mean[i]) * share;
    copy_mean(c, class);
}

size_t larder__graph_centres_stride(const larder__graph_centres *c) {
    return (size_t)larder__strips(c->count) * LARDER__STRIP;
}

void larder__graph_centres_compare(const larder__graph_centres *c, const float *const *rows,
                                   float *out) {
    size_t stride = larder__graph_centres_stride(c);
    larder__graph_project(c->matrix, c->dim, c->count, rows, out);
    for (size_t r = 0; r < LARDER__PROJECT_ROWS; r++)
        for (uint32_t k = 0; k < c->count; k++)
            out[r * stride + k] = c->square[k] - 2 * c->scale[k] * out[r * stride + k];
}

size_t larder__graph_centres_bytes(const larder__graph_centres *c) {
    return (size_t)c->count * (c->dim * sizeof *c->mean + sizeof *c->seen + 2 * sizeof *c->square) +
           larder__strips(c->count) * strip_size(c) * sizeof *c->matrix;
}

void larder__graph_centres_save(const larder__graph_centres *c, larder_writer *w) {
    larder_write_u32(w, c->count);
    larder_write_bytes(w, c->seen, c->count * sizeof *c->seen);
    larder_write_bytes(w, c->mean, (size_t)c->count * c->dim * sizeof *c->mean);
}

int larder__graph_centres_load(larder__graph_centres *c, larder_reader *r) {
    uint32_t count = larder_read_u32(r);
    if (count > LARDER__CENTRES_MAX || larder__read_left(r) / (c->dim * sizeof *c->mean) < count)
        return larder_read_reject(r, "its index has an impossible number of centres");
    int rc = larder__graph_centres_grow(c, count);
    if (rc < 0)
        return rc;
    larder_read_bytes(r, c->seen, count * sizeof *c->seen);
    larder_read_bytes(r, c->mean, (size_t)count * c->dim * sizeof *c->mean);
    for (size_t i = 0; i < (size_t)count * c->dim; i++)
        if (!(fabsf(c->mean[i]) < 1e18f))
            return larder_read_reject(r, "a centre of its index is impossible");
    for (uint32_t k = 0; k < count; k++) {
        if (c->seen[k] > WINDOW)
            return larder_read_reject(r, "a centre of its index has seen too much");
        copy_mean(c, k);
    }
    return larder_read_status(r);
}
