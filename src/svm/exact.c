#include "svm/exact.h"

#include "base/clones.h"
#include "base/err.h"
#include "base/mem.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { WIDE = 8, TILE = 256 /* columns before they are added up */ };

/* ---- points ---------------------------------------------------------------------------------- */

/* The mean's squared length over the points' from it, from which on moving is worth it. Below,
 * products are the data's own, as those of a precomputed kernel are. */
static const double far = 1000;

/* Far from zero differences of points would lose digits. Where most features are zero they are not:
 * moving would fill them all. */
static int find_mean(larder__exact *e, uint64_t pairs, bool balanced) {
    const larder_svm_data *d = e->data;
    size_t dim = e->kernel->dim;
    larder_svm_kernel type = e->kernel->conf.type;
    bool may = type == LARDER_SVM_RBF || (type == LARDER_SVM_LINEAR && balanced);
    if (!may || pairs < e->n * dim / 2)
        return 0;
    double *mean = larder__calloc(dim, sizeof *mean), size = 0, moved = 0;
    if (!mean)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu features", dim);
    for (size_t i = 0; i < e->n; i++)
        for (uint64_t p = d->start[e->row[i]]; p < d->start[e->row[i] + 1]; p++)
            if (d->value[p] != 0) {
                mean[larder__kernel_feature(e->kernel, d->index[p])] += d->value[p] / (double)e->n;
                size += d->value[p] * d->value[p] / (double)e->n;
            }
    for (size_t f = 0; f < dim; f++)
        moved += mean[f] * mean[f];
    if (moved < far * (size - moved))
        larder__free(mean);
    else
        e->mean = mean;
    return 0;
}

/* x - mean, and what rounding left out of it (Knuth). */
static void take_off(double x, double mean, double *value, double *rest) {
    double d = x - mean, was = x - d;
    *value = d;
    *rest = (x - (d + was)) + (was - mean);
}

static void lay_point(larder__exact *e, size_t i) {
    const larder_svm_data *d = e->data;
    const double *mean = e->mean;
    uint64_t at = e->begin[i];
    size_t dim = e->kernel->dim;
    for (size_t f = 0; mean && f < dim; f++) {
        e->index[at + f] = (uint32_t)f;
        e->value[at + f] = -mean[f];
        e->rest[at + f] = 0;
    }
    for (uint64_t p = d->start[e->row[i]]; p < d->start[e->row[i] + 1]; p++) {
        if (d->value[p] == 0)
            continue;
        uint32_t f = larder__kernel_feature(e->kernel, d->index[p]);
        if (mean) {
            take_off(d->value[p], mean[f], &e->value[at + f], &e->rest[at + f]);
        } else {
            e->index[at] = f;
            e->value[at++] = d->value[p];
        }
    }
    e->begin[i + 1] = mean ? at + dim : at;
    for (uint64_t p = e->begin[i]; p < e->begin[i + 1]; p++)
        e->norm[i] += e->value[p] * e->value[p];
}

int larder__exact_open(larder__exact *e, const larder__kernel *k, const larder_svm_data *d,
                       const uint32_t *row, size_t n, bool balanced) {
    *e = (larder__exact){.kernel = k, .data = d, .row = row, .n = n};
    if (k->engine == LARDER__ENGINE_GIVEN)
        return 0;
    uint64_t pairs = 0;
    for (size_t i = 0; i < n; i++)
        pairs += d->start[row[i] + 1] - d->start[row[i]];
    int rc = find_mean(e, pairs, balanced);
    if (rc < 0)
        return rc;
    if (e->mean)
        pairs = n * k->dim;
    e->begin = larder__calloc(n + 1, sizeof *e->begin);
    e->norm = larder__calloc(n + 1, sizeof *e->norm);
    e->index = larder__malloc((pairs + 1) * sizeof *e->index);
    e->value = larder__malloc((pairs + 1) * sizeof *e->value);
    e->rest = e->mean ? larder__malloc((pairs + 1) * sizeof *e->rest) : NULL;
    bool ok = e->begin && e->norm && e->index && e->value && (e->rest || !e->mean);
    for (size_t i = 0; ok && i < n; i++)
        lay_point(e, i);
    if (ok)
        return 0;
    larder__exact_close(e);
    return larder__fail(LARDER_E_NOMEM, "no memory for %zu points in doubles", n);
}

void larder__exact_close(larder__exact *e) {
    larder__free(e->begin);
    larder__free(e->index);
    larder__free(e->value);
    larder__free(e->rest);
    larder__free(e->norm);
    larder__free(e->mean);
    larder__free(e->held);
    *e = (larder__exact){0};
}

/* ---- values ---------------------------------------------------------------------------------- */

size_t larder__exact_scratch(const larder__exact *e) {
    size_t dim = e->kernel->engine == LARDER__ENGINE_GIVEN ? 0 : e->kernel->dim;
    return (dim * WIDE + WIDE * TILE) * sizeof(double);
}

/* Column `serial` of a row of a given kernel. Rows that leave nothing out have it at its place. */
static double look_up(const larder_svm_data *d, size_t row, uint32_t serial) {
    uint64_t lo = d->start[row], hi = d->start[row + 1], guess = lo + serial;
    if (guess < hi && d->index[guess] == serial)
        return d->value[guess];
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (d->index[mid] < serial)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < d->start[row + 1] && d->index[lo] == serial ? d->value[lo] : 0;
}

static void given_block(const larder__exact *e, const uint32_t *left, size_t rows,
                        const uint32_t *right, size_t columns, double *out, size_t stride) {
    const larder_svm_data *d = e->data;
    for (size_t c = 0; c < columns; c++) {
        uint32_t serial = (uint32_t)d->value[d->start[e->row[right[c]]]];
        for (size_t r = 0; r < rows; r++)
            out[r * stride + c] = look_up(d, e->row[left[r]], serial);
    }
}

static void held_block(const larder__exact *e, const uint32_t *left, size_t rows,
                       const uint32_t *right, size_t columns, double *out, size_t stride) {
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            out[r * stride + c] = e->held[left[r] * e->n + right[c]];
}

/* Eight rows side by side, `table` holding them by feature. */
LARDER__CLONES static void eight(const larder__exact *e, const double *table, const uint32_t *right,
                                 size_t columns, double *out) {
    for (size_t c = 0; c < columns; c++) {
        double sum[WIDE] = {0};
        for (uint64_t p = e->begin[right[c]]; p < e->begin[right[c] + 1]; p++) {
            const double *line = table + (size_t)e->index[p] * WIDE;
            double x = e->value[p];
            for (size_t k = 0; k < WIDE; k++)
                sum[k] += x * line[k];
        }
        memcpy(out + c * WIDE, sum, sizeof sum);
    }
}

static void put(const larder__exact *e, double *table, const uint32_t *left, size_t rows,
                bool clear) {
    for (size_t r = 0; r < rows; r++)
        for (uint64_t p = e->begin[left[r]]; p < e->begin[left[r] + 1]; p++)
            table[(size_t)e->index[p] * WIDE + r] = clear ? 0 : e->value[p];
}

static double value_of(const larder__exact *e, uint32_t a, uint32_t b, double product) {
    double distance = e->norm[a] + e->norm[b] - 2 * product;
    return larder__kernel_value(&e->kernel->conf, product, distance > 0 && a != b ? distance : 0);
}

/* e^x of numbers up to 700, as kernel_apply.c's of floats: within an unit or two of the last place;
 * 0 below -708. */
LARDER__CLONES static void exp_all(double *x, size_t n) {
    const double magic = 6755399441055744.0; /* 1.5 * 2^52: rounds to whole numbers */
    static const double over[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                                  1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
                                  1.0 / 120,        1.0 / 24,        1.0 / 6,        0.5};
    for (size_t i = 0; i < n; i++) {
        double inside = x[i] > -708 ? x[i] : -708, shifted = inside * 1.4426950408889634 + magic;
        double whole = shifted - magic, p = over[0], scale;
        double r =
            (inside - whole * 6.93147180369123816490e-01) - whole * 1.90821492927058770002e-10;
        for (size_t k = 1; k < sizeof over / sizeof *over; k++)
            p = p * r + over[k];
        p = p * r * r + r + 1;
        uint64_t bits;
        memcpy(&bits, &shifted, sizeof bits);
        bits = (bits + 1023) << 52;
        memcpy(&scale, &bits, sizeof scale);
        x[i] = x[i] > -708 ? p * scale : 0;
    }
}

/* From products to exponents, eight rows side by side. */
LARDER__CLONES static void spread_out(const larder__exact *e, const uint32_t *left, size_t rows,
                                      const uint32_t *right, size_t columns, double *tile) {
    double norm[WIDE] = {0}, gamma = -e->kernel->conf.gamma;
    uint32_t id[WIDE];
    for (size_t k = 0; k < WIDE; k++) {
        id[k] = k < rows ? left[k] : UINT32_MAX;
        norm[k] = k < rows ? e->norm[left[k]] : 0;
    }
    for (size_t c = 0; c < columns; c++) {
        double other = e->norm[right[c]], *to = tile + c * WIDE;
        for (size_t k = 0; k < WIDE; k++) {
            double distance = norm[k] + other - 2 * to[k];
            to[k] = distance > 0 && id[k] != right[c] ? gamma * distance : 0;
        }
    }
}

/* Up to TILE columns of up to eight rows, side by side; `table` holds these rows by feature. */
static void make_tile(const larder__exact *e, const double *table, const uint32_t *left,
                      size_t rows, const uint32_t *right, size_t columns, double *tile) {
    eight(e, table, right, columns, tile);
    if (e->kernel->conf.type == LARDER_SVM_RBF) {
        spread_out(e, left, rows, right, columns, tile);
        exp_all(tile, columns * WIDE);
        return;
    }
    for (size_t c = 0; c < columns; c++)
        for (size_t k = 0; k < rows; k++)
            tile[c * WIDE + k] = value_of(e, left[k], right[c], tile[c * WIDE + k]);
}

static void some_rows(const larder__exact *e, const uint32_t *left, size_t rows,
                      const uint32_t *right, size_t columns, double *out, size_t stride,
                      double *table) {
    double *tile = table + e->kernel->dim * WIDE;
    put(e, table, left, rows, false);
    for (size_t c = 0; c < columns; c += TILE) {
        size_t m = columns - c < TILE ? columns - c : TILE;
        make_tile(e, table, left, rows, right + c, m, tile);
        for (size_t r = 0; r < rows; r++)
            for (size_t i = 0; i < m; i++)
                out[r * stride + c + i] = tile[i * WIDE + r];
    }
    put(e, table, left, rows, true);
}

void larder__exact_block(const larder__exact *e, const uint32_t *left, size_t rows,
                         const uint32_t *right, size_t columns, double *out, size_t stride,
                         void *scratch) {
    if (e->held || e->kernel->engine == LARDER__ENGINE_GIVEN) {
        (e->held ? held_block : given_block)(e, left, rows, right, columns, out, stride);
        return;
    }
    for (size_t r = 0; r < rows; r += WIDE)
        some_rows(e, left + r, rows - r < WIDE ? rows - r : WIDE, right, columns, out + r * stride,
                  stride, scratch);
}

/* Eight rows at a time, from the diagonal on; what lies before it is written with them. */
static void hold_both(const larder__exact *e, const uint32_t *everybody, double *held,
                      void *scratch) {
    size_t n = e->n;
    for (size_t r = 0; r < n; r += WIDE) {
        size_t rows = n - r < WIDE ? n - r : WIDE;
        double *block = held + r * n + r;
        some_rows(e, everybody + r, rows, everybody + r, n - r, block, n, scratch);
        for (size_t c = rows; c < n - r; c++)
            for (size_t k = 0; k < rows; k++)
                block[c * n + k] = block[k * n + c];
    }
}

int larder__exact_hold(larder__exact *e) {
    if (e->mean && e->kernel->conf.type == LARDER_SVM_LINEAR)
        return 0;
    size_t n = e->n, bytes = larder__exact_scratch(e);
    uint32_t *everybody = larder__malloc((n + 1) * sizeof *everybody);
    double *held = larder__malloc((n * n + 1) * sizeof *held);
    void *scratch = larder__calloc(1, bytes + 1);
    bool ok = everybody && held && scratch;
    for (uint32_t i = 0; ok && i < n; i++)
        everybody[i] = i;
    if (ok) {
        if (e->kernel->engine == LARDER__ENGINE_GIVEN) /* whose values need not be the same */
            given_block(e, everybody, n, everybody, n, held, n);
        else
            hold_both(e, everybody, held, scratch);
        e->held = held;
        e->held_size = larder__exact_size(e);
    } else {
        larder__free(held);
    }
    larder__free(everybody);
    larder__free(scratch);
    return ok ? 0
              : larder__fail(LARDER_E_NOMEM, "no memory for values of %zu points in doubles", n);
}

/* From rows that lie somewhere. */
static void add_block(const larder__exact *e, const uint32_t *left, const double *weight,
                      size_t rows, const uint32_t *right, size_t columns, double *sum,
                      void *scratch) {
    double out[WIDE * TILE];
    for (size_t r = 0; r < rows; r += WIDE) {
        size_t some = rows - r < WIDE ? rows - r : WIDE;
        larder__exact_block(e, left + r, some, right, columns, out, TILE, scratch);
        for (size_t k = 0; k < some; k++)
            for (size_t i = 0; i < columns; i++)
                sum[i] += weight[r + k] * out[k * TILE + i];
    }
}

LARDER__CLONES static void weigh(double *restrict sums, const double *restrict tile,
                                 const double *restrict weight, size_t columns) {
    for (size_t i = 0; i < columns; i++)
        for (size_t k = 0; k < WIDE; k++)
            sums[i * WIDE + k] += weight[k] * tile[i * WIDE + k];
}

/* Eight sums a column, of every eighth row each, which are one at last. */
static void add_tile(const larder__exact *e, const uint32_t *left, const double *weight,
                     size_t rows, const uint32_t *right, size_t columns, double *sum,
                     void *scratch) {
    double sums[WIDE * TILE] = {0}, *table = scratch, *tile = table + e->kernel->dim * WIDE;
    for (size_t r = 0; r < rows; r += WIDE) {
        size_t some = rows - r < WIDE ? rows - r : WIDE;
        double own[WIDE] = {0};
        memcpy(own, weight + r, some * sizeof *own);
        put(e, table, left + r, some, false);
        make_tile(e, table, left + r, some, right, columns, tile);
        put(e, table, left + r, some, true);
        weigh(sums, tile, own, columns);
    }
    for (size_t i = 0; i < columns; i++)
        for (size_t k = 0; k < WIDE; k++)
            sum[i] += sums[i * WIDE + k];
}

void larder__exact_add(const larder__exact *e, const uint32_t *left, const double *weight,
                       size_t rows, const uint32_t *right, size_t columns, double *sum,
                       void *scratch) {
    bool made = e->held || e->kernel->engine == LARDER__ENGINE_GIVEN;
    for (size_t c = 0; c < columns; c += TILE)
        (made ? add_block : add_tile)(e, left, weight, rows, right + c,
                                      columns - c < TILE ? columns - c : TILE, sum + c, scratch);
}

/* ---- in long doubles ------------------------------------------------------------------------- */

static long double long_value(const larder__exact *e, uint64_t p) {
    return (long double)e->value[p] + (e->rest ? e->rest[p] : 0);
}

static long double long_norm(const larder__exact *e, uint32_t i) {
    long double sum = 0;
    for (uint64_t p = e->begin[i]; p < e->begin[i + 1]; p++)
        sum += long_value(e, p) * long_value(e, p);
    return sum;
}

static long double long_power(long double x, int n) {
    long double out = 1;
    for (; n > 0; n /= 2, x *= x)
        if (n % 2)
            out *= x;
    return out;
}

long double larder__exact_value(const larder__kernel_conf *c, long double product,
                                long double distance) {
    switch (c->type) {
    case LARDER_SVM_RBF:
        return expl(-c->gamma * (distance > 0 ? distance : 0));
    case LARDER_SVM_SIGMOID:
        return tanhl(c->gamma * product + c->coef0);
    case LARDER_SVM_POLY:
        return long_power(c->gamma * product + c->coef0, c->degree);
    case LARDER_SVM_LINEAR:
    case LARDER_SVM_PRECOMPUTED:
        break;
    }
    return product;
}

static void long_row(const larder__exact *e, uint32_t left, double weight, const uint32_t *right,
                     const long double *norm, size_t columns, long double *sum,
                     long double *table) {
    for (uint64_t p = e->begin[left]; p < e->begin[left + 1]; p++)
        table[e->index[p]] = long_value(e, p);
    long double own = long_norm(e, left);
    for (size_t c = 0; c < columns; c++) {
        long double product = 0;
        for (uint64_t p = e->begin[right[c]]; p < e->begin[right[c] + 1]; p++)
            product += long_value(e, p) * table[e->index[p]];
        sum[c] +=
            weight * larder__exact_value(&e->kernel->conf, product, own + norm[c] - 2 * product);
    }
    memset(table, 0, e->kernel->dim * sizeof *table); /* padding too: doubles lie here next */
}

void larder__exact_sum(const larder__exact *e, const uint32_t *left, const double *weight,
                       size_t rows, const uint32_t *right, size_t columns, double *sum,
                       void *scratch) {
    bool given = e->kernel->engine == LARDER__ENGINE_GIVEN;
    for (size_t c = 0; c < columns; c += TILE) {
        size_t m = columns - c < TILE ? columns - c : TILE;
        long double out[TILE] = {0}, norm[TILE];
        for (size_t i = 0; i < m && !given; i++)
            norm[i] = long_norm(e, right[c + i]);
        for (size_t r = 0; r < rows && !given; r++)
            long_row(e, left[r], weight[r], right + c, norm, m, out, scratch);
        for (size_t r = 0; r < rows && given; r++) {
            double k[TILE];
            given_block(e, left + r, 1, right + c, m, k, TILE);
            for (size_t i = 0; i < m; i++)
                out[i] += (long double)weight[r] * k[i];
        }
        for (size_t i = 0; i < m; i++)
            sum[c + i] = (double)out[i];
    }
}

double larder__exact_moved(const larder__exact *e, const uint32_t *left, const double *weight,
                           size_t rows) {
    if (!e->mean || e->kernel->conf.type != LARDER_SVM_LINEAR)
        return 0;
    long double sum = 0;
    for (size_t r = 0; r < rows; r++) {
        long double product = 0; /* of the mean and the point as it was */
        for (uint64_t p = e->begin[left[r]]; p < e->begin[left[r] + 1]; p++) {
            long double mean = e->mean[e->index[p]];
            product += mean * (long_value(e, p) + mean);
        }
        sum += weight[r] * product;
    }
    return (double)sum;
}

double larder__exact_size(const larder__exact *e) {
    const larder_svm_data *d = e->data;
    double most = 0;
    if (e->kernel->engine != LARDER__ENGINE_GIVEN) {
        for (size_t i = 0; i < e->n; i++)
            most = fmax(most, e->norm[i]);
        return larder__kernel_size(e->kernel, most, most);
    }
    for (size_t i = 0; i < e->n; i++) /* the first value of a row is its number */
        for (uint64_t p = d->start[e->row[i]] + 1; p < d->start[e->row[i] + 1]; p++)
            most = fmax(most, fabs(d->value[p]));
    return most;
}
