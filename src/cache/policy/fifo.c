/* First in, first out: a hit changes nothing, so it costs nothing. */
#include "cache/policy/queue.h"

static void hit(void *st, larder_slot s, const larder_access *a) { (void)st, (void)s, (void)a; }

const larder_policy larder__policy_fifo = {
    .plugin = {.name = "fifo",
               .summary = "evicts what came first, used or not",
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
