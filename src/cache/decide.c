/* Deciding: who is a hit, who enters, who leaves. In the order of requests; bytes come later. */
#include "base/err.h"
#include "cache/ask_policy.h"

#include <assert.h>

/* The ticket of somebody who has to make the entry, or to wait for its maker. Only somebody who
 * makes the same form is worth waiting for: what is served must not depend on who was faster. So
 * who enters a shrunk entry, and is served with what was read, waits for nobody. */
static void board(larder__local *c, larder__ticket *t, larder_slot s, uint32_t size) {
    if (c->elsewhere) {
        if (s != LARDER_NO_SLOT)
            larder__slot_expect(c, s);
        return;
    }
    larder__flight *f = larder__flights_find(&c->flights, t->key);
    /* Nobody else waits for what is made for this one row alone. */
    bool listed = (t->make != LARDER_AUGMENTED && !c->alone) || s != LARDER_NO_SLOT;
    bool ours = f && listed && f->form == t->make && f->size >= size &&
                (!c->alone || f->slot == s) &&
                (t->make != LARDER_SHRUNK || t->form == LARDER_SHRUNK);
    if (f && !ours) {
        if (f->slot != LARDER_NO_SLOT && f->slot != s)
            listed = false; /* it makes what others will ask for */
        else if (listed)
            larder__flight_forget(f); /* its waiters keep it, we start another */
        f = NULL;
    }
    t->task = f ? LARDER__WAIT : LARDER__MAKE;
    t->flight = f ? larder__flight_join(f)
                  : larder__flights_start(&c->flights, t->key, size, t->make, listed);
    t->size = size;
    if (s != LARDER_NO_SLOT) {
        t->flight->slot = s;
        c->state[s] = LARDER__PENDING;
    }
}

/* Bytes that a store has from before: of slot s, or, where that is none, for this request alone. */
static bool found(larder__local *c, larder__ticket *t, larder_slot s, uint32_t size) {
    if (!c->store->find || t->make != LARDER_ENCODED || c->elsewhere)
        return false;
    larder__entry e = {.key = t->key, .form = LARDER_ENCODED, .held = LARDER_ENCODED};
    e.front = s != LARDER_NO_SLOT && c->tier.conf.front && c->tier.front[s];
    t->buf = c->store->find(c->store_state, s, size, &e);
    if (!t->buf)
        return false;
    t->size = size;
    t->held = LARDER_ENCODED;
    t->front = false; /* it comes from where it lay */
    if (s != LARDER_NO_SLOT) {
        c->state[s] = LARDER__FULL;
        c->filled_bytes += size;
        if (c->held)
            c->held[s] = LARDER_ENCODED;
    }
    return true;
}

/* Serves resident slot s. */
static void serve(larder__local *c, larder__ticket *t, larder_slot s) {
    assert(s < c->base.slots.used && c->key_of[s] == t->key);
    t->form = t->make = c->form_of[s];
    t->mark = c->mark ? c->mark[s] : 0;
    t->kept = true;
    if (!c->store->real || (c->elsewhere && c->state[s] != LARDER__COLD))
        return;
    if (c->state[s] == LARDER__FULL || c->state[s] == LARDER__EXPECTED) {
        t->buf = c->store->get(c->store_state, s);
        t->held = c->held ? c->held[s] : LARDER_ENCODED;
        if (t->buf)
            return;
        larder__slot_strip(c, s); /* the store lost it: cold from now on */
    }
    if (c->state[s] == LARDER__COLD) {
        if (found(c, t, s, c->size_of[s]))
            return;
        t->front = false;
        t->kind = t->kind == LARDER_HIT ? LARDER_MISS : t->kind;
    }
    board(c, t, s, c->size_of[s]);
}

/* A resident entry that is shorter than what is wanted: it grows if there is room, else the long
 * version is made but not kept. */
static void grow(larder__local *c, const larder_access *a, larder__ticket *t, larder_slot s) {
    t->kind = LARDER_MISS;
    if (c->store->real && c->state[s] == LARDER__FULL && !c->store->send)
        t->buf = c->store->get(c->store_state, s);
    c->policy->hit(c->policy_state, s, a);
    bool stays =
        larder__cache_make_room(c, a, 1 << LARDER_ENCODED, c->size_of[s], s) == LARDER_ENCODED;
    if (!stays && c->slot_of[a->key] == s)
        larder__slot_evict(c, s);
    if (stays) {
        if (c->store->real)
            larder__slot_strip(c, s);
        uint32_t was = c->size_of[s];
        c->base.slots.bytes += a->size - was;
        c->base.slots.form_bytes[LARDER_ENCODED] += a->size - was;
        larder__tier_grow(c, s, a->size - was);
        c->size_of[s] = a->size;
        larder__ask_resized(c, s, was);
    }
    t->kept = stays;
    if (c->store->real)
        board(c, t, stays ? s : LARDER_NO_SLOT, a->size);
}

/* A missing entry that is let in: its slot. The row itself is served in the same form; but a shrunk
 * entry is for later, and so is an augmented one unless the policy counts who has used it. */
static larder_slot let_in(larder__local *c, const larder_access *a, larder__ticket *t, int form) {
    larder_slot s = larder__cache_enter(c, a, form);
    assert(c->slot_of[a->key] == s && c->form_of[s] == form);
    t->make = (uint8_t)form;
    bool later = form == LARDER_SHRUNK ||
                 (form == LARDER_AUGMENTED && !LARDER_HAS(c->policy, shares, spent));
    t->form = later ? LARDER_ENCODED : (uint8_t)form;
    t->mark = a->now;
    return s;
}

static bool stood_in(larder__local *c, const larder_access *a, larder__ticket *t) {
    uint64_t other;
    if (!larder__ask_stand_in(c, a, &other))
        return false;
    if (!larder__cache_resident(&c->base, other)) {
        larder__cache_blame(c, "lets key %llu stand in, which the cache does not hold",
                            (unsigned long long)other);
        return false;
    }
    t->key = other;
    t->kind = LARDER_SUBSTITUTE;
    c->figures.substitutes++;
    t->front = larder__tier_hit(c, c->slot_of[other]);
    serve(c, t, c->slot_of[other]);
    return true;
}

static void miss(larder__local *c, const larder_access *a, larder__ticket *t) {
    if (stood_in(c, a, t))
        return;
    t->kind = LARDER_MISS;
    larder_slot s = LARDER_NO_SLOT;
    bool may = larder__ask_admit(c, a);
    uint32_t mask = larder__ask_forms(c, a);
    int form = may ? larder__cache_make_room(c, a, mask, 0, LARDER_NO_SLOT) : LARDER__NO_FORM;
    if (form != LARDER__NO_FORM)
        s = let_in(c, a, t, form);
    else {
        c->figures.refusals++;
        if (a->tag == LARDER_TAG_FETCH &&
            !LARDER_HAS(c->policy, brings, reads_all)) { /* nobody asked: not read */
            t->kind = LARDER_HIT;
            return;
        }
    }
    t->kept = s != LARDER_NO_SLOT;
    if (!c->store->real)
        return;
    if (found(c, t, s, a->size))
        t->kind = LARDER_HIT;
    else
        board(c, t, s, s == LARDER_NO_SLOT ? a->size : c->size_of[s]);
}

/* Resident, but not for who asks. */
static void make_apart(larder__local *c, const larder_access *a, larder__ticket *t) {
    t->kind = LARDER_MISS;
    larder__ask_admit(c, a);
    if (c->store->real)
        board(c, t, LARDER_NO_SLOT, a->size);
}

static void hit(larder__local *c, larder_access *a, larder__ticket *t, larder_slot s) {
    c->policy->hit(c->policy_state, s, a);
    t->front = larder__tier_hit(c, s);
    serve(c, t, s);
    if (c->form_of[s] == LARDER_AUGMENTED && a->tag != LARDER_TAG_FETCH && larder__ask_spent(c, s))
        larder__slot_evict(c, s); /* the ticket holds it, or the promise of it */
}

static inline void decide(larder__local *c, larder_access *a, larder__ticket *t) {
    assert(a->key < c->base.slots.keys);
    a->rng = &c->rng;
    *t = (larder__ticket){.key = a->key, .kind = LARDER_HIT, .task = LARDER__READY};
    larder_slot s = c->slot_of[a->key];
    if (s == LARDER_NO_SLOT)
        miss(c, a, t);
    else if (!larder__ask_serves(c, s, a))
        make_apart(c, a, t);
    else if (a->size > c->size_of[s] && c->form_of[s] == LARDER_ENCODED)
        grow(c, a, t, s);
    else
        hit(c, a, t, s);
    if (a->tag == LARDER_TAG_FETCH)
        return;
    c->figures.requests++;
    c->figures.hits += t->kind == LARDER_HIT;
    c->figures.misses += t->kind == LARDER_MISS;
    c->figures.front_hits += t->front;
}

/* A batch walks tables much larger than the processor's caches: ask for the lines in time, first
 * those found by key, then those found by slot, then the head of the entry. */
enum { FAR = LARDER__FAR, MIDDLE = 24, NEAR = 12 };

static inline void ask_for_slot(const larder__local *c, larder_slot s) {
    if (s == LARDER_NO_SLOT)
        return;
    __builtin_prefetch(&c->size_of[s]);
    __builtin_prefetch((char *)c->base.slots.slot_data + s * c->policy->slot_size, 1);
    if (!c->store->prefetch)
        return;
    __builtin_prefetch(&c->state[s]);
    c->store->prefetch(c->store_state, s, false);
}

static inline void look_ahead(const larder__local *c, const larder_access *a, size_t i, size_t n) {
    if (i + FAR < n)
        larder__ask_for_key(c, a[i + FAR].key);
    if (i + MIDDLE < n)
        ask_for_slot(c, c->slot_of[a[i + MIDDLE].key]);
    if (c->store->prefetch && i + NEAR < n && c->slot_of[a[i + NEAR].key] != LARDER_NO_SLOT)
        c->store->prefetch(c->store_state, c->slot_of[a[i + NEAR].key], true);
}

static int begin(larder__local *c, const larder_access *a, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (a[i].key >= c->base.slots.keys)
            return larder__fail(LARDER_E_RANGE, "key %llu: the cache knows keys up to %llu",
                                (unsigned long long)a[i].key,
                                (unsigned long long)c->base.slots.keys);
    for (size_t i = 0; i < n && i < FAR; i++)
        larder__ask_for_key(c, a[i].key);
    larder__cache_lock(c);
    if (c->rescoring.keys)
        larder__cache_help_rescoring(c);
    assert(larder__cache_consistent(c));
    int rc = c->fault[0] ? larder__fail(LARDER_E_STATE, "%s", c->fault) : 0;
    if (rc == 0 && c->store->real)
        rc = larder__flights_reserve(&c->flights, n);
    if (rc < 0)
        pthread_mutex_unlock(&c->lock);
    return rc;
}

int larder__local_claim(larder__cache *cache, larder_access *a, size_t n, larder__ticket *out) {
    larder__local *c = larder__local_of(cache);
    int rc = begin(c, a, n);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n && i < MIDDLE; i++)
        ask_for_slot(c, c->slot_of[a[i].key]);
    for (size_t i = 0; i < n; i++) {
        look_ahead(c, a, i, n);
        decide(c, &a[i], &out[i]);
    }
    pthread_mutex_unlock(&c->lock);
    if (c->store->send)
        larder__cache_send_for(c, a, n, out);
    return 0;
}

int larder__local_claim_part(larder__cache *cache, larder_access *a, size_t n, size_t from,
                             size_t step, size_t mine, larder__ticket *out) {
    larder__local *c = larder__local_of(cache);
    int rc = begin(c, a, n);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++) {
        look_ahead(c, a, i, n);
        c->elsewhere = i < from || (i - from) % step != 0 || (i - from) / step >= mine;
        decide(c, &a[i], &out[i]);
    }
    c->elsewhere = false;
    pthread_mutex_unlock(&c->lock);
    if (c->store->send)
        larder__cache_send_for(c, a, n, out);
    return 0;
}

void larder__local_expect(larder__cache *cache, uint64_t key) {
    larder__local *c = larder__local_of(cache);
    larder__cache_lock(c);
    larder_slot s = c->slot_of[key];
    if (c->store->real && s != LARDER_NO_SLOT && c->state[s] == LARDER__COLD)
        larder__slot_expect(c, s);
    pthread_mutex_unlock(&c->lock);
}

/* As look_ahead, but nobody looks at the bytes. */
static inline void touch_ahead(const larder__local *c, const larder__touch *in, size_t i,
                               size_t n) {
    if (i + FAR < n)
        larder__ask_for_key(c, in[i + FAR].key);
    larder_slot s = i + MIDDLE < n ? c->slot_of[in[i + MIDDLE].key] : LARDER_NO_SLOT;
    if (s != LARDER_NO_SLOT)
        __builtin_prefetch((char *)c->base.slots.slot_data + s * c->policy->slot_size, 1);
}

int larder__cache_touch(larder__cache *cache, const larder__touch *in, size_t n, uint32_t job,
                        uint64_t now) {
    larder__local *c = larder__local_of(cache);
    for (size_t i = 0; i < n; i++)
        if (in[i].key >= c->base.slots.keys)
            return larder__fail(LARDER_E_RANGE, "key %u: the cache knows keys up to %llu",
                                in[i].key, (unsigned long long)c->base.slots.keys);
    int rc = begin(c, NULL, 0);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++) {
        touch_ahead(c, in, i, n);
        larder_slot s = c->slot_of[in[i].key];
        if (s == LARDER_NO_SLOT || c->form_of[s] == LARDER_AUGMENTED)
            continue;
        larder_access was = {.key = in[i].key,
                             .now = now + i,
                             .next_use = LARDER_UNKNOWN,
                             .size = c->size_of[s],
                             .job = job,
                             .tag = in[i].tag,
                             .group = LARDER_NO_GROUP,
                             .score = in[i].score,
                             .rng = &c->rng};
        c->policy->hit(c->policy_state, s, &was);
    }
    c->figures.requests += n;
    c->figures.hits += n;
    pthread_mutex_unlock(&c->lock);
    return 0;
}

int larder__cache_claim_batch(larder__cache *cache, larder_access *a, size_t n,
                              larder__ticket *out) {
    larder__local *c = larder__local_of(cache);
    int rc = begin(c, a, n);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++) {
        larder_slot s = c->slot_of[a[i].key];
        bool there = s != LARDER_NO_SLOT && a[i].size <= c->size_of[s];
        out[i] = (larder__ticket){.kind = LARDER_MISS, .task = LARDER__READY};
        if (there)
            decide(c, &a[i], &out[i]);
    }
    for (size_t i = 0; i < n; i++) {
        if (out[i].kind != LARDER_MISS || out[i].task == LARDER__MAKE)
            continue;
        decide(c, &a[i], &out[i]);
        if (out[i].kind == LARDER_HIT) { /* came twice in this batch: it was missing at look-up */
            out[i].kind = LARDER_MISS;
            c->figures.hits--;
            c->figures.misses++;
        }
    }
    pthread_mutex_unlock(&c->lock);
    if (c->store->send)
        larder__cache_send_for(c, a, n, out);
    return 0;
}

int larder__local_reclaim(larder__cache *cache, uint64_t key, uint32_t size, larder_form form,
                          uint64_t mark, larder__ticket *out) {
    larder__local *c = larder__local_of(cache);
    larder_access a = {.key = key, .size = size};
    int rc = begin(c, &a, 1);
    if (rc < 0)
        return rc;
    *out = (larder__ticket){.key = key, .kind = LARDER_HIT, .task = LARDER__READY};
    larder_slot s = c->slot_of[key];
    uint32_t bytes = larder__form_size(c, (int)form, size);
    bool shrunk = s != LARDER_NO_SLOT && c->form_of[s] == LARDER_SHRUNK;
    if (s != LARDER_NO_SLOT && c->form_of[s] == form && (shrunk || c->size_of[s] == bytes) &&
        (form != LARDER_AUGMENTED || c->mark[s] == mark))
        serve(c, out, s);
    else {
        /* What was read when it entered fills the cold entry, too. */
        bool fills = shrunk && form == LARDER_ENCODED && c->state[s] == LARDER__COLD;
        out->kind = LARDER_MISS;
        out->form = (uint8_t)form;
        out->make = fills ? LARDER_SHRUNK : (uint8_t)form;
        out->mark = mark;
        out->kept = fills;
        if (c->store->real)
            board(c, out, fills ? s : LARDER_NO_SLOT, bytes);
    }
    pthread_mutex_unlock(&c->lock);
    if (c->store->send)
        larder__cache_send_for(c, NULL, 1, out);
    return 0;
}

bool larder__cache_adopt(larder__cache *cache, uint64_t key, uint32_t size) {
    larder__local *c = larder__local_of(cache);
    larder_access a = {.key = key,
                       .next_use = LARDER_UNKNOWN,
                       .size = size,
                       .group = LARDER_NO_GROUP,
                       .score = NAN,
                       .rng = &c->rng};
    larder__ticket t = {.key = key};
    pthread_mutex_lock(&c->lock);
    bool there = c->slot_of[key] == LARDER_NO_SLOT && found(c, &t, LARDER_NO_SLOT, size);
    bool room = !there || larder__cache_has_room(c, &a, LARDER_ENCODED);
    larder__ticket_drop(&t);
    if (there && room && larder__ask_admit(c, &a)) {
        larder_slot s = larder__cache_enter(c, &a, LARDER_ENCODED);
        c->state[s] = LARDER__COLD;
        found(c, &t, s, size);
    }
    pthread_mutex_unlock(&c->lock);
    larder__ticket_drop(&t);
    return room;
}

static void offer_one(larder__local *c, larder_access *a, larder_buf *b) {
    larder_slot s = c->slot_of[a->key];
    if (s != LARDER_NO_SLOT) {
        larder__tell_score(c, s, a->score);
        return;
    }
    a->rng = &c->rng;
    if (!larder__ask_offer(c, a) ||
        larder__cache_make_room(c, a, 1 << LARDER_ENCODED, 0, LARDER_NO_SLOT) == LARDER__NO_FORM)
        return;
    s = larder__cache_enter(c, a, LARDER_ENCODED);
    if (!c->store->real)
        return;
    larder__buf_enter(b, c->account);
    larder__slot_put(c, s, b, LARDER_ENCODED);
    c->filled_bytes += a->size;
}

void larder__cache_offer(larder__cache *cache, larder_access *a, larder_buf *const *bufs,
                         size_t n) {
    larder__local *c = larder__local_of(cache);
    if (!LARDER_HAS(c->policy, hears, score))
        return;
    larder__cache_lock(c);
    for (size_t i = 0; i < n; i++)
        if (a[i].key < c->base.slots.keys)
            offer_one(c, &a[i], bufs ? bufs[i] : NULL);
    pthread_mutex_unlock(&c->lock);
}
