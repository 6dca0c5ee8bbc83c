#include "daemon/shelf_inside.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "daemon/ods_jobs.h"

#include <math.h>

static const double PAUSE_MOST = 60; /* seconds; no pause between two batches counts for more */

/* ---- claims ---------------------------------------------------------------------------------- */

static void lend(larder__shelf *s, larder__job *j, larder__wire_ticket *out, larder_buf *b,
                 void *promise) {
    out->offset = larder__shelf_offset(s, b);
    out->lease = larder__leases_add(&j->leases, b, promise);
}

/* A job that gives nothing back may hold so much and no more: what is evicted under its hands still
 * takes room. */
static bool holds_too_much(const larder__shelf *s, const larder__job *j) {
    return j->leases.bytes > s->conf.spare / 2 + s->conf.budget;
}

/* The job has to make it. In the arena if there is a place, for itself alone otherwise. */
static void answer_make(larder__shelf *s, larder__job *j, larder__ticket *t,
                        larder__wire_ticket *out) {
    larder__ticket_drop(t); /* a shorter version of it: nobody extends over the wire */
    bool stays = larder__ticket_stays(t);
    larder__making *m = stays ? larder__making_start(s, t) : NULL;
    if (m) {
        lend(s, j, out, larder_buf_ref(m->buf), m);
        m->job = (uint32_t)(j - s->jobs);
        m->lease = out->lease;
        s->makings++;
        if (j->promises++ == 0)
            j->kept_at = larder__now();
        j->brought += t->size;
        return;
    }
    s->no_block += stays;
    larder__cache_fail(s->cache, t, LARDER_E_FULL, "no room in shared memory");
}

/* The flight has its maker among ours, or has landed since for want of a place. */
static void answer_wait(larder__shelf *s, larder__job *j, larder__ticket *t,
                        larder__wire_ticket *out) {
    larder__making *m = larder__making_find(s, t);
    if (m) {
        larder__making_wait(s, m, t);
        lend(s, j, out, larder_buf_ref(m->buf), NULL);
        return;
    }
    larder_buf *bytes = NULL;
    larder__cache_wait(s->cache, t, &bytes);
    larder_buf_unref(&bytes);
    out->task = LARDER__MAKE;
}

static void answer(larder__shelf *s, larder__job *j, larder__ticket *t, larder__wire_ticket *out) {
    *out = (larder__wire_ticket){.key = (uint32_t)t->key,
                                 .lease = LARDER__NO_LEASE,
                                 .size = t->size,
                                 .task = t->task,
                                 .kind = t->kind,
                                 .form = t->form,
                                 .make = t->make,
                                 .held = t->held,
                                 .mark = t->mark};
    if (t->task == LARDER__MAKE) {
        answer_make(s, j, t, out);
    } else if (t->task == LARDER__WAIT) {
        answer_wait(s, j, t, out);
    } else if (t->buf) { /* else it was to be brought in and was not let in */
        out->size = (uint32_t)larder_buf_size(t->buf);
        lend(s, j, out, t->buf, NULL);
    }
}

static int reserve(larder__shelf *s, larder__job *j, size_t n) {
    int rc = larder__leases_reserve(&j->leases, n);
    for (; rc == 0 && s->spares < n; s->spares++) {
        larder__waiter *w = larder__malloc(sizeof *w);
        if (!w)
            return LARDER_E_NOMEM;
        w->next = s->spare_waiters;
        s->spare_waiters = w;
    }
    if (rc < 0 || n <= s->room)
        return rc;
    larder__ticket *t = larder__realloc(s->tickets, n * sizeof *t);
    if (t)
        s->tickets = t;
    larder_access *a = larder__realloc(s->accesses, n * sizeof *a);
    if (a)
        s->accesses = a;
    if (!t || !a)
        return LARDER_E_NOMEM;
    s->room = n;
    return 0;
}

/* Not through the cache at all: the job reads it for itself, or if nobody asked, not at all. */
static void answer_alone(const larder__wire_access *a, larder__wire_ticket *out) {
    bool asked = a->tag != LARDER_TAG_FETCH;
    *out = (larder__wire_ticket){.key = a->key,
                                 .lease = LARDER__NO_LEASE,
                                 .size = a->size,
                                 .task = asked ? LARDER__MAKE : LARDER__READY,
                                 .kind = asked ? LARDER_MISS : LARDER_HIT};
}

void larder__shelf_note_table(larder__shelf *s) {
    const larder_slots *slots = larder__cache_slots(s->cache);
    atomic_store_explicit(&s->table->resident, slots->resident, memory_order_relaxed);
    atomic_store_explicit(&s->table->bytes, slots->bytes, memory_order_relaxed);
    atomic_store_explicit(&s->table->budget, slots->budget, memory_order_relaxed);
}

static int check_keys(const larder__shelf *s, const larder__wire_access *in, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (in[i].key >= s->conf.keys)
            return larder__fail(LARDER_E_RANGE, "sample %u: the data set has %llu", in[i].key,
                                (unsigned long long)s->conf.keys);
    return 0;
}

static int claim(larder__shelf *s, larder__job *j, const larder__wire_access *in, size_t n,
                 larder__wire_ticket *out) {
    int rc = reserve(s, j, n);
    if (rc < 0)
        return rc;
    bool alone = holds_too_much(s, j), full = j->quota && j->brought >= j->quota;
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        bool there = larder__cache_resident(s->cache, in[i].key);
        if (alone || (full && !there)) {
            answer_alone(&in[i], &out[i]);
            s->capped += alone;
            continue;
        }
        s->accesses[m++] = (larder_access){.key = in[i].key,
                                           .now = s->now++,
                                           .next_use = in[i].next_use,
                                           .size = in[i].size,
                                           .job = s->counts ? j->counted : (uint32_t)(j - s->jobs),
                                           .tag = in[i].tag,
                                           .score = in[i].score};
        out[i].task = UINT8_MAX; /* still to be answered */
    }
    if ((rc = larder__cache_claim(s->cache, s->accesses, m, s->tickets)) < 0)
        return rc;
    for (size_t i = 0, k = 0; i < n; i++) {
        if (out[i].task != UINT8_MAX)
            continue;
        answer(s, j, &s->tickets[k++], &out[i]);
        if (out[i].lease == LARDER__NO_LEASE && in[i].tag == LARDER_TAG_FETCH)
            answer_alone(&in[i], &out[i]);
    }
    return 0;
}

/* It asks: it counts. */
static void note_asking(larder__shelf *s, larder__job *j) {
    double now = larder__now();
    if (j->rests)
        larder__ods_jobs_rest(s->cache, j->counted, false);
    j->pause = fmax(0.9 * j->pause, fmin(now - j->asked_at, PAUSE_MOST));
    j->rests = false;
    j->asked_at = now;
    s->batches++;
}

int larder__shelf_claim(larder__shelf *s, uint32_t number, const larder__wire_access *in, size_t n,
                        larder__wire_ticket *out) {
    int rc = check_keys(s, in, n);
    note_asking(s, &s->jobs[number]);
    if (rc == 0)
        rc = claim(s, &s->jobs[number], in, n, out);
    if (rc < 0)
        return rc;
    larder__cache_batch(s->cache);
    larder__shelf_note_table(s);
    return 0;
}

int larder__shelf_touch(larder__shelf *s, uint32_t number, const larder__touch *in, size_t n) {
    note_asking(s, &s->jobs[number]);
    int rc = larder__cache_touch(s->cache, in, n, number, s->now);
    s->now += n;
    if (rc == 0)
        larder__cache_batch(s->cache);
    return rc;
}

/* ---- exchanges ------------------------------------------------------------------------------- */

static int exchange_reserve(larder__shelf *s, size_t n) {
    if (n <= s->exchange_room)
        return 0;
    uint64_t *ids = larder__realloc(s->ids, 2 * n * sizeof *ids);
    if (ids)
        s->ids = ids;
    larder__wire_access *served = larder__realloc(s->served, n * sizeof *served);
    if (served)
        s->served = served;
    if (!ids || !served)
        return LARDER_E_NOMEM;
    s->exchange_room = n;
    return 0;
}

static uint32_t known_size(const larder__shelf *s, const larder__wire_access *in, uint64_t id) {
    bool asked = in->key == id; /* another one is resident: then its size is known */
    return s->sizes && (s->sized == s->conf.keys || !asked) ? s->sizes[id] : in->size;
}

/* What it wants besides what is asked for. */
static int bring_in(larder__shelf *s, larder__job *j, size_t most, larder__wire_ticket *out,
                    size_t *n) {
    *n = s->sized == s->conf.keys && !holds_too_much(s, j)
             ? larder__cache_fetch(s->cache, s->ids, most)
             : 0;
    for (size_t i = 0; i < *n; i++)
        s->served[i] = (larder__wire_access){.key = (uint32_t)s->ids[i],
                                             .size = s->sizes[s->ids[i]],
                                             .tag = LARDER_TAG_FETCH,
                                             .score = NAN,
                                             .next_use = LARDER_UNKNOWN};
    return claim(s, j, s->served, *n, out);
}

int larder__shelf_exchange(larder__shelf *s, uint32_t number, const larder__wire_access *in,
                           size_t n, size_t fetch, larder__wire_ticket *out, size_t *fetched) {
    larder__job *j = &s->jobs[number];
    int rc = check_keys(s, in, n);
    *fetched = 0;
    if (rc == 0)
        rc = exchange_reserve(s, n > fetch ? n : fetch);
    if (rc < 0)
        return rc;
    note_asking(s, j);
    uint64_t *wanted = s->ids, *served = s->ids + n;
    for (size_t i = 0; i < n; i++)
        wanted[i] = in[i].key;
    larder__cache_exchange(s->cache, j->counted, wanted, n, served);
    for (size_t i = 0; i < n; i++) {
        s->served[i] = in[i];
        s->served[i].size = known_size(s, &in[i], served[i]);
        s->served[i].key = (uint32_t)served[i];
    }
    rc = claim(s, j, s->served, n, out);
    if (rc == 0)
        rc = bring_in(s, j, fetch, out + n, fetched);
    larder__cache_batch(s->cache);
    larder__shelf_note_table(s);
    return rc;
}
