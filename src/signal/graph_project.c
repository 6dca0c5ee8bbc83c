#include "signal/graph_project.h"

#include "base/clones.h"

#include <string.h>

/* A strip is as wide as two of the widest registers. */
enum { LANES = LARDER__STRIP / 2 };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef uint32_t wide __attribute__((vector_size(LANES * sizeof(uint32_t))));
typedef uint16_t narrow __attribute__((vector_size(LANES * sizeof(uint16_t))));

uint16_t larder__bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float larder__from_bf16(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

#define WIDEN(to, from)                                                                            \
    memcpy(&half, from, sizeof half);                                                              \
    bits = __builtin_convertvector(half, wide) << 16;                                              \
    memcpy(&(to), &bits, sizeof(to));
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
static void project_strip(const uint16_t *strip, uint32_t dim, const float *const *rows, float *y,
                          size_t stride) {
    narrow half;
    wide bits;
    lanes first, second;
    ROW_SUMS(0)
    ROW_SUMS(1)
    ROW_SUMS(2)
    ROW_SUMS(3)
    for (uint32_t i = 0; i < dim; i++, strip += LARDER__STRIP) {
        WIDEN(first, strip)
        WIDEN(second, strip + LANES)
        ROW_ADD(0)
        ROW_ADD(1)
        ROW_ADD(2)
        ROW_ADD(3)
    }
    ROW_STORE(0)
    ROW_STORE(1)
    ROW_STORE(2)
    ROW_STORE(3)
}

void larder__graph_project(const uint16_t *matrix, uint32_t dim, uint32_t dims,
                           const float *const rows[LARDER__PROJECT_ROWS], float *y) {
    uint32_t n = larder__strips(dims);
    for (uint32_t s = 0; s < n; s++)
        project_strip(matrix + (size_t)s * dim * LARDER__STRIP, dim, rows,
                      y + (size_t)s * LARDER__STRIP, (size_t)n * LARDER__STRIP);
}
