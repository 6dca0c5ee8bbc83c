/* Who has which slot and how much room there is: entering, making room, leaving. Under the lock. */
#include "cache/ask_policy.h"

#include <assert.h>

/* Bytes that lie in a FULL slot: what was reserved, but for what came to less. */
uint64_t larder__slot_bytes(larder__local *c, larder_slot s) {
    if (c->form_of[s] != LARDER_DECODED && c->form_of[s] != LARDER_SHRUNK)
        return c->size_of[s];
    larder_buf *b = c->store->get(c->store_state, s);
    uint64_t bytes = b ? larder_buf_size(b) : 0;
    larder_buf_unref(&b);
    return bytes;
}

/* Takes the bytes, or the promise of bytes, off a slot; whoever holds or awaits them keeps them. */
void larder__slot_strip(larder__local *c, larder_slot s) {
    if (c->state[s] == LARDER__PENDING) {
        larder__flight *f = larder__flights_find(&c->flights, c->key_of[s]);
        assert(f && f->slot == s);
        if (c->form_of[s] == LARDER_AUGMENTED) /* nobody else may have this very tensor */
            larder__flight_forget(f);
        else {
            larder__flight_detach(f);
            f->left = true;
        }
    } else if (c->state[s] == LARDER__FULL) {
        assert(c->filled_bytes >= larder__slot_bytes(c, s));
        c->filled_bytes -= larder__slot_bytes(c, s);
        c->store->drop(c->store_state, s);
    } else if (c->state[s] == LARDER__EXPECTED)
        c->store->drop(c->store_state, s);
    c->state[s] = LARDER__COLD;
}

/* Its bytes come from another process. */
void larder__slot_expect(larder__local *c, larder_slot s) {
    larder__entry e = {.key = c->key_of[s],
                       .mark = c->mark ? c->mark[s] : 0,
                       .form = c->form_of[s],
                       .held = c->form_of[s]};
    c->store->expect(c->store_state, s, c->size_of[s], &e);
    c->state[s] = LARDER__EXPECTED;
}

void larder__slot_put(larder__local *c, larder_slot s, larder_buf *b, uint8_t held) {
    larder__entry e = {
        .key = c->key_of[s], .mark = c->mark ? c->mark[s] : 0, .form = c->form_of[s], .held = held};
    e.front = c->tier.conf.front && c->tier.front[s];
    c->store->put(c->store_state, s, b, &e);
}

static void empty_slot(larder__local *c, larder_slot s) {
    if (c->watch)
        c->watch(c->watch_arg, c->key_of[s], (larder_form)c->form_of[s], NULL);
    if (c->store->real)
        larder__slot_strip(c, s);
    larder__cache_note_slot(c, c->key_of[s], LARDER_NO_SLOT);
    larder__tier_leave(c, s);
    assert(c->base.slots.resident > 0 && c->base.slots.bytes >= c->size_of[s] &&
           c->base.slots.form_bytes[c->form_of[s]] >= c->size_of[s]);
    c->base.slots.bytes -= c->size_of[s];
    c->base.slots.form_bytes[c->form_of[s]] -= c->size_of[s];
    c->base.slots.resident--;
    c->key_of[s] = UINT32_MAX;
    c->form_of[s] = LARDER_ENCODED;
    c->size_of[s] = c->free_slot;
    c->free_slot = s;
}

void larder__slot_evict(larder__local *c, larder_slot s) {
    assert(s < c->base.slots.used && c->key_of[s] != UINT32_MAX && c->slot_of[c->key_of[s]] == s);
    c->policy->remove(c->policy_state, s, true);
    empty_slot(c, s);
    c->figures.evictions++;
}

/* The form that `need` more bytes of an entry fit in, of those in `mask`, over `taken` bytes there
 * (NULL: nothing is there). Those that serve again and again come first. */
static int form_with_room(const larder__local *c, const larder_access *a, uint32_t mask,
                          uint32_t used, const uint64_t *taken, uint32_t held,
                          larder_slot growing) {
    uint64_t room = larder__cache_room(c, used), all = taken ? c->base.slots.bytes : 0;
    static const uint8_t order[LARDER_FORMS] = {LARDER_DECODED, LARDER_SHRUNK, LARDER_ENCODED,
                                                LARDER_AUGMENTED};
    for (int i = 0; i < LARDER_FORMS; i++) {
        int f = order[i];
        uint64_t size = larder__entry_size(c, f, a), there = taken ? taken[f] : 0;
        if (!(mask >> f & 1) || c->forms.share[f] <= 0 || (f != LARDER_ENCODED && size == 0))
            continue;
        size -= held;
        if (all + size <= room && there + size <= larder__form_room(c, f, room) &&
            larder__tier_room(c, size, growing, !taken))
            return f;
    }
    return LARDER__NO_FORM;
}

bool larder__cache_has_room(const larder__local *c, const larder_access *a, int form) {
    uint32_t used = c->base.slots.used + (c->free_slot == LARDER_NO_SLOT);
    return form_with_room(c, a, 1u << form, used, c->base.slots.form_bytes, 0, LARDER_NO_SLOT) ==
           form;
}

/* Makes room for an entry of which `held` bytes are there already, in slot `growing` unless there
 * are none. Answers the form it enters in, or LARDER__NO_FORM: it stays out. When the entry that is
 * to grow is itself evicted, that is the policy's word: LARDER__NO_FORM too. */
int larder__cache_make_room(larder__local *c, const larder_access *a, uint32_t mask, uint32_t held,
                            larder_slot growing) {
    bool fresh = growing == LARDER_NO_SLOT;
    uint32_t used = c->base.slots.used + (fresh && c->free_slot == LARDER_NO_SLOT);
    /* With everybody else gone; whoever goes leaves a slot behind. */
    if (form_with_room(c, a, mask, c->base.slots.resident ? c->base.slots.used : used, NULL, 0,
                       LARDER_NO_SLOT) == LARDER__NO_FORM)
        return LARDER__NO_FORM;
    int form;
    while ((form = form_with_room(c, a, mask, used, c->base.slots.form_bytes, held, growing)) ==
           LARDER__NO_FORM) {
        if (c->base.slots.resident == 0)
            return LARDER__NO_FORM;
        larder_slot v = larder__cache_victim(c, a);
        if (v == LARDER_NO_SLOT)
            return LARDER__NO_FORM;
        larder__slot_evict(c, v);
        if (v == growing)
            return LARDER__NO_FORM;
        used = c->base.slots.used;
    }
    return form;
}

static larder_slot take_slot(larder__local *c, const larder_access *a, int form) {
    larder_slot s = c->free_slot;
    assert(c->slot_of[a->key] == LARDER_NO_SLOT);
    if (s != LARDER_NO_SLOT) {
        assert(s < c->base.slots.used && c->key_of[s] == UINT32_MAX);
        c->free_slot = c->size_of[s];
    } else {
        assert(c->base.slots.used < c->base.slots.keys);
        s = c->base.slots.used++;
        if (c->slot_overhead)
            larder__cache_note_budget(c);
    }
    c->key_of[s] = (uint32_t)a->key;
    c->size_of[s] = larder__entry_size(c, form, a);
    c->form_of[s] = (uint8_t)form;
    if (c->mark)
        c->mark[s] = a->now;
    larder__cache_note_slot(c, a->key, s);
    c->base.slots.bytes += c->size_of[s];
    c->base.slots.form_bytes[form] += c->size_of[s];
    c->base.slots.resident++;
    assert(c->base.slots.bytes <= larder__cache_room(c, c->base.slots.used));
    larder__tier_enter(c, s);
    return s;
}

larder_slot larder__cache_enter(larder__local *c, const larder_access *a, int form) {
    larder_slot s = take_slot(c, a, form);
    c->policy->insert(c->policy_state, s, a);
    if (c->store->real)
        c->state[s] = LARDER__FULL; /* or soon PENDING */
    c->figures.insertions++;
    if (c->watch)
        c->watch(c->watch_arg, a->key, (larder_form)form, a);
    return s;
}

void larder__local_share_out(larder__cache *cache, const double share[LARDER_FORMS]) {
    larder__local *c = larder__local_of(cache);
    if (!c->forms.movable)
        return;
    pthread_mutex_lock(&c->lock);
    memcpy(c->forms.share, share, sizeof c->forms.share);
    larder__cache_note_budget(c);
    for (larder_slot s = c->base.slots.used; s-- > 0;) {
        int f = c->form_of[s];
        if (c->key_of[s] != UINT32_MAX &&
            c->base.slots.form_bytes[f] > c->base.slots.form_budget[f])
            larder__slot_evict(c, s);
    }
    pthread_mutex_unlock(&c->lock);
}

/* It has so many bytes now. One that comes to more than was guessed may have taken what others were
 * promised: then it leaves, and enters as what it is when it is next asked for. */
static void weigh_anew(larder__local *c, larder_slot s, uint32_t bytes) {
    uint32_t was = c->size_of[s];
    assert(bytes != was);
    uint64_t more = bytes > was ? bytes - was : 0, room = larder__cache_room(c, c->base.slots.used);
    if (more &&
        (c->base.slots.bytes + more > room || c->base.slots.form_bytes[LARDER_SHRUNK] + more >
                                                  larder__form_room(c, LARDER_SHRUNK, room))) {
        larder__slot_evict(c, s);
        return;
    }
    c->base.slots.bytes += (uint64_t)bytes - was;
    c->base.slots.form_bytes[LARDER_SHRUNK] += (uint64_t)bytes - was;
    if (more)
        larder__tier_grow(c, s, more);
    else
        larder__tier_shrink(c, s, was - bytes);
    c->size_of[s] = bytes;
    larder__ask_resized(c, s, was);
}

bool larder__cache_settle(larder__cache *cache, uint64_t key, uint32_t bytes) {
    larder__local *c = larder__local_of(cache);
    pthread_mutex_lock(&c->lock);
    larder_slot s = c->slot_of[key];
    bool there = s != LARDER_NO_SLOT && c->form_of[s] == LARDER_SHRUNK;
    if (there && !bytes && c->state[s] == LARDER__FULL)
        bytes = (uint32_t)larder__slot_bytes(c, s);
    if (there && bytes)
        c->settled[key] = bytes;
    if (there && bytes && (bytes < c->size_of[s] || (c->forms.guessed && bytes > c->size_of[s])))
        weigh_anew(c, s, bytes);
    pthread_mutex_unlock(&c->lock);
    return !there || bytes;
}
