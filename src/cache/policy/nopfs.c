/* Clairvoyance as far as it goes in a real run (NoPFS): the order of exactly-once epochs follows
 * from the seed, so the next use is known one epoch ahead. Under a sampler whose order is not fixed
 * no next use is known, and what came first stays. */
#include "cache/policy/farthest.h"

const larder_policy larder__policy_nopfs = {
    .plugin = {.name = "nopfs",
               .summary =
                   "evicts the farthest next use, known from the seeded order an epoch ahead",
               .state_size = sizeof(larder__farthest)},
    .future = LARDER_FUTURE_EPOCH,
    LARDER__FARTHEST_OPS,
};
