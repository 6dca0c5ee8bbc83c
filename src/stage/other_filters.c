/* Filters besides the triangle: the nearest pixel, and those with negative weights. */
#include "base/clones.h"
#include "base/err.h"
#include "stage/resample.h"

#include <string.h>

int larder__resample_nearest(larder__scratch *s, const larder__picture *in, const larder__axis *x,
                             const larder__axis *y, larder__picture *out) {
    larder__taps tx = {0}, ty = {0};
    int rc = larder__taps_build(&tx, s, LARDER__BLOCK_TAPS_X, x, in->is.x0);
    if (rc == 0)
        rc = larder__taps_build(&ty, s, LARDER__BLOCK_TAPS_Y, y, in->is.y0);
    if (rc < 0)
        return rc;
    uint8_t *pixels = larder__scratch_take(s, LARDER__BLOCK_RESIZED, tx.n * ty.n * 4 + 64);
    if (!pixels)
        return LARDER_E_NOMEM;
    for (size_t j = 0; j < ty.n; j++) {
        const uint8_t *row = in->at + ty.from[j] * in->row;
        for (size_t i = 0; i < tx.n; i++)
            memcpy(pixels + (j * tx.n + i) * 4, row + (ptrdiff_t)tx.from[i] * 4, 4);
    }
    *out = (larder__picture){
        pixels, (ptrdiff_t)(tx.n * 4), 4, 1, {x->first, y->first, x->last, y->last}};
    return 0;
}

LARDER__INLINE uint8_t rounded(float v) {
    v += 0.5f;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

LARDER__CLONES
static void across(uint8_t *out, const uint8_t *row, const larder__taps *t) {
    for (size_t i = 0; i < t->n; i++) {
        const uint8_t *at = row + (ptrdiff_t)t->from[i] * 4;
        float sum[4] = {0};
        for (int32_t k = 0; k < t->count[i]; k++)
            for (int c = 0; c < 4; c++)
                sum[c] += (float)at[k * 4 + c] * t->weight[i * t->width + (size_t)k];
        for (int c = 0; c < 4; c++)
            out[i * 4 + (size_t)c] = rounded(sum[c]);
    }
}

LARDER__CLONES
static void down(uint8_t *out, float *line, const uint8_t *rows, size_t bytes,
                 const larder__taps *t) {
    for (size_t j = 0; j < t->n; j++, out += bytes) {
        memset(line, 0, bytes * sizeof *line);
        for (int32_t k = 0; k < t->count[j]; k++) {
            const uint8_t *from = rows + (size_t)(t->from[j] + k) * bytes;
            const float weight = t->weight[j * t->width + (size_t)k];
            for (size_t i = 0; i < bytes; i++)
                line[i] += (float)from[i] * weight;
        }
        for (size_t i = 0; i < bytes; i++)
            out[i] = rounded(line[i]);
    }
}

/* First across, then down, each rounded and kept within 0..255 as Pillow does: sums overshoot at
 * edges, so it matters. */
int larder__resample_sharp(larder__scratch *s, const larder__picture *in, const larder__axis *x,
                           const larder__axis *y, larder__picture *out) {
    larder__taps tx = {0}, ty = {0};
    int64_t top, bottom;
    larder__axis_reach(y, &top, &bottom);
    int rc = larder__taps_build(&tx, s, LARDER__BLOCK_TAPS_X, x, in->is.x0);
    if (rc == 0)
        rc = larder__taps_build(&ty, s, LARDER__BLOCK_TAPS_Y, y, top);
    if (rc < 0)
        return rc;
    size_t bytes = tx.n * 4;
    uint8_t *rows =
        larder__scratch_take(s, LARDER__BLOCK_ROWS, bytes * (size_t)(bottom - top) + 64);
    float *line = larder__scratch_take(s, LARDER__BLOCK_LINE, bytes * sizeof *line);
    uint8_t *pixels = larder__scratch_take(s, LARDER__BLOCK_RESIZED, bytes * ty.n + 64);
    if (!rows || !line || !pixels)
        return LARDER_E_NOMEM;
    for (int64_t j = top; j < bottom; j++)
        across(rows + (size_t)(j - top) * bytes, in->at + (j - in->is.y0) * in->row, &tx);
    down(pixels, line, rows, bytes, &ty);
    *out =
        (larder__picture){pixels, (ptrdiff_t)bytes, 4, 1, {x->first, y->first, x->last, y->last}};
    return 0;
}
