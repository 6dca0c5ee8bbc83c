#include "stage/resample.h"

#include "base/err.h"
#include "stage/sum_rows.h"

/* `row` bytes a row of pixels, a multiple of 16. Fewer than four rows at the end are made with the
 * last one once more. */
static void both_ways(uint8_t *out, size_t row, float *line, size_t bytes,
                      const larder__picture *in, const larder__taps *tx, const larder__taps *ty) {
    const larder__sums *sums = larder__sums_best();
    float *part = line + bytes * LARDER__ROWS_BESIDE;
    for (size_t y = 0; y < ty->n; y += LARDER__ROWS_BESIDE) {
        uint8_t *rows[LARDER__ROWS_BESIDE];
        for (size_t j = 0; j < LARDER__ROWS_BESIDE; j++) {
            size_t i = y + j < ty->n ? y + j : ty->n - 1;
            sums->rows(line + j * 4, part, in->at + ty->from[i] * in->row, in->row, bytes,
                       ty->weight + i * ty->width, ty->count[i]);
            rows[j] = out + i * row;
        }
        sums->columns(rows, line, tx);
    }
}

int larder__resample(larder__scratch *s, const larder__picture *in, const larder__axis *x,
                     const larder__axis *y, larder__picture *out) {
    larder__taps tx = {0}, ty = {0};
    larder__picture part = *in;
    int64_t from, to;
    if (x->filter == LARDER_NEAREST)
        return larder__resample_nearest(s, in, x, y, out);
    if (x->filter == LARDER_BICUBIC && !x->aliased)
        return larder__resample_sharp(s, in, x, y, out);
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
    size_t row = (tx.n * 4 + 15) / 16 * 16;
    float *line = larder__scratch_take(s, LARDER__BLOCK_LINE,
                                       bytes * (LARDER__ROWS_BESIDE + 1) * sizeof *line);
    uint8_t *pixels = larder__scratch_take(s, LARDER__BLOCK_RESIZED, row * ty.n + 64);
    if (!line || !pixels)
        return LARDER_E_NOMEM;
    both_ways(pixels, row, line, bytes, &part, &tx, &ty);
    *out = (larder__picture){pixels, (ptrdiff_t)row, 4, 1, {x->first, y->first, x->last, y->last}};
    return 0;
}
