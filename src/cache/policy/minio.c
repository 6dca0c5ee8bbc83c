/* Never evicts: what came first stays. With exactly-once epochs it hits exactly c, which no policy
 * without a look at the future beats under uniform shuffling (CoorDL calls it MinIO). */
#include "cache/policy/never_evict.h"

const larder_policy larder__policy_minio = {
    .plugin = {.name = "minio", .summary = "keeps what came first and never evicts"},
    LARDER__NEVER_EVICT_OPS,
};
