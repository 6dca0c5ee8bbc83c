#include "cache/cache.h"

#include "base/err.h"
#include "base/mem.h"

#include <stdio.h>

void larder__cache_close(larder__cache **pc) {
    larder__cache *c = *pc;
    *pc = NULL;
    if (c)
        c->ops->close(c);
}

int larder__cache_receive(larder__cache *c, larder__ticket *t, size_t n, larder_buf **bufs) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (t[i].task != LARDER__READY || !t[i].buf)
            continue;
        larder_buf *token = t[i].buf;
        t[i].buf = NULL;
        t[i].size = (uint32_t)larder_buf_size(token);
        if (c->ops->receive)
            rc = c->ops->receive(c, &t[i], token, &bufs[i]);
        else
            bufs[i] = token;
    }
    return rc;
}

/* ---- both steps at once ---------------------------------------------------------------------- */

static int make_one(const larder_access *a, const larder__ticket *t, larder__make_fn make,
                    void *arg, larder_buf **out) {
    larder_access want = *a;
    want.key = t->key;
    want.size = t->size;
    *out = NULL;
    return make(arg, &want, t->buf, out);
}

void larder__cache_took_over(larder__cache *c, larder__ticket *t, int rc, larder_buf *b) {
    if (!t->flight)
        return;
    t->held = LARDER_ENCODED;
    if (rc < 0)
        larder__cache_fail(c, t, rc, larder_errmsg());
    else
        larder__cache_fill(c, t, b);
}

void larder__cache_wait_only(larder__cache *c, larder__ticket *t, larder_buf **out) {
    if (larder__cache_wait(c, t, out) == LARDER__TAKE_OVER && t->flight)
        larder__cache_fail(c, t, LARDER_E_CANCELLED, "nobody is left to make it");
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
                    larder__cache_took_over(
                        c, &t[i], rc = make_one(&a[i], &t[i], make, arg, &out[i]), out[i]);
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
