/* SpiderCache's score: how a sample lies among the others in the space of embeddings (Eq. 4).
 *
 * score = ln(1/max(1, x_same) + x_other/cap + 1), where x_same and x_other are the neighbours
 * within a radius of the same and of other classes, both scaled by cap/T if there are T > cap of
 * them. A sample without friends, or among strangers, scores high. A sample that was never seen
 * keeps the score NAN, which samplers take for the highest.
 *
 * The embeddings of the served samples update an index (graph_engine.h) and are counted against it:
 * the heavy half. The light half writes scores and names the samples of the batch with most
 * neighbours of their class, which may stand in for these. */
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/spec.h"
#include "plugins.h"
#include "signal/graph_batch.h"
#include "signal/graph_engine.h"
#include "signal/graph_probe.h"
#include "signal/graph_radius.h"
#include "signal/graph_result.h"
#include "signal/graph_store.h"

#include <math.h>

enum { STAGES = 4 }; /* of the time a batch takes, as in the paper's Table 1 */

typedef struct graph {
    larder__graph_shape shape;            /* first: as graph_result.h wants it */
    larder_engine_conf conf;              /* dim 0: not known yet */
    const larder_engine *wanted, *engine; /* wanted NULL: auto; engine NULL: not open */
    char *tune;                           /* the engine's parameters */
    void *index;
    larder__graph_radius radius;
    larder__graph_batch batch;
    larder__graph_probe probe; /* of use while the radius is steered */
    float *pairs;
    double cap;
    bool normalise;
    uint8_t *named;         /* a bit a sample: offered as a hub in this epoch */
    uint64_t named_epoch;   /* which one that was */
    uint64_t dropped;       /* reports: of another dimension, or out of memory */
    double seconds[STAGES]; /* of the batch prepared last */
} graph;

static const larder_param params[] = {
    {"engine", "text", "auto",
     "what finds neighbours; auto: exact while a batch takes it 60 ms at most, else strata", 0, 0},
    {"tune", "text", "", "parameters of an engine that is named, joined by /: project=64/learn=200",
     0, 0},
    {"radius", "text", "auto",
     "distance of neighbours; auto: steered to `degree` of them; the paper's is -ln(alpha)/lambda",
     0, 0},
    {"degree", "float", "150", "neighbours that the median of all samples shall have", 1, 1e6},
    {"normalise", "bool", "1", "bring embeddings to unit length", 0, 0},
    {"cap", "int", "500", "neighbours that count; more are scaled down to it", 1, 1000000},
    {"threads", "int", "1", "that count a batch together", 1, 64},
    {"hubs", "int", "4", "samples of a batch offered as stand-ins, best first", 0, 64},
    {"list", "int", "500", "ids that one of them may stand in for, nearest first", 1, 100000},
    {0}};

static uint32_t whole(const larder_args *args, const char *name) {
    return (uint32_t)larder_args_number(args, name);
}

static int init(void *st, uint64_t n, const larder_args *args) {
    graph *g = st;
    if (n >= UINT32_MAX)
        return larder__fail(LARDER_E_RANGE, "graph: %llu samples are more than 2^32",
                            (unsigned long long)n);
    g->conf = (larder_engine_conf){.n = n, .threads = whole(args, "threads"), .seed = 1};
    g->shape = (larder__graph_shape){n, whole(args, "hubs"), whole(args, "list")};
    g->cap = larder_args_number(args, "cap");
    g->normalise = larder_args_number(args, "normalise") != 0;
    const char *radius = larder_args_text(args, "radius");
    larder__graph_radius_auto(&g->radius, larder_args_number(args, "degree"));
    if (strcmp(radius, "auto") != 0) {
        double fixed = 0;
        if (larder__parse_f64("radius", radius, &fixed) < 0 || !(fixed > 0 && fixed < 1e9))
            return larder__fail(LARDER_E_ARGS, "graph: radius is auto or a distance, not \"%.40s\"",
                                radius);
        g->radius = (larder__graph_radius){.radius = fixed};
    }
    const char *engine = larder_args_text(args, "engine"), *tune = larder_args_text(args, "tune");
    if (strcmp(engine, "auto") != 0 && !(g->wanted = larder__engine_find(engine)))
        return LARDER_E_ARGS;
    if (!g->wanted && tune[0])
        return larder__fail(LARDER_E_ARGS, "graph: tune needs engine=NAME, not auto");
    larder_args tuned; /* what is wrong there must be said now, not with the first batch */
    int rc =
        g->wanted ? larder__args_parse(&tuned, "engine", &g->wanted->plugin, tune, '/', NULL) : 0;
    if (rc < 0)
        return rc;
    if (g->wanted)
        larder__args_free(&tuned);
    g->tune = larder__strdup(tune);
    g->named = larder__calloc(n / 8 + 1, 1);
    return g->tune && g->named ? 0
                               : larder__fail(LARDER_E_NOMEM, "graph: no memory for %llu samples",
                                              (unsigned long long)n);
}

static void close_index(graph *g) {
    if (g->engine)
        g->engine->close(g->index);
    larder__free(g->index);
    g->engine = NULL;
    g->index = NULL;
    g->conf.dim = 0;
    larder__graph_probe_close(&g->probe);
    larder__graph_batch_free(&g->batch); /* its rooms are for this dimension */
}

static void fini(void *st) {
    graph *g = st;
    close_index(g);
    larder__free(g->pairs);
    larder__free(g->named);
    larder__free(g->tune);
}

/* How many classes there are shows in the labels of a first batch, nearly. */
static uint32_t classes_of(const larder_report *rep) {
    int64_t classes = (int64_t)rep->classes;
    for (size_t i = 0; rep->labels && i < rep->n; i++)
        if (rep->labels[i] >= classes && rep->labels[i] < LARDER__CLASSES_MAX)
            classes = rep->labels[i] + 1;
    return classes < LARDER__CLASSES_MAX ? (uint32_t)classes : LARDER__CLASSES_MAX;
}

/* The dimension is known from the first report on. */
static int open_index(graph *g, size_t dim) {
    if (dim == 0 || dim > LARDER__DIM_MAX)
        return larder__fail(LARDER_E_RANGE, "graph: embeddings have 1 to %d dimensions, not %zu",
                            LARDER__DIM_MAX, dim);
    g->conf.dim = (uint32_t)dim;
    const larder_engine *e =
        g->wanted ? g->wanted : larder__graph_engine_auto(g->conf.n, g->conf.dim);
    larder_args args;
    int rc = larder__args_parse(&args, "engine", &e->plugin, g->tune, '/', NULL);
    if (rc < 0) {
        g->conf.dim = 0;
        return rc;
    }
    g->index = larder__calloc(1, e->plugin.state_size);
    g->engine = g->index ? e : NULL;
    rc = g->index ? e->open(g->index, &g->conf, &args) : LARDER_E_NOMEM;
    larder__args_free(&args);
    if (rc == 0)
        rc = larder__graph_probe_open(&g->probe, g->conf.dim);
    if (rc == 0 && !g->pairs) {
        g->pairs = larder__malloc(LARDER__GRAPH_PAIRS * sizeof *g->pairs);
        rc = g->pairs ? 0 : LARDER_E_NOMEM;
    }
    if (rc < 0)
        close_index(g);
    return rc;
}

/* ---- the heavy half -------------------------------------------------------------------------- */

static double take(graph *g, int stage, double since) {
    double now = larder__thread_seconds();
    if (stage >= 0)
        g->seconds[stage] = now - since;
    return now;
}

static float score_of(const graph *g, larder_engine_count c) { /* Eq. 4 */
    double same = (double)c.same, other = (double)c.other, total = same + other;
    double scale = total > g->cap ? g->cap / total : 1;
    return (float)log(1 / fmax(1, same * scale) + other * scale / g->cap + 1);
}

static void write_scores(graph *g, larder__graph_result *out) {
    const larder__graph_batch *b = &g->batch;
    for (size_t i = 0; i < b->rows.n; i++)
        out->scored[i] =
            (larder__graph_scored){.id = b->ids[i], .score = score_of(g, b->counts[i])};
    out->rows = (uint32_t)b->rows.n;
}

static bool is_named(const graph *g, uint32_t id) { return g->named[id / 8] >> id % 8 & 1; }

/* The rows with most neighbours of their class, the lower id first among equals. None is offered
 * twice in an epoch: hubs that are in the cache already stand in for others and so come in every
 * batch, have most neighbours, and would leave no place to new ones. */
static void write_hubs(graph *g, uint64_t epoch, larder__graph_result *out) {
    larder__graph_batch *b = &g->batch;
    if (epoch != g->named_epoch)
        memset(g->named, 0, g->conf.n / 8 + 1);
    g->named_epoch = epoch;
    for (size_t i = 0; i < b->rows.n; i++)
        if (is_named(g, b->ids[i]))
            b->counts[i].same = 0;
    while (out->hubs < g->shape.hubs) {
        size_t best = 0;
        for (size_t i = 1; i < b->rows.n; i++)
            if (b->counts[i].same > b->counts[best].same)
                best = i;
        if (b->rows.n == 0 || b->counts[best].same < 1)
            return;
        larder__graph_hub *hub = larder__graph_result_hub(&g->shape, out, out->hubs);
        hub->key = b->ids[best];
        hub->count =
            g->engine->nearest(g->index, &b->rows, best, g->radius.radius, hub->ids, g->shape.list);
        b->counts[best].same = 0;
        g->named[hub->key / 8] |= (uint8_t)(1u << hub->key % 8);
        if (hub->count)
            out->hubs++;
    }
}

static int score_batch(graph *g, const larder_report *rep, larder__graph_result *out) {
    double at = take(g, -1, 0);
    if (!g->engine)
        g->conf.classes = classes_of(rep);
    int rc = g->engine ? 0 : open_index(g, rep->dim);
    if (rc == 0 && rep->dim != g->conf.dim)
        rc = larder__fail(LARDER_E_ARGS, "graph: embeddings had %u dimensions, now %zu",
                          g->conf.dim, rep->dim);
    if (rc == 0)
        rc = larder__graph_batch_fill(&g->batch, rep, g->conf.n, g->normalise);
    at = take(g, 0, at);
    larder__graph_batch *b = &g->batch;
    if (rc == 0)
        rc = g->engine->update(g->index, &b->rows);
    at = take(g, 1, at);
    if (rc >= 0 && g->radius.steered)
        larder__graph_probe_enter(&g->probe, &b->rows, g->conf.dim);
    if (rc != 0)
        return rc;
    uint64_t rows = g->engine->rows(g->index);
    larder__graph_radius_guess(&g->radius, &b->rows, g->conf.dim, rows, g->pairs);
    if (g->radius.radius <= 0)
        return 0; /* one sample says nothing about distances */
    larder_engine_rows all = larder__graph_probe_ask(&g->probe, b, g->conf.dim, rep->n);
    rc = g->engine->count(g->index, &all, g->radius.radius, b->counts);
    at = take(g, 2, at);
    if (rc < 0)
        return rc;
    write_scores(g, out);
    for (uint32_t i = 0; i < g->probe.asked; i++)
        b->totals[i] = b->counts[g->probe.at[i]].same + b->counts[g->probe.at[i]].other;
    write_hubs(g, rep->epoch, out);
    larder__graph_radius_steer(&g->radius, b->totals, g->probe.asked, rows);
    take(g, 3, at);
    return 0;
}

static void prepare(void *st, const larder_report *rep, void *result) {
    graph *g = st;
    larder__graph_result *out = result;
    *out = (larder__graph_result){.room = rep->n};
    if (rep->embeddings && rep->n && score_batch(g, rep, out) < 0) {
        g->dropped++;
        out->rows = out->hubs = 0;
    }
}

/* ---- figures --------------------------------------------------------------------------------- */

static const larder_figure figures[] = {
    {"graph_radius", "", "distance within which two samples are neighbours"},
    {"graph_rows", "samples", "samples in the index"},
    {"graph_bytes", "bytes", "memory of the index"},
    {"graph_recall", "", "measured share of the true neighbours that the engine finds"},
    {"graph_dropped", "reports", "reports without effect: no memory, or another dimension"},
    {"graph_bad_rows", "rows", "embeddings that were not finite"},
    {"graph_take_seconds", "seconds", "CPU of the last batch: taking and normalising embeddings"},
    {"graph_update_seconds", "seconds", "CPU of the last batch: entering them into the index"},
    {"graph_count_seconds", "seconds", "CPU of the last batch: counting neighbours"},
    {"graph_score_seconds", "seconds", "CPU of the last batch: scores and hubs"},
    {0}};

static double figure(const void *st, size_t i) {
    const graph *g = st;
    switch (i) {
    case 0:
        return g->radius.radius;
    case 1:
        return g->engine ? (double)g->engine->rows(g->index) : 0;
    case 2:
        return g->engine ? (double)g->engine->bytes(g->index) : 0;
    case 3:
        return g->engine && g->engine->recall ? g->engine->recall(g->index) : 1;
    case 4:
        return (double)g->dropped;
    case 5:
        return (double)g->batch.bad;
    default:
        return g->seconds[(i - 6) % STAGES];
    }
}

/* ---- saved state ----------------------------------------------------------------------------- */

static void save(const void *st, larder_writer *w) {
    const graph *g = st;
    larder_write_u32(w, g->conf.dim);
    larder_write_u32(w, g->conf.classes);
    larder_write_u64(w, g->named_epoch);
    larder_write_bytes(w, g->named, g->conf.n / 8 + 1);
    larder_write_u64(w, g->dropped);
    larder_write_u64(w, g->batch.bad);
    larder__graph_radius_save(&g->radius, w);
    if (!g->engine)
        return;
    char name[LARDER__ENGINE_LETTERS] = {0};
    memcpy(name, g->engine->plugin.name, strlen(g->engine->plugin.name));
    larder_write_bytes(w, name, sizeof name);
    larder__graph_probe_save(&g->probe, g->conf.dim, w);
    g->engine->save(g->index, w);
}

/* `auto` may mean another engine on another machine: what was saved goes on as it was. */
static const larder_engine *saved_engine(const graph *g, larder_reader *r) {
    char name[LARDER__ENGINE_LETTERS + 1] = {0};
    larder_read_bytes(r, name, LARDER__ENGINE_LETTERS);
    const larder_engine *e = (const larder_engine *)larder__plugin_named(LARDER_SORT_ENGINE, name);
    return g->wanted && g->wanted != e ? NULL : e;
}

static int load(void *st, larder_reader *r) {
    graph *g = st;
    uint32_t dim = larder_read_u32(r);
    uint32_t classes = larder_read_index(r, LARDER__CLASSES_MAX + 1, false);
    g->named_epoch = larder_read_u64(r);
    larder_read_bytes(r, g->named, g->conf.n / 8 + 1);
    g->dropped = larder_read_u64(r);
    g->batch.bad = larder_read_u64(r);
    int rc = larder__graph_radius_load(&g->radius, r);
    if (rc < 0 || dim == 0)
        return rc < 0 ? rc : larder_read_status(r);
    const larder_engine *saved = saved_engine(g, r), *wanted = g->wanted;
    if (!saved || dim > LARDER__DIM_MAX)
        return larder_read_reject(r, "its neighbours were found by another engine");
    close_index(g);
    g->conf.classes = classes;
    g->wanted = saved;
    rc = open_index(g, dim);
    g->wanted = wanted;
    if (rc == 0)
        rc = larder__graph_probe_load(&g->probe, dim, g->conf.n, r);
    if (rc == 0)
        rc = g->engine->load(g->index, r);
    if (rc < 0)
        close_index(g);
    return rc;
}

const larder_signal larder__signal_graph = {
    .plugin = {.name = "graph",
               .summary = "neighbours of the own and of other classes among all embeddings "
                          "(SpiderCache)",
               .params = params,
               .state_size = sizeof(graph)},
    .init = init,
    .fini = fini,
    .save = save,
    .load = load,
    .result_size = larder__graph_result_size,
    .prepare = prepare,
    .apply = larder__graph_result_apply,
    .check = larder__graph_result_sound,
    .figures = figures,
    .figure = figure,
};
