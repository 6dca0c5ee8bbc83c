/* Losses looked at again between two epochs. Some samplers want that; then drawing stops at the end
 * of an epoch until the user has taken all of it, and the next larder_loader_next reads the
 * samples, shows them to the user's evaluator and notes the losses. All of it on the user's thread:
 * training does not run at the same time, and no network has to be shared between threads. */
#include "base/err.h"
#include "base/mem.h"
#include "loader/inside.h"

#include <math.h>

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
        if ((rc = e->loss ? larder__place_open(l, &e->place) : LARDER_E_NOMEM) < 0)
            larder__evaluation_close(e);
    }
    if (rc == 0) {
        e->fn = fn;
        e->arg = arg;
    }
    pthread_mutex_unlock(&l->lock);
    return rc;
}

void larder__evaluation_close(larder__evaluation *e) {
    larder__place_close(&e->place);
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
            memcpy(p->x + kept * l->row_bytes, p->x + i * l->row_bytes, l->row_bytes);
            p->y[kept] = p->y[i];
            p->served[kept] = p->served[i];
            p->kind[kept] = p->kind[i];
        }
        kept++;
    }
    p->batch.n = kept;
    return 0;
}

static void count_reads(larder__evaluation *e, const larder__parts *parts) {
    const larder__place *p = &e->place;
    for (size_t i = 0; i < p->plan.n; i++)
        if (p->plan.tickets[i].kind == LARDER_MISS) {
            e->reads++;
            e->bytes += larder__planned_bytes(&p->plan, parts, i);
        }
}

static int evaluate_batch(larder_loader *l) {
    larder__evaluation *e = &l->evaluation;
    larder__place *p = &e->place;
    for (size_t i = 0; i < p->plan.n; i++) {
        p->faults[i].code = 0;
        e->loss[i] = NAN;
    }
    count_reads(e, l->parts);
    for (size_t from = 0; from < p->plan.n; from += LARDER__ROWS_AT_ONCE) {
        size_t left = p->plan.n - from;
        larder__rows_fill(l, l->own_scratch, p, from,
                          left < LARDER__ROWS_AT_ONCE ? left : LARDER__ROWS_AT_ONCE);
    }
    int rc = gather(l, p);
    if (rc < 0 || p->batch.n == 0)
        return rc;
    p->batch.number = p->plan.number;
    p->batch.epoch = p->plan.epoch;
    p->batch.ids = p->served;
    rc = e->fn(e->arg, &p->batch, e->loss);
    if (rc != 0)
        return rc < 0 ? larder__fail_in(rc, "the evaluator")
                      : larder__fail(LARDER_E_STATE, "the evaluator answered %d", rc);
    larder__draw_evaluated(l->draw, p->served, e->loss, p->batch.n);
    return 0;
}

bool larder__evaluation_due(const larder_loader *l) {
    return l->evaluation.due && l->taken == l->planned;
}

int larder__evaluation_run(larder_loader *l) {
    l->planning = true; /* the deciding half is ours meanwhile */
    pthread_mutex_unlock(&l->lock);
    int rc;
    while ((rc = larder__draw_evaluation(l->draw, &l->evaluation.place.plan)) == 0 &&
           l->evaluation.place.plan.n && (rc = evaluate_batch(l)) == 0)
        l->evaluation.place.plan.n = 0;
    pthread_mutex_lock(&l->lock);
    l->evaluation.place.plan.n = 0;
    l->evaluation.due = false;
    l->planning = false;
    pthread_cond_broadcast(&l->work);
    pthread_cond_broadcast(&l->ready);
    if (rc < 0)
        l->torn = true;
    return rc < 0 ? larder__loader_fail(l, rc) : 0;
}
