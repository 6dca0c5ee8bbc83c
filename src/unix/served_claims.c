#include "unix/served_set_inside.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/world.h"

#include <math.h>

static const double PAUSE_MOST = 60; /* seconds; no pause between two batches counts for more */

/* ---- replies --------------------------------------------------------------------------------- */

static void lend(larder__served *s, larder__served_job *j, larder__reply *out, larder_buf *b,
                 void *promise) {
    out->offset = larder__served_offset(s, b);
    out->lease = larder__leases_add(&j->leases, b, promise);
}

/* A job that gives nothing back may hold so much and no more: what is evicted under its hands still
 * takes room. */
static bool holds_too_much(const larder__served *s, const larder__served_job *j) {
    return j->leases.bytes > s->conf.spare / 2 + s->conf.about.budget ||
           (j->leases_most && j->leases.count >= j->leases_most);
}

/* More of them than there is memory for notes: they are smaller than was said. A few more are kept
 * where the smaller ones happen to stay. */
static bool are_too_many(const larder__served *s, const larder__served_job *j) {
    enum { FEW = 1024 };
    return j->leases_most &&
           larder__cache_slots(s->cache)->resident > s->conf.entries + s->conf.entries / 8 + FEW;
}

/* The job has to make it. In the arena if there is a place, for itself alone otherwise. */
static void answer_make(larder__served *s, larder__served_job *j, larder__ticket *t,
                        larder__reply *out) {
    larder__ticket_drop(t); /* a shorter version of it: nobody extends over the wire */
    bool stays = larder__ticket_stays(t);
    larder__promised *m = stays && !are_too_many(s, j) ? larder__promised_start(s, t) : NULL;
    if (m) {
        lend(s, j, out, larder_buf_ref(m->buf), m);
        m->job = (uint32_t)(j - s->jobs);
        m->lease = out->lease;
        s->makings++;
        if (j->promises++ == 0)
            j->kept_at = larder__world_now();
        j->brought += t->size;
        return;
    }
    s->no_block += stays;
    larder__cache_fail(s->cache, t, LARDER_E_FULL, "no room in shared memory");
}

/* The flight has its maker among ours, or has landed since for want of a place. */
static void answer_wait(larder__served *s, larder__served_job *j, larder__ticket *t,
                        larder__reply *out) {
    larder__promised *m = larder__promised_find(s, t);
    if (m) {
        larder__promised_wait(s, m, t);
        lend(s, j, out, larder_buf_ref(m->buf), NULL);
        return;
    }
    larder_buf *bytes = NULL;
    larder__cache_wait(s->cache, t, &bytes);
    larder_buf_unref(&bytes);
    out->task = LARDER__MAKE;
}

/* Nobody is bound by `fetched` ones that did not enter. */
static void reply(larder__served *s, larder__served_job *j, larder__ticket *t, bool fetched,
                  larder__reply *out) {
    *out = larder__reply_of(t);
    if (t->task == LARDER__MAKE && t->flight) {
        answer_make(s, j, t, out);
    } else if (t->task == LARDER__WAIT) {
        answer_wait(s, j, t, out);
    } else if (t->buf) { /* else it was to be brought in and was not let in */
        out->size = (uint32_t)larder_buf_size(t->buf);
        lend(s, j, out, t->buf, NULL);
    }
    if (fetched && out->lease == LARDER__NO_LEASE) {
        out->task = LARDER__READY;
        out->kind = LARDER_HIT;
    }
}

static int reserve(larder__served *s, larder__served_job *j, size_t n) {
    int rc = larder__leases_reserve(&j->leases, n);
    for (; rc == 0 && s->spares < n; s->spares++) {
        larder__waiter *w = larder__malloc(sizeof *w);
        if (!w)
            return LARDER_E_NOMEM;
        w->next = s->spare_waiters;
        s->spare_waiters = w;
    }
    return rc < 0 ? rc : larder__machine_reserve(s->machine, n);
}

void larder__served_note_table(larder__served *s) {
    const larder_slots *slots = larder__cache_slots(s->cache);
    atomic_store_explicit(&s->table->resident, slots->resident, memory_order_relaxed);
    atomic_store_explicit(&s->table->bytes, slots->bytes, memory_order_relaxed);
    atomic_store_explicit(&s->table->budget, slots->budget, memory_order_relaxed);
}

larder__may larder__served_may(void *set, uint32_t number) {
    const larder__served *s = set;
    const larder__served_job *j = &s->jobs[number];
    if (holds_too_much(s, j))
        return LARDER__MAY_NOTHING;
    return j->quota && j->brought >= j->quota ? LARDER__MAY_HITS : LARDER__MAY_ALL;
}

void larder__served_feed(larder__served *s, uint32_t job, const larder__op *o) {
    larder__outcome out;
    larder__machine_apply(s->machine, job, o, &out);
    larder__served_note_table(s);
}

/* It asks: it counts. */
static void note_asking(larder__served *s, uint32_t number) {
    larder__served_job *j = &s->jobs[number];
    double now = larder__world_now();
    if (j->rests)
        larder__served_feed(s, number, &(larder__op){.type = LARDER__OP_REST});
    j->pause = fmax(0.9 * j->pause, fmin(now - j->asked_at, PAUSE_MOST));
    j->rests = false;
    j->asked_at = now;
    s->batches++;
}

static int claim(larder__served *s, uint32_t number, const larder__op *o, larder_writer *answer,
                 larder__outcome *out) {
    larder__served_job *j = &s->jobs[number];
    size_t most = o->n + (size_t)o->number[0];
    larder__pinned_begin(&s->pinned);
    int rc = reserve(s, j, most);
    answer->size = 0;
    larder__write_space(answer, LARDER__TICKETS_HEAD + most * sizeof(larder__reply));
    if (rc < 0 || answer->code < 0)
        return rc < 0 ? rc : answer->code;
    if (larder__served_may(s, number) == LARDER__MAY_NOTHING)
        s->capped += o->n;
    rc = larder__machine_apply(s->machine, number, o, out);
    size_t all = out->rows + out->fetched; /* decided, so answered, whatever became of the rest */
    for (size_t i = 0; i < all; i++)
        reply(s, j, &out->tickets[i], i >= out->rows, &larder__served_replies(answer)[i]);
    const uint32_t counts[2] = {(uint32_t)out->rows, (uint32_t)out->fetched};
    memcpy(answer->bytes, counts, sizeof counts);
    answer->size = LARDER__TICKETS_HEAD + all * sizeof(larder__reply);
    larder__served_note_table(s);
    return rc;
}

int larder__served_apply(larder__served *s, uint32_t job, const larder__op *o,
                         larder_writer *answer, larder__outcome *out) {
    bool batch = o->type == LARDER__OP_CLAIM || o->type == LARDER__OP_EXCHANGE;
    if (batch || o->type == LARDER__OP_TOUCH)
        note_asking(s, job);
    if (batch)
        return claim(s, job, o, answer, out);
    int rc = larder__machine_apply(s->machine, job, o, out);
    answer->size = 0;
    for (size_t i = 0; rc == 0 && i < out->rows; i++)
        larder_write_u32(answer, (uint32_t)out->keys[i]);
    return rc < 0 ? rc : answer->code;
}
