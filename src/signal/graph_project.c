#include "signal/graph_project.h"

#include "base/clones.h"
#include "base/err.h"
#include "base/mem.h"
#include "signal/graph_store.h"

#include <larder/plugin.h>
#include <math.h>

/* Columns are done in strips as wide as two of the widest registers; the last one is padded. */
enum { LANES = 16, STRIP = 2 * LANES };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

static uint32_t strips(uint32_t dims) { return (dims + STRIP - 1) / STRIP; }

static float normal(larder_rng *rng) { /* Box-Muller */
    double u = 1 - larder_rng_unit(rng), v = larder_rng_unit(rng);
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

static double dot(const float *a, const float *b, uint32_t n) {
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* Gram-Schmidt over `dims` rows of length dim; twice is enough for float accuracy. */
static void orthonormalise(float *rows, uint32_t dims, uint32_t dim) {
    for (uint32_t k = 0; k < dims; k++) {
        float *row = rows + (size_t)k * dim;
        for (int pass = 0; pass < 2; pass++)
            for (uint32_t j = 0; j < k; j++) {
                const float *other = rows + (size_t)j * dim;
                float along = (float)dot(row, other, dim);
                for (uint32_t i = 0; i < dim; i++)
                    row[i] -= along * other[i];
            }
        float scale = (float)(1 / sqrt(dot(row, row, dim)));
        for (uint32_t i = 0; i < dim; i++)
            row[i] *= scale;
    }
}

int larder__graph_projection(float **out, uint32_t dim, uint32_t dims, uint64_t seed) {
    size_t count = (size_t)dim * dims;
    float *rows = larder__malloc(count * sizeof *rows);
    *out = larder__calloc((size_t)strips(dims) * STRIP * dim, sizeof **out);
    if (!rows || !*out) {
        larder__free(rows);
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for a projection of %u dimensions",
                            dim);
    }
    larder_rng rng;
    larder_rng_seed(&rng, seed, 0x67726170);
    for (size_t i = 0; i < count; i++)
        rows[i] = normal(&rng);
    orthonormalise(rows, dims, dim);
    float scale = sqrtf((float)dim / (float)dims);
    for (uint32_t k = 0; k < dims; k++)
        for (uint32_t i = 0; i < dim; i++)
            (*out)[((size_t)(k / STRIP) * dim + i) * STRIP + k % STRIP] =
                rows[(size_t)k * dim + i] * scale;
    larder__free(rows);
    return 0;
}

#define ROW_SUMS(r)                                                                                \
    lanes a##r = {0}, b##r = {0};                                                                  \
    const float *x##r = x + (size_t)(r)*dim;
#define ROW_ADD(r)                                                                                 \
    a##r += x##r[i] * first;                                                                       \
    b##r += x##r[i] * second;
#define ROW_STORE(r)                                                                               \
    memcpy(y + (r)*STRIP, &a##r, sizeof a##r);                                                     \
    memcpy(y + (r)*STRIP + LANES, &b##r, sizeof b##r);

/* Four rows times one strip. Every sum runs over the inputs in order, so it is the same whatever
 * the width of the registers. */
LARDER__CLONES
static void project_strip(const float *strip, uint32_t dim, const float *x, float *y) {
    ROW_SUMS(0)
    ROW_SUMS(1) ROW_SUMS(2) ROW_SUMS(3) for (uint32_t i = 0; i < dim; i++, strip += STRIP) {
        lanes first, second;
        memcpy(&first, strip, sizeof first);
        memcpy(&second, strip + LANES, sizeof second);
        ROW_ADD(0) ROW_ADD(1) ROW_ADD(2) ROW_ADD(3)
    }
    ROW_STORE(0) ROW_STORE(1) ROW_STORE(2) ROW_STORE(3)
}

void larder__graph_project(const float *projection, uint32_t dim, uint32_t dims, const float *x,
                           size_t n, float *y) {
    float four[4 * STRIP], tail[4 * LARDER__DIM_MAX];
    for (size_t r = 0; r < n; r += 4) {
        size_t rows = n - r < 4 ? n - r : 4;
        const float *from = x + r * dim;
        if (rows < 4) {
            memset(tail, 0, 4 * dim * sizeof *tail);
            memcpy(tail, from, rows * dim * sizeof *tail);
            from = tail;
        }
        for (uint32_t s = 0; s < strips(dims); s++) {
            uint32_t width = dims - s * STRIP < STRIP ? dims - s * STRIP : STRIP;
            project_strip(projection + (size_t)s * dim * STRIP, dim, from, four);
            for (size_t k = 0; k < rows; k++)
                memcpy(y + (r + k) * dims + s * STRIP, four + k * STRIP, width * sizeof *y);
        }
    }
}
