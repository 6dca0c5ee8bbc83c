#include "base/gap.h"

#include <math.h>

enum {
    FORGOTTEN = 4096, /* blocks after which nothing is left that anybody could measure */
    FIRST = 64 /* losses that what training began with rests on: a report may have just one */
};

static void fade(larder__gap *g, uint64_t blocks, double keep) {
    double left = 1;
    for (uint64_t i = 0; keep < 1 && i < blocks && i < FORGOTTEN; i++)
        left *= keep; /* not pow: to the bit the same on every machine */
    for (int k = 0; k < 2; k++) {
        g->rows[k] *= left;
        g->means[k] *= left;
    }
    g->weight *= left;
}

/* The open block is over. */
static void fold(larder__gap *g) {
    const larder__losses *b = &g->open;
    double f = (double)b->count[0], r = (double)b->count[1];
    if (b->count[0] && b->count[1]) {
        double weight = f * r / (f + r);
        g->weight += weight;
        for (int k = 0; k < 2; k++) {
            g->rows[k] += (double)b->count[k];
            g->means[k] += weight * (b->sum[k] / (double)b->count[k]);
        }
    }
    g->open = (larder__losses){.block = b->block};
}

void larder__gap_add(larder__gap *g, const larder__losses *l, double keep) {
    if (!l->count[0] && !l->count[1])
        return;
    if (g->begun < FIRST) {
        double before = g->first * (double)g->begun;
        g->begun += l->count[0] + l->count[1];
        g->first = (before + l->sum[0] + l->sum[1]) / (double)g->begun;
    }
    if (l->block != g->open.block) { /* a report that comes late opens its block once more */
        fold(g);
        fade(g, l->block > g->open.block ? l->block - g->open.block : 0, keep);
        g->open.block = l->block;
    }
    for (int k = 0; k < 2; k++) {
        g->open.count[k] += l->count[k];
        g->open.sum[k] += l->sum[k];
    }
}

larder_memorised larder__gap_read(const larder__gap *g) {
    larder__gap all = *g;
    fold(&all);
    bool any = all.weight > 0;
    return (larder_memorised){
        .fresh = all.rows[0],
        .reused = all.rows[1],
        .fresh_loss = any ? all.means[0] / all.weight : (double)NAN,
        .reused_loss = any ? all.means[1] / all.weight : (double)NAN,
        .first_loss = all.begun ? all.first : (double)NAN,
    };
}

/* ---- saved state ----------------------------------------------------------------------------- */

void larder__losses_save(const larder__losses *l, larder_writer *w) {
    larder_write_u64(w, l->block);
    for (int k = 0; k < 2; k++) {
        larder_write_u64(w, l->count[k]);
        larder_write_f64(w, l->sum[k]);
    }
}

int larder__losses_load(larder__losses *l, larder_reader *r) {
    l->block = larder_read_u64(r);
    for (int k = 0; k < 2; k++) {
        l->count[k] = larder_read_u64(r);
        l->sum[k] = larder_read_f64(r);
        if (!isfinite(l->sum[k]) || l->count[k] > UINT64_MAX / 4)
            return larder_read_reject(r, "its losses are no numbers");
    }
    return larder_read_status(r);
}

void larder__gap_save(const larder__gap *g, larder_writer *w) {
    larder__losses_save(&g->open, w);
    for (int k = 0; k < 2; k++) {
        larder_write_f64(w, g->rows[k]);
        larder_write_f64(w, g->means[k]);
    }
    larder_write_f64(w, g->weight);
    larder_write_u64(w, g->begun);
    larder_write_f64(w, g->first);
}

int larder__gap_load(larder__gap *g, larder_reader *r) {
    int rc = larder__losses_load(&g->open, r);
    for (int k = 0; k < 2; k++) {
        g->rows[k] = larder_read_f64(r);
        g->means[k] = larder_read_f64(r);
        if (!(g->rows[k] >= 0 && g->rows[k] < 1e18) || !isfinite(g->means[k]))
            return larder_read_reject(r, "its losses are no numbers");
    }
    g->weight = larder_read_f64(r);
    g->begun = larder_read_u64(r);
    g->first = larder_read_f64(r);
    if (!(g->weight >= 0 && g->weight < 1e18) || !isfinite(g->first))
        return larder_read_reject(r, "its losses are no numbers");
    return rc < 0 ? rc : larder_read_status(r);
}
