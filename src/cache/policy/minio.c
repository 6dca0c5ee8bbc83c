/* Never evicts: what came first stays. With exactly-once epochs it hits exactly c, which no policy
 * without a look at the future beats under uniform shuffling (CoorDL calls it MinIO). */
#include <larder/plugin.h>

static int init(void *st, const larder_slots *slots, const larder_args *args) {
    (void)st, (void)slots, (void)args;
    return 0;
}

static void touch(void *st, larder_slot s, const larder_access *a) { (void)st, (void)s, (void)a; }

static larder_slot victim(void *st, const larder_access *incoming) {
    (void)st, (void)incoming;
    return LARDER_NO_SLOT;
}

static void evict(void *st, larder_slot s, bool evicted) { (void)st, (void)s, (void)evicted; }

const larder_policy larder__policy_minio = {
    .plugin = {.name = "minio", .summary = "keeps what came first and never evicts"},
    .init = init,
    .insert = touch,
    .hit = touch,
    .victim = victim,
    .remove = evict,
};
