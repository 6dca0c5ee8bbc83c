/* Colours that depend on those around: sharpness and blur. */
#include "base/clones.h"
#include "base/err.h"
#include "stage/canvas.h"
#include "stage/recolour.h"

#include <math.h>

/* ---- sharpness ------------------------------------------------------------------------------- */

/* One row against its smoothed self, (1 1 1, 1 5 1, 1 1 1) / 13; its two ends stay. `step` is a
 * constant where this is called, so that it becomes vector code. */
LARDER__INLINE void sharpen_row(uint8_t *restrict to, const uint8_t *restrict up,
                                const uint8_t *restrict at, const uint8_t *restrict down, size_t n,
                                size_t step, float factor) {
    memcpy(to, at, step);
    for (size_t i = step; i + step < n; i++) {
        int32_t sum = up[i - step] + up[i] + up[i + step] + at[i - step] + 5 * at[i] +
                      at[i + step] + down[i - step] + down[i] + down[i + step];
        /* half a level up and down: 13 is odd, so nothing lies on an edge */
        int32_t smooth = (int32_t)(((float)sum + 6.5f) * (1.0f / 13));
        float v = (float)smooth + factor * (float)(at[i] - smooth);
        v = v < 0 ? 0 : v;
        to[i] = (uint8_t)(int32_t)(v > 255 ? 255 : v);
    }
    if (n > step)
        memcpy(to + n - step, at + n - step, step);
}

LARDER__CLONES
static void sharpen_rows(uint8_t *to, const uint8_t *at, size_t h, size_t n, size_t step,
                         float factor) {
    for (size_t y = 1; y + 1 < h; y++) {
        const uint8_t *row = at + y * n;
        if (step == 4)
            sharpen_row(to + y * n, row - n, row, row + n, n, 4, factor);
        else
            sharpen_row(to + y * n, row - n, row, row + n, n, 1, factor);
    }
}

int larder__sharpen(larder_canvas *k, double factor) {
    size_t n = (size_t)k->w * k->step;
    uint8_t *to = k->beside(k, k->w, k->h);
    if (!to)
        return LARDER_E_NOMEM;
    memcpy(to, k->at, n); /* the first row and the last stay as well */
    memcpy(to + (k->h - 1) * n, k->at + (k->h - 1) * n, n);
    sharpen_rows(to, k->at, k->h, n, k->step, (float)factor);
    k->at = to;
    return 0;
}

/* ---- blur ------------------------------------------------------------------------------------ */

static void weigh(float *weight, uint32_t n, double sigma) {
    double sum = 0, half = (n - 1) * 0.5;
    for (uint32_t i = 0; i < n; i++) {
        double x = (i - half) / sigma;
        weight[i] = (float)exp(-0.5 * x * x);
        sum += (double)weight[i];
    }
    for (uint32_t i = 0; i < n; i++)
        weight[i] = (float)((double)weight[i] / sum);
}

/* More than once where the picture is smaller than the kernel. */
static size_t mirrored(int64_t i, int64_t n) {
    while (n > 1 && (i < 0 || i >= n))
        i = i < 0 ? -i : 2 * n - 2 - i;
    return (size_t)(n > 1 ? i : 0);
}

LARDER__CLONES
static void add_row(float *restrict line, const uint8_t *restrict from, size_t n, float weight,
                    bool first) {
    if (first)
        for (size_t i = 0; i < n; i++)
            line[i] = (float)from[i] * weight;
    else
        for (size_t i = 0; i < n; i++)
            line[i] += (float)from[i] * weight;
}

LARDER__CLONES
static void sum_across(uint8_t *restrict to, const float *restrict line, size_t n, size_t step,
                       const float *weight, uint32_t taps, float *restrict sum) {
    for (size_t i = 0; i < n; i++)
        sum[i] = 0.5f;
    for (uint32_t t = 0; t < taps; t++) {
        const float w = weight[t];
        const float *from = line + t * step;
        for (size_t i = 0; i < n; i++)
            sum[i] += from[i] * w;
    }
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)(int32_t)(sum[i] > 255 ? 255 : sum[i]);
}

typedef struct blurring {
    uint32_t kw, kh;
    float *wide, *high; /* weights */
    float *line;        /* one row, mirrored at both ends */
    float *sum;
} blurring;

static void blur_row(const larder_canvas *k, const blurring *b, uint32_t y, uint8_t *to) {
    const size_t step = k->step, n = (size_t)k->w * step;
    const uint32_t left = b->kw / 2;
    float *line = b->line + left * step;
    for (uint32_t t = 0; t < b->kh; t++) {
        size_t from = mirrored((int64_t)y + t - b->kh / 2, k->h);
        add_row(line, k->at + from * n, n, b->high[t], t == 0);
    }
    for (int64_t x = 1; x <= (int64_t)left; x++)
        for (size_t c = 0; c < step; c++) {
            line[-x * (int64_t)step + (int64_t)c] = line[mirrored(-x, k->w) * step + c];
            line[n + (size_t)(x - 1) * step + c] = line[mirrored(k->w + x - 1, k->w) * step + c];
        }
    sum_across(to, b->line, n, step, b->wide, b->kw, b->sum);
}

int larder__blur(larder_canvas *k, uint32_t kernel_w, uint32_t kernel_h, double sigma) {
    const size_t n = (size_t)k->w * k->step, room = n + (size_t)kernel_w * k->step;
    blurring b = {.kw = kernel_w, .kh = kernel_h};
    b.wide = larder__canvas_work(k, (kernel_w + kernel_h + room + n + 16) * sizeof *b.wide);
    uint8_t *to = k->beside(k, k->w, k->h);
    if (!b.wide || !to)
        return LARDER_E_NOMEM;
    b.high = b.wide + kernel_w;
    b.line = b.high + kernel_h;
    b.sum = b.line + room;
    weigh(b.wide, kernel_w, sigma);
    weigh(b.high, kernel_h, sigma);
    for (uint32_t y = 0; y < k->h; y++)
        blur_row(k, &b, y, to + y * n);
    k->at = to;
    return 0;
}
