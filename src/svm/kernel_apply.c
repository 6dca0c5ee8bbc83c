/* From products or distances to kernel values, many at a time, without the C library's scalar
 * functions: an exponential accurate to two units in the last place of a float is all that a row
 * of floats can hold. */
#include "base/clones.h"
#include "svm/kernel.h"

#include <math.h>
#include <string.h>

LARDER__FUSE

/* e^x for x in -87.3 .. 88; below, and of no number, 0. Cody and Waite's split of ln 2, a
 * polynomial on half an octave either way, the exponent put together as bits. */
LARDER__INLINE float exp_of(float x) {
    const float magic = 12582912.0f; /* 1.5 * 2^23: rounds to whole numbers */
    float inside = x > -87.3f ? x < 88.0f ? x : 88.0f : -87.3f;
    float n = (inside * 1.44269504f + magic) - magic;
    float r = inside - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    int32_t bits = ((int32_t)n + 127) * (1 << 23);
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return x > -87.3f ? p * scale : 0.0f;
}

LARDER__INLINE float tanh_of(float x) {
    float z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    float small = p * z * x + x;
    float twice = 2 * x > 30.0f ? 30.0f : 2 * x < -30.0f ? -30.0f : 2 * x;
    float large = 1.0f - 2.0f / (exp_of(twice) + 1.0f);
    return z < 0.390625f ? small : large;
}

LARDER__CLONES static void exp_of_products(float *row, size_t n, float gamma, float norm,
                                           const float *norms) {
    for (size_t i = 0; i < n; i++) {
        float d = norm + norms[i] - 2 * row[i];
        row[i] = exp_of(-gamma * (d > 0 ? d : 0));
    }
}

LARDER__CLONES static void exp_of_distances(float *row, size_t n, float gamma) {
    for (size_t i = 0; i < n; i++)
        row[i] = exp_of(-gamma * row[i]);
}

LARDER__CLONES static void tanh_of_products(float *row, size_t n, float gamma, float coef0) {
    for (size_t i = 0; i < n; i++)
        row[i] = tanh_of(gamma * row[i] + coef0);
}

/* The power in doubles: at a high degree single precision would lose a digit. */
LARDER__CLONES static void power_of_products(float *row, size_t n, double gamma, double coef0,
                                             int degree) {
    enum { STEP = 64 };
    for (size_t at = 0; at < n; at += STEP) {
        double base[STEP], power[STEP];
        size_t m = n - at < STEP ? n - at : STEP;
        for (size_t i = 0; i < m; i++)
            base[i] = gamma * (double)row[at + i] + coef0, power[i] = 1;
        for (int left = degree; left > 0; left /= 2) {
            if (left % 2)
                for (size_t i = 0; i < m; i++)
                    power[i] *= base[i];
            for (size_t i = 0; i < m; i++)
                base[i] *= base[i];
        }
        for (size_t i = 0; i < m; i++)
            row[at + i] = (float)power[i];
    }
}

void larder__kernel_apply(const larder__kernel_conf *c, float *row, size_t n, bool distances,
                          float norm, const float *norms) {
    switch (c->type) {
    case LARDER_SVM_RBF:
        if (distances)
            exp_of_distances(row, n, (float)c->gamma);
        else
            exp_of_products(row, n, (float)c->gamma, norm, norms);
        break;
    case LARDER_SVM_POLY:
        power_of_products(row, n, c->gamma, c->coef0, c->degree);
        break;
    case LARDER_SVM_SIGMOID:
        tanh_of_products(row, n, (float)c->gamma, (float)c->coef0);
        break;
    case LARDER_SVM_LINEAR:
    case LARDER_SVM_PRECOMPUTED:
        break;
    }
}

LARDER__CLONES void larder__add_row(double *sum, const float *row, double weight, size_t n) {
    for (size_t i = 0; i < n; i++)
        sum[i] += weight * (double)row[i];
}

enum { LINES = 4, WIDE = 8 };

/* Eight columns, whose sums stay in registers; four lines share what is read of the rows. */
LARDER__INLINE void eight(double *sum, size_t sum_stride, const double *weight,
                          size_t weight_stride, const float *rows, size_t m, size_t stride) {
    double a[WIDE], b[WIDE], d[WIDE], e[WIDE];
    memcpy(a, sum, sizeof a);
    memcpy(b, sum + sum_stride, sizeof b);
    memcpy(d, sum + 2 * sum_stride, sizeof d);
    memcpy(e, sum + 3 * sum_stride, sizeof e);
    for (size_t r = 0; r < m; r++) {
        const double *w = weight + r;
        double w0 = w[0], w1 = w[weight_stride], w2 = w[2 * weight_stride],
               w3 = w[3 * weight_stride];
        for (size_t i = 0; i < WIDE; i++) {
            double x = (double)rows[r * stride + i];
            a[i] += w0 * x;
            b[i] += w1 * x;
            d[i] += w2 * x;
            e[i] += w3 * x;
        }
    }
    memcpy(sum, a, sizeof a);
    memcpy(sum + sum_stride, b, sizeof b);
    memcpy(sum + 2 * sum_stride, d, sizeof d);
    memcpy(sum + 3 * sum_stride, e, sizeof e);
}

LARDER__CLONES static void four_lines(double *sum, size_t sum_stride, const double *weight,
                                      size_t weight_stride, const float *rows, size_t m,
                                      size_t stride, size_t n) {
    for (size_t c = 0; c + WIDE <= n; c += WIDE)
        eight(sum + c, sum_stride, weight, weight_stride, rows + c, m, stride);
}

enum { BLOCK = 16 /* rows that are added up in floats */, MOST = 256 /* rows of a call */ };

typedef float floats __attribute__((vector_size(2 * WIDE * sizeof(float))));

LARDER__INLINE void widen(double *sum, const floats *x) {
    float one[2 * WIDE];
    double own[2 * WIDE];
    memcpy(one, x, sizeof one);
    memcpy(own, sum, sizeof own);
    for (size_t i = 0; i < 2 * WIDE; i++)
        own[i] += (double)one[i];
    memcpy(sum, own, sizeof own);
}

/* As eight, of sixteen columns: a few rows in floats, their sum in doubles. */
LARDER__INLINE void sixteen(double *sum, size_t sum_stride, const float *weight,
                            size_t weight_stride, const float *rows, size_t m, size_t stride) {
    floats a = {0}, b = {0}, d = {0}, e = {0}, x;
    for (size_t r = 0; r < m; r++) {
        const float *w = weight + r;
        memcpy(&x, rows + r * stride, sizeof x);
        a += w[0] * x;
        b += w[weight_stride] * x;
        d += w[2 * weight_stride] * x;
        e += w[3 * weight_stride] * x;
    }
    widen(sum, &a);
    widen(sum + sum_stride, &b);
    widen(sum + 2 * sum_stride, &d);
    widen(sum + 3 * sum_stride, &e);
}

LARDER__CLONES static void four_quick_lines(double *sum, size_t sum_stride, const float *weight,
                                            size_t weight_stride, const float *rows, size_t m,
                                            size_t stride, size_t n) {
    for (size_t c = 0; c + 2 * WIDE <= n; c += 2 * WIDE)
        for (size_t r = 0; r < m; r += BLOCK)
            sixteen(sum + c, sum_stride, weight + r, weight_stride, rows + r * stride + c,
                    m - r < BLOCK ? m - r : BLOCK, stride);
}

/* One line, some columns. */
static void add_line(double *sum, const double *weight, const float *rows, size_t m, size_t stride,
                     size_t n) {
    for (size_t r = 0; r < m && n; r++)
        larder__add_row(sum, rows + r * stride, weight[r], n);
}

void larder__add_rows(double *sum, size_t sum_stride, const double *weight, size_t weight_stride,
                      size_t lines, const float *rows, size_t m, size_t stride, size_t n,
                      bool quick) {
    float work[LINES * MOST];
    quick = quick && m <= MOST;
    size_t l = 0, whole = quick ? n / (2 * WIDE) * 2 * WIDE : n / WIDE * WIDE;
    for (; l + LINES <= lines; l += LINES) {
        double *to = sum + l * sum_stride;
        const double *by = weight + l * weight_stride;
        for (size_t k = 0; quick && k < LINES; k++)
            for (size_t r = 0; r < m; r++)
                work[k * m + r] = (float)by[k * weight_stride + r];
        if (quick)
            four_quick_lines(to, sum_stride, work, m, rows, m, stride, n);
        else
            four_lines(to, sum_stride, by, weight_stride, rows, m, stride, n);
        for (size_t k = 0; k < LINES; k++)
            add_line(to + k * sum_stride + whole, by + k * weight_stride, rows + whole, m, stride,
                     n - whole);
    }
    for (; l < lines; l++)
        add_line(sum + l * sum_stride, weight + l * weight_stride, rows, m, stride, n);
}

double larder__kernel_value(const larder__kernel_conf *c, double product, double distance) {
    double power = 1, base = c->gamma * product + c->coef0;
    switch (c->type) {
    case LARDER_SVM_RBF:
        return exp(-c->gamma * distance);
    case LARDER_SVM_SIGMOID:
        return tanh(base);
    case LARDER_SVM_POLY:
        for (int left = c->degree; left > 0; left /= 2) {
            if (left % 2)
                power *= base;
            base *= base;
        }
        return power;
    case LARDER_SVM_LINEAR:
    case LARDER_SVM_PRECOMPUTED:
        break;
    }
    return product;
}
