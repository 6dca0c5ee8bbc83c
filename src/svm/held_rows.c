#include "svm/held_rows.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "svm/smo.h"

#include <string.h>

enum { WS = LARDER__WS, STEP = 128 /* rows computed at once */ };

int larder__held_open(larder__held *h) {
    h->row = larder__calloc(h->all->n + 1, sizeof *h->row);
    h->tile = larder__calloc(h->threads, sizeof *h->tile);
    bool ok = h->row && h->tile;
    for (unsigned i = 0; ok && i < h->threads; i++)
        ok = (h->tile[i] = larder__memalign(64, STEP * LARDER__TILE * sizeof(float))) != NULL;
    if (!ok)
        return larder__fail(LARDER_E_NOMEM, "no memory to hold rows of %zu points", h->all->n);
    return larder__panel_room(&h->missing, h->kernel, STEP);
}

void larder__held_close(larder__held *h) {
    for (size_t i = 0; h->row && i < h->all->n; i++)
        larder_buf_unref(&h->row[i]);
    for (unsigned i = 0; h->tile && i < h->threads; i++)
        larder__free(h->tile[i]);
    larder__free(h->tile);
    larder__free(h->row);
    larder__panel_free(&h->missing);
    h->row = NULL;
    h->tile = NULL;
}

/* ---- computing ------------------------------------------------------------------------------- */

typedef struct making {
    larder__held *h;
    const uint32_t *points;
    size_t n;
} making;

static void make_tile(void *arg, size_t piece, unsigned thread) {
    making *m = arg;
    larder__held *h = m->h;
    size_t c0 = piece * LARDER__TILE, c1 = c0 + LARDER__TILE;
    c1 = c1 < h->all->n ? c1 : h->all->n;
    float *tile = h->tile[thread];
    larder__kernel_block(h->kernel, &h->missing, 0, m->n, h->all, c0, c1, tile, c1 - c0,
                         h->scratch[thread]);
    for (size_t i = 0; i < m->n; i++)
        memcpy((float *)larder_buf_data(h->row[m->points[i]]) + c0, tile + i * (c1 - c0),
               (c1 - c0) * sizeof *tile);
}

static void make(larder__held *h, const uint32_t *points, size_t n) {
    double start = larder__now();
    for (size_t i = 0; i < n; i += STEP) {
        making m = {h, points + i, n - i < STEP ? n - i : STEP};
        larder__panel_pick(&h->missing, h->kernel, h->all, m.points, m.n);
        larder__team_run(h->team, make_tile, &m, (h->all->n + LARDER__TILE - 1) / LARDER__TILE);
    }
    h->made += n;
    h->kernel_seconds += larder__now() - start;
}

/* ---- in and out ------------------------------------------------------------------------------ */

int larder__held_take(larder__held *h, const uint32_t *points, size_t n) {
    larder_buf *got[WS];
    bool missing[WS];
    uint32_t list[WS];
    size_t count = 0;
    double start = larder__now();
    int rc = larder__row_cache_take(h->cache, points, n, 0, got, missing);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++) {
        h->row[points[i]] = got[i];
        if (missing[i])
            list[count++] = points[i];
    }
    h->cache_seconds += larder__now() - start;
    make(h, list, count);
    start = larder__now();
    larder__row_cache_filled(h->cache);
    h->cache_seconds += larder__now() - start;
    return 0;
}

void larder__held_leave(larder__held *h, const uint32_t *points, const float *dist, size_t n) {
    double start = larder__now();
    larder__row_cache_leave(h->cache, points, dist, n);
    for (size_t i = 0; i < n; i++)
        larder_buf_unref(&h->row[points[i]]);
    h->cache_seconds += larder__now() - start;
}

typedef struct summing {
    larder__held *h;
    const uint32_t *points;
    const double *weight;
    size_t n;
    double *sum;
} summing;

static void sum_tile(void *arg, size_t piece, unsigned thread) {
    summing *s = arg;
    (void)thread;
    size_t c0 = piece * LARDER__TILE, n = s->h->all->n - c0;
    n = n < LARDER__TILE ? n : LARDER__TILE;
    for (size_t i = 0; i < s->n; i++)
        larder__add_row(s->sum + c0, larder__held_row(s->h, s->points[i]) + c0, s->weight[i], n);
}

void larder__held_add(larder__held *h, const uint32_t *points, const double *weight, size_t n,
                      double *sum) {
    summing s = {h, points, weight, n, sum};
    larder__team_run(h->team, sum_tile, &s, (h->all->n + LARDER__TILE - 1) / LARDER__TILE);
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
        double a = larder__seconds_of(CLOCK_THREAD_CPUTIME_ID);
        larder__kernel_add(k, &t.left, TRIAL_ROWS, t.weight, all, 0, t.columns, t.sum, t.scratch);
        double b = larder__seconds_of(CLOCK_THREAD_CPUTIME_ID);
        /* A row is written when it is made and read when it is added, from memory each time. */
        for (size_t r = 0; r < TRIAL_ROWS; r++)
            memset(t.rows + (i * TRIAL_ROWS + r) * 37 % t.many * LARDER__TILE, 1,
                   t.columns * sizeof *t.rows);
        for (size_t r = 0; r < TRIAL_ROWS; r++)
            larder__add_row(t.sum, t.rows + (r * 41 + 7) % t.many * LARDER__TILE, t.weight[r],
                            t.columns);
        double c = larder__seconds_of(CLOCK_THREAD_CPUTIME_ID);
        *make_us = least(*make_us, b - a);
        *keep_us = least(*keep_us, c - b);
    }
    double scale = 1e6 / TRIAL_ROWS * (double)all->n / (double)t.columns;
    *make_us *= scale, *keep_us *= scale;
    close_trial(&t);
    return rc;
}
