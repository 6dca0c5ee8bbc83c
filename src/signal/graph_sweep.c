#include "signal/graph_sweep.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/mem.h"

#include <pthread.h>

enum {
    THREADS_MAX = 64,
    TRIALS = 8 /* chunks after which a query's heads are judged */
};

typedef struct share { /* of the queries, for one thread */
    const larder__graph_sweeps *all;
    const larder__graph_index *index;
    double radius;
    size_t from, to;
    larder_engine_count *out;
    pthread_t thread;
    int rc;
} share;

typedef struct asked { /* a query of one class */
    uint32_t query, level;
    float weight;
    uint32_t hits;
    bool own;              /* it is of this class */
    bool self;             /* its own row is among these, and counts */
    bool straight;         /* its head sorts out too little: not looked at any more */
    uint32_t tried, stood; /* chunks that its head was tried on, and could not sort out */
    const void *packed;
    int32_t bound, head;
} asked;

typedef struct tile { /* queries that go through the kernel together */
    uint32_t count;
    asked *who[LARDER__TILE_QUERIES];
} tile;

typedef struct sweep { /* of one class by one share */
    const larder__graph_store *store;
    asked *list; /* finest level first */
    uint32_t count;
    unsigned char *packed;            /* queries in the frame of the class */
    uint32_t upto[LARDER__LEVELS];    /* queries of this level or finer */
    uint64_t visited[LARDER__LEVELS]; /* rows of chunks of this level, then: or coarser */
    uint32_t chunk;                   /* the one at hand */
    tile heads, members, strangers;
} sweep;

static size_t packed_bytes(const larder__graph_sweeps *s, uint32_t dims) {
    return (s->kernel->packed_bytes(dims) + 63) & ~(size_t)63;
}

void larder__graph_sweeps_open(larder__graph_sweeps *s, const larder__graph_index *index) {
    *s = (larder__graph_sweeps){.kernel = larder__graph_kernel_best()};
    s->packed_bytes = packed_bytes(s, index->whole.dims);
}

static void free_batch(larder__graph_sweeps *s) {
    larder__free(s->packed);
    larder__free(s->bounds);
    larder__free(s->heads);
    larder__free(s->chunk_of);
    larder__free(s->lane_of);
    larder__free(s->classes);
    s->packed = NULL;
    s->bounds = s->heads = NULL;
    s->chunk_of = s->lane_of = s->classes = NULL;
    s->room = 0;
}

void larder__graph_sweeps_close(larder__graph_sweeps *s) {
    free_batch(s);
    larder__free(s->sizes);
    larder__graph_plan_free(&s->plan);
}

static int make_room(larder__graph_sweeps *s, size_t n) {
    if (n <= s->room)
        return 0;
    free_batch(s);
    s->packed = larder__memalign(64, n * s->packed_bytes);
    s->bounds = larder__malloc(n * sizeof *s->bounds);
    s->heads = larder__malloc(n * sizeof *s->heads);
    s->chunk_of = larder__malloc(n * sizeof *s->chunk_of);
    s->lane_of = larder__malloc(n * sizeof *s->lane_of);
    s->classes = larder__malloc(n * sizeof *s->classes);
    if (!s->packed || !s->bounds || !s->heads || !s->chunk_of || !s->lane_of || !s->classes) {
        free_batch(s);
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for a batch of %zu", n);
    }
    s->room = n;
    return 0;
}

/* ---- queries in the frame of a class --------------------------------------------------------- */

/* Would a row that is this query be counted? With a rest outside its frame it may not. */
static bool counts_itself(const uint8_t *codes, uint32_t dims, int32_t row_const, int32_t bound) {
    int64_t dot = 0;
    for (uint32_t k = 0; k < dims; k++)
        dot += codes[k] * (codes[k] - 128);
    return dot - row_const >= bound;
}

static void pack_query(const larder__graph_sweeps *s, const uint8_t *codes, uint32_t dims,
                       void *packed) {
    int8_t query[LARDER__DIM_MAX];
    for (uint32_t k = 0; k < dims; k++)
        query[k] = (int8_t)(codes[k] - 128);
    s->kernel->pack(query, dims, packed);
}

/* Brings one query into the frame of a class: members by the code they have there. */
static void place_query(const share *h, sweep *w, uint32_t at, const uint8_t *codes,
                        int32_t row_const, int32_t half) {
    const larder__graph_store *shorts = &h->index->shorts;
    unsigned char *packed = w->packed + at * packed_bytes(h->all, shorts->dims);
    asked *a = &w->list[at];
    a->bound = larder__graph_scale_bound(codes, shorts->dims, row_const, half);
    a->head = larder__graph_store_head_bound(shorts, codes, a->bound);
    a->self = a->own && counts_itself(codes, shorts->dims, row_const, a->bound);
    pack_query(h->all, codes, shorts->dims, packed);
    a->packed = packed;
}

static void enter_frame(const share *h, sweep *w, const larder__graph_frame *f) {
    const larder__graph_sweeps *s = h->all;
    const larder__graph_store *shorts = &h->index->shorts;
    const larder__graph_space *space = &h->index->space;
    int32_t half = larder__graph_frame_half(f, h->radius), consts[LARDER__PROJECT_ROWS];
    uint8_t codes[LARDER__PROJECT_ROWS * LARDER__DIM_MAX];
    const float *rows[LARDER__PROJECT_ROWS];
    uint32_t at[LARDER__PROJECT_ROWS], n = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        uint32_t query = w->list[i].query, chunk = s->chunk_of[query];
        uint32_t lane = s->lane_of[query];
        if (w->list[i].own) {
            larder__chunk_get(shorts, chunk, lane, codes);
            place_query(h, w, i, codes, larder__chunk_consts(shorts, chunk)[lane], half);
        } else {
            rows[n] = s->x + (size_t)query * space->dim;
            at[n++] = i;
        }
        if (n == LARDER__PROJECT_ROWS || (n && i + 1 == w->count)) {
            larder__graph_frame_code(f, space, false, rows, n, codes, consts, NULL);
            for (uint32_t r = 0; r < n; r++)
                place_query(h, w, at[r], codes + (size_t)r * shorts->dims, consts[r], half);
            n = 0;
        }
    }
}

/* ---- queries of a class ---------------------------------------------------------------------- */

static void ask(const share *h, sweep *w, uint32_t class, uint32_t q, uint32_t level,
                float weight) {
    const larder__graph_sweeps *s = h->all;
    bool own = s->classes[q] == class;
    w->list[w->count++] = (asked){.query = q,
                                  .level = level,
                                  .weight = weight,
                                  .own = own,
                                  .self = own,
                                  .packed = s->packed + q * s->packed_bytes,
                                  .bound = s->bounds[q],
                                  .head = s->heads[q]};
}

static void count_levels(sweep *w) {
    memset(w->upto, 0, sizeof w->upto);
    memset(w->visited, 0, sizeof w->visited);
    for (uint32_t i = 0; i < w->count; i++)
        w->upto[w->list[i].level]++;
    for (int l = 1; l < LARDER__LEVELS; l++)
        w->upto[l] += w->upto[l - 1];
}

/* All of them, or those of the plan. */
static void gather(const share *h, sweep *w, uint32_t class, size_t *next) {
    const larder__graph_plan *p = &h->all->plan;
    w->count = 0;
    for (size_t q = h->from; !h->index->conf.budget && q < h->to; q++)
        ask(h, w, class, (uint32_t)q, 0, 1);
    for (; *next < p->count && p->pairs[*next].class == class; ++*next) {
        const larder__graph_pair *pair = &p->pairs[*next];
        if (pair->query >= h->from && pair->query < h->to)
            ask(h, w, class, pair->query, pair->level, pair->weight);
    }
    count_levels(w);
}

/* Of the queries those of the class itself, for its guests. */
static void gather_own(sweep *w, uint32_t level) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < w->count; i++)
        if (w->list[i].own) {
            asked *a = &w->list[count++];
            *a = w->list[i];
            a->level = level;
            a->hits = a->tried = a->stood = 0;
            a->self = a->straight = false;
        }
    w->count = count;
    count_levels(w);
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* Through the kernel; what is missing to a full tile is its last query again. */
static void run_tile(const share *h, const sweep *w, const tile *t, const int32_t *consts,
                     bool head, uint32_t *hits) {
    const void *packed[LARDER__TILE_QUERIES];
    int32_t bounds[LARDER__TILE_QUERIES];
    for (uint32_t k = 0; k < LARDER__TILE_QUERIES; k++) {
        const asked *a = t->who[k < t->count ? k : t->count - 1];
        packed[k] = a->packed;
        bounds[k] = head ? a->head : a->bound;
    }
    h->all->kernel->count(larder__chunk_codes(w->store, w->chunk), consts,
                          head ? w->store->head : w->store->groups, packed, bounds, hits);
}

static void count_tile(const share *h, sweep *w, tile *t, const int32_t *consts) {
    uint32_t hits[LARDER__TILE_QUERIES] = {0};
    run_tile(h, w, t, consts, false, hits);
    for (uint32_t k = 0; k < t->count; k++) {
        asked *a = t->who[k];
        a->hits += hits[k] - (a->self && h->all->chunk_of[a->query] == w->chunk);
    }
    t->count = 0;
}

static void count_whole(const share *h, sweep *w, asked *a) {
    tile *t = a->own ? &w->members : &w->strangers;
    t->who[t->count++] = a;
    if (t->count == LARDER__TILE_QUERIES)
        count_tile(h, w, t,
                   a->own ? larder__chunk_consts(w->store, w->chunk)
                          : larder__chunk_outer(w->store, w->chunk));
}

/* Who has a row with a head near enough goes on to whole rows. A query for which three heads in
 * four do is asked to skip them. */
static void sort_out(const share *h, sweep *w) {
    uint32_t hits[LARDER__TILE_QUERIES] = {0};
    run_tile(h, w, &w->heads, larder__chunk_heads(w->store, w->chunk), true, hits);
    for (uint32_t k = 0; k < w->heads.count; k++) {
        asked *a = w->heads.who[k];
        a->tried++;
        if (hits[k] == 0)
            continue;
        a->stood++;
        a->straight = a->tried >= TRIALS && 4 * a->stood > 3 * a->tried;
        count_whole(h, w, a);
    }
    w->heads.count = 0;
}

/* The first `count` queries against the chunk at hand. */
static void scan_chunk(const share *h, sweep *w, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        asked *a = &w->list[i];
        if (w->store->head == 0 || a->straight) {
            count_whole(h, w, a);
            continue;
        }
        w->heads.who[w->heads.count++] = a;
        if (w->heads.count == LARDER__TILE_QUERIES)
            sort_out(h, w);
    }
    if (w->heads.count)
        sort_out(h, w);
    if (w->members.count)
        count_tile(h, w, &w->members, larder__chunk_consts(w->store, w->chunk));
    if (w->strangers.count)
        count_tile(h, w, &w->strangers, larder__chunk_outer(w->store, w->chunk));
}

/* Chunks of a class lie anywhere, so the processor cannot know which memory comes next. */
static void call_up(const larder__graph_store *s, uint32_t chunk) {
    const unsigned char *at = s->memory[chunk];
    for (size_t i = 0; i < s->stride; i += 64)
        __builtin_prefetch(at + i, 0, 2);
}

/* Rows of w->store of this class; `guests`: they are of other classes. */
static void sweep_class(const share *h, sweep *w, uint32_t class, bool guests) {
    const larder__graph_store *store = w->store;
    uint64_t shift = larder__mix64(class) + h->all->batches;
    uint32_t chunks = 0;
    w->chunk = store->classes[class].first;
    for (; w->chunk != LARDER__NO_CHUNK; w->chunk = store->chunks[w->chunk].next, chunks++) {
        uint32_t level = larder__graph_plan_level(chunks, shift);
        uint32_t next = store->chunks[w->chunk].next;
        if (next != LARDER__NO_CHUNK && w->upto[larder__graph_plan_level(chunks + 1, shift)])
            call_up(store, next);
        w->visited[level] += larder__chunk_used(store, w->chunk);
        if (w->upto[level])
            scan_chunk(h, w, w->upto[level]);
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
        if (a->own && !guests)
            h->out[a->query].same += found;
        else
            h->out[a->query].other += found;
    }
}

static void count_guests(const share *h, sweep *w, uint32_t class) {
    uint32_t rows = h->index->guests.classes[class].rows;
    w->store = &h->index->guests;
    gather_own(w, larder__graph_plan_level_for(rows, h->index->conf.budget / 8));
    if (w->count)
        sweep_class(h, w, class, true);
}

static void *count_share(void *arg) {
    share *h = arg;
    const larder__graph_index *s = h->index;
    size_t n = h->to - h->from, next = 0;
    sweep w = {.list = larder__malloc(n * sizeof *w.list)};
    if (s->frames)
        w.packed = larder__memalign(64, n * packed_bytes(h->all, s->shorts.dims));
    if (!w.list || (s->frames && !w.packed))
        h->rc = LARDER_E_NOMEM;
    for (uint32_t class = 0; h->rc == 0 && class < s->whole.class_count; class ++) {
        w.store = larder__graph_store_of(s, class);
        if (w.store->classes[class].rows == 0)
            continue;
        bool framed = larder__graph_framed(s, class);
        gather(h, &w, class, &next);
        if (framed)
            enter_frame(h, &w, &s->parts[class].frame);
        if (w.count)
            sweep_class(h, &w, class, false);
        if (framed && s->guests.classes[class].rows)
            count_guests(h, &w, class);
    }
    larder__free(w.list);
    larder__free(w.packed);
    return NULL;
}

/* ---- a batch --------------------------------------------------------------------------------- */

/* The code of a row as it is kept, or as it would be: only so is it sure to count itself, as the
 * scale may have moved since it was entered. */
static int32_t code_of(const larder__graph_index *index, const larder_engine_rows *in, size_t i,
                       uint8_t *codes) {
    const larder__graph_store *whole = &index->whole;
    uint32_t place = whole->place[in->ids[i]], chunk = place / LARDER__CHUNK_ROWS;
    int32_t row_const;
    if (place != LARDER__NO_PLACE) {
        larder__chunk_get(whole, chunk, place % LARDER__CHUNK_ROWS, codes);
        return larder__chunk_consts(whole, chunk)[place % LARDER__CHUNK_ROWS];
    }
    larder__graph_scale_code(&index->scale, in->x + i * index->conf.dim, index->conf.dim,
                             whole->dims, codes, &row_const);
    larder__graph_order_put(&index->order, codes);
    return row_const;
}

/* Queries as the kernel wants them: rows that are entered. */
static int make_queries(larder__graph_sweeps *s, const larder__graph_index *index,
                        const larder_engine_rows *in, double radius) {
    const larder__graph_store *whole = &index->whole;
    int32_t half = larder__graph_scale_half(&index->scale, radius);
    uint8_t codes[LARDER__DIM_MAX];
    s->x = in->x;
    for (size_t i = 0; i < in->n; i++) {
        uint32_t class = larder__graph_class_of(index, in->ids[i], in->classes[i]);
        uint32_t place = larder__graph_store_of(index, class)->place[in->ids[i]];
        if (place == LARDER__NO_PLACE)
            return larder__fail(LARDER_E_STATE, "graph: sample %u was never entered", in->ids[i]);
        s->classes[i] = class;
        s->chunk_of[i] = place / LARDER__CHUNK_ROWS;
        s->lane_of[i] = place % LARDER__CHUNK_ROWS;
        if (whole->rows == 0)
            continue;
        int32_t row_const = code_of(index, in, i, codes);
        pack_query(s, codes, whole->dims, s->packed + i * s->packed_bytes);
        s->bounds[i] = larder__graph_scale_bound(codes, whole->dims, row_const, half);
        s->heads[i] = larder__graph_store_head_bound(whole, codes, s->bounds[i]);
    }
    return 0;
}

static int make_plan(larder__graph_sweeps *s, const larder__graph_index *index,
                     const larder_engine_rows *in) {
    uint32_t count = index->whole.class_count;
    if (!index->conf.budget)
        return 0;
    if (larder__room(&s->sizes, &s->size_room, count, sizeof *s->sizes) < 0)
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for %u classes", count);
    for (uint32_t c = 0; c < count; c++)
        s->sizes[c] = larder__graph_store_of(index, c)->classes[c].rows;
    larder__graph_wish wish = {.budget = index->conf.budget,
                               .sizes = s->sizes,
                               .class_count = count,
                               .turn = s->batches,
                               .classes = s->classes,
                               .x = in->x,
                               .n = in->n};
    return larder__graph_plan_make(&s->plan, &index->centres, &wish);
}

/* Each thread takes some of the queries: what a query counts is not touched by how many. */
static int count_all(const larder__graph_sweeps *s, const larder__graph_index *index, size_t n,
                     double radius, larder_engine_count *out) {
    share shares[THREADS_MAX] = {{.all = s}};
    size_t threads = index->conf.threads < THREADS_MAX ? index->conf.threads : THREADS_MAX;
    size_t tiles = (n + LARDER__TILE_QUERIES - 1) / LARDER__TILE_QUERIES;
    threads = threads < tiles ? threads : tiles;
    threads = threads ? threads : 1;
    size_t started = 1;
    for (size_t t = 0; t < threads; t++) {
        size_t to = (t + 1) * tiles / threads * LARDER__TILE_QUERIES;
        shares[t] = (share){.all = s,
                            .index = index,
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

int larder__graph_sweeps_count(larder__graph_sweeps *s, const larder__graph_index *index,
                               const larder_engine_rows *in, double radius,
                               larder_engine_count *out) {
    int rc = make_room(s, in->n);
    if (rc == 0)
        rc = make_queries(s, index, in, radius);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < in->n; i++)
        out[i] = (larder_engine_count){0, 0};
    if (in->n)
        rc = make_plan(s, index, in);
    if (rc == 0 && in->n)
        rc = count_all(s, index, in->n, radius, out);
    s->batches++;
    return rc;
}
