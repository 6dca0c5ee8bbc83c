/* Asks the solver: evicts the row that is farthest from being selected again. A solver tells for
 * every row how far it is (`score`: min(f_i - min f over I_up, max f over I_low - f_i) where each
 * applies); the largest distance / access count leaves. Only a row that leaves the working set has
 * a distance worth knowing, so what is asked for to be held is decided on when it is offered.
 *
 * Among rows that are all equally near (pendigits: every point is a support vector) distances are
 * noise. So a newcomer must be nearer by a margin, or who is there stays.
 *
 * For other entries a score says the same: how little they are wanted. Without scores all are
 * wanted alike, and the least recently used leaves. */
#include "cache/policy/by_distance.h"

typedef struct kkt {
    larder__by_distance rows;
    uint32_t *counts; /* by key */
    double margin;
} kkt;

static const larder_param params[] = {
    {"margin", "float", "1.1", "a newcomer must be nearer than who leaves by so many times", 1,
     1000},
    {0},
};

static int init(void *st, const larder_slots *slots, const larder_args *args) {
    kkt *p = st;
    p->counts = slots->key_data;
    p->margin = larder_args_number(args, "margin");
    return larder__by_distance_init(&p->rows, slots, slots->slot_data, p->counts);
}

static void fini(void *st) { larder__by_distance_fini(&((kkt *)st)->rows); }

static void count_up(kkt *p, uint64_t key) { p->counts[key] += p->counts[key] < UINT32_MAX; }

static bool admit(void *st, const larder_access *a) {
    count_up(st, a->key);
    return a->tag != LARDER_TAG_HELD;
}

static bool offer(void *st, const larder_access *a) {
    (void)st, (void)a;
    return true; /* if there is no room, `victim` compares */
}

static void insert(void *st, larder_slot s, const larder_access *a) {
    larder__by_distance_insert(&((kkt *)st)->rows, s, a->score);
}

static void hit(void *st, larder_slot s, const larder_access *a) {
    kkt *p = st;
    count_up(p, a->key);
    larder__by_distance_hit(&p->rows, s);
}

static larder_slot victim(void *st, const larder_access *incoming) {
    kkt *p = st;
    return larder__by_distance_farther(&p->rows, incoming, p->margin);
}

static void leave(void *st, larder_slot s, bool evicted) {
    (void)evicted;
    larder__by_distance_remove(&((kkt *)st)->rows, s);
}

static void score(void *st, larder_slot s, float dist) {
    larder__by_distance_score(&((kkt *)st)->rows, s, dist);
}

static void save(const void *st, larder_writer *w) {
    const kkt *p = st;
    for (uint64_t k = 0; k < p->rows.slots->keys; k++)
        larder_write_u32(w, p->counts[k]);
    larder__by_distance_save(&p->rows, w);
}

static int load(void *st, larder_reader *r) {
    kkt *p = st;
    for (uint64_t k = 0; k < p->rows.slots->keys; k++)
        p->counts[k] = larder_read_u32(r);
    return larder__by_distance_load(&p->rows, r);
}

const larder_policy larder__policy_kkt = {
    .plugin = {.name = "kkt",
               .summary = "evicts the row that is farthest from being selected, as the solver says",
               .params = params,
               .state_size = sizeof(kkt)},
    .slot_size = LARDER__BY_DISTANCE_SLOT_SIZE,
    .key_size = sizeof(uint32_t),
    .init = init,
    .fini = fini,
    .admit = admit,
    .insert = insert,
    .hit = hit,
    .victim = victim,
    .remove = leave,
    .save = save,
    .load = load,
    .hears = &(const larder_policy_hears){.needs_scores = true, .offer = offer, .score = score},
};
