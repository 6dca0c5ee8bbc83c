/* The engines `exact` and `strata`: an index of codes (graph_index.h) that is swept for every batch
 * (graph_sweep.h). `exact` keeps whole rows and looks at all of them, `strata` keeps frames and a
 * budget. */
#include "signal/graph_nearest.h"
#include "signal/graph_sweep.h"

typedef struct scan {
    larder__graph_index index;
    larder__graph_sweeps sweeps;
} scan;

static int open_scan(scan *s, const larder__graph_conf *conf, bool frames) {
    int rc = larder__graph_index_open(&s->index, conf, frames);
    larder__graph_sweeps_open(&s->sweeps, &s->index);
    return rc;
}

static larder__graph_conf conf_of(const larder_engine_conf *c) {
    return (larder__graph_conf){.n = c->n, .dim = c->dim, .threads = c->threads, .seed = c->seed};
}

static int open_exact(void *st, const larder_engine_conf *c, const larder_args *args) {
    (void)args;
    larder__graph_conf conf = conf_of(c);
    return open_scan(st, &conf, false);
}

static const larder_param strata_params[] = {
    {"project", "int", "0",
     "dimensions of a code, eight bits each; 0: 80, or 64 with classes below 4096 samples", 0, 512},
    {"budget", "int", "155000", "rows looked at for a sample of the batch", 1024, 4294967295.0},
    {"learn", "int", "0", "rows of a class that its directions are learnt from; 0: by n", 0, 65536},
    {0}};

/* Directions cost memory by the class, codes by the sample: with small classes there are fewer. */
static uint32_t code_length(const larder_engine_conf *c) {
    enum { SMALL_CLASS = 4096, SHORT = 80, SHORTER = 64 };
    return c->classes && c->n / c->classes < SMALL_CLASS ? SHORTER : SHORT;
}

static int open_strata(void *st, const larder_engine_conf *c, const larder_args *args) {
    larder__graph_conf conf = conf_of(c);
    conf.project = (uint32_t)larder_args_number(args, "project") & ~3u;
    conf.project = conf.project ? conf.project : code_length(c);
    conf.budget = (uint32_t)larder_args_number(args, "budget");
    conf.learn = (uint32_t)larder_args_number(args, "learn");
    return open_scan(st, &conf, conf.project < conf.dim);
}

static void close_scan(void *st) {
    scan *s = st;
    larder__graph_sweeps_close(&s->sweeps);
    larder__graph_index_close(&s->index);
}

static int update(void *st, const larder_engine_rows *in) {
    return larder__graph_index_enter(&((scan *)st)->index, in);
}

static int count(void *st, const larder_engine_rows *in, double radius, larder_engine_count *out) {
    scan *s = st;
    return larder__graph_sweeps_count(&s->sweeps, &s->index, in, radius, out);
}

static size_t nearest(void *st, const larder_engine_rows *in, size_t row, double radius,
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

#define SCAN_OPS(how)                                                                              \
    .open = how, .close = close_scan, .update = update, .count = count, .nearest = nearest,        \
    .rows = rows, .bytes = bytes, .save = save, .load = load

const larder_engine larder__engine_exact = {
    .plugin = {"exact", "looks at every row: all neighbours, and time that grows with the data",
               NULL, sizeof(scan)},
    SCAN_OPS(open_exact)};
const larder_engine larder__engine_strata = {
    .plugin = {"strata",
               "short codes in a frame a class and a budget of rows: nearly all neighbours",
               strata_params, sizeof(scan)},
    SCAN_OPS(open_strata)};
