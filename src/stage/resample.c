#include "stage/resample.h"

#include "base/err.h"
#include "stage/clones.h"

#include <string.h>

#define LANES 16

typedef float lanes_f __attribute__((vector_size(LANES * 4)));
typedef uint8_t lanes_u __attribute__((vector_size(LANES)));
typedef float pixel_f __attribute__((vector_size(16)));
typedef int32_t pixel_i __attribute__((vector_size(16)));
typedef uint8_t pixel_u __attribute__((vector_size(4)));

/* Down: `n` bytes (a multiple of 2 * LANES) of `count` rows, weighted, into floats. */
LARDER__INLINE void sum_rows(float *line, const uint8_t *row, ptrdiff_t stride, size_t n,
                             const float *weight, int32_t count) {
    for (size_t i = 0; i < n; i += 2 * LANES) {
        lanes_f a = {0}, b = {0};
        const uint8_t *at = row + i;
        for (int32_t k = 0; k < count; k++, at += stride) {
            lanes_u u, v;
            memcpy(&u, at, LANES);
            memcpy(&v, at + LANES, LANES);
            a += __builtin_convertvector(u, lanes_f) * weight[k];
            b += __builtin_convertvector(v, lanes_f) * weight[k];
        }
        memcpy(line + i, &a, sizeof a);
        memcpy(line + i + LANES, &b, sizeof b);
    }
}

/* Across: one row of 4-float pixels into 4-byte pixels. Weights are not negative and sum to 1, so
 * nothing leaves 0..255. */
LARDER__INLINE void sum_columns(uint8_t *out, const float *line, const larder__taps *t) {
    for (size_t i = 0; i < t->n; i++, out += 4) {
        const float *w = t->weight + i * t->width, *at = line + (size_t)t->from[i] * 4;
        pixel_f sum = {0.5f, 0.5f, 0.5f, 0.5f};
        for (int32_t k = 0; k < t->count[i]; k++, at += 4) {
            pixel_f p;
            memcpy(&p, at, sizeof p);
            sum += p * w[k];
        }
        pixel_u u = __builtin_convertvector(__builtin_convertvector(sum, pixel_i), pixel_u);
        memcpy(out, &u, 4);
    }
}

LARDER__CLONES
static void both_ways(uint8_t *out, float *line, size_t bytes, const larder__picture *in,
                      const larder__taps *tx, const larder__taps *ty) {
    for (size_t y = 0; y < ty->n; y++) {
        sum_rows(line, in->at + ty->from[y] * in->row, in->row, bytes, ty->weight + y * ty->width,
                 ty->count[y]);
        sum_columns(out + y * tx->n * 4, line, tx);
    }
}

int larder__resample(larder__scratch *s, const larder__picture *in, const larder__axis *x,
                     const larder__axis *y, larder__picture *out) {
    larder__taps tx, ty;
    larder__picture part = *in;
    int64_t from, to;
    larder__axis_reach(x, &from, &to);
    part.at += (from - in->is.x0) * 4;
    int rc = larder__taps_build(&tx, s, LARDER__BLOCK_TAPS_X, x, from);
    if (rc == 0)
        rc = larder__taps_build(&ty, s, LARDER__BLOCK_TAPS_Y, y, in->is.y0);
    if (rc < 0)
        return rc;
    size_t bytes = ((size_t)(to - from) * 4 + 2 * LANES - 1) / (2 * LANES) * (2 * LANES);
    float *line = larder__scratch_take(s, LARDER__BLOCK_LINE, bytes * sizeof *line);
    uint8_t *pixels = larder__scratch_take(s, LARDER__BLOCK_RESIZED, tx.n * ty.n * 4 + 64);
    if (!line || !pixels)
        return LARDER_E_NOMEM;
    both_ways(pixels, line, bytes, &part, &tx, &ty);
    *out = (larder__picture){pixels, (ptrdiff_t)(tx.n * 4), 4, 1,
                             {x->first, y->first, x->last, y->last}};
    return 0;
}
