/* From what a group has decided to bytes: what is there is sent for, what is missing is made and
 * put there, what another job makes is waited for. */
#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/world.h"
#include "redis/fetch_token.h"
#include "redis/group_inside.h"

#include <math.h>
#include <string.h>

#if LARDER_HAVE_HIREDIS

static const double MAKER_SECONDS = 2;      /* another job may go without keeping a promise, */
static const double IMPATIENCE_SECONDS = 5; /* and is not waited for so long if it does not */
static const double NEWS_SECONDS = 0.004, PAUSE_MOST = 0.02;
enum {
    BRIEFLY = 5, /* seconds: longer than anybody waits */
    AT_ONCE = 256,
    UNTOLD = 32, /* values that are looked for before their maker has said that they are there */
};

typedef struct passage { /* an entry that this job has promised to make, or waits for */
    larder__group *g;
    larder__value value;
    bool brief;                    /* made: it has left already */
    larder__redis_fetch *asked;    /* waits, under `lists` as all that follows: what is sent for; */
    bool last;                     /* it was made by then, or never will be */
    struct passage *next, *before; /* of those that wait */
} passage;

/* ---- tickets --------------------------------------------------------------------------------- */

static larder__value value_of(const larder__ticket *t, uint8_t form) {
    return (larder__value){.id = t->key,
                           .mark = t->mark,
                           .size = t->size,
                           .form = form,
                           .held = form == LARDER_DECODED ? LARDER__ANY_FORM : form};
}

/* A promise of bytes that are in Redis; NULL: no memory. */
static larder__redis_fetch *promise(larder__ticket *t) {
    larder__value v = value_of(t, t->form);
    larder__redis_fetch *e = larder__redis_fetch_new(&v);
    t->buf = larder__fetch_token_new(e, t->size);
    return t->buf ? e : NULL;
}

/* Has somebody promised this very value and not brought it yet? */
static bool promised(larder__group *g, const larder__value *v) {
    pthread_mutex_lock(&g->state);
    bool yes = g->machine && larder__machine_promised(g->machine, v->id, v->mark);
    pthread_mutex_unlock(&g->state);
    return yes;
}

static void wait_begin(larder__group *g, passage *p) {
    pthread_mutex_lock(&g->lists);
    p->next = NULL;
    p->before = g->waiting_last;
    *(p->before ? &p->before->next : &g->waiting) = p;
    g->waiting_last = p;
    pthread_mutex_unlock(&g->lists);
}

static void wait_end(larder__group *g, passage *p) {
    pthread_mutex_lock(&g->lists);
    *(p->before ? &p->before->next : &g->waiting) = p->next;
    *(p->next ? &p->next->before : &g->waiting_last) = p->before;
    pthread_mutex_unlock(&g->lists);
    larder__redis_fetch_unref(&p->asked);
}

/* A ticket that waits for another job; false: no memory. */
static bool wait_for(larder__group *g, const larder__value *v, larder__ticket *t) {
    passage *p = larder__malloc(sizeof *p);
    if (!p)
        return false;
    *p = (passage){.g = g, .value = *v};
    t->flight = (larder__flight *)(void *)p;
    t->task = LARDER__WAIT;
    t->size = v->size;
    wait_begin(g, p);
    return true;
}

/* From an answer to a ticket of the loader's; a fetch to send, or NULL. */
static larder__redis_fetch *board(larder__group *g, const larder__reply *a, const larder_access *in,
                                  larder__ticket *out) {
    *out = (larder__ticket){.key = a->key,
                            .size = a->size,
                            .kind = a->kind,
                            .task = LARDER__READY,
                            .form = a->form,
                            .make = a->make,
                            .held = a->held,
                            .mark = a->mark};
    if (a->kind != LARDER_MISS) {
        if (in->tag == LARDER_TAG_FETCH) /* it is there, or not wanted after all */
            return NULL;
        larder__value v = value_of(out, out->form);
        if (promised(g, &v) && wait_for(g, &v, out))
            return NULL;
        larder__redis_fetch *e = promise(out);
        if (!e)
            larder__client_alone(g->client, in, out);
        return e;
    }
    passage *p = a->kept ? larder__malloc(sizeof *p) : NULL;
    if (!p) {
        larder__client_alone(g->client, in, out);
        return NULL;
    }
    *p = (passage){.g = g, .value = value_of(out, a->make)};
    out->task = LARDER__MAKE;
    out->flight = (larder__flight *)(void *)p;
    return NULL;
}

void larder__group_board(void *st, const larder__reply *answers, const larder_access *in, size_t n,
                         larder__ticket *out) {
    larder__group *g = st;
    larder__redis_fetch *fetches[AT_ONCE];
    for (size_t i = 0; i < n;) {
        size_t m = 0;
        for (; i < n && m < AT_ONCE; i++)
            if ((fetches[m] = board(g, &answers[i], &in[i], &out[i])))
                m++;
        larder__redis_values_send(g->far, fetches, m);
    }
}

/* Promises that nobody will keep: others are not to wait for them. */
static void note_made(larder__group *g, const larder__left *one) {
    pthread_mutex_lock(&g->lists);
    larder__group_note_down(&g->made, &g->made_count, &g->made_cap, one);
    pthread_mutex_unlock(&g->lists);
}

void larder__group_refuse(void *st, const larder__reply *a, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (a[i].kind == LARDER_MISS && a[i].kept)
            note_made(st, &(larder__left){.key = a[i].key, .mark = a[i].mark, .form = a[i].make});
}

/* ---- filling --------------------------------------------------------------------------------- */

static void stored(void *arg, bool there_now) {
    passage *p = arg;
    (void)there_now; /* if not, whoever asks finds nothing and makes it */
    note_made(p->g, &(larder__left){p->value.id, p->value.mark, p->value.form, p->brief});
    larder__free(p);
}

/* It may have left again before it was made. */
static bool still_wanted(larder__group *g, const larder__value *v) {
    pthread_mutex_lock(&g->state);
    bool wanted = g->machine && larder__machine_holds(g->machine, v->id, v->mark);
    pthread_mutex_unlock(&g->state);
    return wanted;
}

void larder__group_fill(void *st, larder__ticket *t, larder_buf *b) {
    larder__group *g = st;
    passage *p = (passage *)(void *)t->flight;
    size_t bytes = larder_buf_size(b);
    bool fits = t->make == LARDER_DECODED ? bytes <= t->size && t->held != LARDER_AUGMENTED
                                          : bytes == t->size && t->held == t->make;
    if (!fits) {
        stored(p, false);
        return;
    }
    p->value.size = (uint32_t)bytes;
    p->value.held = t->held;
    /* If not, whoever deletes it may have been here already: then only for those who wait for it.
     */
    p->brief = !still_wanted(g, &p->value);
    larder__redis_values_put(g->far, &p->value, b, p->brief ? BRIEFLY : g->ttl, stored, p);
}

void larder__group_fail(void *st, larder__ticket *t, int code) {
    (void)st, (void)code;
    stored(t->flight, false);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* With `lists` held: a new question for this one, unless it has come, is on its way or is not to be
 * had. `untold`: even if its maker has not said yet that it is there. */
static larder__redis_fetch *question(larder__group *g, passage *p, bool untold) {
    if (p->last ||
        (p->asked && (!larder__redis_fetch_over(p->asked) || larder__redis_fetch_came(p->asked))))
        return NULL;
    bool made = !promised(g, &p->value);
    if (!made && !untold)
        return NULL;
    larder__redis_fetch_unref(&p->asked);
    p->asked = larder__redis_fetch_new(&p->value);
    p->last = made && p->asked;
    return p->asked;
}

/* Sends for what is waited for, all together: what was made, and the first `untold` of the rest. */
static void ask_for_waiting(larder__group *g, size_t untold) {
    larder__redis_fetch *fetches[AT_ONCE];
    size_t n = 0;
    pthread_mutex_lock(&g->lists);
    for (passage *p = g->waiting; p; p = p->next) {
        if ((fetches[n] = question(g, p, untold > 0))) {
            n++;
            untold -= !p->last; /* then it was asked for early */
        }
        if (n == AT_ONCE || !p->next) {
            larder__redis_values_send(g->far, fetches, n); /* does not wait */
            n = 0;
        }
    }
    pthread_mutex_unlock(&g->lists);
}

/* At every step, and so before our next question: as nobody_wants_before expects. */
void larder__group_collect(larder__group *g) { ask_for_waiting(g, 0); }

/* What came of it; NULL: nothing as yet, or `last`, nothing at all. */
static larder_buf *look(larder__group *g, passage *p, uint8_t *held, bool *last) {
    pthread_mutex_lock(&g->lists);
    larder__redis_fetch *e = p->asked;
    p->asked = NULL;
    *last = p->last;
    pthread_mutex_unlock(&g->lists);
    larder_buf *out = e ? larder__redis_values_look(g->far, e) : NULL;
    if (out)
        *held = larder__redis_fetch_held(e);
    larder__redis_fetch_unref(&e);
    return out;
}

/* This one alone, now: it may have come since it was last asked for. */
static larder_buf *ask_now(larder__group *g, const larder__value *v, uint8_t *held) {
    larder__redis_fetch *e = larder__redis_fetch_new(v);
    if (!e)
        return NULL;
    larder__redis_values_send(g->far, &e, 1);
    larder_buf *out = larder__redis_values_look(g->far, e);
    if (out)
        *held = larder__redis_fetch_held(e);
    larder__redis_fetch_unref(&e);
    return out;
}

/* What the others did since our last question; nobody may be asking one for a while. */
static void hear_news(larder__group *g) {
    if (!larder__client_try(g->client))
        return;
    if (g->machine) {
        larder__group_queue_made(g);
        larder__group_step(g);
    }
    larder__client_done(g->client);
}

/* How many promises its maker has kept so far; 0: nobody is at it. */
static uint64_t progress(larder__group *g, const larder__value *v) {
    pthread_mutex_lock(&g->state);
    uint64_t kept = g->machine ? larder__machine_progress(g->machine, v->id, v->mark) : 0;
    pthread_mutex_unlock(&g->state);
    return kept;
}

/* Another job is at it: looks again, less and less often, as long as that one keeps promises.
 * Makers take their batches in the order of the journal, and make before they wait; so whoever
 * waits, waits for somebody who is not waiting for them. */
static larder_buf *wait_for_maker(larder__group *g, passage *p, uint8_t *held) {
    bool last, patient = larder__world_now() >= atomic_load(&g->impatient_until);
    larder_buf *out = look(g, p, held, &last);
    if (out || last)
        return out;
    larder__group_count(g, g->waited);
    double now = larder__world_now(), until = now + MAKER_SECONDS, news = now + NEWS_SECONDS;
    uint64_t kept = progress(g, &p->value);
    for (double pause = 0.001; now < until && !larder__redis_values_away(g->far);
         pause = fmin(1.5 * pause, PAUSE_MOST)) {
        ask_for_waiting(g, UNTOLD);
        out = look(g, p, held, &last);
        if (out || last || !patient)
            return out;
        larder__world_sleep_until(larder__world_now() + pause);
        now = larder__world_now();
        if (now < news)
            continue;
        hear_news(g);
        uint64_t more = progress(g, &p->value);
        if (more != kept)
            until = now + MAKER_SECONDS;
        kept = more;
        news = (now = larder__world_now()) + NEWS_SECONDS;
    }
    larder__group_count(g, g->stuck);
    atomic_store(&g->impatient_until, larder__world_now() + IMPATIENCE_SECONDS);
    return NULL;
}

/* Bytes of a form that does for what was promised. */
static bool does(larder__ticket *t, const larder__value *v, uint8_t held, larder_buf **b) {
    t->held = held;
    if (*b && (held == v->form || (v->form == LARDER_DECODED && held == LARDER_ENCODED)))
        return true;
    larder_buf_unref(b);
    return false;
}

int larder__group_wait(void *st, larder__ticket *t, larder_buf **out) {
    passage *p = (passage *)(void *)t->flight;
    uint8_t held = LARDER_ENCODED;
    t->flight = NULL;
    *out = wait_for_maker(st, p, &held);
    bool got = does(t, &p->value, held, out);
    wait_end(st, p);
    if (!got && t->kind == LARDER_HIT)
        t->kind = LARDER_MISS;
    if (got || p->value.form != LARDER_ENCODED) {
        larder__free(p);
        return got ? 0 : LARDER__TAKE_OVER;
    }
    /* The table has it and Redis has not: whoever reads it puts it there, or all would read it. */
    t->make = LARDER_ENCODED;
    t->size = p->value.size;
    t->flight = (larder__flight *)(void *)p;
    return LARDER__TAKE_OVER;
}

int larder__group_receive(void *st, larder__ticket *t, larder_buf *token, larder_buf **out) {
    larder__group *g = st;
    larder__redis_fetch *e = larder__fetch_token_of(token);
    larder__value v = *larder__redis_fetch_value(e);
    *out = larder__redis_values_receive(g->far, e);
    bool got = does(t, &v, *out ? larder__redis_fetch_held(e) : LARDER_ENCODED, out);
    larder_buf_unref(&token);
    if (got)
        return 0;
    bool comes = promised(g, &v);
    uint8_t held = LARDER_ENCODED;
    if (!comes && (*out = ask_now(g, &v, &held)) && does(t, &v, held, out))
        return 0;
    if (comes && wait_for(g, &v, t))
        return 0;
    passage *p = larder__malloc(sizeof *p);
    if (!p) {
        uint8_t form = t->form;
        larder__client_alone(g->client, &(larder_access){.key = t->key, .size = v.size}, t);
        t->form = t->make = form;
        return 0;
    }
    *p = (passage){.g = g, .value = v};
    t->flight = (larder__flight *)(void *)p;
    t->size = v.size;
    /* Nobody has it: made here, and put where it should be. */
    t->task = LARDER__MAKE;
    t->make = t->form;
    if (t->kind == LARDER_HIT)
        t->kind = LARDER_MISS;
    return 0;
}
#endif
