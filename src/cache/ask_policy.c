/* What the rest of the program tells and asks the policy, under the lock; or the cache that lives
 * elsewhere. */
#include "base/err.h"
#include "cache/cache_inside.h"
#include "cache/link.h"

#include <math.h>

uint32_t larder__cache_entry_size(const larder__cache *c, larder_form form, uint32_t encoded) {
    return larder__form_size(c, (int)form, encoded);
}

bool larder__cache_resident(const larder__cache *c, uint64_t key) {
    return key < c->slots.keys &&
           __atomic_load_n(&c->slots.slot_of[key], __ATOMIC_RELAXED) != LARDER_NO_SLOT;
}

const larder_slots *larder__cache_slots(const larder__cache *c) { return &c->slots; }

bool larder__cache_fits(const larder__cache *c, uint32_t bytes) {
    if (c->link) /* another process has it, and says how large it is unless it is away */
        return bytes <= c->slots.budget || c->slots.budget == 0;
    uint64_t room = larder__cache_room(c, 1);
    for (int f = 0; f < LARDER_FORMS; f++) {
        uint32_t need = larder__form_size(c, f, bytes);
        if ((c->forms.share[f] > 0 || c->forms.movable) && (need > 0 || bytes == 0) &&
            need <= (c->forms.movable ? room : larder__form_room(c, f, room)))
            return true;
    }
    return false;
}

bool larder__cache_switched(larder__cache *c, uint64_t i, larder_switch *out) {
    if (!c->policy->switched)
        return false;
    pthread_mutex_lock(&c->lock);
    bool there = c->policy->switched(c->policy_state, i, out);
    pthread_mutex_unlock(&c->lock);
    return there;
}

void larder__cache_accuracy(larder__cache *c, double accuracy) {
    if (c->link)
        c->link->accuracy(c->link_state, accuracy);
    if (c->link || !c->policy->accuracy)
        return;
    pthread_mutex_lock(&c->lock);
    c->policy->accuracy(c->policy_state, accuracy);
    pthread_mutex_unlock(&c->lock);
}

bool larder__cache_pick(larder__cache *c, larder_rng *rng, uint64_t *key, double *share) {
    if (c->link)
        return c->link->pick(c->link_state, rng, key, share);
    if (!c->policy->pick)
        return false;
    pthread_mutex_lock(&c->lock);
    bool there = c->slots.resident && c->policy->pick(c->policy_state, rng, key, share);
    if (there && !larder__cache_resident(c, *key)) {
        larder__cache_blame(c, "picked key %llu, which the cache does not hold",
                            (unsigned long long)*key);
        there = false;
    }
    pthread_mutex_unlock(&c->lock);
    return there;
}

size_t larder__cache_fetch(larder__cache *c, uint64_t *keys, size_t max) {
    if (c->link)
        return c->link->fetch(c->link_state, keys, max);
    if (!c->policy->fetch)
        return 0;
    pthread_mutex_lock(&c->lock);
    size_t n = c->policy->fetch(c->policy_state, keys, max);
    n = larder__cache_known_keys(c, "fetched", keys, n, max);
    pthread_mutex_unlock(&c->lock);
    return n;
}

void larder__cache_exchange(larder__cache *c, uint32_t job, const uint64_t *wanted, size_t n,
                            uint64_t *served) {
    if (c->link) {
        c->link->exchange(c->link_state, wanted, n, served);
        return;
    }
    if (!c->policy->exchange) {
        memcpy(served, wanted, n * sizeof *served);
        return;
    }
    pthread_mutex_lock(&c->lock);
    c->policy->exchange(c->policy_state, job, &c->rng, wanted, n, served);
    if (larder__cache_known_keys(c, "exchanged", served, n, n) < n)
        memcpy(served, wanted, n * sizeof *served);
    pthread_mutex_unlock(&c->lock);
}

bool larder__cache_pace(larder__cache *c, const larder_pace *pace, double cores) {
    if (c->link && c->link->pace)
        c->link->pace(c->link_state, pace, cores);
    return c->link != NULL;
}

bool larder__cache_stream(larder__cache *c, larder_stream *s, bool join) {
    return c->link && c->link->stream(c->link_state, s, join);
}

int larder__cache_tell(larder__cache *c, int (*change)(void *policy_state, void *arg), void *arg) {
    if (c->link)
        return larder__fail(LARDER_E_STATE, "this cache lives elsewhere: tell it there");
    pthread_mutex_lock(&c->lock);
    int rc = change(c->policy_state, arg);
    pthread_mutex_unlock(&c->lock);
    return rc;
}

larder_package larder__cache_package(larder__cache *c) {
    if (c->link || !c->policy->package) /* elsewhere nothing is laid down */
        return (larder_package){0};
    pthread_mutex_lock(&c->lock);
    larder_package out = c->policy->package(c->policy_state);
    pthread_mutex_unlock(&c->lock);
    return out;
}

size_t larder__cache_dropped(larder__cache *c, uint64_t *numbers, size_t max) {
    if (c->link || !c->policy->dropped)
        return 0;
    pthread_mutex_lock(&c->lock);
    size_t n = c->policy->dropped(c->policy_state, numbers, max);
    if (n > max) {
        larder__cache_blame(c, "dropped %zu packages where %zu were asked for", n, max);
        n = 0;
    }
    pthread_mutex_unlock(&c->lock);
    return n;
}

void larder__cache_batch(larder__cache *c) {
    if (c->link || (!c->policy->batch && !c->store->turn)) /* elsewhere a claim is a batch */
        return;
    pthread_mutex_lock(&c->lock);
    if (c->policy->batch)
        c->policy->batch(c->policy_state);
    if (c->store->turn)
        c->store->turn(c->store_state);
    pthread_mutex_unlock(&c->lock);
}

bool larder__cache_relate(larder__cache *c, uint64_t key, const uint64_t *ids, size_t n) {
    if (key >= c->slots.keys || (!c->link && !c->policy->relate))
        return false;
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= c->slots.keys || ids[i] == key)
            return false;
    if (c->link) { /* what becomes of it is decided there: the next best is told too */
        if (c->link->relate)
            c->link->relate(c->link_state, key, ids, n);
        return false;
    }
    pthread_mutex_lock(&c->lock);
    bool taken = c->policy->relate(c->policy_state, key, ids, n);
    pthread_mutex_unlock(&c->lock);
    return taken;
}

void larder__cache_show(larder__cache *c, double out[LARDER_FIGURES]) {
    const larder_figure *f = c->link ? NULL : c->policy->figures;
    for (size_t i = 0; !f && i < LARDER_FIGURES; i++)
        out[i] = NAN;
    if (!f)
        return;
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; f[i].name && i < LARDER_FIGURES; i++)
        out[i] = c->policy->figure(c->policy_state, i);
    pthread_mutex_unlock(&c->lock);
}

void larder__cache_list(larder__cache *c, const uint8_t *tags) {
    if (c->link)
        c->link->list(c->link_state, tags);
    if (c->link || !c->policy->list)
        return;
    pthread_mutex_lock(&c->lock);
    c->policy->list(c->policy_state, tags);
    pthread_mutex_unlock(&c->lock);
}

void larder__cache_epoch(larder__cache *c, uint64_t epoch) {
    if (c->link)
        c->link->epoch(c->link_state, epoch);
    if (c->link || !c->policy->epoch)
        return;
    pthread_mutex_lock(&c->lock);
    c->policy->epoch(c->policy_state, epoch);
    pthread_mutex_unlock(&c->lock);
}
