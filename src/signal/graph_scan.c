/* The engines `exact` and `strata`: codes of all samples are scanned chunk by chunk with a SIMD
 * kernel. `exact` codes every dimension in eight bits and looks at every row. `strata` codes a
 * projection in four (for the same memory twice the dimensions, hence the better distances) and
 * keeps to a budget of rows a query by a plan (graph_plan.h); what it did not look at is
 * extrapolated class by class. */
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "signal/graph_engine.h"
#include "signal/graph_plan.h"
#include "signal/graph_project.h"
#include "signal/graph_scale.h"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS_MAX = 64 };

typedef struct scan {
    larder__graph_conf conf;
    const larder__graph_kernel *kernel;
    larder__graph_store store;
    larder__graph_scale scale;
    larder__graph_plan plan;
    float *projection; /* NULL: all dimensions are coded */
    uint32_t dims, budget;
    uint64_t batches; /* counted; turns the sample of chunks */
    /* The batch at hand, room for `room` rows. */
    size_t room, packed_bytes;
    float *y, *space;
    uint8_t *codes;        /* n x dims of the store */
    unsigned char *packed; /* queries as the kernel wants them */
    int32_t *bounds;
    uint32_t *chunk_of, *classes;
} scan;

static int open_scan(void **out, const larder__graph_conf *conf, uint32_t dims, uint32_t budget) {
    scan *s = *out = larder__calloc(1, sizeof *s);
    if (!s)
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for an engine");
    s->conf = *conf;
    s->dims = dims;
    s->budget = budget;
    s->kernel = larder__graph_kernel_best();
    s->scale.top = budget ? 15 : 255;
    int rc = larder__graph_store_open(&s->store, conf->n, dims, budget != 0, budget != 0);
    s->packed_bytes = (s->kernel->packed_bytes(s->store.dims) + 63) & ~(size_t)63;
    if (rc == 0 && dims < conf->dim)
        rc = larder__graph_projection(&s->projection, conf->dim, dims, conf->seed);
    return rc;
}

static int open_exact(void **out, const larder__graph_conf *conf) {
    return open_scan(out, conf, conf->dim, 0);
}

static int open_strata(void **out, const larder__graph_conf *conf) {
    uint32_t dims = conf->project < conf->dim ? conf->project : conf->dim;
    return open_scan(out, conf, dims, conf->budget);
}

static void free_batch(scan *s) {
    larder__free(s->y);
    larder__free(s->space);
    larder__free(s->codes);
    larder__free(s->packed);
    larder__free(s->bounds);
    larder__free(s->chunk_of);
    larder__free(s->classes);
    s->y = s->space = NULL;
    s->codes = s->packed = NULL;
    s->bounds = NULL;
    s->chunk_of = s->classes = NULL;
    s->room = 0;
}

static void close_scan(void *st) {
    scan *s = st;
    if (!s)
        return;
    free_batch(s);
    larder__graph_plan_free(&s->plan);
    larder__graph_store_close(&s->store);
    larder__free(s->projection);
    larder__free(s);
}

static int make_room(scan *s, size_t n) {
    if (n <= s->room)
        return 0;
    free_batch(s);
    s->y = s->projection ? larder__malloc(n * s->dims * sizeof *s->y) : NULL;
    s->space = larder__malloc(n * s->dims * sizeof *s->space);
    s->codes = larder__malloc(n * s->store.dims);
    s->packed = larder__memalign(64, n * s->packed_bytes);
    s->bounds = larder__malloc(n * sizeof *s->bounds);
    s->chunk_of = larder__malloc(n * sizeof *s->chunk_of);
    s->classes = larder__malloc(n * sizeof *s->classes);
    if ((s->projection && !s->y) || !s->space || !s->codes || !s->packed || !s->bounds ||
        !s->chunk_of || !s->classes) {
        free_batch(s);
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for a batch of %zu", n);
    }
    s->room = n;
    return 0;
}

static int update(void *st, const larder__graph_rows *in) {
    scan *s = st;
    int rc = make_room(s, in->n);
    const float *x = in->x;
    if (rc == 0 && s->projection) {
        larder__graph_project(s->projection, s->conf.dim, s->dims, in->x, in->n, s->y);
        x = s->y;
    }
    if (rc == 0)
        larder__graph_scale_follow(&s->scale, &s->store, x, in->n * s->dims, s->space);
    for (size_t i = 0; rc == 0 && i < in->n; i++) {
        uint8_t *codes = s->codes + i * s->store.dims;
        int32_t row_const;
        larder__graph_scale_code(&s->scale, x + i * s->dims, s->dims, s->store.dims, codes,
                                 &row_const);
        rc = larder__graph_store_classes(&s->store, in->classes[i] + 1);
        if (rc == 0)
            rc = larder__graph_store_put(&s->store, in->ids[i], in->classes[i], codes, row_const);
    }
    return rc;
}

/* ---- counting -------------------------------------------------------------------------------- */

typedef struct share { /* of the queries, for one thread */
    const scan *s;
    size_t from, to;
    larder__graph_count *out;
    pthread_t thread;
    int rc;
} share;

typedef struct sweep {                /* of one class by one share */
    uint32_t *order;                  /* its queries, finest level first */
    uint32_t *level;                  /* by query */
    uint32_t *hits;                   /* by query */
    uint32_t upto[LARDER__LEVELS];    /* queries of this level or finer */
    uint64_t visited[LARDER__LEVELS]; /* rows of chunks of this level, then: or coarser */
} sweep;

/* Queries by level for one class: the common one, unless the plan has a finer one. */
static void sort_queries(const share *h, sweep *w, uint32_t class, size_t *next) {
    const larder__graph_plan *p = &h->s->plan;
    for (size_t q = h->from; q < h->to; q++)
        w->level[q - h->from] = p->common;
    while (*next < p->count && p->finer[*next].class < class)
        ++*next;
    for (; *next < p->count && p->finer[*next].class == class; ++*next) {
        const larder__graph_finer *f = &p->finer[*next];
        if (f->query >= h->from && f->query < h->to)
            w->level[f->query - h->from] = f->level;
    }
    uint32_t start[LARDER__LEVELS + 1] = {0};
    size_t n = h->to - h->from;
    for (size_t q = 0; q < n; q++)
        start[w->level[q] + 1]++;
    for (int l = 0; l < LARDER__LEVELS; l++) {
        start[l + 1] += start[l];
        w->upto[l] = start[l + 1];
        w->visited[l] = 0;
    }
    for (size_t q = 0; q < n; q++) {
        w->order[start[w->level[q]]++] = (uint32_t)(q + h->from);
        w->hits[q] = 0;
    }
}

/* The first `count` queries in order against one chunk. */
static void scan_chunk(const share *h, sweep *w, uint32_t chunk, uint32_t count) {
    const scan *s = h->s;
    const uint8_t *codes = larder__chunk_codes(&s->store, chunk);
    const int32_t *consts = larder__chunk_consts(&s->store, chunk);
    larder__graph_count_fn *count_rows =
        s->store.halves ? s->kernel->count_halves : s->kernel->count;
    for (uint32_t at = 0; at < count; at += LARDER__TILE_QUERIES) {
        const void *packed[LARDER__TILE_QUERIES];
        int32_t bounds[LARDER__TILE_QUERIES];
        uint32_t hits[LARDER__TILE_QUERIES] = {0};
        for (uint32_t k = 0; k < LARDER__TILE_QUERIES; k++) {
            uint32_t q = w->order[at + k < count ? at + k : count - 1];
            packed[k] = s->packed + q * s->packed_bytes;
            bounds[k] = s->bounds[q];
        }
        count_rows(codes, consts, s->store.groups, packed, bounds, hits);
        for (uint32_t k = 0; k < LARDER__TILE_QUERIES && at + k < count; k++) {
            uint32_t q = w->order[at + k];
            w->hits[q - h->from] += hits[k] - (hits[k] && s->chunk_of[q] == chunk); /* itself */
        }
    }
}

static void sweep_class(const share *h, sweep *w, uint32_t class) {
    const larder__graph_store *store = &h->s->store;
    uint64_t shift = larder__mix64(class) + h->s->batches;
    uint32_t chunk = store->classes[class].first, chunks = 0;
    for (; chunk != LARDER__NO_CHUNK; chunk = store->chunks[chunk].next, chunks++) {
        uint32_t level = larder__graph_plan_level(chunks, shift);
        w->visited[level] += larder__chunk_used(store, chunk);
        if (w->upto[level])
            scan_chunk(h, w, chunk, w->upto[level]);
    }
    for (int l = LARDER__LEVELS - 2; l >= 0; l--)
        w->visited[l] += w->visited[l + 1];
    double rows = store->classes[class].rows;
    for (size_t q = h->from; q < h->to; q++) {
        uint32_t level = w->level[q - h->from];
        /* Of few chunks a sample may hold none: then what is found stands for 2^level times as
         * much, which is right on average. Of many, the share of rows looked at is known. */
        double weight = level == 0 ? 1 : (double)(1u << level);
        if (level && chunks >> level >= 2)
            weight = rows / (double)w->visited[level];
        float found = (float)(w->hits[q - h->from] * weight);
        if (h->s->classes[q] == class)
            h->out[q].same += found;
        else
            h->out[q].other += found;
    }
}

static void *count_share(void *arg) {
    share *h = arg;
    size_t n = h->to - h->from, next = 0;
    uint32_t *space = larder__malloc(n * 3 * sizeof *space);
    if (!space) {
        h->rc = LARDER_E_NOMEM;
        return NULL;
    }
    sweep w = {.order = space, .level = space + n, .hits = space + 2 * n};
    for (uint32_t class = 0; class < h->s->store.class_count; class ++)
        if (h->s->store.classes[class].rows) {
            sort_queries(h, &w, class, &next);
            sweep_class(h, &w, class);
        }
    larder__free(space);
    return NULL;
}

/* Queries as the kernel wants them, from what update left in the store. */
static void make_queries(scan *s, const larder__graph_rows *in, double radius) {
    uint32_t dims = s->store.dims;
    int32_t half = larder__graph_scale_half(&s->scale, radius);
    int8_t query[LARDER__DIM_MAX];
    for (size_t i = 0; i < in->n; i++) {
        uint32_t place = s->store.place[in->ids[i]], chunk = place / LARDER__CHUNK_ROWS;
        int32_t row_const = larder__chunk_consts(&s->store, chunk)[place % LARDER__CHUNK_ROWS];
        uint8_t *codes = s->codes + i * dims;
        larder__chunk_get(&s->store, chunk, place % LARDER__CHUNK_ROWS, codes);
        for (uint32_t k = 0; k < dims; k++)
            query[k] = (int8_t)(codes[k] - 128);
        s->kernel->pack(query, dims, s->packed + i * s->packed_bytes);
        s->bounds[i] = larder__graph_scale_bound(codes, dims, row_const, half);
        s->chunk_of[i] = chunk;
        s->classes[i] = s->store.chunks[chunk].class;
    }
}

/* Each thread takes some of the queries: what a query counts is not touched by how many. */
static int count_all(scan *s, size_t n, larder__graph_count *out) {
    share shares[THREADS_MAX];
    size_t threads = s->conf.threads < THREADS_MAX ? s->conf.threads : THREADS_MAX;
    size_t tiles = (n + LARDER__TILE_QUERIES - 1) / LARDER__TILE_QUERIES;
    threads = threads < tiles ? threads : tiles;
    threads = threads ? threads : 1;
    size_t started = 1;
    for (size_t t = 0; t < threads; t++) {
        size_t to = (t + 1) * tiles / threads * LARDER__TILE_QUERIES;
        shares[t] = (share){.s = s,
                            .from = t * tiles / threads * LARDER__TILE_QUERIES,
                            .to = to < n ? to : n,
                            .out = out};
    }
    while (started < threads &&
           pthread_create(&shares[started].thread, NULL, count_share, &shares[started]) == 0)
        started++;
    count_share(&shares[0]);
    int rc = shares[0].rc;
    for (size_t t = 1; t < threads; t++) {
        if (t < started)
            pthread_join(shares[t].thread, NULL);
        else
            count_share(&shares[t]); /* no more threads to be had */
        rc = shares[t].rc < 0 ? shares[t].rc : rc;
    }
    return rc < 0 ? larder__fail(rc, "graph: no memory for counting %zu rows", n) : 0;
}

static int count(void *st, const larder__graph_rows *in, double radius, larder__graph_count *out) {
    scan *s = st;
    make_queries(s, in, radius);
    for (size_t i = 0; i < in->n; i++)
        out[i] = (larder__graph_count){0, 0};
    int rc = larder__graph_plan_make(&s->plan, &s->store, s->budget, s->codes, s->classes, in->n);
    if (rc == 0 && in->n)
        rc = count_all(s, in->n, out);
    s->batches++;
    return rc;
}

/* ---- the nearest of one ---------------------------------------------------------------------- */

typedef struct near {
    int32_t margin; /* how far inside the radius: the more, the nearer */
    uint32_t id;
} near;

static int nearer_first(const void *a, const void *b) {
    const near *x = a, *y = b;
    return x->margin != y->margin ? (x->margin < y->margin) - (x->margin > y->margin)
                                  : (x->id > y->id) - (x->id < y->id);
}

/* Keeps the best `cap` in twice that much room: when it is full, the worse half goes. */
static size_t keep(near *list, size_t count, size_t cap, near one) {
    list[count++] = one;
    if (count < 2 * cap)
        return count;
    qsort(list, count, sizeof *list, nearer_first);
    return cap;
}

static size_t nearest(void *st, const larder__graph_rows *in, size_t row, double radius,
                      uint64_t *ids, size_t cap) {
    scan *s = st;
    (void)radius; /* the bounds of the queries hold it since count */
    near *list = larder__malloc(2 * cap * sizeof *list);
    if (!list)
        return 0;
    int8_t query[LARDER__DIM_MAX];
    uint32_t dims = s->store.dims, groups = s->store.groups;
    for (uint32_t k = 0; k < dims; k++)
        query[k] = (int8_t)(s->codes[row * dims + k] - 128);
    size_t count = 0;
    uint32_t chunk = s->store.classes[s->classes[row]].first;
    for (; chunk != LARDER__NO_CHUNK; chunk = s->store.chunks[chunk].next) {
        int32_t dots[LARDER__CHUNK_ROWS];
        const int32_t *consts = larder__chunk_consts(&s->store, chunk);
        const uint8_t *codes = larder__chunk_codes(&s->store, chunk);
        if (s->store.halves)
            larder__chunk_dots_halves(codes, groups, query, dots);
        else
            larder__chunk_dots(codes, groups, query, dots);
        for (uint32_t i = 0; i < LARDER__CHUNK_ROWS; i++) {
            int32_t margin = dots[i] - consts[i] - s->bounds[row];
            uint32_t id = larder__chunk_ids(&s->store, chunk)[i];
            if (margin >= 0 && id != in->ids[row])
                count = keep(list, count, cap, (near){margin, id});
        }
    }
    qsort(list, count, sizeof *list, nearer_first);
    count = count < cap ? count : cap;
    for (size_t i = 0; i < count; i++)
        ids[i] = list[i].id;
    larder__free(list);
    return count;
}

/* ---- the rest -------------------------------------------------------------------------------- */

static uint64_t rows(const void *st) { return ((const scan *)st)->store.rows; }

static uint64_t bytes(const void *st) {
    const scan *s = st;
    return larder__graph_store_bytes(&s->store) +
           (s->projection ? (uint64_t)s->conf.dim * s->dims * sizeof(float) : 0);
}

static void save(const void *st, larder_writer *w) {
    const scan *s = st;
    larder_write_u64(w, s->batches);
    larder__graph_scale_save(&s->scale, w);
    larder__graph_store_save(&s->store, w);
}

static int load(void *st, larder_reader *r) {
    scan *s = st;
    s->batches = larder_read_u64(r);
    int rc = larder__graph_scale_load(&s->scale, r);
    return rc < 0 ? rc : larder__graph_store_load(&s->store, r);
}

#define SCAN_ENGINE(text, how)                                                                     \
    {                                                                                              \
        .name = text, .open = how, .close = close_scan, .update = update, .count = count,          \
        .nearest = nearest, .rows = rows, .bytes = bytes, .save = save, .load = load               \
    }

const larder__graph_engine larder__graph_exact = SCAN_ENGINE("exact", open_exact);
const larder__graph_engine larder__graph_strata = SCAN_ENGINE("strata", open_strata);
