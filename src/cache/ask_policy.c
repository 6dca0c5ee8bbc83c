/* What the rest of the program tells and asks the policy, under the lock. */
#include "base/err.h"
#include "cache/cache_inside.h"

#include <math.h>

uint32_t larder__cache_entry_size(const larder__cache *cache, larder_form form, uint32_t encoded) {
    const larder__local *c = larder__local_of(cache);
    return larder__form_size(c, (int)form, encoded);
}

bool larder__local_fits(const larder__cache *cache, uint32_t bytes) {
    const larder__local *c = larder__local_of(cache);
    uint64_t room = larder__cache_room(c, 1);
    for (int f = 0; f < LARDER_FORMS; f++) {
        uint32_t need = larder__form_size(c, f, bytes);
        if ((c->forms.share[f] > 0 || c->forms.movable) && (need > 0 || bytes == 0) &&
            need <= (c->forms.movable ? room : larder__form_room(c, f, room)))
            return true;
    }
    return false;
}

bool larder__cache_switched(larder__cache *cache, uint64_t i, larder_switch *out) {
    larder__local *c = larder__local_of(cache);
    if (!LARDER_HAS(c->policy, shows, switched))
        return false;
    pthread_mutex_lock(&c->lock);
    bool there = c->policy->shows->switched(c->policy_state, i, out);
    pthread_mutex_unlock(&c->lock);
    return there;
}

bool larder__local_pick(larder__cache *cache, larder_rng *rng, uint64_t *key) {
    larder__local *c = larder__local_of(cache);
    if (!LARDER_HAS(c->policy, lends, pick))
        return false;
    pthread_mutex_lock(&c->lock);
    bool there = c->base.slots.resident && c->policy->lends->pick(c->policy_state, rng, key);
    if (there && !larder__cache_resident(&c->base, *key)) {
        larder__cache_blame(c, "picked key %llu, which the cache does not hold",
                            (unsigned long long)*key);
        there = false;
    }
    pthread_mutex_unlock(&c->lock);
    return there;
}

size_t larder__local_fetch(larder__cache *cache, uint64_t *keys, size_t max) {
    larder__local *c = larder__local_of(cache);
    if (!LARDER_HAS(c->policy, brings, fetch))
        return 0;
    pthread_mutex_lock(&c->lock);
    size_t n = c->policy->brings->fetch(c->policy_state, keys, max);
    n = larder__cache_known_keys(c, "fetched", keys, n, max);
    pthread_mutex_unlock(&c->lock);
    return n;
}

void larder__local_exchange(larder__cache *cache, uint32_t job, const uint64_t *wanted, size_t n,
                            uint64_t *served) {
    larder__local *c = larder__local_of(cache);
    if (!LARDER_HAS(c->policy, shares, exchange)) {
        memcpy(served, wanted, n * sizeof *served);
        return;
    }
    pthread_mutex_lock(&c->lock);
    c->policy->shares->exchange(c->policy_state, job, &c->rng, wanted, n, served);
    if (larder__cache_known_keys(c, "exchanged", served, n, n) < n)
        memcpy(served, wanted, n * sizeof *served);
    pthread_mutex_unlock(&c->lock);
}

int larder__cache_change(larder__cache *cache, int (*change)(void *policy_state, void *arg),
                         void *arg) {
    larder__local *c = larder__local_of(cache);
    pthread_mutex_lock(&c->lock);
    int rc = change(c->policy_state, arg);
    pthread_mutex_unlock(&c->lock);
    return rc;
}

larder_package larder__local_package(larder__cache *cache) {
    larder__local *c = larder__local_of(cache);
    if (!LARDER_HAS(c->policy, brings, package))
        return (larder_package){0};
    pthread_mutex_lock(&c->lock);
    larder_package out = c->policy->brings->package(c->policy_state);
    pthread_mutex_unlock(&c->lock);
    return out;
}

size_t larder__local_dropped(larder__cache *cache, uint64_t *numbers, size_t max) {
    larder__local *c = larder__local_of(cache);
    if (!LARDER_HAS(c->policy, brings, dropped))
        return 0;
    pthread_mutex_lock(&c->lock);
    size_t n = c->policy->brings->dropped(c->policy_state, numbers, max);
    if (n > max) {
        larder__cache_blame(c, "dropped %zu packages where %zu were asked for", n, max);
        n = 0;
    }
    pthread_mutex_unlock(&c->lock);
    return n;
}

void larder__local_batch(larder__cache *cache) {
    larder__local *c = larder__local_of(cache);
    if (!c->policy->batch && !c->store->turn)
        return;
    pthread_mutex_lock(&c->lock);
    if (c->policy->batch)
        c->policy->batch(c->policy_state);
    if (c->store->turn)
        c->store->turn(c->store_state);
    pthread_mutex_unlock(&c->lock);
}

/* `key` may stand in for others: none of them it, all of them keys. */
static bool relate(larder__local *c, const larder__op *o) {
    uint64_t key = o->number[0];
    bool fine = LARDER_HAS(c->policy, lends, relate) && key < c->base.slots.keys;
    for (size_t i = 0; fine && i < o->n; i++)
        fine = o->ids[i] < c->base.slots.keys && o->ids[i] != key;
    return fine && c->policy->lends->relate(c->policy_state, key, o->ids, o->n);
}

/* What goes straight to the policy, by its line in the list. */
static bool say(larder__local *c, const larder__op *o) {
    switch (o->type) {
    case LARDER__OP_RELATE:
        return relate(c, o);
    case LARDER__OP_EPOCH:
        if (LARDER_HAS(c->policy, hears, epoch))
            c->policy->hears->epoch(c->policy_state, o->number[0]);
        return false;
#define ARGS(...) , __VA_ARGS__
#define LARDER_OP(NAME, numbers, values, list, help)
#define LARDER_WORD(NAME, numbers, values, list, group, call, args, help)                          \
    case LARDER__OP_##NAME:                                                                        \
        if (LARDER_HAS(c->policy, group, call))                                                    \
            c->policy->group->call(c->policy_state ARGS args);                                     \
        return false;
#include "cache/operations.def"
#undef LARDER_OP
#undef LARDER_WORD
#undef ARGS
    default:
        return false; /* of several jobs: nobody shares this one */
    }
}

bool larder__local_tell(larder__cache *cache, const larder__op *o) {
    larder__local *c = larder__local_of(cache);
    if (o->type == LARDER__OP_SCORES) {
        larder__local_score(c, o->ids, o->scores, o->n);
        return false;
    }
    pthread_mutex_lock(&c->lock);
    bool yes = say(c, o);
    pthread_mutex_unlock(&c->lock);
    return yes;
}

void larder__local_show(larder__cache *cache, double out[LARDER_FIGURES]) {
    larder__local *c = larder__local_of(cache);
    const larder_figure *f = c->policy->shows ? c->policy->shows->figures : NULL;
    if (!f)
        return;
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; f[i].name && i < LARDER_FIGURES; i++)
        out[i] = c->policy->shows->figure(c->policy_state, i);
    pthread_mutex_unlock(&c->lock);
}

void larder__local_list(larder__cache *cache, const uint8_t *tags) {
    larder__local *c = larder__local_of(cache);
    if (!LARDER_HAS(c->policy, hears, list))
        return;
    pthread_mutex_lock(&c->lock);
    c->policy->hears->list(c->policy_state, tags);
    pthread_mutex_unlock(&c->lock);
}
