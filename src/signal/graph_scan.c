/* The engines `exact` and `strata`: an index of codes (graph_index.h) that is swept for every batch
 * (graph_sweep.h). `exact` keeps whole rows and looks at all of them, `strata` keeps frames and a
 * budget. */
#include "base/err.h"
#include "base/mem.h"
#include "signal/graph_nearest.h"
#include "signal/graph_sweep.h"

typedef struct scan {
    larder__graph_index index;
    larder__graph_sweeps sweeps;
} scan;

static int open_scan(void **out, const larder__graph_conf *conf, bool frames) {
    scan *s = *out = larder__calloc(1, sizeof *s);
    if (!s)
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for an engine");
    int rc = larder__graph_index_open(&s->index, conf, frames);
    larder__graph_sweeps_open(&s->sweeps, &s->index);
    return rc;
}

static int open_exact(void **out, const larder__graph_conf *conf) {
    larder__graph_conf all = *conf;
    all.budget = 0;
    return open_scan(out, &all, false);
}

static int open_strata(void **out, const larder__graph_conf *conf) {
    return open_scan(out, conf, conf->project < conf->dim);
}

static void close_scan(void *st) {
    scan *s = st;
    if (!s)
        return;
    larder__graph_sweeps_close(&s->sweeps);
    larder__graph_index_close(&s->index);
    larder__free(s);
}

static int update(void *st, const larder__graph_rows *in) {
    return larder__graph_index_enter(&((scan *)st)->index, in);
}

static int count(void *st, const larder__graph_rows *in, double radius, larder__graph_count *out) {
    scan *s = st;
    return larder__graph_sweeps_count(&s->sweeps, &s->index, in, radius, out);
}

static size_t nearest(void *st, const larder__graph_rows *in, size_t row, double radius,
                      uint64_t *ids, size_t cap) {
    return larder__graph_nearest(&((const scan *)st)->index, in, row, radius, ids, cap);
}

static uint64_t rows(const void *st) {
    return larder__graph_index_rows(&((const scan *)st)->index);
}

static uint64_t bytes(const void *st) {
    const scan *s = st;
    return larder__graph_index_bytes(&s->index) + s->sweeps.size_room * sizeof *s->sweeps.sizes;
}

static void save(const void *st, larder_writer *w) {
    const scan *s = st;
    larder_write_u64(w, s->sweeps.batches);
    larder__graph_index_save(&s->index, w);
}

static int load(void *st, larder_reader *r) {
    scan *s = st;
    s->sweeps.batches = larder_read_u64(r);
    return larder__graph_index_load(&s->index, r);
}

#define SCAN_ENGINE(text, how)                                                                     \
    {                                                                                              \
        .name = text, .open = how, .close = close_scan, .update = update, .count = count,          \
        .nearest = nearest, .rows = rows, .bytes = bytes, .save = save, .load = load               \
    }

const larder__graph_engine larder__graph_exact = SCAN_ENGINE("exact", open_exact);
const larder__graph_engine larder__graph_strata = SCAN_ENGINE("strata", open_strata);
