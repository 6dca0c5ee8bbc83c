/* Least recently used. The yardstick everyone knows, and nearly useless under random shuffling:
 * with a cache of c of the data it hits c + (1-c) ln(1-c). */
#include "base/list.h"

typedef struct lru {
    const larder_slots *slots;
    larder__list order;
} lru;

static larder__link *links(const lru *p) { return p->slots->slot_data; }

static int init(void *st, const larder_slots *slots, const larder_args *args) {
    (void)args;
    lru *p = st;
    p->slots = slots;
    larder__list_init(&p->order);
    return 0;
}

static void insert(void *st, larder_slot s, const larder_access *a) {
    (void)a;
    lru *p = st;
    larder__list_push(&p->order, links(p), s);
}

static void hit(void *st, larder_slot s, const larder_access *a) {
    (void)a;
    lru *p = st;
    if (p->order.newest == s)
        return;
    larder__list_cut(&p->order, links(p), s);
    larder__list_push(&p->order, links(p), s);
}

static larder_slot victim(void *st, const larder_access *incoming) {
    (void)incoming;
    return ((lru *)st)->order.oldest;
}

static void evict(void *st, larder_slot s, bool evicted) {
    (void)evicted;
    lru *p = st;
    larder__list_cut(&p->order, links(p), s);
}

static void save(const void *st, larder_writer *w) {
    const lru *p = st;
    larder__list_save(&p->order, links(p), w);
}

static int load(void *st, larder_reader *r) {
    lru *p = st;
    return larder__list_load(&p->order, links(p), p->slots, r);
}

const larder_policy larder__policy_lru = {
    .plugin = {.name = "lru",
               .summary = "evicts the least recently used",
               .state_size = sizeof(lru)},
    .slot_size = sizeof(larder__link),
    .init = init,
    .insert = insert,
    .hit = hit,
    .victim = victim,
    .remove = evict,
    .save = save,
    .load = load,
};
