/* Losses looked at again between two epochs. Some samplers want that; then drawing stops at the end
 * of an epoch until the user has taken all of it, and the next larder_loader_next shows the samples
 * to the user's evaluator and notes the losses. The evaluator runs on the user's thread: training
 * does not run at the same time, and no network has to be shared between threads. Meanwhile the
 * loader's threads fill the batch that comes next; so it is decided before the losses of the one
 * before are known, and the simulator does it in the same order. */
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "loader/inside.h"

#include <math.h>
#include <stdatomic.h>

/* Its pixels are its own: it takes no turn among the batches. */
static int open_calm(larder_loader *l, larder__place *p) {
    p->calm = true;
    larder__pixel_block *block = NULL;
    int rc = larder__place_open(l, p);
    if (rc == 0)
        rc = larder__pixel_block_add(l->pool, &block);
    if (rc == 0)
        larder__place_lend(l, p, block);
    return rc;
}

int larder_loader_evaluator(larder_loader *l, larder_evaluate_fn fn, void *arg) {
    int rc = larder__loader_enter(l);
    if (rc < 0)
        return rc;
    larder__evaluation *e = &l->evaluation;
    if (!fn)
        rc = larder__fail(LARDER_E_ARGS, "no evaluator given");
    else if (l->running || e->fn)
        rc = larder__fail(LARDER_E_STATE, "an evaluator is set once, before the first batch");
    if (rc == 0 && larder__draw_takes_evaluator(l->draw)) {
        e->loss = larder__calloc(l->conf.batch, sizeof *e->loss);
        rc = e->loss ? 0 : LARDER_E_NOMEM;
        for (int k = 0; rc == 0 && k < 2; k++)
            rc = open_calm(l, &e->places[k]);
        if (rc < 0)
            larder__evaluation_close(e);
    }
    if (rc == 0) {
        e->fn = fn;
        e->arg = arg;
        larder__tape_add_looked(l->tape, 0, NULL, NULL, 0); /* there is one, says the tape */
    }
    pthread_mutex_unlock(&l->lock);
    return rc;
}

void larder__evaluation_close(larder__evaluation *e) {
    for (int k = 0; k < 2; k++) {
        larder__pixel_block_unref(&e->places[k].block);
        larder__place_close(&e->places[k]);
    }
    larder__free(e->loss);
    *e = (larder__evaluation){0};
}

/* Rows that could be filled move up; the others keep the losses they had. */
static int gather(larder_loader *l, larder__place *p) {
    size_t kept = 0;
    for (size_t i = 0; i < p->plan.n; i++) {
        if (p->faults[i].code < 0 && l->conf.on_bad == LARDER_BAD_FAIL)
            return larder__fail(p->faults[i].code, "%s", p->faults[i].why);
        if (p->faults[i].code < 0)
            continue;
        if (kept != i) {
            size_t x = larder__x_bytes(l);
            memcpy(p->x + kept * x, p->x + i * x, x);
            if (l->columns)
                larder__pixel_block_move(p->block, kept, i);
            p->y[kept] = p->y[i];
            p->served[kept] = p->served[i];
            p->kind[kept] = p->kind[i];
        }
        kept++;
    }
    p->batch.n = kept;
    return 0;
}

static void count_reads(larder__evaluation *e, const larder__place *p, const larder__parts *parts) {
    e->samples += p->plan.n;
    for (size_t i = 0; i < p->plan.n; i++)
        if (p->plan.tickets[i].kind == LARDER_MISS) {
            e->reads++;
            e->bytes += larder__planned_bytes(&p->plan, parts, i);
        }
}

/* Decides what comes next and lets the threads at it; plan.n 0: nothing is left. */
static int begin_batch(larder_loader *l, larder__place *p) {
    int rc = larder__draw_evaluation(l->draw, &p->plan);
    if (rc < 0 || p->plan.n == 0) {
        p->plan.n = 0;
        return rc;
    }
    count_reads(&l->evaluation, p, l->parts);
    pthread_mutex_lock(&l->lock);
    larder__place_begin(l, p);
    pthread_mutex_unlock(&l->lock);
    return 0;
}

/* Helps until all rows are there, so that it ends even where no thread could be started. */
static void finish_batch(larder_loader *l, larder__place *p) {
    pthread_mutex_lock(&l->lock);
    while (p->phase == LARDER__WORKING)
        if (!larder__place_work(l, l->own_scratch, p))
            pthread_cond_wait(&l->ready, &l->lock);
    p->phase = LARDER__FREE;
    l->evaluation.requests += atomic_exchange(&p->requests, 0);
    pthread_mutex_unlock(&l->lock);
}

/* A code where the run is over: what was finished may not be whole. */
static int run_over(larder_loader *l) {
    pthread_mutex_lock(&l->lock);
    int rc = l->failed ? larder__fail(l->failed, "%s", l->why) : 0;
    pthread_mutex_unlock(&l->lock);
    return rc;
}

static void note_asking(larder_loader *l, bool on) {
    pthread_mutex_lock(&l->lock);
    l->evaluation.asking = on;
    l->evaluation.asker = pthread_self();
    pthread_mutex_unlock(&l->lock);
}

bool larder__evaluator_asks(const larder_loader *l) {
    return l->evaluation.asking && pthread_equal(l->evaluation.asker, pthread_self());
}

bool larder__decided_elsewhere(const larder_loader *l) {
    return l->planning && !larder__evaluator_asks(l);
}

/* What the user's function broke off with is its own: nothing has been noted, and it may be asked
 * again. */
static int ask(larder_loader *l, larder__place *p) {
    larder__evaluation *e = &l->evaluation;
    for (size_t i = 0; i < p->plan.n; i++)
        e->loss[i] = NAN;
    p->batch.number = p->plan.number;
    p->batch.epoch = p->plan.epoch;
    p->batch.ids = p->served;
    note_asking(l, true);
    int rc = p->batch.n ? e->fn(e->arg, &p->batch, e->loss) : 0;
    note_asking(l, false);
    e->halted = rc != 0;
    if (rc == 0)
        return 0;
    return rc < 0 ? larder__fail(rc, "the evaluator broke off")
                  : larder__fail(LARDER_E_STATE, "the evaluator answered %d", rc);
}

static int look_at_batch(larder_loader *l, larder__place *p) {
    larder__evaluation *e = &l->evaluation;
    int rc = ask(l, p);
    if (rc < 0)
        return rc;
    if (p->batch.n == 0)
        return larder__draw_evaluated(l->draw, &p->plan, NULL, NULL, 0);
    rc = larder__draw_evaluated(l->draw, &p->plan, p->served, e->loss,
                                p->plan.again ? 0 : p->batch.n);
    if (rc < 0)
        return rc;
    larder__tape_add_looked(l->tape, p->batch.epoch, p->served, e->loss, p->batch.n);
    larder__stat_add(l->stats, l->stat.evaluated, p->batch.n);
    return 0;
}

/* While one batch is looked at, the next is filled. */
static int look_at_all(larder_loader *l) {
    larder__evaluation *e = &l->evaluation;
    bool again = e->halted; /* it is filled, and so is the next */
    int rc = again ? 0 : begin_batch(l, &e->places[e->now]);
    while (rc == 0 && e->places[e->now].plan.n) {
        larder__place *now = &e->places[e->now], *next = &e->places[!e->now];
        if (!again) {
            rc = begin_batch(l, next);
            finish_batch(l, now);
            rc = rc < 0 ? rc : run_over(l);
            rc = rc < 0 ? rc : gather(l, now);
        }
        again = false;
        if (rc == 0)
            rc = look_at_batch(l, now);
        if (e->halted)
            break;
        now->plan.n = 0;
        e->now = !e->now;
    }
    for (int k = 0; k < 2; k++) { /* of a failure: nothing may be left under way */
        finish_batch(l, &e->places[k]);
        if (!e->halted)
            e->places[k].plan.n = 0;
    }
    return rc;
}

bool larder__evaluation_due(const larder_loader *l) {
    return l->evaluation.due && !l->planning && l->taken == l->planned;
}

int larder__evaluation_run(larder_loader *l) {
    double begun = larder__now();
    l->planning = true; /* the deciding half is ours meanwhile */
    pthread_mutex_unlock(&l->lock);
    int rc = look_at_all(l);
    larder__stat_observe(l->stats, l->stat.evaluation, larder__now() - begun);
    pthread_mutex_lock(&l->lock);
    l->evaluation.due = l->evaluation.halted;
    l->planning = false;
    pthread_cond_broadcast(&l->work);
    pthread_cond_broadcast(&l->ready);
    if (rc == 0 || l->evaluation.halted)
        return rc;
    l->torn = true;
    return larder__loader_fail(l, rc);
}
