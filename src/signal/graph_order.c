#include "signal/graph_order.h"

#include "base/clones.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/state.h"

#include <math.h>
#include <stdlib.h>

enum { FIRST_LOOK = 2048 }; /* rows */
#define GAIN 1.05           /* of the head's share of the variance, for which the order changes */

int larder__graph_order_open(larder__graph_order *o, uint32_t dim, uint64_t samples) {
    *o = (larder__graph_order){.dim = dim,
                               .at = larder__malloc(dim * sizeof *o->at),
                               .sum = larder__calloc(dim, sizeof *o->sum),
                               .square = larder__calloc(dim, sizeof *o->square),
                               .next = samples < FIRST_LOOK ? samples : FIRST_LOOK};
    if (!o->at || !o->sum || !o->square) {
        larder__graph_order_close(o);
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for %u dimensions", dim);
    }
    for (uint32_t k = 0; k < dim; k++)
        o->at[k] = (uint16_t)k;
    return 0;
}

void larder__graph_order_close(larder__graph_order *o) {
    larder__free(o->at);
    larder__free(o->sum);
    larder__free(o->square);
    *o = (larder__graph_order){0};
}

size_t larder__graph_order_bytes(const larder__graph_order *o) {
    return o->at ? o->dim * (sizeof *o->at + sizeof *o->sum + sizeof *o->square) : 0;
}

void larder__graph_order_put(const larder__graph_order *o, uint8_t *codes) {
    uint8_t came[LARDER__DIM_MAX];
    if (!o->at)
        return;
    memcpy(came, codes, o->dim);
    for (uint32_t k = 0; k < o->dim; k++)
        codes[k] = came[o->at[k]];
}

/* ---- another order --------------------------------------------------------------------------- */

LARDER__CLONES
static void add_row(double *sum, double *square, const float *x, uint32_t dim) {
    for (uint32_t i = 0; i < dim; i++) {
        double value = (double)x[i];
        sum[i] += value;
        square[i] += value * value;
    }
}

typedef struct ranked {
    double variance;
    uint32_t dimension;
} ranked;

static int widest_first(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    return x->variance != y->variance
               ? (x->variance < y->variance) - (x->variance > y->variance)
               : (x->dimension > y->dimension) - (x->dimension < y->dimension);
}

typedef struct reorder { /* place k gets what was at from[k] */
    uint32_t dim;
    uint16_t from[LARDER__DIM_MAX];
} reorder;

static void move_codes(const void *arg, uint8_t *codes, int32_t *row_const) {
    const reorder *m = arg;
    uint8_t was[LARDER__DIM_MAX];
    (void)row_const; /* of a sum over all dimensions */
    memcpy(was, codes, m->dim);
    for (uint32_t k = 0; k < m->dim; k++)
        codes[k] = was[m->from[k]];
}

static void change(larder__graph_order *o, larder__graph_store *store, const ranked *all) {
    uint16_t place[LARDER__DIM_MAX];
    reorder m = {.dim = o->dim};
    for (uint32_t k = 0; k < o->dim; k++)
        place[o->at[k]] = (uint16_t)k;
    for (uint32_t k = 0; k < o->dim; k++) {
        m.from[k] = place[all[k].dimension];
        o->at[k] = (uint16_t)all[k].dimension;
    }
    larder__graph_store_rewrite(store, move_codes, &m);
}

static void look(larder__graph_order *o, larder__graph_store *store) {
    ranked all[LARDER__DIM_MAX] = {{0, 0}};
    uint32_t head = store->head * 4 < o->dim ? store->head * 4 : o->dim;
    double now = 0, best = 0;
    for (uint32_t i = 0; i < o->dim; i++) {
        double mean = o->sum[i] / o->rows;
        all[i] = (ranked){fmax(0, o->square[i] / o->rows - mean * mean), i};
    }
    for (uint32_t k = 0; k < head; k++)
        now += all[o->at[k]].variance;
    qsort(all, o->dim, sizeof *all, widest_first);
    for (uint32_t k = 0; k < head; k++)
        best += all[k].variance;
    if (best > GAIN * now)
        change(o, store, all);
    for (uint32_t i = 0; i < o->dim; i++) {
        o->sum[i] /= 2;
        o->square[i] /= 2;
    }
    o->rows /= 2;
    o->seen = 0;
    o->next = 2 * o->next < store->n ? 2 * o->next : store->n;
}

void larder__graph_order_follow(larder__graph_order *o, larder__graph_store *store, const float *x,
                                size_t rows) {
    if (!o->at || store->head == 0)
        return;
    for (size_t r = 0; r < rows; r++)
        add_row(o->sum, o->square, x + r * o->dim, o->dim);
    o->rows += (double)rows;
    o->seen += rows;
    if (o->seen >= o->next)
        look(o, store);
}

/* ---- saved state ----------------------------------------------------------------------------- */

void larder__graph_order_save(const larder__graph_order *o, larder_writer *w) {
    larder_write_bytes(w, o->at, o->dim * sizeof *o->at);
    larder_write_bytes(w, o->sum, o->dim * sizeof *o->sum);
    larder_write_bytes(w, o->square, o->dim * sizeof *o->square);
    larder_write_f64(w, o->rows);
    larder_write_u64(w, o->seen);
    larder_write_u64(w, o->next);
}

int larder__graph_order_load(larder__graph_order *o, larder_reader *r) {
    bool there[LARDER__DIM_MAX] = {false}, sound = true;
    larder_read_bytes(r, o->at, o->dim * sizeof *o->at);
    larder_read_bytes(r, o->sum, o->dim * sizeof *o->sum);
    larder_read_bytes(r, o->square, o->dim * sizeof *o->square);
    o->rows = larder_read_f64(r);
    o->seen = larder_read_u64(r);
    o->next = larder_read_u64(r);
    if (larder_read_status(r) < 0)
        return larder_read_status(r);
    for (uint32_t k = 0; k < o->dim && sound; k++) {
        sound = o->at[k] < o->dim && !there[o->at[k]] && isfinite(o->sum[k]) && o->square[k] >= 0 &&
                isfinite(o->square[k]);
        there[sound ? o->at[k] : 0] = true;
    }
    if (!sound || !(o->rows >= 0 && o->rows < 1e18) || o->next > UINT32_MAX || o->seen > UINT32_MAX)
        return larder_read_reject(r, "the order of its index's dimensions is impossible");
    return 0;
}
