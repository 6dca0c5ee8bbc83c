/* SIEVE (Zhang et al. 2024): a queue that new entries join as the newest, one visited bit an entry,
 * and a hand that walks from the oldest to the newest and around again. It passes over visited
 * entries, clearing their bit, and takes the first that is not; survivors keep their place. A hit
 * sets a bit and moves nothing. */
#include "cache/policy/queue.h"

typedef struct sieve {
    larder__queue queue;
    larder_slot hand; /* where the next search starts; LARDER_NO_SLOT: at the oldest */
} sieve;

/* The bits lie behind the links of all slots: a hit touches one dense byte and no link. */
static uint8_t *visited(const sieve *p) {
    return (uint8_t *)p->queue.slots->slot_data + p->queue.slots->keys * sizeof(larder__link);
}

static int init(void *st, const larder_slots *slots, const larder_args *args) {
    ((sieve *)st)->hand = LARDER_NO_SLOT;
    return larder__queue_init(st, slots, args);
}

static void insert(void *st, larder_slot s, const larder_access *a) {
    visited(st)[s] = 0;
    larder__queue_insert(st, s, a);
}

static void hit(void *st, larder_slot s, const larder_access *a) {
    (void)a;
    visited(st)[s] = 1;
}

static larder_slot victim(void *st, const larder_access *incoming) {
    (void)incoming;
    sieve *p = st;
    const larder__link *links = larder__queue_links(&p->queue);
    uint8_t *bits = visited(p);
    larder_slot s = p->hand != LARDER_NO_SLOT ? p->hand : p->queue.order.oldest;
    while (bits[s]) {
        bits[s] = 0;
        s = links[s].newer != LARDER_NO_SLOT ? links[s].newer : p->queue.order.oldest;
    }
    p->hand = s;
    return s;
}

static void leave(void *st, larder_slot s, bool evicted) {
    sieve *p = st;
    if (p->hand == s)
        p->hand = larder__queue_links(&p->queue)[s].newer;
    larder__queue_remove(st, s, evicted);
}

static void save(const void *st, larder_writer *w) {
    const sieve *p = st;
    const larder_slots *slots = p->queue.slots;
    larder__queue_save(st, w);
    larder_write_u32(w, p->hand);
    for (larder_slot s = 0; s < slots->used; s++)
        if (slots->key_of[s] != UINT32_MAX)
            larder_write_bytes(w, &visited(p)[s], 1);
}

static int load(void *st, larder_reader *r) {
    sieve *p = st;
    const larder_slots *slots = p->queue.slots;
    if (larder__queue_load(st, r) < 0)
        return larder_read_status(r);
    p->hand = larder_read_index(r, slots->used, true);
    if (larder_read_status(r) == 0 && p->hand != LARDER_NO_SLOT &&
        slots->key_of[p->hand] == UINT32_MAX)
        return larder_read_reject(r, "the hand of sieve points at nobody");
    for (larder_slot s = 0; s < slots->used; s++) {
        if (slots->key_of[s] == UINT32_MAX)
            continue;
        larder_read_bytes(r, &visited(p)[s], 1);
        if (visited(p)[s] > 1)
            return larder_read_reject(r, "a visited bit is neither 0 nor 1");
    }
    return larder_read_status(r);
}

const larder_policy larder__policy_sieve = {
    .plugin = {.name = "sieve",
               .summary = "a queue whose hand evicts the next one not used since it last passed",
               .state_size = sizeof(sieve)},
    .slot_size = sizeof(larder__link) + 1,
    .init = init,
    .insert = insert,
    .hit = hit,
    .victim = victim,
    .remove = leave,
    .save = save,
    .load = load,
};
