/* Belady's MIN with bypass: evicts the entry whose next use lies farthest ahead, and keeps the
 * newcomer out when its own lies farther still. No policy hits more often on the same requests of
 * equal size. It has to be told the future, so it serves as a bound in simulations.
 *
 * Next uses differ, but for entries that are never used again: of these the smallest key goes. */
#include "base/heap.h"

typedef struct belady {
    const larder_slots *slots;
    larder__heap farthest; /* by the complement of the next use: farthest first */
} belady;

static int init(void *st, const larder_slots *slots, const larder_args *args) {
    (void)args;
    belady *p = st;
    p->slots = slots;
    larder__heap_init(&p->farthest, slots->slot_data, slots->keys);
    return 0;
}

static void insert(void *st, larder_slot s, const larder_access *a) {
    larder__heap_push(&((belady *)st)->farthest, s, ~a->next_use, (uint32_t)a->key);
}

static void hit(void *st, larder_slot s, const larder_access *a) {
    larder__heap_rerank(&((belady *)st)->farthest, s, ~a->next_use, (uint32_t)a->key);
}

/* An entry that grows stands in the heap itself, with the same next use: it may be the one to go,
 * but is never refused. */
static larder_slot victim(void *st, const larder_access *incoming) {
    const belady *p = st;
    const larder__heap_node *top = larder__heap_top(&p->farthest);
    bool resident = p->slots->slot_of[incoming->key] != LARDER_NO_SLOT;
    return !resident && incoming->next_use >= ~top->high ? LARDER_NO_SLOT : top->slot;
}

static void leave(void *st, larder_slot s, bool evicted) {
    (void)evicted;
    larder__heap_remove(&((belady *)st)->farthest, s);
}

static void save(const void *st, larder_writer *w) {
    const belady *p = st;
    for (larder_slot s = 0; s < p->slots->used; s++)
        if (p->slots->key_of[s] != UINT32_MAX)
            larder_write_u64(w, ~p->farthest.nodes[p->farthest.place[s]].high);
}

static int load(void *st, larder_reader *r) {
    belady *p = st;
    p->farthest.size = 0;
    for (larder_slot s = 0; s < p->slots->used; s++)
        if (p->slots->key_of[s] != UINT32_MAX)
            larder__heap_push(&p->farthest, s, ~larder_read_u64(r), p->slots->key_of[s]);
    return larder_read_status(r);
}

const larder_policy larder__policy_belady = {
    .plugin = {.name = "belady",
               .summary = "evicts the farthest next use: the bound no policy beats",
               .state_size = sizeof(belady)},
    .slot_size = LARDER__HEAP_SLOT_SIZE,
    .needs_future = true,
    .init = init,
    .insert = insert,
    .hit = hit,
    .victim = victim,
    .remove = leave,
    .save = save,
    .load = load,
};
