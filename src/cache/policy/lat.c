/* LAT (MASCOT's rule for kernel rows): the smallest key leaves, so that the last part of the data
 * set stays. Knows nothing about use, and is good where an exactly repeating order meets it. */
#include "base/heap.h"

typedef struct lat {
    const larder_slots *slots;
    larder__heap smallest;
} lat;

static int init(void *st, const larder_slots *slots, const larder_args *args) {
    (void)args;
    lat *p = st;
    p->slots = slots;
    larder__heap_init(&p->smallest, slots->slot_data, slots->keys);
    return 0;
}

static void insert(void *st, larder_slot s, const larder_access *a) {
    larder__heap_push(&((lat *)st)->smallest, s, a->key, 0);
}

static void hit(void *st, larder_slot s, const larder_access *a) { (void)st, (void)s, (void)a; }

static larder_slot victim(void *st, const larder_access *incoming) {
    (void)incoming;
    return larder__heap_top(&((lat *)st)->smallest)->slot;
}

static void leave(void *st, larder_slot s, bool evicted) {
    (void)evicted;
    larder__heap_remove(&((lat *)st)->smallest, s);
}

/* The keys of the slots tell everything. */
static void save(const void *st, larder_writer *w) { (void)st, (void)w; }

static int load(void *st, larder_reader *r) {
    lat *p = st;
    p->smallest.size = 0;
    for (larder_slot s = 0; s < p->slots->used; s++)
        if (p->slots->key_of[s] != UINT32_MAX)
            larder__heap_push(&p->smallest, s, p->slots->key_of[s], 0);
    return larder_read_status(r);
}

const larder_policy larder__policy_lat = {
    .plugin = {.name = "lat",
               .summary = "evicts the smallest id, so that the last part of the data stays",
               .state_size = sizeof(lat)},
    .slot_size = LARDER__HEAP_SLOT_SIZE,
    .init = init,
    .insert = insert,
    .hit = hit,
    .victim = victim,
    .remove = leave,
    .save = save,
    .load = load,
};
