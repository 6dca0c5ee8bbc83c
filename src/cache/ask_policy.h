/* Operations of the policy that may be absent, and what holds where they are. Called under the
 * lock; only the files of the cache include this. */
#ifndef LARDER_CACHE_ASK_POLICY_H
#define LARDER_CACHE_ASK_POLICY_H

#include "cache/cache_inside.h"

static inline bool larder__ask_admit(larder__local *c, const larder_access *a) {
    return !c->policy->admit || c->policy->admit(c->policy_state, a);
}

static inline void larder__ask_resized(larder__local *c, larder_slot s, uint32_t was) {
    if (c->policy->resized)
        c->policy->resized(c->policy_state, s, was);
}

static inline void larder__tell_score(larder__local *c, larder_slot s, float score) {
    if (LARDER_HAS(c->policy, hears, score))
        c->policy->hears->score(c->policy_state, s, score);
}

static inline void larder__tell_ghost(larder__local *c, uint64_t key, float score) {
    if (LARDER_HAS(c->policy, hears, ghost))
        c->policy->hears->ghost(c->policy_state, key, score);
}

static inline bool larder__ask_offer(larder__local *c, const larder_access *a) {
    return LARDER_HAS(c->policy, hears, offer) && c->policy->hears->offer(c->policy_state, a);
}

static inline bool larder__ask_listens(larder__local *c) {
    return !LARDER_HAS(c->policy, hears, listens) || c->policy->hears->listens(c->policy_state);
}

static inline bool larder__ask_stand_in(larder__local *c, const larder_access *a, uint64_t *other) {
    return LARDER_HAS(c->policy, lends, stand_in) &&
           c->policy->lends->stand_in(c->policy_state, a, other);
}

static inline uint32_t larder__ask_forms(larder__local *c, const larder_access *a) {
    uint32_t forms = LARDER_HAS(c->policy, shares, forms)
                         ? c->policy->shares->forms(c->policy_state, a)
                         : UINT32_MAX;
    return forms >> LARDER_ENCODED & 1 ? forms | 1u << LARDER_SHRUNK : forms;
}

static inline bool larder__ask_serves(larder__local *c, larder_slot s, const larder_access *a) {
    return !LARDER_HAS(c->policy, shares, serves) ||
           c->policy->shares->serves(c->policy_state, s, a);
}

static inline bool larder__ask_spent(larder__local *c, larder_slot s) {
    return !LARDER_HAS(c->policy, shares, spent) || c->policy->shares->spent(c->policy_state, s);
}

#endif
