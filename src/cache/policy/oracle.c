/* The floor: a cache that holds the whole data set, whatever --cache says. After the first epoch
 * every access is a hit. Not a policy to use but one to compare with; its budget shows as what it
 * is. */
#include "cache/policy/never_evict.h"

const larder_policy larder__policy_oracle = {
    .plugin = {.name = "oracle",
               .summary = "holds all samples, whatever the cache size: what no cache can beat"},
    .holds_all = true,
    LARDER__NEVER_EVICT_OPS,
};
