#include "svm/held_rows.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "svm/smo.h"

#include <string.h>

enum { WS = LARDER__WS, STEP = 128 /* rows computed at once */ };

int larder__held_open(larder__held *h) {
    size_t n = h->all->n;
    h->row = larder__calloc(n + 1, sizeof *h->row);
    h->column = larder__malloc((n + 1) * sizeof *h->column);
    h->tile = larder__calloc(h->threads, sizeof *h->tile);
    bool ok = h->row && h->column && h->tile;
    for (unsigned i = 0; ok && i < h->threads; i++)
        ok = (h->tile[i] = larder__memalign(64, STEP * LARDER__TILE * sizeof(float))) != NULL;
    if (!ok)
        return larder__fail(LARDER_E_NOMEM, "no memory to hold rows of %zu points", n);
    for (const larder__row_part *p = h->parts; p < h->parts + h->part_count; p++)
        for (size_t i = 0; i < p->n; i++)
            h->column[p->local + i] = (uint32_t)(p->at + i);
    return larder__panel_room(&h->missing, h->kernel, STEP);
}

void larder__held_close(larder__held *h) {
    for (size_t i = 0; h->row && i < h->all->n; i++)
        larder_buf_unref(&h->row[i]);
    for (unsigned i = 0; h->tile && i < h->threads; i++)
        larder__free(h->tile[i]);
    larder__free(h->tile);
    larder__free(h->row);
    larder__free(h->column);
    larder__panel_free(&h->missing);
    h->row = NULL;
    h->column = NULL;
    h->tile = NULL;
}

static size_t tiles(const larder__row_part *p) { return (p->n + LARDER__TILE - 1) / LARDER__TILE; }

/* ---- computing ------------------------------------------------------------------------------- */

typedef struct making {
    larder__held *h;
    const larder__row_part *part;
    const uint32_t *points;
    size_t n;
} making;

static void make_tile(void *arg, size_t piece, unsigned thread) {
    making *m = arg;
    larder__held *h = m->h;
    size_t c0 = m->part->at + piece * LARDER__TILE, end = m->part->at + m->part->n;
    size_t c1 = c0 + LARDER__TILE < end ? c0 + LARDER__TILE : end;
    float *tile = h->tile[thread];
    larder__kernel_block(h->kernel, &h->missing, 0, m->n, h->rows->panel, c0, c1, tile, c1 - c0,
                         h->scratch[thread]);
    for (size_t i = 0; i < m->n; i++)
        memcpy((float *)larder_buf_data(h->row[m->points[i]]) + c0, tile + i * (c1 - c0),
               (c1 - c0) * sizeof *tile);
}

/* A part of these rows. A value depends on the tile it lies in, and tiles begin where cells do:
 * whichever problem fills a cell fills it alike. */
static void make_part(larder__held *h, const larder__row_part *part, const uint32_t *points,
                      size_t n) {
    for (size_t i = 0; i < n; i += STEP) {
        making m = {h, part, points + i, n - i < STEP ? n - i : STEP};
        larder__panel_pick(&h->missing, h->kernel, h->all, m.points, m.n);
        larder__team_run(h->team, make_tile, &m, tiles(part));
    }
    for (size_t i = 0; i < n; i++)
        h->rows->filled[h->column[points[i]] * h->rows->words + part->cell / 64] |=
            UINT64_C(1) << part->cell % 64;
    h->values += n * part->n;
}

/* What is not there yet of these rows. */
static void make(larder__held *h, const uint32_t *points, size_t n) {
    double start = larder__now();
    uint32_t list[WS];
    bool some[WS] = {false};
    for (const larder__row_part *p = h->parts; p < h->parts + h->part_count; p++) {
        size_t count = 0;
        for (size_t i = 0; i < n; i++)
            if (!larder__kept_has(h->rows, h->column[points[i]], p->cell))
                list[count++] = points[i], some[i] = true;
        make_part(h, p, list, count);
    }
    for (size_t i = 0; i < n; i++)
        h->made += some[i];
    h->kernel_seconds += larder__now() - start;
}

/* ---- in and out ------------------------------------------------------------------------------ */

int larder__held_take(larder__held *h, const uint32_t *points, size_t n) {
    larder_buf *got[WS];
    bool missing[WS];
    uint32_t ids[WS];
    double start = larder__now();
    for (size_t i = 0; i < n; i++)
        ids[i] = h->column[points[i]];
    int rc = larder__row_cache_take(h->rows->cache, ids, n, got, missing);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++) {
        h->row[points[i]] = got[i];
        if (missing[i])
            memset(h->rows->filled + ids[i] * h->rows->words, 0,
                   h->rows->words * sizeof *h->rows->filled);
    }
    h->cache_seconds += larder__now() - start;
    make(h, points, n);
    start = larder__now();
    larder__row_cache_filled(h->rows->cache);
    h->cache_seconds += larder__now() - start;
    return 0;
}

void larder__held_leave(larder__held *h, const uint32_t *points, const float *dist, size_t n) {
    uint32_t ids[WS];
    double start = larder__now();
    for (size_t i = 0; i < n; i++)
        ids[i] = h->column[points[i]];
    larder__row_cache_leave(h->rows->cache, ids, dist, n);
    for (size_t i = 0; i < n; i++)
        larder_buf_unref(&h->row[points[i]]);
    h->cache_seconds += larder__now() - start;
}

void larder__held_score(larder__held *h, const float *dist) {
    double start = larder__now();
    larder__kept_rows_score(h->rows, dist, h->parts, h->part_count);
    h->cache_seconds += larder__now() - start;
}

typedef struct summing {
    const larder__row_part *part;
    const float **rows;
    const double *weight;
    size_t n;
    double *sum;
} summing;

static void sum_tile(void *arg, size_t piece, unsigned thread) {
    summing *s = arg;
    (void)thread;
    size_t c0 = piece * LARDER__TILE, n = s->part->n - c0;
    n = n < LARDER__TILE ? n : LARDER__TILE;
    for (size_t i = 0; i < s->n; i++)
        larder__add_row(s->sum + s->part->local + c0, s->rows[i] + s->part->at + c0, s->weight[i],
                        n);
}

void larder__held_add(larder__held *h, const uint32_t *points, const double *weight, size_t n,
                      double *sum) {
    const float *rows[WS];
    for (size_t i = 0; i < n; i++)
        rows[i] = larder__held_row(h, points[i]);
    for (const larder__row_part *p = h->parts; p < h->parts + h->part_count; p++) {
        summing s = {p, rows, weight, n, sum};
        larder__team_run(h->team, sum_tile, &s, tiles(p));
    }
}

/* ---- which way is cheaper -------------------------------------------------------------------- */

enum { TRIAL_ROWS = 256, TRIALS = 3 };

typedef struct trial {
    larder__panel left;
    float *rows; /* more than a core's own caches hold */
    double *sum, *weight;
    uint32_t *ids;
    void *scratch;
    size_t columns, many;
} trial;

static void close_trial(trial *t) {
    larder__panel_free(&t->left);
    larder__free(t->rows);
    larder__free(t->sum);
    larder__free(t->weight);
    larder__free(t->ids);
    larder__free(t->scratch);
}

static int open_trial(trial *t, const larder__kernel *k, const larder__panel *all) {
    *t = (trial){.columns = all->n < LARDER__TILE ? all->n : LARDER__TILE,
                 .many = (size_t)8 << 20 >> 11};
    size_t scratch = larder__kernel_scratch(k, TRIAL_ROWS);
    t->rows = larder__calloc(t->many * LARDER__TILE, sizeof *t->rows);
    t->sum = larder__calloc(LARDER__TILE, sizeof *t->sum);
    t->weight = larder__calloc(TRIAL_ROWS, sizeof *t->weight);
    t->ids = larder__calloc(TRIAL_ROWS, sizeof *t->ids);
    t->scratch = larder__memalign(64, (scratch + 63) / 64 * 64);
    if (!t->rows || !t->sum || !t->weight || !t->ids || !t->scratch)
        return larder__fail(LARDER_E_NOMEM, "no memory to measure kernel rows");
    memset(t->scratch, 0, scratch);
    memset(t->rows, 1, t->many * LARDER__TILE * sizeof *t->rows); /* pages are there in a run */
    for (size_t i = 0; i < TRIAL_ROWS; i++)
        t->ids[i] = (uint32_t)(i % all->n), t->weight[i] = 1e-3;
    return larder__panel_room(&t->left, k, TRIAL_ROWS);
}

static double least(double a, double b) { return a > 0 && a < b ? a : b; }

int larder__held_measure(const larder__kernel *k, const larder__panel *all, double *make_us,
                         double *keep_us) {
    trial t;
    int rc = open_trial(&t, k, all);
    *make_us = *keep_us = 0;
    for (size_t i = 0; rc == 0 && i < TRIALS; i++) {
        if (i == 0)
            larder__panel_pick(&t.left, k, all, t.ids, TRIAL_ROWS);
        double a = larder__thread_seconds();
        larder__kernel_add(k, &t.left, TRIAL_ROWS, t.weight, all, 0, t.columns, t.sum, t.scratch);
        double b = larder__thread_seconds();
        /* A row is written when it is made and read when it is added, from memory each time. */
        for (size_t r = 0; r < TRIAL_ROWS; r++)
            memset(t.rows + (i * TRIAL_ROWS + r) * 37 % t.many * LARDER__TILE, 1,
                   t.columns * sizeof *t.rows);
        for (size_t r = 0; r < TRIAL_ROWS; r++)
            larder__add_row(t.sum, t.rows + (r * 41 + 7) % t.many * LARDER__TILE, t.weight[r],
                            t.columns);
        double c = larder__thread_seconds();
        *make_us = least(*make_us, b - a);
        *keep_us = least(*keep_us, c - b);
    }
    double scale = 1e6 / TRIAL_ROWS * (double)all->n / (double)t.columns;
    *make_us *= scale, *keep_us *= scale;
    close_trial(&t);
    return rc;
}
