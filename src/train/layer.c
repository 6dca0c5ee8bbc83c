#include "train/layer.h"

#include "base/err.h"
#include "base/gemm.h"

#include <string.h>

/* Keeps every product of sizes below 2^53 and within what CBLAS counts with an int. */
enum { SIZE_LIMIT = 1 << 26 };

static larder__matrix plain(const float *at, size_t stride) {
    return (larder__matrix){at, stride, false};
}
static larder__matrix flipped(const float *at, size_t stride) {
    return (larder__matrix){at, stride, true};
}

int larder__layer_plan(larder__layer *l, larder__layer_kind kind, larder_shape in, uint32_t out,
                       bool relu) {
    *l = (larder__layer){.kind = kind, .relu = relu, .in = in};
    uint64_t plane = (uint64_t)in.h * in.w;
    if (plane == 0 || plane > SIZE_LIMIT || in.c == 0 || plane * in.c > SIZE_LIMIT)
        return larder__fail(LARDER_E_RANGE, "net: cannot train on samples of %ux%ux%u", in.h, in.w,
                            in.c);
    l->in_size = (size_t)(plane * in.c);
    switch (kind) {
    case LARDER__DENSE:
        l->out = (larder_shape){1, 1, out};
        l->weights = l->in_size * out;
        l->biases = out;
        break;
    case LARDER__CONV3:
        l->out = (larder_shape){in.h, in.w, out};
        l->weights = (size_t)in.c * 9 * out;
        l->biases = out;
        break;
    case LARDER__POOL2: /* an odd last row or column is left out */
        l->out = (larder_shape){in.h / 2, in.w / 2, in.c};
        break;
    }
    uint64_t size = (uint64_t)l->out.h * l->out.w;
    if (size == 0 || l->out.c == 0 || size > SIZE_LIMIT || size * l->out.c > SIZE_LIMIT ||
        l->weights / 16 > SIZE_LIMIT)
        return larder__fail(LARDER_E_RANGE, "net: a layer of %ux%ux%u to %u is too large", in.h,
                            in.w, in.c, out);
    l->out_size = (size_t)(size * l->out.c);
    return 0;
}

/* ---- dense ----------------------------------------------------------------------------------- */

static void dense_forward(const larder__layer *l, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        memcpy(l->y + i * l->out_size, l->b, l->out_size * sizeof *l->y);
    larder__gemm(n, l->out_size, l->in_size, plain(x, l->in_size), plain(l->w, l->out_size), true,
                 l->y, l->out_size);
}

static void dense_backward(const larder__layer *l, const float *x, float *grad_x, size_t n) {
    larder__gemm(l->in_size, l->out_size, n, flipped(x, l->in_size), plain(l->grad_y, l->out_size),
                 false, l->grad_w, l->out_size);
    memset(l->grad_b, 0, l->biases * sizeof *l->grad_b);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < l->out_size; j++)
            l->grad_b[j] += l->grad_y[i * l->out_size + j];
    if (grad_x)
        larder__gemm(n, l->in_size, l->out_size, plain(l->grad_y, l->out_size),
                     flipped(l->w, l->out_size), false, grad_x, l->in_size);
}

/* ---- convolution: one sample unrolled, then a product ---------------------------------------- */

/* The rows and columns of the output that see the input at shift d (-1, 0, 1). */
static void span(int d, size_t size, size_t *from, size_t *to) {
    *from = d < 0 ? 1u : 0u;
    *to = d > 0 ? size - 1 : size;
    if (*to < *from)
        *to = *from;
}

/* columns[(c, dy, dx)][y, x] = in[c][y + dy][x + dx], 0 outside. */
static void unroll(const larder__layer *l, const float *in) {
    size_t h = l->in.h, w = l->in.w, plane = h * w, y0, y1, x0, x1;
    float *row = l->columns;
    for (size_t c = 0; c < l->in.c; c++, in += plane)
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++, row += plane) {
                span(dy, h, &y0, &y1);
                span(dx, w, &x0, &x1);
                memset(row, 0, plane * sizeof *row);
                for (size_t y = y0; y < y1; y++) {
                    const float *from = in + (size_t)((ptrdiff_t)y + dy) * w;
                    memcpy(row + y * w + x0, from + (size_t)((ptrdiff_t)x0 + dx),
                           (x1 - x0) * sizeof *row);
                }
            }
}

/* The transpose of unroll: adds columns into in. */
static void roll(const larder__layer *l, float *in) {
    size_t h = l->in.h, w = l->in.w, plane = h * w, y0, y1, x0, x1;
    const float *row = l->columns;
    memset(in, 0, l->in_size * sizeof *in);
    for (size_t c = 0; c < l->in.c; c++, in += plane)
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++, row += plane) {
                span(dy, h, &y0, &y1);
                span(dx, w, &x0, &x1);
                for (size_t y = y0; y < y1; y++) {
                    float *to = in + (size_t)((ptrdiff_t)y + dy) * w + (size_t)((ptrdiff_t)x0 + dx);
                    const float *from = row + y * w + x0;
                    for (size_t x = 0; x < x1 - x0; x++)
                        to[x] += from[x];
                }
            }
}

static void conv_forward(const larder__layer *l, const float *x, size_t n) {
    size_t plane = (size_t)l->in.h * l->in.w, taps = (size_t)l->in.c * 9;
    for (size_t i = 0; i < n; i++) {
        float *y = l->y + i * l->out_size;
        for (size_t o = 0; o < l->out.c; o++)
            for (size_t p = 0; p < plane; p++)
                y[o * plane + p] = l->b[o];
        unroll(l, x + i * l->in_size);
        larder__gemm(l->out.c, plane, taps, plain(l->w, taps), plain(l->columns, plane), true, y,
                     plane);
    }
}

static void conv_backward(const larder__layer *l, const float *x, float *grad_x, size_t n) {
    size_t plane = (size_t)l->in.h * l->in.w, taps = (size_t)l->in.c * 9;
    memset(l->grad_b, 0, l->biases * sizeof *l->grad_b);
    for (size_t i = 0; i < n; i++) {
        const float *grad_y = l->grad_y + i * l->out_size;
        unroll(l, x + i * l->in_size);
        larder__gemm(l->out.c, taps, plane, plain(grad_y, plane), flipped(l->columns, plane), i > 0,
                     l->grad_w, taps);
        for (size_t o = 0; o < l->out.c; o++)
            for (size_t p = 0; p < plane; p++)
                l->grad_b[o] += grad_y[o * plane + p];
        if (grad_x) {
            larder__gemm(taps, plane, l->out.c, flipped(l->w, taps), plain(grad_y, plane), false,
                         l->columns, plane);
            roll(l, grad_x + i * l->in_size);
        }
    }
}

/* ---- maximum of 2x2 -------------------------------------------------------------------------- */

static void pool_forward(const larder__layer *l, const float *x, size_t n) {
    size_t h = l->out.h, w = l->out.w, wide = l->in.w, plane = (size_t)l->in.h * wide, k = 0;
    for (size_t i = 0; i < n; i++, x += l->in_size)
        for (size_t c = 0; c < l->in.c; c++)
            for (size_t r = 0; r < h; r++)
                for (size_t q = 0; q < w; q++, k++) {
                    size_t at = c * plane + 2 * r * wide + 2 * q, best = at;
                    if (x[at + 1] > x[best])
                        best = at + 1;
                    if (x[at + wide] > x[best])
                        best = at + wide;
                    if (x[at + wide + 1] > x[best])
                        best = at + wide + 1;
                    l->y[k] = x[best];
                    l->from[k] = (uint32_t)best;
                }
}

static void pool_backward(const larder__layer *l, float *grad_x, size_t n) {
    memset(grad_x, 0, n * l->in_size * sizeof *grad_x);
    for (size_t i = 0; i < n; i++)
        for (size_t k = i * l->out_size; k < (i + 1) * l->out_size; k++)
            grad_x[i * l->in_size + l->from[k]] += l->grad_y[k];
}

/* ---- any ------------------------------------------------------------------------------------- */

void larder__layer_forward(const larder__layer *l, const float *x, size_t n) {
    if (l->kind == LARDER__DENSE)
        dense_forward(l, x, n);
    else if (l->kind == LARDER__CONV3)
        conv_forward(l, x, n);
    else
        pool_forward(l, x, n);
    if (l->relu)
        for (size_t i = 0; i < n * l->out_size; i++)
            l->y[i] = l->y[i] > 0 ? l->y[i] : 0;
}

void larder__layer_backward(const larder__layer *l, const float *x, float *grad_x, size_t n) {
    if (l->relu)
        for (size_t i = 0; i < n * l->out_size; i++)
            l->grad_y[i] = l->y[i] > 0 ? l->grad_y[i] : 0;
    if (l->kind == LARDER__DENSE)
        dense_backward(l, x, grad_x, n);
    else if (l->kind == LARDER__CONV3)
        conv_backward(l, x, grad_x, n);
    else if (grad_x)
        pool_backward(l, grad_x, n);
}
