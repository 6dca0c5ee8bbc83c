/* Filling: the bytes of what was decided, from whichever thread made them. */
#include "base/err.h"
#include "base/mem.h"
#include "cache/cache_inside.h"

#include <assert.h>
#include <stdio.h>

bool larder__ticket_stays(const larder__ticket *t) {
    return t->flight && t->flight->slot != LARDER_NO_SLOT;
}

/* A decoded or shrunk entry may be smaller than what it reserved, and may be kept encoded there.
 * Where what entries reserve is a guess they may be larger, until it is settled. */
static bool fits(const larder__local *c, const larder__ticket *t, larder_slot s, size_t bytes) {
    if (c->form_of[s] == LARDER_DECODED || c->form_of[s] == LARDER_SHRUNK)
        return (bytes <= c->size_of[s] || c->forms.guessed) && t->held != LARDER_AUGMENTED;
    return bytes == c->size_of[s] && t->held == c->form_of[s];
}

/* The same of an entry that has left. */
static bool passes(const larder__ticket *t, size_t bytes) {
    const larder__flight *f = t->flight;
    return f->form == LARDER_DECODED ? bytes <= f->size && t->held != LARDER_AUGMENTED
                                     : bytes == f->size && t->held == f->form;
}

void larder__local_fill(larder__cache *cache, larder__ticket *t, larder_buf *b) {
    larder__local *c = larder__local_of(cache);
    larder__ticket_drop(t);
    larder__buf_enter(b, c->account);
    pthread_mutex_lock(&c->lock);
    larder_slot s = t->flight->slot;
    assert(s == LARDER_NO_SLOT || (c->key_of[s] == t->key && c->state[s] == LARDER__PENDING));
    if (s != LARDER_NO_SLOT && fits(c, t, s, larder_buf_size(b))) {
        larder__slot_put(c, s, b, t->held);
        c->state[s] = LARDER__FULL;
        c->filled_bytes += larder_buf_size(b);
        if (c->held)
            c->held[s] = t->held;
        c->figures.kept_encoded += t->held != c->form_of[s];
    } else if (s != LARDER_NO_SLOT) { /* not the size room was made for: the promise comes first */
        c->state[s] = LARDER__COLD;
        c->refused_fills++;
    } else if (t->flight->left && c->store->pass && passes(t, larder_buf_size(b)))
        c->store->pass(c->store_state, b,
                       &(larder__entry){.key = t->key, .form = t->flight->form, .held = t->held});
    larder__flights_land(&c->flights, t->flight, b, t->held, 0, NULL);
    t->flight = NULL;
    pthread_mutex_unlock(&c->lock);
}

void larder__local_fail(larder__cache *cache, larder__ticket *t, int code, const char *why) {
    larder__local *c = larder__local_of(cache);
    larder__ticket_drop(t);
    pthread_mutex_lock(&c->lock);
    if (t->flight->slot != LARDER_NO_SLOT)
        c->state[t->flight->slot] = LARDER__COLD; /* stays decided; the next request tries again */
    larder__flights_land(&c->flights, t->flight, NULL, 0, code, why);
    t->flight = NULL;
    pthread_mutex_unlock(&c->lock);
}

int larder__local_wait(larder__cache *cache, larder__ticket *t, larder_buf **out) {
    larder__local *c = larder__local_of(cache);
    larder__ticket_drop(t);
    pthread_mutex_lock(&c->lock);
    int rc = larder__flights_wait(&c->flights, t->flight, &c->lock, out, &t->held);
    t->flight = NULL;
    pthread_mutex_unlock(&c->lock);
    return rc;
}
