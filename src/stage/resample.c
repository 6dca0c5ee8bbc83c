#include "stage/resample.h"

#include "base/clones.h"
#include "base/err.h"
#include "stage/sum_rows.h"

#include <string.h>

typedef float pixel_f __attribute__((vector_size(16)));

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
    larder__sum_rows *sum_rows = larder__sum_rows_best();
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
    if (x->filter != LARDER_BILINEAR)
        return (x->filter == LARDER_NEAREST ? larder__resample_nearest
                                            : larder__resample_sharp)(s, in, x, y, out);
    larder__axis_reach(x, &from, &to);
    part.at += (from - in->is.x0) * 4;
    int rc = larder__taps_build(&tx, s, LARDER__BLOCK_TAPS_X, x, from);
    if (rc == 0)
        rc = larder__taps_build(&ty, s, LARDER__BLOCK_TAPS_Y, y, in->is.y0);
    if (rc != 0)
        return rc;
    larder__taps_even(&tx, (int32_t)(to - from));
    const size_t lanes = LARDER__ROW_LANES;
    size_t bytes = ((size_t)(to - from) * 4 + lanes - 1) / lanes * lanes;
    float *line = larder__scratch_take(s, LARDER__BLOCK_LINE, (bytes + tx.n * 4) * sizeof *line);
    uint8_t *pixels = larder__scratch_take(s, LARDER__BLOCK_RESIZED, tx.n * ty.n * 4 + 64);
    if (!line || !pixels)
        return LARDER_E_NOMEM;
    both_ways(pixels, line, bytes, &part, &tx, &ty);
    *out = (larder__picture){
        pixels, (ptrdiff_t)(tx.n * 4), 4, 1, {x->first, y->first, x->last, y->last}};
    return 0;
}
