#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/world.h"
#include "shared/relay_inside.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double MEET_PATIENCE = 10; /* times as long for those who have yet to come */

/* ---- the carrier's side ---------------------------------------------------------------------- */

/* It stays in the list meanwhile. */
larder__posted *larder__relay_next(larder__relay *r, bool *over) {
    pthread_mutex_lock(&r->lock);
    larder__posted *p = r->posted;
    while (p && p->sent && !p->over)
        p = p->next;
    *over = p && p->over;
    pthread_mutex_unlock(&r->lock);
    return p;
}

void larder__relay_sent(larder__relay *r, larder__posted *p) {
    pthread_mutex_lock(&r->lock);
    p->sent = true;
    pthread_mutex_unlock(&r->lock);
}

void larder__relay_take_out(larder__relay *r, larder__posted *p) {
    pthread_mutex_lock(&r->lock);
    larder__posted **at = &r->posted;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    if (r->last == &p->next)
        r->last = at;
    pthread_mutex_unlock(&r->lock);
    larder__free(p);
}

void larder__relay_unsend(larder__relay *r) {
    pthread_mutex_lock(&r->lock);
    for (larder__posted *p = r->posted; p; p = p->next)
        p->sent = false;
    pthread_mutex_unlock(&r->lock);
}

bool larder__relay_waits(const larder__relay *r, uint32_t rank) {
    return r->wish && rank < r->world && r->wish[rank].size && !r->wish[rank].bytes;
}

void larder__relay_give_up(larder__relay *r, int code, const char *why) {
    r->failed = code;
    snprintf(r->why, sizeof r->why, "%s", why);
    pthread_cond_broadcast(&r->heard);
}

void larder__relay_deliver(larder__relay *r, uint32_t rank, const void *bytes, size_t size) {
    larder__relayed *w = &r->wish[rank];
    w->bytes = larder__malloc(size + 1);
    if (!w->bytes) {
        larder__relay_give_up(r, LARDER_E_NOMEM, "out of memory");
        return;
    }
    memcpy(w->bytes, bytes, size);
    w->size = size;
    if (--r->missing == 0)
        pthread_cond_broadcast(&r->heard);
}

void larder__relay_judge(larder__relay *r, double now, const char *server) {
    char why[sizeof r->why];
    if (!r->wish || r->failed || r->missing == 0)
        return;
    double since = r->heard_at > r->wished_at ? r->heard_at : r->wished_at;
    if (now - since > r->patience) {
        snprintf(why, sizeof why, "the ranks of this job cannot hear each other: %.200s%s",
                 r->trouble[0] ? r->trouble : server, r->trouble[0] ? "" : " does not answer");
        larder__relay_give_up(r, LARDER_E_IO, why);
    } else if (!r->met && now - r->wished_at > MEET_PATIENCE * r->patience) {
        snprintf(why, sizeof why, "the %u ranks of this job have not found each other: %.200s",
                 r->world, r->trouble);
        larder__relay_give_up(r, LARDER_E_STATE, why);
    }
}

/* ---- the ranks' side ------------------------------------------------------------------------- */

int larder__relay_post(larder__relay *r, char kind, uint64_t number, const void *bytes,
                       size_t size) {
    larder__posted *p = larder__malloc(sizeof *p + size);
    if (!p)
        return LARDER_E_NOMEM;
    *p = (larder__posted){.number = number, .size = size, .kind = kind};
    memcpy(p->bytes, bytes, size);
    pthread_mutex_lock(&r->lock);
    *r->last = p;
    r->last = &p->next;
    r->ops->wake(r);
    pthread_mutex_unlock(&r->lock);
    return 0;
}

void larder__relay_forget(larder__relay *r, char kind, uint64_t number) {
    pthread_mutex_lock(&r->lock);
    for (larder__posted *p = r->posted; p; p = p->next)
        if (p->kind == kind && p->number == number)
            p->over = true;
    pthread_mutex_unlock(&r->lock);
}

/* With the lock held: waits until the wish has come true or failed. */
static int await(larder__relay *r, double seconds) {
    struct timespec until = larder__timespec_of(larder__world_now() + fmin(seconds, 1e9));
    r->ops->wake(r);
    while (r->missing && !r->failed && !r->interrupted)
        if (pthread_cond_timedwait(&r->heard, &r->lock, &until) == ETIMEDOUT)
            break;
    if (r->missing && r->interrupted)
        return larder__fail(LARDER_E_CANCELLED, "the loader was closed");
    if (r->missing && !r->failed)
        return 1;
    return r->failed ? larder__fail(r->failed, "%s", r->why) : 0;
}

int larder__relay_gather(larder__relay *r, char kind, uint64_t number, double seconds,
                         larder__relayed *out) {
    pthread_mutex_lock(&r->asking);
    pthread_mutex_lock(&r->lock);
    r->missing = 0;
    r->failed = 0;
    for (uint32_t k = 0; k < r->world; k++) {
        out[k].bytes = NULL;
        r->missing += out[k].size != 0;
    }
    r->wish = out;
    r->serial++;
    r->wish_kind = kind;
    r->wish_number = number;
    r->wished_at = larder__world_now();
    int rc = r->missing ? await(r, seconds) : 0;
    r->wish = NULL;
    pthread_mutex_unlock(&r->lock);
    pthread_mutex_unlock(&r->asking);
    for (uint32_t k = 0; k < r->world; k++) {
        if (rc)
            larder__free(out[k].bytes);
        if (rc)
            out[k] = (larder__relayed){0};
    }
    return rc;
}

void larder__relay_interrupt(larder__relay *r) {
    pthread_mutex_lock(&r->lock);
    r->interrupted = true;
    pthread_cond_broadcast(&r->heard);
    pthread_mutex_unlock(&r->lock);
}

/* ---- opening and closing --------------------------------------------------------------------- */

int larder__relay_init(larder__relay *r, const larder__relay_ops *ops, uint32_t rank,
                       uint32_t world, double patience) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&r->asking, NULL);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->work, &monotonic);
    pthread_cond_init(&r->heard, &monotonic);
    pthread_condattr_destroy(&monotonic);
    r->ops = ops;
    r->rank = rank;
    r->world = world;
    r->patience = patience;
    r->last = &r->posted;
    return world <= LARDER__RELAY_RANKS
               ? 0
               : larder__fail(LARDER_E_RANGE, "%u ranks: at most %d share a cache", world,
                              LARDER__RELAY_RANKS);
}

void larder__relay_close(larder__relay **pr) {
    larder__relay *r = *pr;
    *pr = NULL;
    if (!r)
        return;
    r->ops->stop(r);
    for (larder__posted *p = r->posted, *next; p; p = next) {
        next = p->next;
        larder__free(p);
    }
    pthread_mutex_destroy(&r->asking);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->work);
    pthread_cond_destroy(&r->heard);
    r->ops->free(r);
}
