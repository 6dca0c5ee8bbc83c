/* Values that lie with the daemon: sent for by the batch, read in place, written in the
 * background. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"
#include "base/spec.h"
#include "base/world.h"
#include "unix/rank_link_inside.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PUT_BYTES_MOST = 256 << 20, RELEASES_ENOUGH = 64 };

/* ---- fetches --------------------------------------------------------------------------------- */

typedef enum { ON_ITS_WAY, ARRIVED, NOT_THERE } fetch_state;

typedef struct larder__unix_ranks_fetch { /* a value that is asked for */
    _Atomic uint32_t refs;
    larder__value value;
    larder_buf *token; /* let go when it ends */
    /* Under the link's lock: */
    fetch_state state;
    larder_buf *bytes;
    uint8_t held;
} fetch;

static void fetch_unref(fetch *e) {
    if (!e || atomic_fetch_sub(&e->refs, 1) != 1)
        return;
    larder_buf_unref(&e->token);
    larder_buf_unref(&e->bytes);
    larder__free(e);
}

static fetch *fetch_new(const larder__value *v) {
    fetch *e = larder__calloc(1, sizeof *e);
    if (e) {
        atomic_init(&e->refs, 1);
        e->value = *v;
    }
    return e;
}

static void promise_done(void *arg, uint64_t unused) {
    (void)unused;
    fetch_unref(arg);
}

/* The token becomes a promise, which holds it. NULL: it stays a token. */
static fetch *promise(larder_buf **token, const larder__value *v) {
    fetch *e = v ? fetch_new(v) : NULL;
    larder_buf *out = e ? larder__buf_outside(NULL, v->size, promise_done, e, 0) : NULL;
    if (!out) {
        fetch_unref(e);
        return NULL;
    }
    e->token = *token;
    *token = out;
    return e;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* A question takes over the references in it. */
static void ask(larder__unix_ranks_link *l, larder__unix_ranks_question *q) {
    pthread_mutex_lock(&l->lock);
    bool asked = l->there;
    if (asked) {
        q->serial = ++l->serial;
        q->asked_at = larder__world_now();
        size_t frame = larder__frame_begin(&l->out, LARDER__MSG_LOOKUP);
        larder_write_u32(&l->out, q->serial);
        for (size_t i = 0; i < q->n; i++) {
            larder__wire_value v = larder__wire_value_of(&q->fetches[i]->value);
            larder_write_bytes(&l->out, &v, sizeof v);
        }
        larder__frame_end(&l->out, frame);
        *l->last_question = q;
        l->last_question = &q->next;
        larder__unix_ranks_wake(l);
    } else
        for (size_t i = 0; i < q->n; i++)
            q->fetches[i]->state = NOT_THERE;
    pthread_mutex_unlock(&l->lock);
    for (size_t i = 0; !asked && i < q->n; i++)
        fetch_unref(q->fetches[i]);
    if (!asked)
        larder__free(q);
}

static larder__unix_ranks_question *question_new(size_t n) {
    larder__unix_ranks_question *q = larder__malloc(sizeof *q + n * sizeof *q->fetches);
    if (q)
        *q = (larder__unix_ranks_question){.n = 0};
    return q;
}

static void ranks_send(void *st, larder_buf **tokens, size_t n, larder__value_of_fn value_of) {
    for (size_t i = 0; i < n;) {
        size_t some = n - i < LARDER__LOOKUP_MOST ? n - i : LARDER__LOOKUP_MOST;
        larder__unix_ranks_question *q = question_new(some);
        if (!q)
            return;
        for (size_t end = i + some; i < end; i++) {
            fetch *e = promise(&tokens[i], value_of(tokens[i]));
            if (!e)
                continue;
            atomic_fetch_add(&e->refs, 1);
            q->fetches[q->n++] = e;
        }
        if (q->n)
            ask(st, q);
        else
            larder__free(q);
    }
}

/* Its bytes, or NULL. */
static larder_buf *await(larder__unix_ranks_link *l, fetch *e, uint8_t *held) {
    struct timespec until = larder__timespec_of(larder__world_now() + l->patience);
    larder_buf *out = NULL;
    pthread_mutex_lock(&l->lock);
    while (e->state == ON_ITS_WAY)
        if (pthread_cond_timedwait(&l->came, &l->lock, &until) == ETIMEDOUT)
            break;
    if (e->bytes) {
        out = larder_buf_ref(e->bytes);
        *held = e->held;
    }
    pthread_mutex_unlock(&l->lock);
    return out;
}

/* Once more: it may have come since. */
static larder_buf *ask_again(larder__unix_ranks_link *l, const larder__value *v, uint8_t *held) {
    fetch *again = fetch_new(v);
    larder__unix_ranks_question *q = again ? question_new(1) : NULL;
    larder_buf *out = NULL;
    if (q) {
        atomic_fetch_add(&again->refs, 1);
        q->fetches[q->n++] = again;
        ask(l, q);
        out = await(l, again, held);
    }
    fetch_unref(again);
    return out;
}

static bool ranks_receive(void *st, larder_buf *b, larder_buf **out, uint8_t *held) {
    fetch *e = larder__buf_outside_arg(b, promise_done);
    if (!e)
        return false;
    if (!(*out = await(st, e, held)))
        *out = ask_again(st, &e->value, held);
    return true;
}

static const larder__value *ranks_wanted(larder_buf *b) {
    const fetch *e = larder__buf_outside_arg(b, promise_done);
    return &e->value;
}

static void ranks_again(void *st, larder_buf *b, larder_buf **out, uint8_t *held) {
    *out = ask_again(st, ranks_wanted(b), held);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* What cannot be noted stays with the daemon until we leave. */
static void lease_done(void *arg, uint64_t lease) {
    larder__unix_ranks_map *m = arg;
    pthread_mutex_lock(&m->lock);
    if (m->link && larder__grow(&m->released, &m->cap, m->releases + 1, sizeof *m->released) == 0)
        m->released[m->releases++] = (uint32_t)lease;
    bool enough = m->link && m->releases % RELEASES_ENOUGH == 0;
    int wake = enough ? m->link->wake : -1;
    if (wake >= 0)
        larder__unix_ranks_ring(wake);
    pthread_mutex_unlock(&m->lock);
    larder__unix_ranks_map_unref(&m);
}

/* Believes nothing that would lead outside of the memory. */
static bool sound(const larder__unix_ranks_map *m, const larder__wire_found *f) {
    return f->held < LARDER__SPLIT_FORMS && f->offset < m->bytes && f->size <= m->bytes - f->offset;
}

/* The bytes of an answer; a lease that is of no use goes back. */
static larder_buf *board(larder__unix_ranks_map *m, const larder__wire_found *f, const fetch *e) {
    bool fits = sound(m, f) && f->size <= e->value.size;
    atomic_fetch_add(&m->refs, 1);
    larder_buf *out =
        fits ? larder__buf_outside(m->arena + f->offset, f->size, lease_done, m, f->lease) : NULL;
    if (!out)
        lease_done(m, f->lease);
    return out;
}

static larder__unix_ranks_question *take_question(larder__unix_ranks_link *l, uint32_t serial) {
    larder__unix_ranks_question *q = l->questions;
    if (!q || q->serial != serial)
        return NULL;
    l->questions = q->next;
    if (!l->questions)
        l->last_question = &l->questions;
    return q;
}

int larder__unix_ranks_found(larder__unix_ranks_link *l, larder_reader *r) {
    uint32_t serial = larder_read_u32(r);
    pthread_mutex_lock(&l->lock);
    larder__unix_ranks_question *q = take_question(l, serial);
    bool fits = q && larder__read_left(r) == q->n * sizeof(larder__wire_found);
    for (size_t i = 0; q && i < q->n; i++) {
        fetch *e = q->fetches[i];
        larder__wire_found f = {.lease = LARDER__NO_LEASE};
        if (fits)
            larder_read_bytes(r, &f, sizeof f);
        e->bytes = f.lease != LARDER__NO_LEASE ? board(l->map, &f, e) : NULL;
        e->held = f.held;
        e->state = e->bytes ? ARRIVED : NOT_THERE;
    }
    pthread_cond_broadcast(&l->came);
    pthread_mutex_unlock(&l->lock);
    for (size_t i = 0; q && i < q->n; i++)
        fetch_unref(q->fetches[i]);
    larder__free(q);
    return fits ? 0 : larder__fail(LARDER_E_FORMAT, "the daemon answers something else");
}

/* ---- writing --------------------------------------------------------------------------------- */

/* With the lock held. */
static void write_drops(larder__unix_ranks_link *l, larder_writer *to) {
    if (l->drops.size && l->drops.code == 0) {
        size_t frame = larder__frame_begin(to, LARDER__MSG_DROP);
        larder_write_bytes(to, l->drops.bytes, l->drops.size);
        larder__frame_end(to, frame);
    }
    l->drops.size = 0;
    l->drops.code = 0;
}

static void ranks_put(void *st, const larder__value *v, larder_buf *b, larder__depot_done_fn done,
                      void *arg) {
    larder__unix_ranks_link *l = st;
    larder__unix_ranks_put *p = larder__malloc(sizeof *p);
    size_t size = larder_buf_size(b);
    pthread_mutex_lock(&l->lock);
    bool goes = p && l->there && !l->ending && l->put_bytes + size <= PUT_BYTES_MOST;
    if (goes) {
        larder__wire_value name = larder__wire_value_of(v);
        *p = (larder__unix_ranks_put){.value = *v,
                                      .bytes = larder_buf_ref(b),
                                      .done = done,
                                      .arg = arg,
                                      .serial = ++l->serial,
                                      .asked_at = larder__world_now()};
        write_drops(l, &l->out); /* one of them may be of this very value */
        size_t frame = larder__frame_begin(&l->out, LARDER__MSG_PLACE);
        larder_write_u32(&l->out, p->serial);
        larder_write_bytes(&l->out, &name, sizeof name);
        larder__frame_end(&l->out, frame);
        *l->last_put = p;
        l->last_put = &p->next;
        l->put_bytes += size;
        larder__unix_ranks_wake(l);
    }
    pthread_mutex_unlock(&l->lock);
    if (!goes) {
        larder__free(p);
        done(arg, false);
    }
}

static void end_put(larder__unix_ranks_put *p, bool stored) {
    p->done(p->arg, stored);
    larder_buf_unref(&p->bytes);
    larder__free(p);
}

int larder__unix_ranks_placed(larder__unix_ranks_link *l, larder_reader *r) {
    uint32_t serial = larder_read_u32(r);
    larder__wire_found f;
    larder_read_bytes(r, &f, sizeof f);
    pthread_mutex_lock(&l->lock);
    larder__unix_ranks_put *p = l->puts;
    bool fits = larder_read_status(r) == 0 && p && p->serial == serial;
    bool room = fits && f.lease != LARDER__NO_LEASE;
    fits = fits && (!room || (sound(l->map, &f) && f.size == larder_buf_size(p->bytes)));
    if (fits) {
        l->puts = p->next;
        if (!l->puts)
            l->last_put = &l->puts;
        l->put_bytes -= larder_buf_size(p->bytes);
    }
    unsigned char *arena = l->map->arena; /* stays as long as this thread wants it */
    pthread_mutex_unlock(&l->lock);
    if (!fits)
        return larder__fail(LARDER_E_FORMAT, "the daemon gives room that nobody wanted");
    if (room) {
        memcpy(arena + f.offset, larder_buf_data(p->bytes), f.size);
        pthread_mutex_lock(&l->lock);
        size_t frame = larder__frame_begin(&l->out, LARDER__MSG_STORED);
        larder_write_u32(&l->out, f.lease);
        larder__frame_end(&l->out, frame);
        pthread_mutex_unlock(&l->lock);
    }
    end_put(p, room || f.size == 1);
    return 0;
}

static void ranks_drop(void *st, const larder__value *v) {
    larder__unix_ranks_link *l = st;
    larder__wire_value name = larder__wire_value_of(v);
    pthread_mutex_lock(&l->lock);
    if (l->there && !l->ending) {
        larder_write_bytes(&l->drops, &name, sizeof name);
        larder__unix_ranks_wake(l);
    }
    pthread_mutex_unlock(&l->lock);
}

/* ---- the thread's ---------------------------------------------------------------------------- */

void larder__unix_ranks_depot_write(larder__unix_ranks_link *l, larder_writer *to) {
    pthread_mutex_lock(&l->lock);
    write_drops(l, to);
    larder__unix_ranks_map *m = l->map;
    pthread_mutex_unlock(&l->lock);
    pthread_mutex_lock(&m->lock);
    if (m->releases) {
        size_t frame = larder__frame_begin(to, LARDER__MSG_RELEASE);
        larder_write_bytes(to, m->released, m->releases * sizeof *m->released);
        larder__frame_end(to, frame);
        m->releases = 0;
    }
    pthread_mutex_unlock(&m->lock);
}

double larder__unix_ranks_depot_since(const larder__unix_ranks_link *l) {
    double q = l->questions ? l->questions->asked_at : (double)INFINITY;
    return l->puts && l->puts->asked_at < q ? l->puts->asked_at : q;
}

void larder__unix_ranks_depot_lost(larder__unix_ranks_link *l) {
    pthread_mutex_lock(&l->lock);
    larder__unix_ranks_question *q = l->questions, *next;
    larder__unix_ranks_put *p = l->puts, *next_put;
    l->questions = NULL;
    l->last_question = &l->questions;
    l->puts = NULL;
    l->last_put = &l->puts;
    l->put_bytes = 0;
    l->drops.size = 0;
    for (larder__unix_ranks_question *at = q; at; at = at->next)
        for (size_t i = 0; i < at->n; i++)
            at->fetches[i]->state = NOT_THERE;
    pthread_cond_broadcast(&l->came);
    pthread_mutex_unlock(&l->lock);
    for (; q; q = next) {
        next = q->next;
        for (size_t i = 0; i < q->n; i++)
            fetch_unref(q->fetches[i]);
        larder__free(q);
    }
    for (; p; p = next_put) {
        next_put = p->next;
        end_put(p, false);
    }
}

/* ---- the depot ------------------------------------------------------------------------------- */

static void ranks_ending(void *st) {
    larder__unix_ranks_link *l = st;
    pthread_mutex_lock(&l->lock);
    l->ending = true;
    pthread_mutex_unlock(&l->lock);
}

static void ranks_note(void *st, char *out, size_t cap) {
    larder__unix_ranks_link *l = st;
    pthread_mutex_lock(&l->lock);
    snprintf(out, cap, "%s", l->note);
    pthread_mutex_unlock(&l->lock);
}

/* The link is its owner's. What was to be written is given up with it, or by now. */
static void ranks_depot_close(void **st) {
    larder__unix_ranks_link *l = *st;
    *st = NULL;
    larder__unix_ranks_halt(l);
}

larder__depot larder__unix_ranks_depot(larder__unix_ranks_link *l) {
    static const larder__depot_ops ops = {.send = ranks_send,
                                          .receive = ranks_receive,
                                          .wanted = ranks_wanted,
                                          .again = ranks_again,
                                          .put = ranks_put,
                                          .drop = ranks_drop,
                                          .ending = ranks_ending,
                                          .note = ranks_note,
                                          .close = ranks_depot_close};
    return (larder__depot){.ops = &ops, .state = l};
}
