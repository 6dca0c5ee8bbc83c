/* Filling: the bytes of what was decided, from whichever thread made them. */
#include "base/err.h"
#include "base/mem.h"
#include "cache/cache_inside.h"
#include "cache/link.h"

#include <assert.h>
#include <stdio.h>

void larder__ticket_drop(larder__ticket *t) { larder_buf_unref(&t->buf); }

bool larder__ticket_stays(const larder__ticket *t) {
    return t->flight && t->flight->slot != LARDER_NO_SLOT;
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

static int make_one(const larder_access *a, const larder__ticket *t, larder__make_fn make,
                    void *arg, larder_buf **out) {
    larder_access want = *a;
    want.key = t->key;
    want.size = t->size;
    *out = NULL;
    return make(arg, &want, t->buf, out);
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
                rc = make_one(&a[i], &t[i], make, arg, &out[i]);
                if (rc < 0)
                    larder__cache_fail(c, &t[i], rc, larder_errmsg());
                else
                    larder__cache_fill(c, &t[i], out[i]);
            } else if (waiting && t[i].task == LARDER__WAIT) {
                out[i] = NULL;
                rc = larder__cache_wait(c, &t[i], &out[i]);
                if (rc == LARDER__TAKE_OVER)
                    rc = make_one(&a[i], &t[i], make, arg, &out[i]);
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
