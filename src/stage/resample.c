#include "stage/resample.h"

#include "base/clones.h"
#include "base/err.h"

#include <string.h>

#define LANES 16   /* bytes a row are rounded up to this */
#define TOGETHER 4 /* rows summed in one go */

typedef float pixel_f __attribute__((vector_size(16)));

/* Down: `n` bytes of `count` rows, weighted, into floats. A group of rows short of TOGETHER repeats
 * its last row with weight 0. */
LARDER__INLINE void sum_rows(float *restrict line, const uint8_t *restrict row, ptrdiff_t stride,
                             size_t n, const float *weight, int32_t count) {
    for (int32_t k = 0; k < count; k += TOGETHER, row += TOGETHER * stride) {
        int32_t left = count - k;
        const uint8_t *restrict r0 = row, *restrict r1 = left > 1 ? r0 + stride : r0;
        const uint8_t *restrict r2 = left > 2 ? r1 + stride : r1;
        const uint8_t *restrict r3 = left > 3 ? r2 + stride : r2;
        float w0 = weight[k], w1 = left > 1 ? weight[k + 1] : 0;
        float w2 = left > 2 ? weight[k + 2] : 0, w3 = left > 3 ? weight[k + 3] : 0;
        if (left <= 2 && k == 0)
            for (size_t i = 0; i < n; i++)
                line[i] = (float)r0[i] * w0 + (float)r1[i] * w1;
        else if (k == 0)
            for (size_t i = 0; i < n; i++)
                line[i] = ((float)r0[i] * w0 + (float)r1[i] * w1) +
                          ((float)r2[i] * w2 + (float)r3[i] * w3);
        else
            for (size_t i = 0; i < n; i++)
                line[i] += ((float)r0[i] * w0 + (float)r1[i] * w1) +
                           ((float)r2[i] * w2 + (float)r3[i] * w3);
    }
}

/* `taps` is a constant wherever it is small, so that these loops are unrolled. */
LARDER__INLINE void sum_each(float *restrict out, const float *restrict line, const larder__taps *t,
                             int32_t taps) {
    const float *w = t->weight;
    for (size_t i = 0; i < t->n; i++, w += t->width) {
        const float *at = line + (size_t)t->from[i] * 4;
        pixel_f sum = {0.5f, 0.5f, 0.5f, 0.5f}; /* for the rounding that follows */
        for (int32_t k = 0; k < taps; k++) {
            pixel_f p;
            memcpy(&p, at + k * 4, sizeof p);
            sum += p * w[k];
        }
        memcpy(out + i * 4, &sum, sizeof sum);
    }
}

/* Across: one row of 4-float pixels into another. */
LARDER__INLINE void sum_columns(float *restrict out, const float *restrict line,
                                const larder__taps *t) {
    if (t->each == 2)
        sum_each(out, line, t, 2);
    else if (t->each == 3)
        sum_each(out, line, t, 3);
    else if (t->each == 4)
        sum_each(out, line, t, 4);
    else if (t->each == 5)
        sum_each(out, line, t, 5);
    else
        sum_each(out, line, t, t->each);
}

/* Weights are not negative and sum to 1, so nothing leaves 0..255. */
LARDER__INLINE void to_bytes(uint8_t *restrict out, const float *restrict from, size_t n) {
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)(int32_t)from[i];
}

LARDER__CLONES
static void both_ways(uint8_t *out, float *line, size_t bytes, const larder__picture *in,
                      const larder__taps *tx, const larder__taps *ty) {
    float *across = line + bytes;
    for (size_t y = 0; y < ty->n; y++) {
        sum_rows(line, in->at + ty->from[y] * in->row, in->row, bytes, ty->weight + y * ty->width,
                 ty->count[y]);
        sum_columns(across, line, tx);
        to_bytes(out + y * tx->n * 4, across, tx->n * 4);
    }
}

int larder__resample(larder__scratch *s, const larder__picture *in, const larder__axis *x,
                     const larder__axis *y, larder__picture *out) {
    larder__taps tx = {0}, ty = {0};
    larder__picture part = *in;
    int64_t from, to;
    larder__axis_reach(x, &from, &to);
    part.at += (from - in->is.x0) * 4;
    int rc = larder__taps_build(&tx, s, LARDER__BLOCK_TAPS_X, x, from);
    if (rc == 0)
        rc = larder__taps_build(&ty, s, LARDER__BLOCK_TAPS_Y, y, in->is.y0);
    if (rc != 0)
        return rc;
    larder__taps_even(&tx, (int32_t)(to - from));
    size_t bytes = ((size_t)(to - from) * 4 + LANES - 1) / LANES * LANES;
    float *line = larder__scratch_take(s, LARDER__BLOCK_LINE, (bytes + tx.n * 4) * sizeof *line);
    uint8_t *pixels = larder__scratch_take(s, LARDER__BLOCK_RESIZED, tx.n * ty.n * 4 + 64);
    if (!line || !pixels)
        return LARDER_E_NOMEM;
    both_ways(pixels, line, bytes, &part, &tx, &ty);
    *out = (larder__picture){
        pixels, (ptrdiff_t)(tx.n * 4), 4, 1, {x->first, y->first, x->last, y->last}};
    return 0;
}
