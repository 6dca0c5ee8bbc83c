#include "signal/graph_project.h"

#include "base/clones.h"
#include "base/err.h"
#include "base/mem.h"

#include <larder/plugin.h>
#include <math.h>

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
    *out = larder__malloc(count * sizeof **out);
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
            (*out)[(size_t)i * dims + k] = rows[(size_t)k * dim + i] * scale;
    larder__free(rows);
    return 0;
}

/* Four inputs at a time, so that a sum is loaded and stored once for them. Sums go along the
 * output, hence they vectorise without changing the order of additions. */
LARDER__CLONES
static void project_rows(const float *p, uint32_t dim, uint32_t dims, const float *x, size_t n,
                         float *y) {
    for (size_t r = 0; r < n; r++) {
        float *to = y + r * dims;
        for (uint32_t k = 0; k < dims; k++)
            to[k] = 0;
        const float *from = x + r * dim;
        uint32_t i = 0;
        for (; i + 4 <= dim; i += 4) {
            const float *line = p + (size_t)i * dims;
            float a = from[i], b = from[i + 1], c = from[i + 2], d = from[i + 3];
            for (uint32_t k = 0; k < dims; k++)
                to[k] += (a * line[k] + b * line[dims + k]) +
                         (c * line[2 * dims + k] + d * line[3 * dims + k]);
        }
        for (; i < dim; i++)
            for (uint32_t k = 0; k < dims; k++)
                to[k] += from[i] * p[(size_t)i * dims + k];
    }
}

void larder__graph_project(const float *projection, uint32_t dim, uint32_t dims, const float *x,
                           size_t n, float *y) {
    project_rows(projection, dim, dims, x, n, y);
}
