/* Least recently used. The yardstick everyone knows, and nearly useless under random shuffling:
 * with a cache of c of the data it hits c + (1-c) ln(1-c). */
#include "cache/policy/queue.h"

static void hit(void *st, larder_slot s, const larder_access *a) {
    (void)a;
    larder__queue *q = st;
    if (q->order.newest == s)
        return;
    larder__list_cut(&q->order, larder__queue_links(q), s);
    larder__list_push(&q->order, larder__queue_links(q), s);
}

const larder_policy larder__policy_lru = {
    .plugin = {.name = "lru",
               .summary = "evicts the least recently used",
               .state_size = sizeof(larder__queue)},
    .slot_size = sizeof(larder__link),
    .init = larder__queue_init,
    .insert = larder__queue_insert,
    .hit = hit,
    .victim = larder__queue_oldest,
    .remove = larder__queue_remove,
    .save = larder__queue_save,
    .load = larder__queue_load,
};
