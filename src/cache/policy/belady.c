/* Belady's MIN with bypass: no policy hits more often on the same requests of equal size. It has to
 * be told the future, so it serves as a bound in simulations. */
#include "cache/policy/farthest.h"

const larder_policy larder__policy_belady = {
    .plugin = {.name = "belady",
               .summary = "evicts the farthest next use: the bound no policy beats",
               .state_size = sizeof(larder__farthest)},
    .future = LARDER_FUTURE_ALL,
    LARDER__FARTHEST_OPS,
};
