/* What comes stays: the operations of policies that never evict. */
#ifndef LARDER_CACHE_POLICY_NEVER_EVICT_H
#define LARDER_CACHE_POLICY_NEVER_EVICT_H

#include <larder/plugin.h>

static inline int larder__never_init(void *st, const larder_slots *slots, const larder_args *args) {
    (void)st, (void)slots, (void)args;
    return 0;
}

static inline void larder__never_use(void *st, larder_slot s, const larder_access *a) {
    (void)st, (void)s, (void)a;
}

static inline larder_slot larder__never_victim(void *st, const larder_access *incoming) {
    (void)st, (void)incoming;
    return LARDER_NO_SLOT;
}

static inline void larder__never_remove(void *st, larder_slot s, bool evicted) {
    (void)st, (void)s, (void)evicted;
}

#define LARDER__NEVER_EVICT_OPS                                                                    \
    .init = larder__never_init, .insert = larder__never_use, .hit = larder__never_use,             \
    .victim = larder__never_victim, .remove = larder__never_remove

#endif
