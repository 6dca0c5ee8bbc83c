/* Asks the solver: evicts the row that is farthest from being selected again. A solver tells for
 * every row how far it is (`score`: min(f_i - min f over I_up, max f over I_low - f_i) where each
 * applies); the largest distance / access count leaves. Only a row that leaves the working set has
 * a distance worth knowing, so what is asked for to be held is decided on when it is offered.
 *
 * For other entries a score says the same: how little they are wanted. Without scores all are
 * wanted alike, and the least recently used leaves. */
#include "base/heap.h"

#include <math.h>

typedef struct kkt {
    const larder_slots *slots;
    larder__heap farthest;
    float *dist; /* by slot, after the heap's; below 0 counts as 0, NAN never */
    uint32_t clock;
} kkt;

static uint32_t *counts(const kkt *p) { return p->slots->key_data; }

static int init(void *st, const larder_slots *slots, const larder_args *args) {
    (void)args;
    kkt *p = st;
    p->slots = slots;
    larder__heap_init(&p->farthest, slots->slot_data, slots->keys);
    p->dist = (float *)(void *)(p->farthest.place + slots->keys);
    return 0;
}

/* Smaller: leaves sooner. A float that is not negative orders as its bits do. */
static uint32_t rank(const kkt *p, uint64_t key, float dist) {
    uint32_t count = counts(p)[key], bits;
    float wanted = dist > 0 ? dist / (float)(count ? count : 1) : 0;
    memcpy(&bits, &wanted, sizeof bits);
    return ~bits;
}

static uint64_t place(const kkt *p, larder_slot s, uint32_t used) {
    return (uint64_t)rank(p, p->slots->key_of[s], p->dist[s]) << 32 | used;
}

static void count_up(const kkt *p, uint64_t key) { counts(p)[key] += counts(p)[key] < UINT32_MAX; }

static bool admit(void *st, const larder_access *a) {
    count_up(st, a->key);
    return a->tag != LARDER_TAG_HELD;
}

static bool offer(void *st, const larder_access *a) {
    (void)st, (void)a;
    return true; /* if there is no room, `victim` compares */
}

static void insert(void *st, larder_slot s, const larder_access *a) {
    kkt *p = st;
    p->dist[s] = isnan(a->score) ? 0 : a->score;
    larder__heap_push(&p->farthest, s, place(p, s, p->clock++), (uint32_t)a->key);
}

/* Just selected: as wanted as can be, until the solver says more. */
static void hit(void *st, larder_slot s, const larder_access *a) {
    kkt *p = st;
    count_up(p, a->key);
    p->dist[s] = 0;
    larder__heap_rerank(&p->farthest, s, place(p, s, p->clock++), (uint32_t)a->key);
}

static larder_slot victim(void *st, const larder_access *incoming) {
    const kkt *p = st;
    const larder__heap_node *top = larder__heap_top(&p->farthest);
    bool grows = p->slots->slot_of[incoming->key] != LARDER_NO_SLOT;
    float dist = isnan(incoming->score) ? 0 : incoming->score;
    return !grows && rank(p, incoming->key, dist) < top->high >> 32 ? LARDER_NO_SLOT : top->slot;
}

static void leave(void *st, larder_slot s, bool evicted) {
    (void)evicted;
    larder__heap_remove(&((kkt *)st)->farthest, s);
}

static uint32_t used(const kkt *p, larder_slot s) {
    return (uint32_t)p->farthest.nodes[p->farthest.place[s]].high;
}

static void score(void *st, larder_slot s, float dist) {
    kkt *p = st;
    if (isnan(dist))
        return;
    p->dist[s] = dist;
    larder__heap_rerank(&p->farthest, s, place(p, s, used(p, s)), p->slots->key_of[s]);
}

static void save(const void *st, larder_writer *w) {
    const kkt *p = st;
    for (uint64_t k = 0; k < p->slots->keys; k++)
        larder_write_u32(w, counts(p)[k]);
    larder_write_u32(w, p->clock);
    for (larder_slot s = 0; s < p->slots->used; s++)
        if (p->slots->key_of[s] != UINT32_MAX) {
            larder_write_f64(w, p->dist[s]);
            larder_write_u32(w, used(p, s));
        }
}

static int load(void *st, larder_reader *r) {
    kkt *p = st;
    for (uint64_t k = 0; k < p->slots->keys; k++)
        counts(p)[k] = larder_read_u32(r);
    p->clock = larder_read_u32(r);
    p->farthest.size = 0;
    for (larder_slot s = 0; s < p->slots->used; s++) {
        if (p->slots->key_of[s] == UINT32_MAX)
            continue;
        p->dist[s] = (float)larder_read_f64(r);
        if (isnan(p->dist[s]))
            return larder_read_reject(r, "a distance that is no number");
        larder__heap_push(&p->farthest, s, place(p, s, larder_read_u32(r)), p->slots->key_of[s]);
    }
    return larder_read_status(r);
}

const larder_policy larder__policy_kkt = {
    .plugin = {.name = "kkt",
               .summary = "evicts the row that is farthest from being selected, as the solver says",
               .state_size = sizeof(kkt)},
    .slot_size = LARDER__HEAP_SLOT_SIZE + sizeof(float),
    .key_size = sizeof(uint32_t),
    .init = init,
    .admit = admit,
    .offer = offer,
    .insert = insert,
    .hit = hit,
    .victim = victim,
    .remove = leave,
    .score = score,
    .save = save,
    .load = load,
};
