/* The loader's face: next, cancel and close. opening.c has open; turn.c done, hold, peek and begin;
 * report.c what training says; resume.c save and restore; by_id.c samples by id; about.c what there
 * is to look at. The threads behind it are in worker.c. */
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "loader/fill/below.h"
#include "loader/inside.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

/* ---- whose it is ----------------------------------------------------------------------------- */

int larder__loader_enter(larder_loader *l) {
    if (!l)
        return larder__fail(LARDER_E_ARGS, "no loader given");
    if (l->owner != getpid()) /* its lock may be held for ever, its threads are not here */
        return larder__fail(LARDER_E_STATE,
                            "this loader was opened by process %ld, before a fork; "
                            "open one in each process",
                            (long)l->owner);
    pthread_mutex_lock(&l->lock);
    return 0;
}

int larder__loader_fail(larder_loader *l, int code) {
    l->failed = code;
    snprintf(l->why, sizeof l->why, "%s", larder_errmsg());
    pthread_cond_broadcast(&l->ready); /* nothing more is filled for whoever waits, */
    pthread_cond_broadcast(&l->work);  /* and threads end */
    pthread_cond_broadcast(&l->unread);
    return code;
}

int larder__loader_scratch(larder_loader *l, larder__scratch **out) {
    int rc = larder__scratch_open(out);
    if (rc == 0 && l->cage && (rc = larder__cage_take(l->cage, *out)) < 0)
        larder__scratch_close(out);
    return rc;
}

/* ---- closing --------------------------------------------------------------------------------- */

void larder_loader_close(larder_loader **pl) {
    larder_loader *l = *pl;
    *pl = NULL;
    if (!l || larder__loader_enter(l) < 0) /* a forked child leaves it to its owner */
        return;
    pthread_mutex_unlock(&l->lock);
    char why[sizeof l->why]; /* who closes because of an error has not told it yet */
    snprintf(why, sizeof why, "%s", larder_errmsg());
    larder__expose_end(&l->exposed); /* who looks takes the lock */
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->work);
    pthread_cond_broadcast(&l->unread);
    pthread_mutex_unlock(&l->lock);
    if (l->data)
        larder__data_interrupt(l->data);
    if (l->draw)
        larder__draw_interrupt(l->draw);
    larder__cage_interrupt(l->cage);
    for (uint32_t i = 0; i < l->running; i++)
        pthread_join(l->threads[i], NULL);
    for (uint32_t i = 0; i < l->readers.started; i++)
        pthread_join(l->readers.threads[i], NULL);
    larder__freight_end(l);
    larder__worker_abandon(l);
    larder__recording_close(l);
    larder__packages_close(&l->crates);
    for (uint32_t k = 0; l->ring && k < l->conf.ahead; k++)
        larder__place_close(&l->ring[k]);
    for (uint32_t k = 0; l->x && k < l->conf.prefetch; k++)
        larder__pixel_block_unref(&l->x[k]);
    larder__evaluation_close(&l->evaluation);
    if (!l->pool) /* else it goes with the last of its blocks */
        larder__freight_done(l->device);
    larder__pool_close(&l->pool);
    larder__kept_free(l->kept);
    larder__scratch_close(&l->own_scratch);
    larder__cage_close(&l->cage);
    larder__ledger_close(&l->ledger);
    larder__draw_close(&l->draw);
    larder__below_close(l);
    larder__parts_close(&l->parts);
    larder__fields_close(l);
    larder__pipeline_close(&l->pipeline);
    larder__data_close(&l->data);
    larder__stats_close(&l->stats);
    larder__free(l->ring);
    larder__free(l->x);
    larder__free(l->x_of);
    larder__free(l->threads);
    larder__free(l->readers.threads);
    larder__free(l->seats);
    larder__free(l->bad);
    larder__free((void *)(uintptr_t)l->conf.source);
    larder__free((void *)(uintptr_t)l->conf.recipe);
    larder__free((void *)(uintptr_t)l->conf.cache);
    larder__free((void *)(uintptr_t)l->conf.augment);
    larder__free((void *)(uintptr_t)l->conf.fields);
    larder__free((void *)(uintptr_t)l->conf.target);
    larder__pace_close(&l->pace);
    pthread_cond_destroy(&l->work);
    pthread_cond_destroy(&l->ready);
    pthread_cond_destroy(&l->unread);
    pthread_mutex_destroy(&l->lock);
    larder__free(l);
    larder__errmsg_set(why);
}

void larder_loader_cancel(larder_loader *l) {
    if (larder__loader_enter(l) < 0)
        return;
    l->cancelled = true;
    pthread_cond_broadcast(&l->ready);
    pthread_mutex_unlock(&l->lock);
}

/* ---- taking batches -------------------------------------------------------------------------- */

/* Threads start with the first batch, so that a state can be restored before. */
static int start_threads(larder_loader *l) {
    while (l->running < l->conf.threads) {
        int err = pthread_create(&l->threads[l->running], NULL, larder__worker_run, l);
        if (err && l->running == 0)
            return larder__fail(LARDER_E_NOMEM, "cannot start a thread: %s", strerror(err));
        if (err)
            break; /* fewer threads than wished for still train */
        l->running++;
    }
    l->conf.threads = l->running;
    return larder__freight_start(l);
}

static bool all_over(const larder_loader *l) {
    return l->conf.epochs && !l->kept && l->taken == l->planned && !l->planning &&
           larder__draw_epoch(l->draw) >= l->conf.epochs;
}

/* Has a figure of its own: it is no part of a wait. */
static int evaluate(larder_loader *l, double *begun, double *from) {
    double before = larder__now();
    larder__stall_end(l, before);
    int rc = larder__evaluation_run(l);
    *from = larder__now();
    *begun += *from - before;
    return rc;
}

/* Waits on `ready` until the time is over; false: it is. */
static bool wait_ready(larder_loader *l, double until) {
    if (until == INFINITY)
        return pthread_cond_wait(&l->ready, &l->lock) == 0;
    struct timespec at = {.tv_sec = (time_t)until,
                          .tv_nsec = (long)((until - (double)(time_t)until) * 1e9)};
    return pthread_cond_timedwait(&l->ready, &l->lock, &at) != ETIMEDOUT;
}

/* With the lock held: waits for the next batch in order. 0, LARDER_END or negative. The place is
 * looked up again after each wait, since another thread may have taken that batch meanwhile. */
static int await(larder_loader *l, double until, larder__place **out) {
    double begun = larder__now();
    if (l->handed_out > 0) {
        l->stepped = begun - l->handed_out;
        larder__pace_step(&l->pace, l->stepped, l->handed_rows);
        larder__stat_spend(l->stats, l->stat.time[LARDER__TIME_TRAINING], l->stepped);
    }
    l->handed_out = 0;
    if (l->waiting > 0) /* this wait began in an earlier call */
        begun = l->waiting;
    else
        l->starved = 0;
    l->waiting = 0;
    double from = begun; /* of what is not accounted for yet */
    for (bool late = false;; late = !wait_ready(l, until)) {
        larder__place *p = *out = &l->ring[l->taken % l->conf.ahead];
        uint64_t holder = l->x_of[l->taken % l->conf.prefetch];
        if (l->cancelled)
            return larder__fail(LARDER_E_CANCELLED, "cancelled");
        if (larder__evaluator_asks(l))
            return larder__fail(LARDER_E_STATE, "the evaluator asks for batches of the loader that "
                                                "waits for it");
        if (p->phase == LARDER__FILLED && l->taken < l->planned)
            break;
        if (l->failed)
            return larder__fail(l->failed, "%s", l->why);
        if (all_over(l))
            return LARDER_END;
        int rc = larder__evaluation_due(l) ? evaluate(l, &begun, &from) : 0;
        if (rc < 0)
            return rc;
        if (!l->stall.waiting) {
            larder__stall_begin(l, from);
            larder__freight_awaited(l);
        }
        if (holder < l->taken)
            return larder__fail(LARDER_E_STATE,
                                "batch %llu is still held; batch %llu comes after "
                                "larder_loader_done has given it back",
                                (unsigned long long)holder, (unsigned long long)l->taken);
        if (late) {
            l->waiting = begun;
            return LARDER_NOT_YET;
        }
    }
    double now = larder__now();
    l->waited = now - begun;
    if (l->stall.waiting)
        larder__stall_end(l, now);
    else
        larder__stat_spend(l->stats, l->stat.time[LARDER__TIME_ASSEMBLY], now - from);
    larder__stat_observe(l->stats, l->stat.stall, l->waited);
    larder__pace_wait(&l->pace, l->waited);
    l->ready_at = now;
    return 0;
}

/* What was brought in with this batch although nobody asked. */
static void book_fetched(larder_loader *l, const larder__place *p) {
    const larder__planned *plan = &p->plan;
    uint64_t bytes = 0, reads = larder__planned_reads(plan);
    for (size_t i = plan->n; reads && i < plan->n + plan->fetched; i++)
        bytes += plan->tickets[i].kind == LARDER_MISS ? plan->accesses[i].size : 0;
    larder__evaluation *e = &l->evaluation;
    reads += atomic_exchange(&l->probes, 0) - p->scratch_samples;
    bytes += atomic_exchange(&l->probe_bytes, 0) - p->scratch_payload;
    larder__ledger_scratch(l->ledger, p->scratch_samples, p->scratch_bytes, p->scratch_written);
    if (reads)
        larder__ledger_background(l->ledger, reads, bytes);
    if (e->samples)
        larder__ledger_evaluation(l->ledger, e->samples, e->reads, e->bytes);
    uint64_t made = l->conf.order_only ? larder__planned_requests(plan) : p->requests;
    larder__ledger_requests(l->ledger, made + e->requests + atomic_exchange(&l->probe_requests, 0));
    e->samples = e->reads = e->bytes = e->requests = 0;
}

static int hand_out(larder_loader *l, larder__place *p) {
    const larder__planned *plan = &p->plan;
    larder_figures before = {0};
    uint64_t gone = plan->epoch == l->page_epoch ? larder__draw_share(l->draw, l->page_gone) : 0;
    int rc = larder__ledger_begin(l->ledger, plan->epoch, plan->length - gone,
                                  plan->first || l->page_due);
    l->page_due = false;
    if (rc == 0)
        rc = larder__ledger_figures(l->ledger, plan->epoch, &before);
    if (rc < 0 || (rc = larder__bad_settle(l, p)) < 0) {
        p->phase = LARDER__FREE; /* it is not handed out later either */
        return larder__loader_fail(l, rc);
    }
    larder__ledger_record(l->ledger, p->served, p->kind, p->form, p->read_bytes, plan->weights,
                          plan->n);
    book_fetched(l, p);
    p->batch.number = plan->number;
    p->batch.epoch = plan->epoch;
    p->batch.n = plan->n;
    p->phase = LARDER__LENT;
    l->taken++;
    larder__measures_handed(l, p, &before);
    l->handed_rows = plan->n;
    l->shown_batch = l->shown_epoch == plan->epoch ? l->shown_batch + 1 : 1;
    l->shown_epoch = plan->epoch;
    l->epoch_length = plan->whole_length;
    l->epoch_over = plan->last;
    if (plan->last) {
        l->audit = larder__ledger_audit(l->ledger);
        snprintf(l->audit_says, sizeof l->audit_says, "%s", l->audit ? larder_errmsg() : "");
    }
    larder__recording_batch(l, p);
    larder__freight_handed(l, p);
    l->handed_out = larder__now();
    larder__stat_spend(l->stats, l->stat.time[LARDER__TIME_ASSEMBLY], l->handed_out - l->ready_at);
    return 0;
}

int larder_loader_next(larder_loader *l, const larder_batch **out) {
    *out = NULL;
    larder__place *p;
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    double patience = l->conf.patience;
    /* A clock that counts from some start has few digits left for a wait of thousands of years. */
    bool ends = patience > 0 && patience < 1e9;
    double until = ends ? larder__now() + patience : (double)INFINITY;
    if (l->epoch_over) {
        l->epoch_over = false;
        l->handed_out = 0; /* what comes between epochs is no training step */
        rc = LARDER_END_EPOCH;
    } else if ((rc = start_threads(l)) == 0 && (rc = await(l, until, &p)) == 0 &&
               (rc = hand_out(l, p)) == 0)
        *out = &p->batch;
    l->stall.waiting &= rc == LARDER_NOT_YET; /* else of a wait that came to nothing */
    pthread_mutex_unlock(&l->lock);
    larder__tape_flush(l->tape); /* a disk that is slow keeps nobody else waiting */
    return rc;
}
