/* The paper's own way: a graph index (HNSW, through hnswlib) over the embeddings, or over their
 * product-quantised codes. It stops at k neighbours and finds most, not all; how many is measured
 * while it runs: of every 2048th part of the samples the floats are kept, and one row of each batch
 * is compared with what is truly within the radius among them.
 *
 * The index is rebuilt from its items when a state is loaded, in the order of ids: its links may
 * then differ from those of the run that was saved, and with them the neighbours it misses.
 *
 *     make && larder --plugin ./hnsw.so … --recipe spider:engine=hnsw,tune=ef=300/links=16 */
#include "pq.h"
#include "shim.h"

#include <math.h>
#include <stdlib.h>

enum { PROBES = 2048, LEARN_FROM = 4096, WIDTH = 200, DIM_MAX = 4096 }; /* WIDTH: ef_construction */
#define UNSEEN UINT32_MAX

typedef struct hnsw {
    larder_engine_conf conf;
    uint32_t k, ef, links; /* see the parameters */
    hnsw_index *index;
    bool quantised;
    pq pq;
    size_t item_bytes;
    uint32_t *class_of; /* UNSEEN: not in the index */
    uint64_t rows, batches;
    uint32_t probe_every;
    float *probes; /* the latest floats of ids 0, probe_every, 2 probe_every … */
    double true_found, truth;
    float *waiting; /* hnswpq: rows seen before codes were learnt */
    uint32_t *waiting_ids;
    size_t waiting_count, waiting_room;
    uint8_t *code;
    uint32_t *found;
    float *distances;
} hnsw;

/* Sixteen sums side by side, as wide as the widest registers. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__)
__attribute__((target_clones("avx512f", "avx2", "default"))) /* the best this machine has */
#endif
static float
square_distance(const float *a, const float *b, size_t n) {
    float sums[16] = {0};
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (size_t k = 0; k < 16; k++)
            sums[k] += (a[i + k] - b[i + k]) * (a[i + k] - b[i + k]);
    for (; i < n; i++)
        sums[i % 16] += (a[i] - b[i]) * (a[i] - b[i]);
    float sum = 0;
    for (int k = 0; k < 16; k++)
        sum += sums[k];
    return sum;
}

static float float_distance(const void *a, const void *b, const void *arg) {
    return square_distance(a, b, *(const uint32_t *)arg);
}

static int open_index(hnsw *h) {
    hnsw_index_conf c = {.n = h->conf.n,
                         .item_bytes = h->item_bytes,
                         .distance = h->quantised ? pq_distance : float_distance,
                         .arg = h->quantised ? (const void *)&h->pq : &h->conf.dim,
                         .links = h->links,
                         .width = WIDTH,
                         .seed = (size_t)h->conf.seed};
    return hnsw_index_open(&h->index, &c) < 0
               ? larder_fail(LARDER_E_NOMEM, "graph: no memory for hnsw of %llu samples",
                             (unsigned long long)h->conf.n)
               : 0;
}

static int open_any(hnsw *h, const larder_engine_conf *conf, const larder_args *args,
                    bool quantised) {
    h->conf = *conf;
    h->k = (uint32_t)larder_args_number(args, "k");
    h->ef = (uint32_t)larder_args_number(args, "ef");
    h->links = (uint32_t)larder_args_number(args, "links");
    h->quantised = quantised;
    int rc = quantised ? pq_open(&h->pq, conf->dim, (uint32_t)larder_args_number(args, "pq")) : 0;
    if (rc < 0)
        return rc;
    h->item_bytes = quantised ? h->pq.parts : conf->dim * sizeof(float);
    h->probe_every = (uint32_t)(conf->n / PROBES + 1);
    size_t learn = conf->n / 2 + 1 < LEARN_FROM ? conf->n / 2 + 1 : LEARN_FROM;
    h->waiting_room = quantised ? learn : 0;
    h->class_of = malloc(conf->n * sizeof *h->class_of);
    h->probes = calloc(conf->n / h->probe_every + 1, conf->dim * sizeof(float));
    h->waiting = malloc((h->waiting_room + 1) * conf->dim * sizeof(float));
    h->waiting_ids = malloc((h->waiting_room + 1) * sizeof *h->waiting_ids);
    h->code = malloc(h->item_bytes);
    h->found = malloc((h->k + 1) * sizeof *h->found);
    h->distances = malloc((h->k + 1) * sizeof *h->distances);
    if (!h->class_of || !h->probes || !h->waiting || !h->waiting_ids || !h->code || !h->found ||
        !h->distances)
        return larder_fail(LARDER_E_NOMEM, "graph: no memory for hnsw of %llu samples",
                           (unsigned long long)conf->n);
    memset(h->class_of, 0xff, conf->n * sizeof *h->class_of);
    return open_index(h);
}

static int open_floats(void *st, const larder_engine_conf *c, const larder_args *args) {
    return open_any(st, c, args, false);
}
static int open_codes(void *st, const larder_engine_conf *c, const larder_args *args) {
    return open_any(st, c, args, true);
}

static void close_any(void *st) {
    hnsw *h = st;
    hnsw_index_close(&h->index);
    pq_close(&h->pq);
    free(h->class_of);
    free(h->probes);
    free(h->waiting);
    free(h->waiting_ids);
    free(h->code);
    free(h->found);
    free(h->distances);
}

static const void *item_of(hnsw *h, const float *x) {
    if (!h->quantised)
        return x;
    pq_encode(&h->pq, x, h->code);
    return h->code;
}

static int put(hnsw *h, uint32_t id, const float *x) {
    return hnsw_index_put(h->index, id, item_of(h, x)) < 0
               ? larder_fail(LARDER_E_NOMEM, "graph: no memory for hnsw")
               : 0;
}

/* Codes are learnt once enough rows were seen; then those that waited enter. */
static int wait_or_learn(hnsw *h, const larder_engine_rows *in) {
    for (size_t i = 0; i < in->n && h->waiting_count < h->waiting_room; i++) {
        h->waiting_ids[h->waiting_count] = in->ids[i];
        memcpy(h->waiting + h->waiting_count++ * h->conf.dim, in->x + i * h->conf.dim,
               h->conf.dim * sizeof(float));
    }
    if (h->waiting_count < h->waiting_room)
        return LARDER_ENGINE_LEARNING;
    int rc = pq_learn(&h->pq, h->waiting, h->waiting_count, h->conf.seed);
    for (size_t i = 0; rc == 0 && i < h->waiting_count; i++)
        rc = put(h, h->waiting_ids[i], h->waiting + i * h->conf.dim);
    h->waiting_count = 0;
    return rc;
}

static int update(void *st, const larder_engine_rows *in) {
    hnsw *h = st;
    for (size_t i = 0; i < in->n; i++) {
        uint32_t id = in->ids[i];
        h->rows += h->class_of[id] == UNSEEN;
        h->class_of[id] = h->class_of[id] == UNSEEN ? in->classes[i] : h->class_of[id];
        if (id % h->probe_every == 0)
            memcpy(h->probes + (size_t)(id / h->probe_every) * h->conf.dim, in->x + i * h->conf.dim,
                   h->conf.dim * sizeof(float));
    }
    int rc = h->quantised && !h->pq.learnt ? wait_or_learn(h, in) : 0;
    for (size_t i = 0; rc == 0 && i < in->n; i++)
        rc = put(h, in->ids[i], in->x + i * h->conf.dim);
    return rc;
}

static size_t search(hnsw *h, const float *x) {
    size_t k = h->k + 1; /* itself is among them */
    return hnsw_index_search(h->index, item_of(h, x), k, h->ef > k ? h->ef : k, h->found,
                             h->distances);
}

/* The last search against the probes. A search that was cut off at k says nothing. */
static void measure(hnsw *h, const float *x, uint32_t self, size_t found, float limit) {
    size_t inside = 0;
    for (size_t i = 0; i < found; i++)
        inside += h->distances[i] <= limit;
    if (inside > h->k)
        return;
    for (uint64_t id = 0; id < h->conf.n; id += h->probe_every) {
        const float *probe = h->probes + id / h->probe_every * h->conf.dim;
        if (id == self || h->class_of[id] == UNSEEN ||
            square_distance(x, probe, h->conf.dim) > limit)
            continue;
        h->truth++;
        for (size_t i = 0; i < found; i++)
            if (h->found[i] == id && h->distances[i] <= limit)
                h->true_found++;
    }
}

static int count(void *st, const larder_engine_rows *in, double radius, larder_engine_count *out) {
    hnsw *h = st;
    float limit = (float)(radius * radius);
    for (size_t i = 0; i < in->n; i++) {
        const float *x = in->x + i * h->conf.dim;
        size_t found = search(h, x);
        out[i] = (larder_engine_count){0, 0};
        for (size_t k = 0; k < found; k++)
            if (h->found[k] != in->ids[i] && h->distances[k] <= limit) {
                if (h->class_of[h->found[k]] == h->class_of[in->ids[i]])
                    out[i].same++;
                else
                    out[i].other++;
            }
        if (i == h->batches % in->n)
            measure(h, x, in->ids[i], found, limit);
    }
    h->batches++;
    return 0;
}

static size_t nearest(void *st, const larder_engine_rows *in, size_t row, double radius,
                      uint64_t *ids, size_t cap) {
    hnsw *h = st;
    float limit = (float)(radius * radius);
    size_t found = search(h, in->x + row * h->conf.dim), n = 0;
    for (size_t k = found; k-- > 0 && n < cap;) /* the shim gives the farthest first */
        if (h->found[k] != in->ids[row] && h->distances[k] <= limit &&
            h->class_of[h->found[k]] == h->class_of[in->ids[row]])
            ids[n++] = h->found[k];
    return n;
}

static uint64_t rows(const void *st) { return ((const hnsw *)st)->rows; }

static uint64_t bytes(const void *st) {
    const hnsw *h = st;
    uint64_t book = h->quantised ? 256 * sizeof(float) * (h->conf.dim + 256ull * h->pq.parts) : 0;
    return hnsw_index_bytes(h->index) + h->conf.n * sizeof *h->class_of + book +
           (h->conf.n / h->probe_every + 1 + h->waiting_room) * h->conf.dim * sizeof(float);
}

static double recall(const void *st) {
    const hnsw *h = st;
    return h->truth > 0 ? h->true_found / h->truth : NAN;
}

/* ---- saved state: items, not links ----------------------------------------------------------- */

static void save(const void *st, larder_writer *w) {
    const hnsw *h = st;
    larder_write_u64(w, h->batches);
    larder_write_f64(w, h->true_found);
    larder_write_f64(w, h->truth);
    if (h->quantised)
        pq_save(&h->pq, w);
    larder_write_u64(w, h->waiting_count);
    larder_write_bytes(w, h->waiting_ids, h->waiting_count * sizeof *h->waiting_ids);
    larder_write_bytes(w, h->waiting, h->waiting_count * h->conf.dim * sizeof(float));
    larder_write_bytes(w, h->class_of, h->conf.n * sizeof *h->class_of);
    larder_write_bytes(w, h->probes,
                       (h->conf.n / h->probe_every + 1) * h->conf.dim * sizeof(float));
    for (uint64_t id = 0; id < h->conf.n; id++) {
        const void *item = hnsw_index_item(h->index, (uint32_t)id);
        larder_write_u32(w, item != NULL);
        if (item)
            larder_write_bytes(w, item, h->item_bytes);
    }
}

static bool all_finite(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(x[i]) < 1e15f))
            return false;
    return true;
}

static int load_waiting(hnsw *h, larder_reader *r) {
    uint64_t count = larder_read_u64(r);
    if (count > h->waiting_room)
        return larder_read_reject(r, "more rows wait in its index than can");
    h->waiting_count = (size_t)count;
    larder_read_bytes(r, h->waiting_ids, count * sizeof *h->waiting_ids);
    larder_read_bytes(r, h->waiting, count * h->conf.dim * sizeof(float));
    for (uint64_t i = 0; i < count; i++)
        if (h->waiting_ids[i] >= h->conf.n)
            return larder_read_reject(r, "a sample of its index is out of range");
    return all_finite(h->waiting, count * h->conf.dim)
               ? 0
               : larder_read_reject(r, "a row of its index is no number");
}

static int load_items(hnsw *h, larder_reader *r) {
    float item[DIM_MAX];
    for (uint64_t id = 0; id < h->conf.n; id++) {
        uint32_t there = larder_read_u32(r);
        if (!there)
            continue;
        larder_read_bytes(r, item, h->item_bytes);
        if (h->class_of[id] == UNSEEN || (h->quantised && !h->pq.learnt) ||
            (!h->quantised && !all_finite(item, h->conf.dim)))
            return larder_read_reject(r, "a row of its index is no number or nobody's");
        if (larder_read_status(r) < 0)
            break;
        if (hnsw_index_put(h->index, (uint32_t)id, item) < 0)
            return larder_fail(LARDER_E_NOMEM, "graph: no memory for hnsw");
    }
    return larder_read_status(r);
}

static int load(void *st, larder_reader *r) {
    hnsw *h = st;
    h->batches = larder_read_u64(r);
    h->true_found = larder_read_f64(r);
    h->truth = larder_read_f64(r);
    int rc = h->quantised ? pq_load(&h->pq, r) : 0;
    if (rc == 0)
        rc = load_waiting(h, r);
    if (rc < 0)
        return rc;
    larder_read_bytes(r, h->class_of, h->conf.n * sizeof *h->class_of);
    size_t probes = (size_t)(h->conf.n / h->probe_every + 1) * h->conf.dim;
    larder_read_bytes(r, h->probes, probes * sizeof(float));
    if (!all_finite(h->probes, probes))
        return larder_read_reject(r, "a row of its index is no number");
    h->rows = 0;
    for (uint64_t id = 0; id < h->conf.n; id++)
        h->rows += h->class_of[id] != UNSEEN;
    return load_items(h, r);
}

#define SEARCH_PARAMS                                                                              \
    {"k", "int", "500", "neighbours asked for", 1, 100000},                                        \
        {"ef", "int", "500", "width of the search", 1, 100000}, {                                  \
        "links", "int", "16", "links of a node", 2, 128                                            \
    }
static const larder_param float_params[] = {SEARCH_PARAMS, {0}};
static const larder_param code_params[] = {
    SEARCH_PARAMS, {"pq", "int", "64", "bytes of a code", 1, 512}, {0}};

#define HNSW_OPS(how)                                                                              \
    .open = how, .close = close_any, .update = update, .count = count, .nearest = nearest,         \
    .rows = rows, .bytes = bytes, .recall = recall, .save = save, .load = load

static const larder_engine hnsw_floats = {
    .plugin = {"hnsw", "SpiderCache's own: an HNSW graph over the embeddings", float_params,
               sizeof(hnsw)},
    HNSW_OPS(open_floats)};
static const larder_engine hnsw_codes = {
    .plugin = {"hnswpq", "the same over product-quantised codes", code_params, sizeof(hnsw)},
    HNSW_OPS(open_codes)};

int larder_plugin_load(void) {
    int rc = larder_register_engine(&hnsw_floats);
    return rc < 0 ? rc : larder_register_engine(&hnsw_codes);
}
