#include "signal/graph_project.h"

#include "base/clones.h"

#include <math.h>
#include <string.h>

/* A strip is as wide as two of the widest registers; so many inputs of it are widened at a time. */
enum { LANES = LARDER__STRIP / 2, BLOCK = 64 };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

float larder__graph_direction_set(int8_t *matrix, uint32_t dim, uint32_t direction,
                                  const float *values) {
    float most = 1e-30f;
    for (uint32_t i = 0; i < dim; i++)
        most = fmaxf(most, fabsf(values[i]));
    float scale = most / 127;
    for (uint32_t i = 0; i < dim; i++)
        matrix[larder__strip_at(dim, direction, i)] = (int8_t)rintf(values[i] / scale);
    return scale;
}

void larder__graph_direction_get(const int8_t *matrix, uint32_t dim, uint32_t direction,
                                 float *entries) {
    for (uint32_t i = 0; i < dim; i++)
        entries[i] = (float)matrix[larder__strip_at(dim, direction, i)];
}

#define ROW_SUMS(r)                                                                                \
    lanes a##r = {0}, b##r = {0};                                                                  \
    const float *x##r = rows[r];
#define ROW_ADD(r)                                                                                 \
    a##r += x##r[i] * first;                                                                       \
    b##r += x##r[i] * second;
#define ROW_STORE(r)                                                                               \
    memcpy(y + (size_t)(r)*stride, &a##r, sizeof a##r);                                            \
    memcpy(y + (size_t)(r)*stride + LANES, &b##r, sizeof b##r);

/* Four rows times one strip. Every sum runs over the inputs in order, so it is the same whatever
 * the width of the registers. */
LARDER__CLONES
static void project_strip(const int8_t *strip, uint32_t dim, const float *const *rows, float *y,
                          size_t stride) {
    float wide[BLOCK * LARDER__STRIP];
    lanes first, second;
    ROW_SUMS(0)
    ROW_SUMS(1)
    ROW_SUMS(2)
    ROW_SUMS(3)
    for (uint32_t from = 0; from < dim; from += BLOCK) {
        uint32_t to = dim - from < BLOCK ? dim : from + BLOCK;
        for (uint32_t k = 0; k < (to - from) * LARDER__STRIP; k++)
            wide[k] = (float)strip[(size_t)from * LARDER__STRIP + k];
        const float *at = wide;
        for (uint32_t i = from; i < to; i++, at += LARDER__STRIP) {
            memcpy(&first, at, sizeof first);
            memcpy(&second, at + LANES, sizeof second);
            ROW_ADD(0)
            ROW_ADD(1)
            ROW_ADD(2)
            ROW_ADD(3)
        }
    }
    ROW_STORE(0)
    ROW_STORE(1)
    ROW_STORE(2)
    ROW_STORE(3)
}

void larder__graph_project(const int8_t *matrix, uint32_t dim, uint32_t dims,
                           const float *const rows[LARDER__PROJECT_ROWS], float *y) {
    uint32_t n = larder__strips(dims);
    for (uint32_t s = 0; s < n; s++)
        project_strip(matrix + (size_t)s * dim * LARDER__STRIP, dim, rows,
                      y + (size_t)s * LARDER__STRIP, (size_t)n * LARDER__STRIP);
}
