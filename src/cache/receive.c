/* Stores behind a network: bytes are sent for when a batch is decided, and received when it is
 * filled. */
#include "cache/cache_inside.h"

/* What was only to be brought in is there: nobody wants its bytes. */
void larder__cache_send_for(larder__local *c, const larder_access *a, size_t n, larder__ticket *t) {
    enum { AT_ONCE = 1024 };
    larder_buf *bufs[AT_ONCE];
    size_t of[AT_ONCE] = {0};
    for (size_t i = 0; i < n;) {
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

static void make_again(larder__local *c, larder__ticket *t) {
    larder_slot s = c->slot_of[t->key];
    bool same = s != LARDER_NO_SLOT && c->form_of[s] == t->form &&
                (!c->mark || c->mark[s] == t->mark) && c->state[s] != LARDER__PENDING;
    c->figures.front_hits -= t->front;
    t->front = false;
    if (t->kind == LARDER_HIT) {
        t->kind = LARDER_MISS;
        c->figures.hits--;
        c->figures.misses++;
    }
    if (same && c->state[s] != LARDER__COLD)
        larder__slot_strip(c, s);
    if (same)
        t->size = c->size_of[s];
    t->make = t->form;
    t->task = LARDER__MAKE;
    /* Whoever makes it already may belong to a later batch, which nobody is at yet: not worth
     * waiting for. */
    bool first = !larder__flights_find(&c->flights, t->key);
    bool listed = first && (same || (t->make != LARDER_AUGMENTED && !c->alone));
    t->flight = larder__flights_start(&c->flights, t->key, t->size, t->make, listed);
    if (first && same) {
        t->flight->slot = s;
        c->state[s] = LARDER__PENDING;
    }
}

/* A token's bytes are not to be had: whoever asked makes them. */
static int lost(larder__local *c, larder__ticket *t) {
    pthread_mutex_lock(&c->lock);
    int rc = larder__flights_reserve(&c->flights, 1);
    if (rc == 0)
        make_again(c, t);
    pthread_mutex_unlock(&c->lock);
    return rc;
}

int larder__local_receive(larder__cache *cache, larder__ticket *t, larder_buf *token,
                          larder_buf **out) {
    larder__local *c = larder__local_of(cache);
    *out = c->store->receive(c->store_state, token, &t->held);
    if (!*out)
        return lost(c, t);
    /* Decided to be in front, but its bytes still lay behind, from an earlier run. */
    if (t->front && c->store->lasts && *out != token) {
        pthread_mutex_lock(&c->lock);
        c->figures.front_hits--;
        pthread_mutex_unlock(&c->lock);
        t->front = false;
    }
    return 0;
}
