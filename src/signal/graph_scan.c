/* The engines `exact` and `strata`: codes of all samples are scanned chunk by chunk with a SIMD
 * kernel. `exact` codes every dimension in eight bits and looks at every row. `strata` does so with
 * classes of few rows; of the others it keeps short codes, each class in a frame of its own
 * (graph_frame.h), and it keeps to a budget of rows a query by a plan (graph_plan.h).
 *
 * A frame is learnt when a class has enough rows, from these. When training has moved the class so
 * far that more than before lies outside of its frame, the next rows are kept whole once more, and
 * when they are enough the frame is learnt anew and the codes are turned into it. All of this goes
 * by the rows entered, not by time, so that a run repeats. */
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "signal/graph_engine.h"
#include "signal/graph_frame.h"
#include "signal/graph_plan.h"
#include "signal/graph_project.h"
#include "signal/graph_scale.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    THREADS_MAX = 64,
    LEARN_LEAST = 256, /* rows of a class that a frame is learnt from */
    LEARN_MOST = 2048,
    SETTLE = 128 /* rows after which a new frame's share outside is known */
};

typedef struct part { /* a class of strata */
    larder__graph_frame frame;
    bool framed;    /* its rows have short codes */
    bool collect;   /* rows are kept whole as well, to learn from */
    uint32_t coded; /* rows since the frame was learnt, up to SETTLE */
} part;

typedef struct scan {
    larder__graph_conf conf;
    const larder__graph_kernel *kernel;
    larder__graph_store whole, shorts;
    larder__graph_scale scale; /* of the whole rows */
    bool frames;               /* false: shorts is not in use */
    larder__graph_space space;
    part *parts;
    uint32_t part_count;
    larder__graph_centres centres;
    larder__graph_plan plan;
    uint32_t *sizes;  /* rows of each class */
    uint64_t batches; /* counted; turns the sample of chunks */
    /* The batch at hand, room for `room` rows. */
    size_t room, packed_bytes;
    const float *x;
    float *values;
    uint8_t *codes;        /* n x dims of whole */
    unsigned char *packed; /* queries as the kernel wants them */
    int32_t *bounds;
    uint32_t *chunk_of, *lane_of, *classes;
} scan;

static size_t packed_bytes(const scan *s, uint32_t dims) {
    return (s->kernel->packed_bytes(dims) + 63) & ~(size_t)63;
}

static int open_scan(void **out, const larder__graph_conf *conf, bool frames) {
    scan *s = *out = larder__calloc(1, sizeof *s);
    if (!s)
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for an engine");
    s->conf = *conf;
    s->frames = frames;
    s->kernel = larder__graph_kernel_best();
    s->centres.dim = conf->dim;
    int rc = larder__graph_store_open(&s->whole, conf->n, conf->dim);
    if (rc == 0 && frames) {
        rc = larder__graph_store_open(&s->shorts, conf->n, conf->project);
        s->space = (larder__graph_space){conf->dim, conf->project, s->shorts.dims};
    }
    s->packed_bytes = packed_bytes(s, s->whole.dims);
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

static void free_batch(scan *s) {
    larder__free(s->values);
    larder__free(s->codes);
    larder__free(s->packed);
    larder__free(s->bounds);
    larder__free(s->chunk_of);
    larder__free(s->lane_of);
    larder__free(s->classes);
    s->values = NULL;
    s->codes = s->packed = NULL;
    s->bounds = NULL;
    s->chunk_of = s->lane_of = s->classes = NULL;
    s->room = 0;
}

static void close_scan(void *st) {
    scan *s = st;
    if (!s)
        return;
    free_batch(s);
    for (uint32_t c = 0; c < s->part_count; c++)
        larder__graph_frame_free(&s->parts[c].frame);
    larder__free(s->parts);
    larder__free(s->sizes);
    larder__graph_centres_free(&s->centres);
    larder__graph_plan_free(&s->plan);
    larder__graph_store_close(&s->whole);
    larder__graph_store_close(&s->shorts);
    larder__free(s);
}

static int make_room(scan *s, size_t n) {
    if (n <= s->room)
        return 0;
    free_batch(s);
    s->values = larder__malloc(n * s->conf.dim * sizeof *s->values);
    s->codes = larder__malloc(n * s->whole.dims);
    s->packed = larder__memalign(64, n * s->packed_bytes);
    s->bounds = larder__malloc(n * sizeof *s->bounds);
    s->chunk_of = larder__malloc(n * sizeof *s->chunk_of);
    s->lane_of = larder__malloc(n * sizeof *s->lane_of);
    s->classes = larder__malloc(n * sizeof *s->classes);
    if (!s->values || !s->codes || !s->packed || !s->bounds || !s->chunk_of || !s->lane_of ||
        !s->classes) {
        free_batch(s);
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for a batch of %zu", n);
    }
    s->room = n;
    return 0;
}

/* ---- classes --------------------------------------------------------------------------------- */

static bool is_framed(const scan *s, uint32_t class) {
    return s->frames && class < s->part_count && s->parts[class].framed;
}

/* Where a class is counted. */
static const larder__graph_store *store_of(const scan *s, uint32_t class) {
    return is_framed(s, class) ? &s->shorts : &s->whole;
}

static int make_parts(scan *s, uint32_t count) {
    if (count <= s->part_count)
        return 0;
    part *parts = larder__realloc(s->parts, count * sizeof *parts);
    if (parts)
        s->parts = parts;
    uint32_t *sizes = parts ? larder__realloc(s->sizes, count * sizeof *sizes) : NULL;
    if (!sizes)
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for %u classes", count);
    s->sizes = sizes;
    memset(parts + s->part_count, 0, (count - s->part_count) * sizeof *parts);
    s->part_count = count;
    return 0;
}

/* The whole rows' store comes last: without memory for all, it has the fewest classes. */
static int make_classes(scan *s, uint32_t count) {
    int rc = s->conf.budget ? larder__graph_centres_grow(&s->centres, count) : 0;
    if (rc == 0 && s->frames)
        rc = larder__graph_store_classes(&s->shorts, count);
    if (rc == 0 && s->conf.budget)
        rc = make_parts(s, count);
    return rc < 0 ? rc : larder__graph_store_classes(&s->whole, count);
}

/* The class of a sample is the one it came with first. */
static uint32_t class_of(const scan *s, uint32_t id, uint32_t given) {
    if (s->frames && larder__graph_store_holds(&s->shorts, id))
        return larder__graph_store_class(&s->shorts, id);
    return larder__graph_store_holds(&s->whole, id) ? larder__graph_store_class(&s->whole, id)
                                                    : given;
}

/* Rows to learn a frame from: an eighth of a class as large as the mean, within limits, so that
 * whole rows never need more memory than the codes will. */
static uint32_t rows_to_learn(const scan *s) {
    if (s->conf.learn)
        return s->conf.learn;
    uint64_t eighth = s->conf.n / 8 / s->whole.class_count;
    return (uint32_t)(eighth < LEARN_LEAST  ? LEARN_LEAST
                      : eighth > LEARN_MOST ? LEARN_MOST
                                            : eighth);
}

/* ---- learning a frame ------------------------------------------------------------------------ */

typedef int row_fn(scan *s, uint32_t class, uint32_t id, const float *values, void *arg);

/* All whole rows of a class, as values. */
static int each_row(scan *s, uint32_t class, row_fn *fn, void *arg) {
    uint8_t codes[LARDER__DIM_MAX];
    float values[LARDER__DIM_MAX];
    int rc = 0;
    uint32_t chunk = s->whole.classes[class].first;
    for (; chunk != LARDER__NO_CHUNK; chunk = s->whole.chunks[chunk].next)
        for (uint32_t lane = 0; rc == 0 && lane < larder__chunk_used(&s->whole, chunk); lane++) {
            larder__chunk_get(&s->whole, chunk, lane, codes);
            larder__graph_scale_values(&s->scale, codes, s->conf.dim, values);
            rc = fn(s, class, larder__chunk_ids(&s->whole, chunk)[lane], values, arg);
        }
    return rc;
}

static int copy_row(scan *s, uint32_t class, uint32_t id, const float *values, void *arg) {
    float **to = arg;
    (void)class, (void)id;
    memcpy(*to, values, s->conf.dim * sizeof *values);
    *to += s->conf.dim;
    return 0;
}

static int put_short(scan *s, uint32_t class, uint32_t id, const float *values, void *arg) {
    uint8_t codes[LARDER__DIM_MAX];
    int32_t row_const;
    larder__graph_frame_code(&s->parts[class].frame, &s->space, true, &values, 1, codes, &row_const,
                             arg);
    return larder__graph_store_put(&s->shorts, id, class, codes, row_const);
}

typedef struct turning {
    larder__graph_turn turn;
    const larder__graph_space *space;
} turning;

static void turn_row(const void *arg, uint8_t *codes, int32_t *row_const) {
    const turning *t = arg;
    larder__graph_turn_code(&t->turn, t->space, codes, row_const);
}

/* Puts the frame in place of the old one, if there was one, and turns the codes. */
static int change_frame(scan *s, uint32_t class, const larder__graph_frame *fresh) {
    part *p = &s->parts[class];
    if (p->framed) {
        turning t = {.space = &s->space};
        int rc = larder__graph_turn_make(&t.turn, &s->space, &p->frame, fresh);
        if (rc < 0)
            return rc;
        larder__graph_store_rewrite_class(&s->shorts, class, turn_row, &t);
        larder__graph_turn_free(&t.turn);
        larder__graph_frame_free(&p->frame);
    }
    p->frame = *fresh;
    return 0;
}

static int learn(scan *s, uint32_t class) {
    part *p = &s->parts[class];
    size_t count = s->whole.classes[class].rows;
    float *rows = larder__malloc(count * s->conf.dim * sizeof *rows), *at = rows;
    if (!rows)
        return larder__fail(LARDER_E_NOMEM, "graph: no memory to learn from %zu rows", count);
    each_row(s, class, copy_row, &at);
    larder__graph_frame fresh;
    int rc = larder__graph_frame_learn(&fresh, &s->space, rows, count, s->conf.seed + class);
    larder__free(rows);
    if (rc < 0)
        return rc;
    rc = change_frame(s, class, &fresh);
    if (rc < 0) {
        larder__graph_frame_free(&fresh);
        return rc;
    }
    rc = each_row(s, class, put_short, NULL);
    if (rc < 0) { /* only for want of memory for new rows, hence without an old frame */
        larder__graph_store_drop(&s->shorts, class);
        larder__graph_frame_free(&p->frame);
        return rc;
    }
    larder__graph_store_drop(&s->whole, class);
    p->framed = true;
    p->collect = false;
    p->coded = 0;
    return 0;
}

/* ---- entering -------------------------------------------------------------------------------- */

/* Takes note of how much of a row lies outside of its frame. */
static void watch(part *p, float outside) {
    larder__graph_frame *f = &p->frame;
    if (p->coded < SETTLE) {
        p->coded++;
        f->lately = p->coded == 1 ? outside : f->lately + (outside - f->lately) / (float)p->coded;
        f->outside = f->lately;
        return;
    }
    f->lately += (outside - f->lately) / SETTLE;
    if (f->lately > 1.5f * f->outside + 0.02f)
        p->collect = true;
}

static int enter(scan *s, uint32_t id, uint32_t class, const float *x, const uint8_t *codes,
                 int32_t row_const) {
    if (!s->conf.budget)
        return larder__graph_store_put(&s->whole, id, class, codes, row_const);
    part *p = &s->parts[class];
    int rc = 0;
    larder__graph_centres_follow(&s->centres, class, x);
    if (is_framed(s, class)) {
        float outside = 0;
        rc = put_short(s, class, id, x, &outside);
        watch(p, outside);
    }
    if (rc == 0 && (!is_framed(s, class) || p->collect))
        rc = larder__graph_store_put(&s->whole, id, class, codes, row_const);
    if (rc == 0 && s->frames && s->whole.classes[class].rows >= rows_to_learn(s))
        rc = learn(s, class);
    return rc;
}

static int update(void *st, const larder__graph_rows *in) {
    scan *s = st;
    uint32_t dim = s->conf.dim, dims = s->whole.dims;
    int rc = make_room(s, in->n);
    if (rc == 0)
        larder__graph_scale_follow(&s->scale, &s->whole, in->x, in->n * dim, s->values);
    for (size_t i = 0; rc == 0 && i < in->n; i++) {
        const float *x = in->x + i * dim;
        uint8_t *codes = s->codes + i * dims;
        int32_t row_const;
        larder__graph_scale_code(&s->scale, x, dim, dims, codes, &row_const);
        uint32_t class = class_of(s, in->ids[i], in->classes[i]);
        rc = make_classes(s, class + 1);
        if (rc == 0)
            rc = enter(s, in->ids[i], class, x, codes, row_const);
    }
    return rc;
}

/* ---- counting -------------------------------------------------------------------------------- */

typedef struct share { /* of the queries, for one thread */
    const scan *s;
    double radius;
    size_t from, to;
    larder__graph_count *out;
    pthread_t thread;
    int rc;
} share;

typedef struct asked { /* a query of one class */
    uint32_t query, level;
    float weight;
    uint32_t hits;
    bool self; /* its own row is of this class, and counts */
    const void *packed;
    int32_t bound;
} asked;

typedef struct sweep { /* of one class by one share */
    const larder__graph_store *store;
    asked *list; /* finest level first */
    uint32_t count;
    unsigned char *packed;            /* queries in the frame of the class */
    uint32_t upto[LARDER__LEVELS];    /* queries of this level or finer */
    uint64_t visited[LARDER__LEVELS]; /* rows of chunks of this level, then: or coarser */
} sweep;

/* Would a row that is this query be counted? With a rest outside its frame it may not. */
static bool counts_itself(const uint8_t *codes, uint32_t dims, int32_t row_const, int32_t bound) {
    int64_t dot = 0;
    for (uint32_t k = 0; k < dims; k++)
        dot += codes[k] * (codes[k] - 128);
    return dot - row_const >= bound;
}

static void pack_query(const scan *s, const uint8_t *codes, uint32_t dims, void *packed) {
    int8_t query[LARDER__DIM_MAX];
    for (uint32_t k = 0; k < dims; k++)
        query[k] = (int8_t)(codes[k] - 128);
    s->kernel->pack(query, dims, packed);
}

/* Brings one query into the frame of a class: members by the code they have there. */
static void place_query(const share *h, sweep *w, uint32_t at, const uint8_t *codes,
                        int32_t row_const, int32_t half) {
    uint32_t dims = h->s->shorts.dims;
    unsigned char *packed = w->packed + at * packed_bytes(h->s, dims);
    asked *a = &w->list[at];
    a->bound = larder__graph_scale_bound(codes, dims, row_const, half);
    a->self = a->self && counts_itself(codes, dims, row_const, a->bound);
    pack_query(h->s, codes, dims, packed);
    a->packed = packed;
}

static void enter_frame(const share *h, sweep *w, const larder__graph_frame *f) {
    const scan *s = h->s;
    int32_t half = larder__graph_frame_half(f, h->radius), consts[LARDER__PROJECT_ROWS];
    uint8_t codes[LARDER__PROJECT_ROWS * LARDER__DIM_MAX];
    const float *rows[LARDER__PROJECT_ROWS];
    uint32_t at[LARDER__PROJECT_ROWS], n = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        uint32_t query = w->list[i].query, chunk = s->chunk_of[query];
        uint32_t lane = s->lane_of[query];
        if (w->list[i].self) {
            larder__chunk_get(&s->shorts, chunk, lane, codes);
            place_query(h, w, i, codes, larder__chunk_consts(&s->shorts, chunk)[lane], half);
        } else {
            rows[n] = s->x + (size_t)query * s->conf.dim;
            at[n++] = i;
        }
        if (n == LARDER__PROJECT_ROWS || (n && i + 1 == w->count)) {
            larder__graph_frame_code(f, &s->space, false, rows, n, codes, consts, NULL);
            for (uint32_t r = 0; r < n; r++)
                place_query(h, w, at[r], codes + (size_t)r * s->shorts.dims, consts[r], half);
            n = 0;
        }
    }
}

static void ask(const share *h, sweep *w, uint32_t class, uint32_t q, uint32_t level,
                float weight) {
    const scan *s = h->s;
    w->list[w->count++] = (asked){.query = q,
                                  .level = level,
                                  .weight = weight,
                                  .self = s->classes[q] == class,
                                  .packed = s->packed + q * s->packed_bytes,
                                  .bound = s->bounds[q]};
}

/* The queries of one class: all, or those of the plan. */
static void gather(const share *h, sweep *w, uint32_t class, size_t *next) {
    const larder__graph_plan *p = &h->s->plan;
    w->count = 0;
    for (size_t q = h->from; !h->s->conf.budget && q < h->to; q++)
        ask(h, w, class, (uint32_t)q, 0, 1);
    for (; *next < p->count && p->pairs[*next].class == class; ++*next) {
        const larder__graph_pair *pair = &p->pairs[*next];
        if (pair->query >= h->from && pair->query < h->to)
            ask(h, w, class, pair->query, pair->level, pair->weight);
    }
    memset(w->upto, 0, sizeof w->upto);
    memset(w->visited, 0, sizeof w->visited);
    for (uint32_t i = 0; i < w->count; i++)
        w->upto[w->list[i].level]++;
    for (int l = 1; l < LARDER__LEVELS; l++)
        w->upto[l] += w->upto[l - 1];
}

/* The first `count` queries against one chunk. */
static void scan_chunk(const share *h, sweep *w, uint32_t chunk, uint32_t count) {
    const scan *s = h->s;
    const uint8_t *codes = larder__chunk_codes(w->store, chunk);
    const int32_t *consts = larder__chunk_consts(w->store, chunk);
    for (uint32_t at = 0; at < count; at += LARDER__TILE_QUERIES) {
        const void *packed[LARDER__TILE_QUERIES];
        int32_t bounds[LARDER__TILE_QUERIES];
        uint32_t hits[LARDER__TILE_QUERIES] = {0};
        for (uint32_t k = 0; k < LARDER__TILE_QUERIES; k++) {
            const asked *a = &w->list[at + k < count ? at + k : count - 1];
            packed[k] = a->packed;
            bounds[k] = a->bound;
        }
        s->kernel->count(codes, consts, w->store->groups, packed, bounds, hits);
        for (uint32_t k = 0; k < LARDER__TILE_QUERIES && at + k < count; k++) {
            asked *a = &w->list[at + k];
            a->hits += hits[k] - (a->self && s->chunk_of[a->query] == chunk);
        }
    }
}

static void sweep_class(const share *h, sweep *w, uint32_t class) {
    const larder__graph_store *store = w->store;
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
    for (uint32_t i = 0; i < w->count; i++) {
        const asked *a = &w->list[i];
        /* Of few chunks a sample may hold none: then what is found stands for 2^level times as
         * much, which is right on average. Of many, the share of rows looked at is known. */
        double weight = a->level == 0 ? 1 : (double)(1u << a->level);
        if (a->level && chunks >> a->level >= 2)
            weight = rows / (double)w->visited[a->level];
        float found = (float)(a->hits * weight) * a->weight;
        if (h->s->classes[a->query] == class)
            h->out[a->query].same += found;
        else
            h->out[a->query].other += found;
    }
}

static void *count_share(void *arg) {
    share *h = arg;
    const scan *s = h->s;
    size_t n = h->to - h->from, next = 0;
    sweep w = {.list = larder__malloc(n * sizeof *w.list)};
    if (s->frames)
        w.packed = larder__memalign(64, n * packed_bytes(s, s->shorts.dims));
    if (!w.list || (s->frames && !w.packed))
        h->rc = LARDER_E_NOMEM;
    for (uint32_t class = 0; h->rc == 0 && class < s->whole.class_count; class ++) {
        w.store = store_of(s, class);
        if (w.store->classes[class].rows == 0)
            continue;
        gather(h, &w, class, &next);
        if (is_framed(s, class))
            enter_frame(h, &w, &s->parts[class].frame);
        if (w.count)
            sweep_class(h, &w, class);
    }
    larder__free(w.list);
    larder__free(w.packed);
    return NULL;
}

/* Queries as the kernel wants them: the rows of the batch, which update has entered. */
static void make_queries(scan *s, const larder__graph_rows *in, double radius) {
    uint32_t dims = s->whole.dims;
    int32_t half = larder__graph_scale_half(&s->scale, radius);
    s->x = in->x;
    for (size_t i = 0; i < in->n; i++) {
        uint32_t class = s->classes[i] = class_of(s, in->ids[i], in->classes[i]);
        uint32_t place = store_of(s, class)->place[in->ids[i]];
        s->chunk_of[i] = place / LARDER__CHUNK_ROWS;
        s->lane_of[i] = place % LARDER__CHUNK_ROWS;
        if (s->whole.rows == 0)
            continue;
        uint8_t *codes = s->codes + i * dims;
        int32_t row_const;
        larder__graph_scale_code(&s->scale, in->x + i * s->conf.dim, s->conf.dim, dims, codes,
                                 &row_const);
        pack_query(s, codes, dims, s->packed + i * s->packed_bytes);
        s->bounds[i] = larder__graph_scale_bound(codes, dims, row_const, half);
    }
}

static int make_plan(scan *s, const larder__graph_rows *in) {
    if (!s->conf.budget)
        return 0;
    for (uint32_t c = 0; c < s->whole.class_count; c++)
        s->sizes[c] = store_of(s, c)->classes[c].rows;
    larder__graph_wish wish = {.budget = s->conf.budget,
                               .sizes = s->sizes,
                               .class_count = s->whole.class_count,
                               .turn = s->batches,
                               .classes = s->classes,
                               .x = in->x,
                               .n = in->n};
    return larder__graph_plan_make(&s->plan, &s->centres, &wish);
}

/* Each thread takes some of the queries: what a query counts is not touched by how many. */
static int count_all(scan *s, size_t n, double radius, larder__graph_count *out) {
    share shares[THREADS_MAX] = {{.s = s}};
    size_t threads = s->conf.threads < THREADS_MAX ? s->conf.threads : THREADS_MAX;
    size_t tiles = (n + LARDER__TILE_QUERIES - 1) / LARDER__TILE_QUERIES;
    threads = threads < tiles ? threads : tiles;
    threads = threads ? threads : 1;
    size_t started = 1;
    for (size_t t = 0; t < threads; t++) {
        size_t to = (t + 1) * tiles / threads * LARDER__TILE_QUERIES;
        shares[t] = (share){.s = s,
                            .radius = radius,
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
    int rc = in->n ? make_plan(s, in) : 0;
    if (rc == 0 && in->n)
        rc = count_all(s, in->n, radius, out);
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
    near *list = larder__malloc(2 * cap * sizeof *list);
    if (!list)
        return 0;
    uint32_t class = s->classes[row];
    const larder__graph_store *store = store_of(s, class);
    uint8_t codes[LARDER__DIM_MAX];
    int8_t query[LARDER__DIM_MAX];
    const float *x = in->x + row * s->conf.dim;
    int32_t row_const = 0, bound = s->bounds[row];
    if (is_framed(s, class)) {
        const larder__graph_frame *f = &s->parts[class].frame;
        larder__graph_frame_code(f, &s->space, true, &x, 1, codes, &row_const, NULL);
        bound = larder__graph_scale_bound(codes, store->dims, row_const,
                                          larder__graph_frame_half(f, radius));
    } else
        memcpy(codes, s->codes + row * store->dims, store->dims);
    for (uint32_t k = 0; k < store->dims; k++)
        query[k] = (int8_t)(codes[k] - 128);
    size_t count = 0;
    uint32_t chunk = store->classes[class].first;
    for (; chunk != LARDER__NO_CHUNK; chunk = store->chunks[chunk].next) {
        int32_t dots[LARDER__CHUNK_ROWS];
        const int32_t *consts = larder__chunk_consts(store, chunk);
        larder__chunk_dots(larder__chunk_codes(store, chunk), store->groups, query, dots);
        for (uint32_t i = 0; i < LARDER__CHUNK_ROWS; i++) {
            int32_t margin = dots[i] - consts[i] - bound;
            uint32_t id = larder__chunk_ids(store, chunk)[i];
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

static uint64_t rows(const void *st) {
    const scan *s = st;
    uint64_t sum = 0;
    for (uint32_t c = 0; c < s->whole.class_count; c++)
        sum += store_of(s, c)->classes[c].rows;
    return sum;
}

static uint64_t bytes(const void *st) {
    const scan *s = st;
    uint64_t sum = larder__graph_store_bytes(&s->whole) + larder__graph_centres_bytes(&s->centres) +
                   s->part_count * (sizeof *s->parts + sizeof *s->sizes);
    if (s->frames)
        sum += larder__graph_store_bytes(&s->shorts);
    for (uint32_t c = 0; c < s->part_count; c++)
        sum += is_framed(s, c) ? larder__graph_frame_bytes(&s->space) : 0;
    return sum;
}

static void save(const void *st, larder_writer *w) {
    const scan *s = st;
    larder_write_u64(w, s->batches);
    larder__graph_scale_save(&s->scale, w);
    larder__graph_store_save(&s->whole, w);
    if (s->conf.budget)
        larder__graph_centres_save(&s->centres, w);
    if (!s->frames)
        return;
    larder__graph_store_save(&s->shorts, w);
    for (uint32_t c = 0; c < s->whole.class_count; c++) {
        const part *p = &s->parts[c];
        larder_write_u32(w, (uint32_t)p->framed | (uint32_t)p->collect << 1);
        larder_write_u32(w, p->coded);
        if (p->framed)
            larder__graph_frame_save(&p->frame, &s->space, w);
    }
}

static int load_parts(scan *s, larder_reader *r) {
    for (uint32_t c = 0; c < s->whole.class_count; c++) {
        part *p = &s->parts[c];
        uint32_t flags = larder_read_u32(r);
        p->coded = larder_read_u32(r);
        if (flags > 3 || flags == 2 || p->coded > SETTLE || larder_read_status(r) < 0)
            return larder_read_reject(r, "a class of its index has an impossible state");
        if ((!(flags & 1) && s->shorts.classes[c].rows) || (flags == 1 && s->whole.classes[c].rows))
            return larder_read_reject(r, "a class of its index is held in two ways");
        int rc = flags & 1 ? larder__graph_frame_load(&p->frame, &s->space, r) : 0;
        p->framed = flags & 1 && rc == 0;
        p->collect = flags & 2;
        if (rc < 0)
            return rc;
    }
    for (uint32_t c = s->whole.class_count; c < s->shorts.class_count; c++)
        if (s->shorts.classes[c].rows)
            return larder_read_reject(r, "a class of its index has no frame");
    return 0;
}

/* Rows that are kept in both forms are of one class. */
static int check_places(const scan *s, larder_reader *r) {
    for (uint32_t id = 0; id < s->conf.n; id++)
        if (larder__graph_store_holds(&s->whole, id)) {
            uint32_t class = larder__graph_store_class(&s->whole, id);
            bool both = larder__graph_store_holds(&s->shorts, id);
            if (both != s->parts[class].framed ||
                (both && larder__graph_store_class(&s->shorts, id) != class))
                return larder_read_reject(r, "a sample of its index has two classes");
        }
    return 0;
}

static int load(void *st, larder_reader *r) {
    scan *s = st;
    s->batches = larder_read_u64(r);
    int rc = larder__graph_scale_load(&s->scale, r);
    if (rc == 0)
        rc = larder__graph_store_load(&s->whole, r);
    if (rc == 0 && s->conf.budget)
        rc = larder__graph_centres_load(&s->centres, r);
    if (rc == 0 && s->frames)
        rc = larder__graph_store_load(&s->shorts, r);
    if (rc == 0)
        rc = make_classes(s, s->whole.class_count);
    if (rc == 0 && s->frames && s->shorts.class_count < s->whole.class_count)
        return larder_read_reject(r, "its index has two numbers of classes");
    if (rc == 0 && s->frames)
        rc = load_parts(s, r);
    return rc < 0 || !s->frames ? rc : check_places(s, r);
}

#define SCAN_ENGINE(text, how)                                                                     \
    {                                                                                              \
        .name = text, .open = how, .close = close_scan, .update = update, .count = count,          \
        .nearest = nearest, .rows = rows, .bytes = bytes, .save = save, .load = load               \
    }

const larder__graph_engine larder__graph_exact = SCAN_ENGINE("exact", open_exact);
const larder__graph_engine larder__graph_strata = SCAN_ENGINE("strata", open_strata);
