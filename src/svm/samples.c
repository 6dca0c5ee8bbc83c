#include "svm/samples.h"

#include "base/err.h"
#include "base/mem.h"

#include <string.h>

typedef struct finder { /* open addressing; 0: empty, else number + 1 */
    uint32_t *at;
    size_t mask;
} finder;

static uint64_t mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * UINT64_C(0x9fb21c651e98df25);
    return h ^ h >> 29;
}

/* Zeros that are written out are no part of a vector. */
static uint64_t hash_row(const larder_svm_data *d, size_t row) {
    uint64_t h = 1;
    for (uint64_t p = d->start[row]; p < d->start[row + 1]; p++) {
        uint64_t bits;
        if (d->value[p] == 0)
            continue;
        memcpy(&bits, &d->value[p], sizeof bits);
        h = mix(h, bits ^ (uint64_t)d->index[p] << 32);
    }
    return h;
}

static bool same_row(const larder_svm_data *d, size_t a, size_t b) {
    uint64_t p = d->start[a], q = d->start[b], pe = d->start[a + 1], qe = d->start[b + 1];
    for (;;) {
        while (p < pe && d->value[p] == 0)
            p++;
        while (q < qe && d->value[q] == 0)
            q++;
        if (p == pe || q == qe)
            return p == pe && q == qe;
        if (d->index[p] != d->index[q] || d->value[p] != d->value[q])
            return false;
        p++, q++;
    }
}

static uint32_t find_point(larder__samples *s, finder *f, const larder_svm_data *d, uint32_t row) {
    size_t at = hash_row(d, row) & f->mask;
    for (; f->at[at]; at = (at + 1) & f->mask)
        if (same_row(d, s->point_row[f->at[at] - 1], row))
            return f->at[at] - 1;
    s->point_row[s->points] = row;
    f->at[at] = (uint32_t)++s->points;
    return f->at[at] - 1;
}

/* `key_of`: the key of each sample. */
static uint32_t find_sample(larder__samples *s, finder *f, uint32_t point, uint64_t key,
                            uint64_t *key_of, uint32_t row) {
    size_t at = mix(mix(7, point), key) & f->mask;
    for (; f->at[at]; at = (at + 1) & f->mask) {
        uint32_t known = f->at[at] - 1;
        if (s->point[known] == point && key_of[known] == key)
            return known;
    }
    s->row[s->n] = row, s->point[s->n] = point, s->count[s->n] = 0, key_of[s->n] = key;
    f->at[at] = (uint32_t)++s->n;
    return f->at[at] - 1;
}

static double weight_of(const larder_svm_data *d, uint32_t row) {
    return d->weight ? d->weight[row] : 1;
}

static void merge_rows(larder__samples *s, finder *points, finder *pairs, const larder_svm_data *d,
                       const uint32_t *rows, size_t n, const uint64_t *keys, uint64_t *key_of) {
    for (size_t i = 0; i < n; i++) {
        uint32_t row = rows ? rows[i] : (uint32_t)i;
        uint32_t point = find_point(s, points, d, row);
        uint32_t sample = find_sample(s, pairs, point, keys[i], key_of, row);
        s->count[sample] += weight_of(d, row);
        s->sample_of[i] = sample;
    }
}

static void keep_rows(larder__samples *s, const larder_svm_data *d, const uint32_t *rows,
                      size_t n) {
    for (size_t i = 0; i < n; i++) {
        s->row[i] = s->point_row[i] = rows ? rows[i] : (uint32_t)i;
        s->point[i] = s->sample_of[i] = (uint32_t)i;
        s->count[i] = weight_of(d, s->row[i]);
    }
    s->n = s->points = n;
}

static bool open_arrays(larder__samples *s, size_t n) {
    return (s->row = larder__malloc(n * sizeof *s->row)) &&
           (s->count = larder__malloc(n * sizeof *s->count)) &&
           (s->point = larder__malloc(n * sizeof *s->point)) &&
           (s->point_row = larder__malloc(n * sizeof *s->point_row)) &&
           (s->sample_of = larder__malloc(n * sizeof *s->sample_of));
}

int larder__samples_open(larder__samples *s, const larder_svm_data *d, const uint32_t *rows,
                         size_t n, const uint64_t *keys, bool merge) {
    finder points = {0}, pairs = {0};
    *s = (larder__samples){0};
    size_t size = 16;
    while (size < 2 * n)
        size *= 2;
    points.mask = pairs.mask = size - 1;
    uint64_t *key_of = NULL;
    bool ok = open_arrays(s, n ? n : 1);
    if (ok && !merge) {
        keep_rows(s, d, rows, n);
        return 0;
    }
    ok = ok && (points.at = larder__calloc(size, sizeof *points.at)) &&
         (pairs.at = larder__calloc(size, sizeof *pairs.at)) &&
         (key_of = larder__malloc((n ? n : 1) * sizeof *key_of));
    if (ok)
        merge_rows(s, &points, &pairs, d, rows, n, keys, key_of);
    else
        larder__samples_close(s);
    larder__free(points.at);
    larder__free(pairs.at);
    larder__free(key_of);
    return ok ? 0 : larder__fail(LARDER_E_NOMEM, "no memory to compare %zu rows", n);
}

/* to[place[i]] = from[i]. */
static void place_u32(uint32_t *x, const uint32_t *place, uint32_t *work, size_t n) {
    for (size_t i = 0; i < n; i++)
        work[place[i]] = x[i];
    memcpy(x, work, n * sizeof *x);
}

int larder__samples_sort(larder__samples *s, size_t rows, uint32_t *cell, uint32_t *also,
                         size_t cells, size_t *start) {
    uint32_t *place = larder__malloc((s->n + 1) * sizeof *place);
    uint32_t *work = larder__malloc((s->n + 1) * sizeof *work);
    double *count = larder__malloc((s->n + 1) * sizeof *count);
    if (!place || !work || !count) {
        larder__free(place);
        larder__free(work);
        larder__free(count);
        return larder__fail(LARDER_E_NOMEM, "no memory to sort %zu samples", s->n);
    }
    memset(start, 0, (cells + 1) * sizeof *start);
    for (size_t i = 0; i < s->n; i++)
        start[cell[i] + 1]++;
    for (size_t c = 0; c < cells; c++)
        start[c + 1] += start[c];
    for (size_t i = 0; i < s->n; i++)
        place[i] = (uint32_t)start[cell[i]]++;
    memmove(start + 1, start, cells * sizeof *start);
    start[0] = 0;
    for (size_t i = 0; i < s->n; i++)
        count[place[i]] = s->count[i];
    memcpy(s->count, count, s->n * sizeof *count);
    place_u32(s->row, place, work, s->n);
    place_u32(cell, place, work, s->n);
    place_u32(also, place, work, s->n);
    for (size_t i = 0; i < rows; i++)
        s->sample_of[i] = place[s->sample_of[i]];
    for (size_t i = 0; i < s->n; i++) {
        s->point[i] = (uint32_t)i;
        s->point_row[i] = s->row[i];
    }
    s->points = s->n;
    larder__free(place);
    larder__free(work);
    larder__free(count);
    return 0;
}

void larder__samples_close(larder__samples *s) {
    larder__free(s->row);
    larder__free(s->count);
    larder__free(s->point);
    larder__free(s->point_row);
    larder__free(s->sample_of);
    *s = (larder__samples){0};
}
