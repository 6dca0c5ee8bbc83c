/* EFU (Li, Wen and He, "Adaptive Kernel Value Caching for SVM Training"): as lfu, but a newcomer
 * enters a full cache only where somebody was used less often than itself. Counts are of all keys,
 * so what is refused today comes in once it was asked for often enough. */
#include "cache/policy/counted.h"

static larder_slot victim(void *st, const larder_access *incoming) {
    return larder__by_count_lesser(st, incoming->key, 0);
}

const larder_policy larder__policy_efu = {
    .plugin = {.name = "efu",
               .summary = "evicts the least often used, for a newcomer used more often alone",
               .state_size = sizeof(larder__by_count)},
    .victim = victim,
    LARDER__COUNTED_OPS,
};
