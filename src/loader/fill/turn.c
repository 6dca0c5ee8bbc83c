/* Batches leaving the ring: given back, put on hold, or given up with what is left of their epoch.
 */
#include "base/err.h"
#include "loader/inside.h"

/* Memory that somebody else holds stays theirs; the ring goes on with another piece. */
static int renew_pixels(larder_loader *l, uint64_t number) {
    larder__pixel_block **x = &l->x[number % l->conf.prefetch];
    if (!larder__pixel_block_shared(*x)) {
        larder__pixel_block_clear(*x);
        return 0;
    }
    larder__pixel_block *fresh = NULL;
    int rc = larder__pixel_block_take(l->pool, &fresh);
    if (rc < 0)
        return rc;
    larder__pixel_block_unref(x);
    *x = fresh;
    return 0;
}

int larder__place_leave(larder_loader *l, larder__place *p) {
    uint64_t number = p->plan.number;
    int rc = renew_pixels(l, number);
    p->phase = LARDER__FREE;
    p->plan.n = p->plan.fetched = 0;
    if (rc < 0) /* nothing can be prepared there any more: that memory is not ours alone */
        larder__loader_fail(l, rc);
    else {
        l->x_warm = number % l->conf.prefetch;
        l->x_of[l->x_warm] = UINT64_MAX;
    }
    pthread_cond_broadcast(&l->work);
    return rc;
}

int larder_loader_done(larder_loader *l, const larder_batch *b) {
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    larder__place *p = larder__place_held(l, b);
    rc = p ? larder__place_leave(l, p) : LARDER_E_STATE;
    pthread_mutex_unlock(&l->lock);
    return rc;
}

int larder_loader_hold(larder_loader *l, const larder_batch *b, const larder_batch **out) {
    *out = NULL;
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    const larder__place *p = larder__place_held(l, b);
    if (p)
        *out = larder__pixel_block_hold(l->x[p->plan.number % l->conf.prefetch], b);
    pthread_mutex_unlock(&l->lock);
    return p ? 0 : LARDER_E_STATE;
}

void larder_batch_release(const larder_batch **held) {
    larder__pixel_block *block = *held ? larder__pixel_block_of(*held) : NULL;
    *held = NULL;
    larder__pixel_block_unref(&block);
}

int larder_loader_peek(larder_loader *l, const larder_batch **out) {
    *out = NULL;
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    larder__place *p = &l->ring[l->taken % l->conf.ahead];
    bool there = !l->epoch_over && !l->cancelled && !l->failed && l->taken < l->planned &&
                 p->phase == LARDER__FILLED;
    for (size_t i = 0; there && p->faulty && i < p->plan.n; i++)
        there = p->faults[i].code == 0;
    if (there) {
        p->batch.number = p->plan.number;
        p->batch.epoch = p->plan.epoch;
        p->batch.n = p->plan.n;
        *out = &p->batch;
    }
    pthread_mutex_unlock(&l->lock);
    return there ? 0 : LARDER_NOT_YET;
}

/* ---- another epoch --------------------------------------------------------------------------- */

/* Batches drawn ahead are filled, since others may wait for what they read, and left. */
static int give_up_drawn(larder_loader *l) {
    while (l->taken < l->planned) {
        larder__place *p = &l->ring[l->taken % l->conf.ahead];
        if (l->failed)
            return larder__fail(l->failed, "%s", l->why);
        if (l->cancelled)
            return larder__fail(LARDER_E_CANCELLED, "cancelled");
        if (p->phase != LARDER__FILLED) {
            pthread_cond_wait(&l->ready, &l->lock);
            continue;
        }
        int rc = larder__place_leave(l, p);
        if (rc < 0)
            return rc;
        l->taken++;
    }
    return 0;
}

static bool any_lent(const larder_loader *l) {
    for (uint32_t k = 0; k < l->conf.ahead; k++)
        if (l->ring[k].phase == LARDER__LENT)
            return true;
    return false;
}

/* Is the batch that comes next this epoch's first anyway? Then nothing is given up. */
static bool comes_next(const larder_loader *l, uint64_t epoch) {
    if (l->taken < l->planned) {
        const larder__planned *p = &l->ring[l->taken % l->conf.ahead].plan;
        return p->first && p->epoch == epoch;
    }
    if (l->kept)
        return l->kept->first && l->kept->epoch == epoch;
    return larder__draw_between(l->draw) && larder__draw_epoch(l->draw) == epoch;
}

/* Ranks that decide together save, and give up, the same batches: all that could be drawn. */
static void draw_all_ahead(larder_loader *l) {
    while (larder__draw_ranks(l->draw) && l->running && !l->failed && !l->cancelled) {
        bool more = l->planning || l->kept || !l->conf.epochs ||
                    larder__draw_epoch(l->draw) < l->conf.epochs;
        if (!more || l->evaluation.due ||
            (!l->planning && l->ring[l->planned % l->conf.ahead].phase != LARDER__FREE))
            break;
        pthread_cond_wait(&l->ready, &l->lock);
    }
}

int larder__ranks_settle(larder_loader *l) {
    if (!larder__draw_ranks(l->draw) || larder__evaluator_asks(l)) /* which hears why not */
        return 0;
    draw_all_ahead(l);
    while (l->planning)
        pthread_cond_wait(&l->ready, &l->lock);
    if (l->torn)
        return 0; /* whoever asked says so */
    l->planning = true;
    pthread_mutex_unlock(&l->lock);
    int rc = larder__draw_join_all(l->draw);
    pthread_mutex_lock(&l->lock);
    l->planning = false;
    pthread_cond_broadcast(&l->work);
    pthread_cond_broadcast(&l->ready);
    return rc;
}

/* With the lock held. */
static int begin(larder_loader *l, uint64_t epoch) {
    draw_all_ahead(l);
    l->planning = true; /* nobody draws meanwhile */
    int rc = give_up_drawn(l);
    l->planning = false;
    if (rc < 0)
        return rc;
    larder__kept_free(l->kept);
    l->kept = NULL;
    larder__draw_begin(l->draw, epoch);
    l->taken = l->planned = larder__draw_number(l->draw);
    l->evaluation.due = l->evaluation.halted = false;
    for (int k = 0; k < 2; k++)
        l->evaluation.places[k].plan.n = 0;
    return 0;
}

int larder_loader_begin(larder_loader *l, uint64_t epoch) {
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    while (larder__decided_elsewhere(l))
        pthread_cond_wait(&l->ready, &l->lock);
    if (any_lent(l))
        rc = larder__fail(LARDER_E_STATE, "an epoch begins when all batches are given back");
    else if (l->conf.epochs && epoch >= l->conf.epochs)
        rc = larder__fail(LARDER_E_RANGE, "epoch %llu of %llu", (unsigned long long)epoch,
                          (unsigned long long)l->conf.epochs);
    else if (l->failed)
        rc = larder__fail(l->failed, "%s", l->why);
    if (rc == 0 && !comes_next(l, epoch))
        rc = larder__evaluator_asks(l)
                 ? larder__fail(LARDER_E_STATE,
                                "another epoch begins when the evaluator has seen its samples")
                 : begin(l, epoch);
    if (rc == 0) {
        l->epoch_over = false;
        l->handed_out = l->waiting = 0;
    }
    pthread_cond_broadcast(&l->work);
    pthread_cond_broadcast(&l->ready);
    pthread_mutex_unlock(&l->lock);
    return rc;
}
