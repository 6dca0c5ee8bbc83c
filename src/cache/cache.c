/* Deciding and filling: who is a hit, who enters, who leaves, and where the bytes go. */
#include "base/err.h"
#include "base/mem.h"
#include "cache/cache_inside.h"
#include "cache/link.h"

#include <assert.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

/* ---- room ------------------------------------------------------------------------------------ */

/* Bytes that lie in a FULL slot: what was reserved, but for pixels that came to less. */
static uint64_t bytes_in(larder__cache *c, larder_slot s) {
    if (c->form_of[s] != LARDER_DECODED)
        return c->size_of[s];
    larder_buf *b = c->store->get(c->store_state, s);
    uint64_t bytes = b ? larder_buf_size(b) : 0;
    larder_buf_unref(&b);
    return bytes;
}

/* Takes the bytes, or the promise of bytes, off a slot; whoever holds or awaits them keeps them. */
static void strip(larder__cache *c, larder_slot s) {
    if (c->state[s] == LARDER__PENDING) {
        larder__flight *f = larder__flights_find(&c->flights, c->key_of[s]);
        if (c->form_of[s] == LARDER_AUGMENTED) /* nobody else may have this very tensor */
            larder__flights_forget(&c->flights, f);
        else
            larder__flight_detach(f);
    } else if (c->state[s] == LARDER__FULL) {
        c->filled_bytes -= bytes_in(c, s);
        c->store->drop(c->store_state, s);
    }
    c->state[s] = LARDER__COLD;
}

static void empty_slot(larder__cache *c, larder_slot s) {
    if (c->watch)
        c->watch(c->watch_arg, c->key_of[s], (larder_form)c->form_of[s], NULL);
    if (c->store->real)
        strip(c, s);
    larder__cache_note_slot(c, c->key_of[s], LARDER_NO_SLOT);
    c->slots.bytes -= c->size_of[s];
    c->slots.form_bytes[c->form_of[s]] -= c->size_of[s];
    c->slots.resident--;
    c->key_of[s] = UINT32_MAX;
    c->form_of[s] = LARDER_ENCODED;
    c->size_of[s] = c->free_slot;
    c->free_slot = s;
}

static void evict(larder__cache *c, larder_slot s) {
    assert(s < c->slots.used && c->key_of[s] != UINT32_MAX);
    c->policy->remove(c->policy_state, s, true);
    empty_slot(c, s);
    c->figures.evictions++;
}

enum { NO_FORM = -1 };

/* The form that `need` more bytes of an entry fit in, of those in `mask`, over `taken` bytes there
 * (NULL: nothing is there). Those that serve again and again come first. */
static int form_with_room(const larder__cache *c, const larder_access *a, uint32_t mask,
                          uint32_t used, const uint64_t *taken, uint32_t held) {
    uint64_t room = larder__cache_room(c, used), all = taken ? c->slots.bytes : 0;
    static const uint8_t order[LARDER_FORMS] = {LARDER_DECODED, LARDER_ENCODED, LARDER_AUGMENTED};
    for (int i = 0; i < LARDER_FORMS; i++) {
        int f = order[i];
        uint64_t size = larder__form_size(c, f, a->size), there = taken ? taken[f] : 0;
        if (!(mask >> f & 1) || c->forms.share[f] <= 0 || (f != LARDER_ENCODED && size == 0))
            continue;
        size -= held;
        if (all + size <= room && there + size <= larder__form_room(c, f, room))
            return f;
    }
    return NO_FORM;
}

/* Makes room for an entry of which `held` bytes are there already, in slot `growing` unless there
 * are none. Answers the form it enters in, or NO_FORM: it stays out. When the entry that is to grow
 * is itself evicted, that is the policy's word: NO_FORM too. */
static int make_room(larder__cache *c, const larder_access *a, uint32_t mask, uint32_t held,
                     larder_slot growing) {
    bool fresh = growing == LARDER_NO_SLOT;
    uint32_t used = c->slots.used + (fresh && c->free_slot == LARDER_NO_SLOT);
    /* With everybody else gone; whoever goes leaves a slot behind. */
    if (form_with_room(c, a, mask, c->slots.resident ? c->slots.used : used, NULL, 0) == NO_FORM)
        return NO_FORM;
    int form;
    while ((form = form_with_room(c, a, mask, used, c->slots.form_bytes, held)) == NO_FORM) {
        if (c->slots.resident == 0)
            return NO_FORM;
        larder_slot v = c->policy->victim(c->policy_state, a);
        if (v == LARDER_NO_SLOT)
            return NO_FORM;
        evict(c, v);
        if (v == growing)
            return NO_FORM;
        used = c->slots.used;
    }
    return form;
}

static larder_slot take_slot(larder__cache *c, const larder_access *a, int form) {
    larder_slot s = c->free_slot;
    if (s != LARDER_NO_SLOT)
        c->free_slot = c->size_of[s];
    else {
        s = c->slots.used++;
        if (c->slot_overhead)
            larder__cache_note_budget(c);
    }
    c->key_of[s] = (uint32_t)a->key;
    c->size_of[s] = larder__form_size(c, form, a->size);
    c->form_of[s] = (uint8_t)form;
    if (c->mark)
        c->mark[s] = a->now;
    larder__cache_note_slot(c, a->key, s);
    c->slots.bytes += c->size_of[s];
    c->slots.form_bytes[form] += c->size_of[s];
    c->slots.resident++;
    return s;
}

static larder_slot enter(larder__cache *c, const larder_access *a, int form) {
    larder_slot s = take_slot(c, a, form);
    c->policy->insert(c->policy_state, s, a);
    if (c->store->real)
        c->state[s] = LARDER__FULL; /* or soon PENDING */
    c->figures.insertions++;
    if (c->watch)
        c->watch(c->watch_arg, a->key, (larder_form)form, a);
    return s;
}

/* ---- deciding -------------------------------------------------------------------------------- */

/* The ticket of somebody who has to make the entry, or to wait for its maker. Only somebody who
 * makes the same form is worth waiting for: what is served must not depend on who was faster. */
static void board(larder__cache *c, larder__ticket *t, larder_slot s, uint32_t size) {
    larder__flight *f = larder__flights_find(&c->flights, t->key);
    /* Nobody else waits for what is made for this one row alone. */
    bool listed = (t->make != LARDER_AUGMENTED && !c->alone) || s != LARDER_NO_SLOT;
    bool ours = f && listed && f->form == t->make && f->size >= size && (!c->alone || f->slot == s);
    if (f && !ours) {
        if (f->slot != LARDER_NO_SLOT && f->slot != s)
            listed = false; /* it makes what others will ask for */
        else if (listed)
            larder__flights_forget(&c->flights, f); /* its waiters keep it, we start another */
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

/* Serves resident slot s. */
static void serve(larder__cache *c, larder__ticket *t, larder_slot s) {
    t->form = t->make = c->form_of[s];
    t->mark = c->mark ? c->mark[s] : 0;
    t->kept = true;
    if (!c->store->real)
        return;
    if (c->state[s] == LARDER__FULL) {
        t->buf = c->store->get(c->store_state, s);
        t->held = c->held ? c->held[s] : LARDER_ENCODED;
        if (t->buf)
            return;
        c->filled_bytes -= bytes_in(c, s); /* the store lost it: cold from now on */
        c->state[s] = LARDER__COLD;
    }
    if (c->state[s] == LARDER__COLD && t->kind == LARDER_HIT)
        t->kind = LARDER_MISS;
    board(c, t, s, c->size_of[s]);
}

/* A resident entry that is shorter than what is wanted: it grows if there is room, else the long
 * version is made but not kept. */
static void grow(larder__cache *c, const larder_access *a, larder__ticket *t, larder_slot s) {
    t->kind = LARDER_MISS;
    if (c->store->real && c->state[s] == LARDER__FULL && !c->store->send)
        t->buf = c->store->get(c->store_state, s);
    c->policy->hit(c->policy_state, s, a);
    bool stays = make_room(c, a, 1 << LARDER_ENCODED, c->size_of[s], s) == LARDER_ENCODED;
    if (!stays && c->slot_of[a->key] == s)
        evict(c, s);
    if (stays) {
        if (c->store->real)
            strip(c, s);
        c->slots.bytes += a->size - c->size_of[s];
        c->slots.form_bytes[LARDER_ENCODED] += a->size - c->size_of[s];
        c->size_of[s] = a->size;
    }
    t->kept = stays;
    if (c->store->real)
        board(c, t, stays ? s : LARDER_NO_SLOT, a->size);
}

/* A missing entry that is let in: its slot. The row itself is served in the same form; but an
 * augmented entry only where the policy counts who has used it, else it is one for later. */
static larder_slot let_in(larder__cache *c, const larder_access *a, larder__ticket *t, int form) {
    larder_slot s = enter(c, a, form);
    t->make = (uint8_t)form;
    t->form = form != LARDER_AUGMENTED || c->policy->spent ? (uint8_t)form : LARDER_ENCODED;
    t->mark = a->now;
    return s;
}

static bool stood_in(larder__cache *c, const larder_access *a, larder__ticket *t) {
    uint64_t other;
    if (!c->policy->stand_in || !c->policy->stand_in(c->policy_state, a, &other) ||
        other >= c->slots.keys || c->slot_of[other] == LARDER_NO_SLOT)
        return false;
    t->key = other;
    t->kind = LARDER_SUBSTITUTE;
    c->figures.substitutes++;
    serve(c, t, c->slot_of[other]);
    return true;
}

static void miss(larder__cache *c, const larder_access *a, larder__ticket *t) {
    if (stood_in(c, a, t))
        return;
    t->kind = LARDER_MISS;
    larder_slot s = LARDER_NO_SLOT;
    bool may = !c->policy->admit || c->policy->admit(c->policy_state, a);
    uint32_t mask = c->policy->forms ? c->policy->forms(c->policy_state, a) : UINT32_MAX;
    int form = may ? make_room(c, a, mask, 0, LARDER_NO_SLOT) : NO_FORM;
    if (form != NO_FORM)
        s = let_in(c, a, t, form);
    else {
        c->figures.refusals++;
        if (a->tag == LARDER_TAG_FETCH && !c->policy->reads_all) { /* nobody asked: not read */
            t->kind = LARDER_HIT;
            return;
        }
    }
    t->kept = s != LARDER_NO_SLOT;
    if (c->store->real)
        board(c, t, s, s == LARDER_NO_SLOT ? a->size : c->size_of[s]);
}

/* Resident, but not for who asks. */
static void make_apart(larder__cache *c, const larder_access *a, larder__ticket *t) {
    t->kind = LARDER_MISS;
    if (c->policy->admit)
        c->policy->admit(c->policy_state, a);
    if (c->store->real)
        board(c, t, LARDER_NO_SLOT, a->size);
}

static void hit(larder__cache *c, larder_access *a, larder__ticket *t, larder_slot s) {
    c->policy->hit(c->policy_state, s, a);
    serve(c, t, s);
    if (c->form_of[s] == LARDER_AUGMENTED && a->tag != LARDER_TAG_FETCH &&
        (!c->policy->spent || c->policy->spent(c->policy_state, s)))
        evict(c, s); /* the ticket holds it, or the promise of it */
}

static inline void decide(larder__cache *c, larder_access *a, larder__ticket *t) {
    assert(a->key < c->slots.keys);
    a->rng = &c->rng;
    *t = (larder__ticket){.key = a->key, .kind = LARDER_HIT, .task = LARDER__READY};
    larder_slot s = c->slot_of[a->key];
    if (s == LARDER_NO_SLOT)
        miss(c, a, t);
    else if (c->policy->serves && !c->policy->serves(c->policy_state, s, a))
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
}

/* A batch walks tables much larger than the processor's caches: ask for the lines in time, first
 * those found by key, then those found by slot, then the head of the entry. */
enum { FAR = 48, MIDDLE = 24, NEAR = 12 };
enum { SCORED = 256, HELPED = 128 }; /* scores at once, and beside a request: some 10 and 5 us */

static inline void ask_for_key(const larder__cache *c, uint64_t key) {
    __builtin_prefetch(&c->slot_of[key]);
    if (c->policy->key_size)
        __builtin_prefetch((char *)c->slots.key_data + key * c->policy->key_size, 1);
}

static inline void ask_for_slot(const larder__cache *c, larder_slot s) {
    if (s == LARDER_NO_SLOT)
        return;
    __builtin_prefetch(&c->size_of[s]);
    __builtin_prefetch((char *)c->slots.slot_data + s * c->policy->slot_size, 1);
    if (!c->store->prefetch)
        return;
    __builtin_prefetch(&c->state[s]);
    c->store->prefetch(c->store_state, s, false);
}

static inline void look_ahead(const larder__cache *c, const larder_access *a, size_t i, size_t n) {
    if (i + FAR < n)
        ask_for_key(c, a[i + FAR].key);
    if (i + MIDDLE < n)
        ask_for_slot(c, c->slot_of[a[i + MIDDLE].key]);
    if (c->store->prefetch && i + NEAR < n && c->slot_of[a[i + NEAR].key] != LARDER_NO_SLOT)
        c->store->prefetch(c->store_state, c->slot_of[a[i + NEAR].key], true);
}

/* A lock that is given up and taken again at once never reaches those who sleep on it. So requests
 * say that they wait, and long work in chunks lets them pass in between. */
static void lock_in_turn(larder__cache *c) {
    if (pthread_mutex_trylock(&c->lock) == 0)
        return;
    atomic_fetch_add(&c->waiting, 1);
    pthread_mutex_lock(&c->lock);
    atomic_fetch_sub(&c->waiting, 1);
    atomic_fetch_add(&c->entered, 1);
}

static void score_some(larder__cache *, larder__rescoring *, size_t most);

static int begin(larder__cache *c, const larder_access *a, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (a[i].key >= c->slots.keys)
            return larder__fail(LARDER_E_RANGE, "key %llu: the cache knows keys up to %llu",
                                (unsigned long long)a[i].key, (unsigned long long)c->slots.keys);
    for (size_t i = 0; i < n && i < FAR; i++)
        ask_for_key(c, a[i].key);
    lock_in_turn(c);
    if (c->rescoring.keys)
        score_some(c, &c->rescoring, HELPED);
    int rc = c->store->real ? larder__flights_reserve(&c->flights, n) : 0;
    if (rc < 0)
        pthread_mutex_unlock(&c->lock);
    return rc;
}

/* From the cache that lives elsewhere, and what it says of its residents now. */
static int claim_there(larder__cache *c, larder_access *a, size_t n, larder__ticket *out) {
    int rc = c->link->claim(c->link_state, a, n, out);
    c->link->look(c->link_state, &c->slots);
    for (size_t i = 0; rc == 0 && i < n; i++)
        out[i].kept = true; /* whatever is made there is made for all who want it: whole */
    return rc;
}

/* Bytes that are elsewhere are sent for at once, so that they come while others are prepared. What
 * was only to be brought in is there: nobody wants it. */
static void send_for(larder__cache *c, const larder_access *a, size_t n, larder__ticket *t) {
    enum { AT_ONCE = 1024 };
    larder_buf *bufs[AT_ONCE];
    size_t of[AT_ONCE];
    for (size_t i = 0; c->store->send && i < n;) {
        size_t m = 0;
        for (; m < AT_ONCE && i < n; i++) {
            if (t[i].task != LARDER__READY || !t[i].buf)
                continue;
            if (a && a[i].tag == LARDER_TAG_FETCH) {
                larder__ticket_drop(&t[i]);
                continue;
            }
            of[m] = i;
            bufs[m++] = t[i].buf;
        }
        c->store->send(c->store_state, bufs, m);
        for (size_t k = 0; k < m; k++)
            t[of[k]].buf = bufs[k];
    }
}

int larder__cache_claim(larder__cache *c, larder_access *a, size_t n, larder__ticket *out) {
    if (c->link)
        return claim_there(c, a, n, out);
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
    send_for(c, a, n, out);
    return 0;
}

int larder__cache_claim_batch(larder__cache *c, larder_access *a, size_t n, larder__ticket *out) {
    if (c->link)
        return claim_there(c, a, n, out);
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
    send_for(c, a, n, out);
    return 0;
}

int larder__cache_reclaim(larder__cache *c, uint64_t key, uint32_t size, larder_form form,
                          uint64_t mark, larder__ticket *out) {
    larder_access a = {.key = key, .size = size};
    if (c->link && form == LARDER_ENCODED)
        return claim_there(c, &a, 1, out);
    if (c->link) { /* no other has this very row, and pixels are soon made again */
        c->link->alone(c->link_state, &a, out);
        out->form = out->make = form == LARDER_AUGMENTED ? LARDER_AUGMENTED : LARDER_ENCODED;
        out->mark = mark;
        out->kept = true;
        return 0;
    }
    int rc = begin(c, &a, 1);
    if (rc < 0)
        return rc;
    *out = (larder__ticket){.key = key, .kind = LARDER_HIT, .task = LARDER__READY};
    larder_slot s = c->slot_of[key];
    uint32_t bytes = larder__form_size(c, (int)form, size);
    if (s != LARDER_NO_SLOT && c->form_of[s] == form && c->size_of[s] == bytes &&
        (form != LARDER_AUGMENTED || c->mark[s] == mark))
        serve(c, out, s);
    else {
        out->kind = LARDER_MISS;
        out->form = out->make = (uint8_t)form;
        out->mark = mark;
        if (c->store->real)
            board(c, out, LARDER_NO_SLOT, bytes);
    }
    pthread_mutex_unlock(&c->lock);
    send_for(c, NULL, 1, out);
    return 0;
}

static void make_again(larder__cache *c, larder__ticket *t) {
    larder_slot s = c->slot_of[t->key];
    bool same = s != LARDER_NO_SLOT && c->form_of[s] == t->form &&
                (!c->mark || c->mark[s] == t->mark) && c->state[s] != LARDER__PENDING;
    if (t->kind == LARDER_HIT) {
        t->kind = LARDER_MISS;
        c->figures.hits--;
        c->figures.misses++;
    }
    t->make = t->form;
    if (same && c->state[s] == LARDER__FULL)
        strip(c, s);
    if (same)
        t->size = c->size_of[s];
    if (!larder__flights_find(&c->flights, t->key)) {
        board(c, t, same ? s : LARDER_NO_SLOT, t->size);
        return;
    }
    /* Its maker may belong to a later batch, which nobody is at yet: not worth waiting for. */
    t->task = LARDER__MAKE;
    t->flight = larder__flights_start(&c->flights, t->key, t->size, t->make, false);
}

/* A token's bytes are not to be had: whoever asked makes them. */
static int lost(larder__cache *c, larder__ticket *t) {
    pthread_mutex_lock(&c->lock);
    int rc = larder__flights_reserve(&c->flights, 1);
    if (rc == 0)
        make_again(c, t);
    pthread_mutex_unlock(&c->lock);
    return rc;
}

bool larder__cache_is_far(const larder__cache *c) {
    return c->link ? c->link->receive != NULL : c->store->receive != NULL;
}

int larder__cache_receive(larder__cache *c, larder__ticket *t, size_t n, larder_buf **bufs) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (t[i].task != LARDER__READY || !t[i].buf)
            continue;
        larder_buf *token = t[i].buf;
        t[i].buf = NULL;
        t[i].size = (uint32_t)larder_buf_size(token);
        bufs[i] = token;
        if (c->link && c->link->receive) {
            rc = c->link->receive(c->link_state, &t[i], token, &bufs[i]);
        } else if (!c->link && c->store->receive) {
            bufs[i] = c->store->receive(c->store_state, token);
            rc = bufs[i] ? 0 : lost(c, &t[i]);
        }
    }
    return rc;
}

/* ---- filling --------------------------------------------------------------------------------- */

void larder__ticket_drop(larder__ticket *t) { larder_buf_unref(&t->buf); }

bool larder__ticket_stays(const larder__ticket *t) {
    return t->flight && t->flight->slot != LARDER_NO_SLOT;
}

static void put(larder__cache *c, larder_slot s, larder_buf *b, uint8_t held) {
    larder__entry e = {
        .key = c->key_of[s], .mark = c->mark ? c->mark[s] : 0, .form = c->form_of[s], .held = held};
    c->store->put(c->store_state, s, b, &e);
}

/* A decoded entry may be smaller than what it reserved, and may be kept encoded there. */
static bool fits(const larder__cache *c, const larder__ticket *t, larder_slot s, size_t bytes) {
    if (c->form_of[s] == LARDER_DECODED)
        return bytes <= c->size_of[s] && t->held != LARDER_AUGMENTED;
    return bytes == c->size_of[s] && t->held == c->form_of[s];
}

void larder__cache_fill(larder__cache *c, larder__ticket *t, larder_buf *b) {
    larder__ticket_drop(t);
    if (c->link) {
        c->link->fill(c->link_state, t, b);
        return;
    }
    larder__buf_enter(b, c->account);
    pthread_mutex_lock(&c->lock);
    larder_slot s = t->flight->slot;
    if (s != LARDER_NO_SLOT && fits(c, t, s, larder_buf_size(b))) {
        put(c, s, b, t->held);
        c->state[s] = LARDER__FULL;
        c->filled_bytes += larder_buf_size(b);
        if (c->held)
            c->held[s] = t->held;
        c->figures.kept_encoded += t->held != c->form_of[s];
    } else if (s != LARDER_NO_SLOT) { /* not the size room was made for: the promise comes first */
        c->state[s] = LARDER__COLD;
        c->refused_fills++;
    }
    larder__flights_land(&c->flights, t->flight, b, t->held, 0, NULL);
    t->flight = NULL;
    pthread_mutex_unlock(&c->lock);
}

void larder__cache_fail(larder__cache *c, larder__ticket *t, int code, const char *why) {
    larder__ticket_drop(t);
    if (c->link) {
        c->link->fail(c->link_state, t, code, why);
        return;
    }
    pthread_mutex_lock(&c->lock);
    if (t->flight->slot != LARDER_NO_SLOT)
        c->state[t->flight->slot] = LARDER__COLD; /* stays decided; the next request tries again */
    larder__flights_land(&c->flights, t->flight, NULL, 0, code, why);
    t->flight = NULL;
    pthread_mutex_unlock(&c->lock);
}

int larder__cache_wait(larder__cache *c, larder__ticket *t, larder_buf **out) {
    larder__ticket_drop(t);
    if (c->link)
        return c->link->wait(c->link_state, t, out);
    pthread_mutex_lock(&c->lock);
    int rc = larder__flights_wait(&c->flights, t->flight, &c->lock, out, &t->held);
    t->flight = NULL;
    pthread_mutex_unlock(&c->lock);
    return rc;
}

/* Makes and waits for what `claim` left open. The first failure is remembered; the rest is still
 * settled, since others may wait for it. */
static int settle(larder__cache *c, larder_access *a, size_t n, larder__ticket *t,
                  larder__make_fn make, void *arg, larder_buf **out) {
    int first = 0;
    char why[256] = "";
    for (int waiting = 0; waiting < 2; waiting++)
        for (size_t i = 0; i < n; i++) {
            int rc = 0;
            if (!waiting && t[i].task == LARDER__READY) {
                out[i] = t[i].buf;
            } else if (!waiting && t[i].task == LARDER__MAKE) {
                larder_access want = a[i];
                want.key = t[i].key;
                want.size = t[i].size;
                out[i] = NULL;
                rc = make(arg, &want, t[i].buf, &out[i]);
                if (rc < 0)
                    larder__cache_fail(c, &t[i], rc, larder_errmsg());
                else
                    larder__cache_fill(c, &t[i], out[i]);
            } else if (waiting && t[i].task == LARDER__WAIT) {
                out[i] = NULL;
                rc = larder__cache_wait(c, &t[i], &out[i]);
            }
            if (rc < 0 && first == 0) {
                first = rc;
                snprintf(why, sizeof why, "%s", larder_errmsg());
            }
        }
    if (first < 0) {
        for (size_t i = 0; i < n; i++)
            larder_buf_unref(&out[i]);
        larder__errmsg_set(why);
    }
    return first;
}

int larder__cache_get(larder__cache *c, larder_access *a, size_t n, larder__make_fn make, void *arg,
                      larder_buf **out, uint8_t *kinds) {
    larder__ticket few[64], *t = few;
    if (n > sizeof few / sizeof *few && !(t = larder__malloc(n * sizeof *t)))
        return LARDER_E_NOMEM;
    int rc = larder__cache_claim(c, a, n, t);
    if (rc == 0) {
        rc = settle(c, a, n, t, make, arg, out);
        for (size_t i = 0; kinds && i < n; i++)
            kinds[i] = t[i].kind;
    }
    if (t != few)
        larder__free(t);
    return rc;
}

/* ---- looking in ------------------------------------------------------------------------------ */

uint32_t larder__cache_entry_size(const larder__cache *c, larder_form form, uint32_t encoded) {
    return larder__form_size(c, (int)form, encoded);
}

bool larder__cache_resident(const larder__cache *c, uint64_t key) {
    return key < c->slots.keys &&
           __atomic_load_n(&c->slots.slot_of[key], __ATOMIC_RELAXED) != LARDER_NO_SLOT;
}

const larder_slots *larder__cache_slots(const larder__cache *c) { return &c->slots; }

void *larder__cache_link_state(larder__cache *c, const larder__link *kind) {
    return c->link == kind ? c->link_state : NULL;
}

void *larder__cache_store_state(larder__cache *c, const larder__store *kind) {
    return !c->link && c->store == kind ? c->store_state : NULL;
}

static void score_chunk(larder__cache *c, const uint64_t *keys, const float *scores, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (i + FAR < n && keys[i + FAR] < c->slots.keys)
            ask_for_key(c, keys[i + FAR]);
        if (keys[i] >= c->slots.keys)
            continue;
        larder_slot s = c->slot_of[keys[i]];
        if (s == LARDER_NO_SLOT && c->policy->ghost)
            c->policy->ghost(c->policy_state, keys[i], scores[i]);
        else if (s != LARDER_NO_SLOT && c->policy->score)
            c->policy->score(c->policy_state, s, scores[i]);
    }
}

static void score_some(larder__cache *c, larder__rescoring *r, size_t most) {
    size_t n = r->n - r->at < most ? r->n - r->at : most;
    score_chunk(c, r->keys + r->at, r->scores + r->at, n);
    r->at += n;
}

/* After each turn of ours, with the lock given up. A thread that is put aside by the scheduler with
 * the lock in hand keeps everybody waiting for milliseconds; so where requests come, they do a
 * little of it each, and this thread mostly sleeps. Where none come it goes on by itself and is put
 * aside here, if at all. */
static void let_pass(larder__cache *c, bool sleeps, uint32_t entered, size_t turn) {
    enum { OFTEN = 32 };
    if (sleeps) {
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        return;
    }
    while (atomic_load(&c->waiting) && atomic_load(&c->entered) == entered)
        sched_yield(); /* one of those who wait goes first */
    if (turn % OFTEN == OFTEN - 1)
        sched_yield();
}

void larder__cache_score(larder__cache *c, const uint64_t *keys, const float *scores, size_t n) {
    enum { PATIENCE = 32 }; /* some 5 ms */
    larder__rescoring mine, *r = &mine;
    if (c->link)
        c->link->score(c->link_state, keys, scores, n);
    if (c->link || (!c->policy->score && !c->policy->ghost) || n == 0)
        return;
    pthread_mutex_lock(&c->lock);
    if (n > SCORED && !c->rescoring.keys)
        r = &c->rescoring;
    *r = (larder__rescoring){keys, scores, n, 0};
    uint32_t patience = 0; /* turns to wait for another request */
    for (size_t turn = 0, left_at = 0;; turn++) {
        bool helped = r->at != left_at;
        patience = helped ? PATIENCE : patience - (patience > 0);
        if (!patience)
            score_some(c, r, SCORED);
        left_at = r->at;
        if (r->at == n)
            break;
        uint32_t entered = atomic_load(&c->entered);
        pthread_mutex_unlock(&c->lock);
        let_pass(c, patience > 0, entered, turn);
        pthread_mutex_lock(&c->lock);
    }
    r->keys = NULL;
    pthread_mutex_unlock(&c->lock);
}

void larder__cache_score_all(larder__cache *c, const float *scores, size_t stride) {
    if (!c->policy->score)
        return;
    lock_in_turn(c);
    for (larder_slot s = 0; s < c->slots.used; s++)
        if (c->key_of[s] != UINT32_MAX)
            c->policy->score(c->policy_state, s, scores[c->key_of[s] * stride]);
    pthread_mutex_unlock(&c->lock);
}

static void offer_one(larder__cache *c, larder_access *a, larder_buf *b) {
    larder_slot s = c->slot_of[a->key];
    if (s != LARDER_NO_SLOT) {
        if (c->policy->score)
            c->policy->score(c->policy_state, s, a->score);
        return;
    }
    a->rng = &c->rng;
    if (!c->policy->offer || !c->policy->offer(c->policy_state, a) ||
        make_room(c, a, 1 << LARDER_ENCODED, 0, LARDER_NO_SLOT) == NO_FORM)
        return;
    s = enter(c, a, LARDER_ENCODED);
    if (!c->store->real)
        return;
    larder__buf_enter(b, c->account);
    put(c, s, b, LARDER_ENCODED);
    c->filled_bytes += a->size;
}

void larder__cache_offer(larder__cache *c, larder_access *a, larder_buf *const *bufs, size_t n) {
    if (!c->policy->offer && !c->policy->score)
        return;
    lock_in_turn(c);
    for (size_t i = 0; i < n; i++)
        if (a[i].key < c->slots.keys)
            offer_one(c, &a[i], bufs ? bufs[i] : NULL);
    pthread_mutex_unlock(&c->lock);
}

void larder__cache_share_out(larder__cache *c, const double share[LARDER_FORMS]) {
    if (c->link || !c->forms.movable)
        return;
    pthread_mutex_lock(&c->lock);
    memcpy(c->forms.share, share, sizeof c->forms.share);
    larder__cache_note_budget(c);
    for (larder_slot s = c->slots.used; s-- > 0;) {
        int f = c->form_of[s];
        if (c->key_of[s] != UINT32_MAX && c->slots.form_bytes[f] > c->slots.form_budget[f])
            evict(c, s);
    }
    pthread_mutex_unlock(&c->lock);
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
    assert(!there || larder__cache_resident(c, *key));
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
    assert(n <= max);
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
    pthread_mutex_unlock(&c->lock);
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
    assert(n <= max);
    pthread_mutex_unlock(&c->lock);
    return n;
}

void larder__cache_batch(larder__cache *c) {
    if (c->link || !c->policy->batch) /* elsewhere a claim is a batch */
        return;
    pthread_mutex_lock(&c->lock);
    c->policy->batch(c->policy_state);
    pthread_mutex_unlock(&c->lock);
}

bool larder__cache_relate(larder__cache *c, uint64_t key, const uint64_t *ids, size_t n) {
    if (c->link || !c->policy->relate || key >= c->slots.keys)
        return false; /* elsewhere nobody hears of hubs */
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= c->slots.keys || ids[i] == key)
            return false;
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
