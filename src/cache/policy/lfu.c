/* Least frequently used. Every access of every key counts, also while it is not resident; ties
 * evict the least recently used. */
#include "cache/policy/counted.h"

static larder_slot victim(void *st, const larder_access *incoming) {
    (void)incoming;
    return larder__by_count_least(st);
}

const larder_policy larder__policy_lfu = {
    .plugin = {.name = "lfu",
               .summary = "evicts the least often used, counting evicted entries too",
               .state_size = sizeof(larder__by_count)},
    .victim = victim,
    LARDER__COUNTED_OPS,
};
