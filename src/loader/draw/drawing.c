/* The next batch of the ring: decided now, or decided before a save and opened again. */
#include "loader/inside.h"

#include <math.h>

/* A cache that keeps parts may hold too little of a sample by now: then it is read alone. */
static int reclaim(larder_loader *l, larder__planned *p, size_t row, uint64_t id, larder_form form,
                   uint64_t mark) {
    larder__cache *cache = larder__draw_cache(l->draw);
    uint32_t size = larder__entry_bytes(l, id);
    if (p->holds) {
        bool resident = larder__cache_resident(cache, id);
        p->holds[row] = larder__parts_hold(l->parts, p->number, row, id, resident);
        bool enough = resident && larder__parts_holds(l->parts, p->number, row, id);
        size = enough ? larder__parts_bytes(l->parts, id, &p->holds[row]) : 0;
    }
    return larder__cache_reclaim(cache, id, size, form, mark, &p->tickets[row]);
}

/* With ranks that share: all rows of the batch, in case it is saved again; and those of others that
 * are cold will come from them. */
static void reopen_whole(larder_loader *l, larder__planned *p, const larder__kept *k,
                         larder__slice own) {
    p->whole_n = p->whole ? k->n : 0;
    for (size_t i = 0; i < p->whole_n; i++) {
        p->whole[i] = (larder__decided){.id = k->ids[i],
                                        .key = k->served[i],
                                        .mark = k->mark[i],
                                        .weight = k->weights[i],
                                        .substitute = k->substitute[i],
                                        .form = k->form[i]};
        if (!larder__slice_has(&own, i))
            larder__cache_expect(larder__draw_cache(l->draw), k->served[i]);
    }
    larder__draw_note_rows(l->draw, k->number, k->n);
}

/* A batch from before a save: its decisions stand, only the bytes have to be found again. */
static int reopen_kept(larder_loader *l, larder__planned *p) {
    larder__kept *k = l->kept;
    larder__slice own = larder__draw_slice(l->draw, k->number, k->n);
    p->number = k->number;
    p->epoch = k->epoch;
    p->whole_length = k->length;
    p->length = larder__draw_share(l->draw, k->length);
    p->at = own.from;
    p->step = own.step;
    p->first = k->first;
    p->last = k->last;
    p->n = p->fetched = p->dropped_count = 0;
    p->package = (larder_package){0};
    p->measured = NAN;
    larder__planned_note_plan(p, l->draw);
    for (size_t i = 0; i < own.n; i++) {
        size_t row = larder__slice_row(&own, i);
        int rc = reclaim(l, p, i, k->served[row], (larder_form)k->form[row], k->mark[row]);
        if (rc < 0)
            return rc;
        if (k->substitute[row])
            p->tickets[i].kind = LARDER_SUBSTITUTE;
        p->ids[i] = k->ids[row];
        p->weights[i] = k->weights[row];
        p->n++; /* counted one by one, so that a failure leaves only tickets that are open */
    }
    reopen_whole(l, p, k, own);
    return 0;
}

bool larder__drawing_due(const larder_loader *l) {
    if (l->planning || l->failed || l->evaluation.due ||
        l->ring[l->planned % l->conf.ahead].phase != LARDER__FREE)
        return false;
    return l->kept || l->conf.epochs == 0 || larder__draw_epoch(l->draw) < l->conf.epochs;
}

/* Settles, in the order of batches, who lays a package down and who reads it. */
static void plan_package(larder_loader *l, larder__place *p) {
    p->crate = NULL;
    p->scratch_samples = p->scratch_payload = p->scratch_bytes = p->scratch_written = 0;
    for (size_t i = 0; l->crates && i < p->plan.dropped_count; i++)
        larder__packages_drop(l->crates, p->plan.dropped[i]);
    if (l->crates && p->plan.package.number && larder__planned_reads(&p->plan))
        p->crate = larder__packages_find(l->crates, p->plan.package.number, &p->lays_down);
}

/* Called with the lock held; gives it up while drawing. */
void larder__drawing_do(larder_loader *l) {
    larder__place *p = &l->ring[l->planned % l->conf.ahead];
    l->planning = true;
    pthread_mutex_unlock(&l->lock);
    larder__seat_turn(LARDER__AT_CACHE);
    p->plan.n = p->plan.fetched = 0;
    larder_pace pace = larder__pace_now(&l->pace);
    larder__draw_pace(l->draw, &pace);
    int rc = l->kept ? reopen_kept(l, &p->plan) : larder__draw_next(l->draw, &p->plan);
    larder__curve fresh = {.low = (double)NAN};
    if (rc == 0)
        plan_package(l, p);
    if (rc == 0 && p->plan.first)
        larder__shown_scores(l->draw, larder__data_about(l->data)->count, &fresh);
    larder__seat_turn(LARDER__AT_NOTHING);
    pthread_mutex_lock(&l->lock);
    if (isfinite(fresh.low)) {
        larder__curve *c = larder__shown_curve(l, p->plan.epoch);
        c->low = fresh.low, c->high = fresh.high;
        memcpy(c->bins, fresh.bins, sizeof c->bins);
    }
    larder__stall_note(l);
    l->planning = false;
    if (rc < 0) {
        l->torn = true;
        larder__loader_fail(l, rc);
    } else if (rc == LARDER__EVALUATE) {
        l->evaluation.due = true;
    } else {
        if (l->kept) {
            larder__kept *done = l->kept;
            l->kept = done->next;
            done->next = NULL;
            larder__kept_free(done);
        }
        larder__place_begin(l, p);
        l->planned++;
    }
    pthread_cond_broadcast(&l->work);
    pthread_cond_broadcast(&l->ready);
}
