/* SHADE's cache (Algorithm 1). The resident of the lowest score goes, among equals the one asked
 * for least often; a newcomer enters a full cache when its own last score is no lower. Scores and
 * counts of all ids ever scored are kept, resident or not: the ghost, eight bytes an id, so
 * bounded. An id that was never scored enters only while there is room. Residents without a score
 * yet stand at the top: they have just come.
 *
 * A score that is reported moves its resident at once. A request only counts: counts grow, so the
 * queue may believe a resident lower than it is, never higher, and it is put right when it has come
 * to the front. Everything follows from the ghost, so that is what is saved. */
#include "base/heap.h"

#include <math.h>

typedef struct ghost {
    uint32_t score; /* as an integer that orders alike; 0: never scored */
    uint32_t count; /* requests so far */
} ghost;

typedef struct app {
    const larder_slots *slots;
    larder__heap lowest;
    bool gap; /* the lowest has left: the top of the heap is free for who comes next */
    bool count_too;
} app;

static const larder_param params[] = {{"order", "score|score+frequency", "score+frequency",
                                       "what tells the least important resident", 0, 0},
                                      {0}};

static ghost *ghosts(const app *p) { return p->slots->key_data; }

static int init(void *st, const larder_slots *slots, const larder_args *args) {
    app *p = st;
    p->slots = slots;
    p->count_too = !args || strcmp(larder_args_text(args, "order"), "score") != 0;
    larder__heap_init(&p->lowest, slots->slot_data, slots->keys);
    return 0;
}

/* Negative numbers below positive ones, none of them 0. */
static uint32_t ordered(float score) {
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

static uint64_t rank(const app *p, const ghost *g) {
    uint32_t score = g->score ? g->score : UINT32_MAX;
    return (uint64_t)score << 32 | (p->count_too ? g->count : 0);
}

static void count(ghost *g) { g->count += g->count < UINT32_MAX; }

/* Every miss passes here, let in or not: the place to count it. */
static bool admit(void *st, const larder_access *a) {
    count(&ghosts(st)[a->key]);
    return true;
}

static void close_gap(app *p) {
    if (!p->gap)
        return;
    p->gap = false;
    larder__heap_node last = p->lowest.nodes[--p->lowest.size];
    if (p->lowest.size)
        larder__heap_sink(&p->lowest, 0, last);
}

static void insert(void *st, larder_slot s, const larder_access *a) {
    app *p = st;
    larder__heap_node n = {rank(p, &ghosts(p)[a->key]), (uint32_t)a->key, s};
    if (p->gap)
        larder__heap_sink(&p->lowest, 0, n);
    else
        larder__heap_push(&p->lowest, s, n.high, n.low);
    p->gap = false;
}

static void hit(void *st, larder_slot s, const larder_access *a) {
    (void)s;
    count(&ghosts(st)[a->key]);
}

/* The lowest resident. */
static const larder__heap_node *front(app *p) {
    close_gap(p);
    for (;;) {
        const larder__heap_node *top = larder__heap_top(&p->lowest);
        uint64_t now = rank(p, &ghosts(p)[top->low]);
        if (top->high == now)
            return top;
        larder__heap_rerank(&p->lowest, top->slot, now, top->low);
    }
}

static larder_slot victim(void *st, const larder_access *incoming) {
    app *p = st;
    const larder__heap_node *top = front(p);
    bool grows = p->slots->slot_of[incoming->key] != LARDER_NO_SLOT;
    return grows || ghosts(p)[incoming->key].score >= top->high >> 32 ? top->slot : LARDER_NO_SLOT;
}

static void leave(void *st, larder_slot s, bool evicted) {
    (void)evicted;
    app *p = st;
    close_gap(p);
    if (p->lowest.place[s] == 0)
        p->gap = true;
    else
        larder__heap_remove(&p->lowest, s);
}

static void ghost_score(void *st, uint64_t key, float value) {
    if (!isnan(value))
        ghosts(st)[key].score = ordered(value);
}

static void score(void *st, larder_slot s, float value) {
    app *p = st;
    uint32_t key = p->slots->key_of[s];
    close_gap(p);
    ghost_score(p, key, value);
    larder__heap_rerank(&p->lowest, s, rank(p, &ghosts(p)[key]), key);
}

static void save(const void *st, larder_writer *w) {
    const app *p = st;
    for (uint64_t k = 0; k < p->slots->keys; k++) {
        larder_write_u32(w, ghosts(p)[k].score);
        larder_write_u32(w, ghosts(p)[k].count);
    }
}

static int load(void *st, larder_reader *r) {
    app *p = st;
    for (uint64_t k = 0; k < p->slots->keys; k++) {
        ghosts(p)[k].score = larder_read_u32(r);
        ghosts(p)[k].count = larder_read_u32(r);
    }
    p->lowest.size = 0;
    p->gap = false;
    for (larder_slot s = 0; s < p->slots->used; s++) {
        uint32_t key = p->slots->key_of[s];
        if (key != UINT32_MAX)
            larder__heap_push(&p->lowest, s, rank(p, &ghosts(p)[key]), key);
    }
    return larder_read_status(r);
}

const larder_policy larder__policy_app = {
    .plugin = {.name = "app",
               .summary =
                   "evicts the lowest score, then the least often used; remembers all scores",
               .params = params,
               .state_size = sizeof(app)},
    .slot_size = LARDER__HEAP_SLOT_SIZE,
    .key_size = sizeof(ghost),
    .init = init,
    .admit = admit,
    .insert = insert,
    .hit = hit,
    .victim = victim,
    .remove = leave,
    .save = save,
    .load = load,
    .hears =
        &(const larder_policy_hears){.needs_scores = true, .score = score, .ghost = ghost_score},
};
