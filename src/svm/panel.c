/* Points laid out for an engine. */
#include "base/err.h"
#include "base/mem.h"
#include "svm/kernel.h"

#include <math.h>
#include <string.h>

void larder__panel_free(larder__panel *p) {
    larder__free(p->norm);
    larder__free(p->words);
    larder__free(p->word_planes);
    larder__free(p->dense);
    larder__free(p->dense_planes);
    larder__free(p->begin);
    larder__free(p->end);
    if (!p->borrowed) {
        larder__free(p->index);
        larder__free(p->value);
    }
    larder__free(p->serial);
    *p = (larder__panel){0};
}

static bool get(void *to, size_t count, size_t bytes) {
    void *fresh = count > SIZE_MAX / bytes ? NULL : larder__memalign(64, (count + 16) * bytes);
    memcpy(to, &fresh, sizeof fresh);
    if (fresh)
        memset(fresh, 0, (count + 16) * bytes);
    return fresh != NULL;
}

static bool room(larder__panel *p, const larder__kernel *k, size_t n) {
    if (!get(&p->norm, p->stride, sizeof *p->norm))
        return false;
    switch (k->engine) {
    case LARDER__ENGINE_BITS:
        return get(&p->words, p->stride * k->words, sizeof *p->words) &&
               get(&p->word_planes, p->stride * k->words, sizeof *p->word_planes);
    case LARDER__ENGINE_SPARSE:
        return get(&p->begin, n, sizeof *p->begin) && get(&p->end, n, sizeof *p->end);
    case LARDER__ENGINE_GIVEN:
        if (!get(&p->serial, p->stride, sizeof *p->serial))
            return false;
        break;
    case LARDER__ENGINE_AUTO:
    case LARDER__ENGINE_DENSE:
        break;
    }
    return get(&p->dense, n * k->dim, sizeof *p->dense) &&
           (!k->direct || get(&p->dense_planes, p->stride * k->dim, sizeof *p->dense_planes));
}

int larder__panel_room(larder__panel *p, const larder__kernel *k, size_t n) {
    *p = (larder__panel){.n = n};
    p->stride = (n + LARDER__LANES - 1) / LARDER__LANES * LARDER__LANES;
    if (room(p, k, n))
        return 0;
    larder__panel_free(p);
    return larder__fail(LARDER_E_NOMEM, "no memory for %zu points of %zu features", n, k->dim);
}

/* ---- from a data set ------------------------------------------------------------------------- */

static void fill_bits(larder__panel *p, const larder__kernel *k, size_t i, uint32_t f) {
    uint32_t bit = UINT32_C(1) << f % 32;
    p->words[i * k->words + f / 32] |= bit;
    p->word_planes[f / 32 * p->stride + i] |= bit;
}

/* The norm in doubles and rounded once: of the shifted point where points are shifted. */
static double fill_dense(larder__panel *p, const larder__kernel *k, size_t i) {
    float *row = p->dense + i * k->dim;
    double norm = 0;
    for (size_t f = 0; f < k->dim; f++) {
        norm += (double)row[f] * (double)row[f];
        if (k->direct)
            p->dense_planes[f * p->stride + i] = row[f];
    }
    return norm;
}

static void fill_given(larder__panel *p, const larder__kernel *k, const larder_svm_data *d,
                       size_t row, size_t i) {
    for (uint64_t at = d->start[row]; at < d->start[row + 1]; at++) {
        p->dense[i * k->dim + d->index[at]] = (float)d->value[at];
        if (d->index[at] == 0)
            p->serial[i] = (uint32_t)d->value[at];
    }
}

static void fill_point(larder__panel *p, const larder__kernel *k, const larder_svm_data *d,
                       size_t row, size_t i) {
    uint64_t pairs = p->begin && i > 0 ? p->end[i - 1] : 0;
    double norm = 0;
    for (size_t f = 0; k->shift && f < k->dim; f++)
        p->dense[i * k->dim + f] = -k->shift[f];
    for (uint64_t at = d->start[row]; at < d->start[row + 1]; at++) {
        uint32_t f = larder__kernel_feature(k, d->index[at]);
        double x = d->value[at];
        norm += x * x;
        if (f == UINT32_MAX || x == 0)
            continue;
        if (k->engine == LARDER__ENGINE_BITS)
            fill_bits(p, k, i, f);
        else if (k->engine == LARDER__ENGINE_DENSE)
            p->dense[i * k->dim + f] = (float)(x - (k->shift ? (double)k->shift[f] : 0));
        else
            p->index[pairs] = f, p->value[pairs++] = (float)x;
    }
    if (p->begin) {
        p->begin[i] = i > 0 ? p->end[i - 1] : 0;
        p->end[i] = pairs;
    }
    if (k->engine == LARDER__ENGINE_DENSE)
        norm = fill_dense(p, k, i);
    p->norm[i] = (float)norm;
}

int larder__panel_fill(larder__panel *p, const larder__kernel *k, const larder_svm_data *d,
                       const uint32_t *rows, size_t n) {
    uint64_t pairs = 0;
    for (size_t i = 0; i < n; i++)
        pairs += d->start[rows[i] + 1] - d->start[rows[i]];
    int rc = larder__panel_room(p, k, n);
    if (rc == 0 && p->begin &&
        (!get(&p->index, pairs, sizeof *p->index) || !get(&p->value, pairs, sizeof *p->value))) {
        larder__panel_free(p);
        rc = larder__fail(LARDER_E_NOMEM, "no memory for %llu values", (unsigned long long)pairs);
    }
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (k->engine == LARDER__ENGINE_GIVEN)
            fill_given(p, k, d, rows[i], i);
        else
            fill_point(p, k, d, rows[i], i);
    return rc;
}

/* ---- from another panel ---------------------------------------------------------------------- */

/* Planes of words or of floats: four bytes each. */
static void pick_planes(void *to, size_t to_stride, const void *from, size_t stride, size_t planes,
                        const uint32_t *ids, size_t n) {
    char *out = to;
    const char *in = from;
    for (size_t f = 0; f < planes; f++)
        for (size_t i = 0; i < n; i++)
            memcpy(out + 4 * (f * to_stride + i), in + 4 * (f * stride + ids[i]), 4);
}

static void pick_pairs(larder__panel *to, const larder__panel *from, const uint32_t *ids,
                       size_t n) {
    to->borrowed = true;
    to->index = from->index;
    to->value = from->value;
    for (size_t i = 0; i < n; i++) {
        to->begin[i] = from->begin[ids[i]];
        to->end[i] = from->end[ids[i]];
    }
}

void larder__panel_pick(larder__panel *to, const larder__kernel *k, const larder__panel *from,
                        const uint32_t *ids, size_t n) {
    to->n = n;
    for (size_t i = 0; i < n; i++) {
        to->norm[i] = from->norm[ids[i]];
        if (to->words)
            memcpy(to->words + i * k->words, from->words + ids[i] * k->words,
                   k->words * sizeof *to->words);
        if (to->dense)
            memcpy(to->dense + i * k->dim, from->dense + ids[i] * k->dim,
                   k->dim * sizeof *to->dense);
        if (to->serial)
            to->serial[i] = from->serial[ids[i]];
    }
    if (to->word_planes)
        pick_planes(to->word_planes, to->stride, from->word_planes, from->stride, k->words, ids, n);
    if (to->dense_planes)
        pick_planes(to->dense_planes, to->stride, from->dense_planes, from->stride, k->dim, ids, n);
    if (to->begin)
        pick_pairs(to, from, ids, n);
}
