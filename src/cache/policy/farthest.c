#include "cache/policy/farthest.h"

int larder__farthest_init(void *st, const larder_slots *slots, const larder_args *args) {
    (void)args;
    larder__farthest *p = st;
    p->slots = slots;
    larder__heap_init(&p->farthest, slots->slot_data, slots->keys);
    return 0;
}

void larder__farthest_insert(void *st, larder_slot s, const larder_access *a) {
    larder__heap_push(&((larder__farthest *)st)->farthest, s, ~a->next_use, (uint32_t)a->key);
}

void larder__farthest_hit(void *st, larder_slot s, const larder_access *a) {
    larder__heap_rerank(&((larder__farthest *)st)->farthest, s, ~a->next_use, (uint32_t)a->key);
}

/* An entry that grows stands in the heap itself, with the same next use: it may be the one to go,
 * but is never refused. */
larder_slot larder__farthest_victim(void *st, const larder_access *incoming) {
    const larder__farthest *p = st;
    const larder__heap_node *top = larder__heap_top(&p->farthest);
    bool resident = p->slots->slot_of[incoming->key] != LARDER_NO_SLOT;
    return !resident && incoming->next_use >= ~top->high ? LARDER_NO_SLOT : top->slot;
}

void larder__farthest_remove(void *st, larder_slot s, bool evicted) {
    (void)evicted;
    larder__heap_remove(&((larder__farthest *)st)->farthest, s);
}

void larder__farthest_save(const void *st, larder_writer *w) {
    const larder__farthest *p = st;
    for (larder_slot s = 0; s < p->slots->used; s++)
        if (p->slots->key_of[s] != UINT32_MAX)
            larder_write_u64(w, ~p->farthest.nodes[p->farthest.place[s]].high);
}

int larder__farthest_load(void *st, larder_reader *r) {
    larder__farthest *p = st;
    p->farthest.size = 0;
    for (larder_slot s = 0; s < p->slots->used; s++)
        if (p->slots->key_of[s] != UINT32_MAX)
            larder__heap_push(&p->farthest, s, ~larder_read_u64(r), p->slots->key_of[s]);
    return larder_read_status(r);
}
