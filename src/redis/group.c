#include "redis/group.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "redis/far_inside.h"
#include "redis/journal.h"

#include <math.h>
#include <stdio.h>
#include <sys/random.h>

#if LARDER_HAVE_HIREDIS

static const double LEASE = 10; /* seconds without a batch, then the others go on */
static const double RETRY_FIRST = 0.5, RETRY_MOST = 10;
static const double MAKER_SECONDS = 2; /* another job may take to keep its promise, */
static const double NEWS_SECONDS = 0.03;
static const double IMPATIENCE_SECONDS = 5; /* and is not waited for so long if it does not */
enum { PICKS_AT_ONCE = 256, FETCH_AT_ONCE = 1024, SNAPSHOT_EVERY = 2048, BRIEFLY = 30 };

typedef struct group {
    larder__far *far;
    larder__journal *journal;
    larder__agreement mine;
    larder__replica_conf replica_conf;
    bool exchanges;
    uint32_t ttl;
    pthread_mutex_t talk;     /* all but what `state` and `lists` are for */
    pthread_mutex_t state;    /* the replica, against those who look in while we talk */
    larder__replica *replica; /* NULL: not joined; changed with both */
    larder_slot *table;
    uint32_t job, number; /* number: of our records */
    bool again;
    double retry_at, retry_after;
    _Atomic double impatient_until;

    larder_writer queue; /* records to send with the next question */
    size_t ends[8];      /* of each of them */
    size_t queued;
    larder__ticket *answers; /* to an exchange: rows, then what is fetched besides */
    size_t answer_room, rows, fetched;
    uint64_t picks[PICKS_AT_ONCE];
    double shares[PICKS_AT_ONCE];
    size_t picked, pick_at;
    uint64_t *keys; /* answer to a fetch */
    size_t key_count;
    larder__doomed *doomed; /* to be deleted: those of before the last question, and the rest */
    size_t doomed_count, doomed_old, doomed_cap;

    uint64_t *seen; /* one bit a sample that was served in this epoch; NULL: nobody exchanges */
    const uint8_t *tags;
    uint64_t epoch;
    bool epoch_begun;
    larder_stream stream; /* where the others were when we came */
    bool streaming;

    pthread_mutex_t lists;
    larder__doomed *made; /* to be told */
    size_t made_count, made_cap;
    larder__stats *stats;
    larder__stat alone, waited, stuck, joined;
} group;

typedef struct passage { /* an entry that this job has promised to make */
    group *g;
    larder__value value;
} passage;

static passage nowhere_to_put_it;

static void count(group *g, larder__stat s) {
    if (g->stats)
        larder__stat_add(g->stats, s, 1);
}

static size_t seen_words(const group *g) { return (size_t)(g->mine.keys / 64 + 1); }

/* ---- records to send ------------------------------------------------------------------------- */

static larder_writer *begin(group *g, larder__rec_type type) {
    larder__record_head(&g->queue, type, g->job, ++g->number);
    return &g->queue;
}

static void queue_end(group *g) { g->ends[g->queued++] = g->queue.size; }

static void queue_clear(group *g) {
    g->queue.size = 0;
    g->queue.code = 0;
    g->queued = 0;
}

static void queue_made(group *g) {
    pthread_mutex_lock(&g->lists);
    if (g->made_count) {
        larder_writer *w = begin(g, LARDER__REC_MADE);
        for (size_t i = 0; i < g->made_count; i++) {
            larder_write_u32(w, (uint32_t)g->made[i].key);
            larder_write_u64(w, g->made[i].mark);
        }
        queue_end(g);
    }
    g->made_count = 0;
    pthread_mutex_unlock(&g->lists);
}

static void queue_epoch(group *g) {
    larder_writer *w = begin(g, LARDER__REC_EPOCH);
    larder_write_u64(w, g->epoch);
    if (g->seen)
        larder_write_bytes(w, g->seen, seen_words(g) * sizeof *g->seen);
    queue_end(g);
}

/* ---- coming and going ------------------------------------------------------------------------ */

static void lose(group *g) {
    if (!g->replica)
        return;
    pthread_mutex_lock(&g->state);
    larder__replica_close(&g->replica);
    pthread_mutex_unlock(&g->state);
    memset(g->table, 0xff, g->mine.keys * sizeof *g->table);
    queue_clear(g);
    g->rows = g->fetched = g->picked = g->pick_at = g->key_count = 0;
    g->doomed_count = g->doomed_old = 0;
    g->retry_at = larder__now() + RETRY_FIRST;
    g->retry_after = RETRY_FIRST;
}

static void doom(group *g, const larder__replica *r, const larder__outcome *o) {
    bool ours = o->for_all ? larder__replica_first(r, g->job) : o->job == g->job;
    if (!ours || o->doomed_count == 0)
        return;
    if (g->doomed_count + o->doomed_count > g->doomed_cap) {
        size_t cap = 2 * (g->doomed_count + o->doomed_count);
        larder__doomed *more = larder__realloc(g->doomed, cap * sizeof *more);
        if (!more)
            return; /* Redis forgets them after a while */
        g->doomed = more;
        g->doomed_cap = cap;
    }
    memcpy(g->doomed + g->doomed_count, o->doomed, o->doomed_count * sizeof *o->doomed);
    g->doomed_count += o->doomed_count;
}

/* Values that left before the last question: whoever was promised them has asked by now. */
static void delete_old(group *g) {
    for (size_t i = 0; i < g->doomed_old; i++) {
        const larder__doomed *d = &g->doomed[i];
        larder__far_drop(g->far, &(larder__value){.id = d->key, .mark = d->mark, .form = d->form});
    }
    memmove(g->doomed, g->doomed + g->doomed_old,
            (g->doomed_count - g->doomed_old) * sizeof *g->doomed);
    g->doomed_count -= g->doomed_old;
    g->doomed_old = g->doomed_count;
}

/* What our own record came to. */
static int keep_outcome(group *g, const larder__outcome *o) {
    size_t n = o->rows + o->fetched;
    if (o->type == LARDER__REC_CLAIM || o->type == LARDER__REC_EXCHANGE) {
        if (n > g->answer_room) {
            larder__ticket *more = larder__realloc(g->answers, n * sizeof *more);
            if (!more)
                return LARDER_E_NOMEM;
            g->answers = more;
            g->answer_room = n;
        }
        if (n)
            memcpy(g->answers, o->tickets, n * sizeof *g->answers);
        g->rows = o->rows;
        g->fetched = o->fetched;
    } else if (o->type == LARDER__REC_PICKS) {
        g->picked = o->rows < PICKS_AT_ONCE ? o->rows : PICKS_AT_ONCE;
        g->pick_at = 0;
        memcpy(g->picks, o->keys, g->picked * sizeof *g->picks);
        memcpy(g->shares, o->shares, g->picked * sizeof *g->shares);
    } else if (o->type == LARDER__REC_FETCH) {
        g->key_count = o->rows;
        uint64_t *more = larder__realloc(g->keys, (o->rows + 1) * sizeof *more);
        if (!more)
            return LARDER_E_NOMEM;
        g->keys = more;
        memcpy(g->keys, o->keys, o->rows * sizeof *more);
    }
    return 0;
}

static int apply_all(group *g, larder__replica *r, const larder__history *h) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < h->count; i++) {
        larder__outcome o;
        rc = larder__replica_apply(r, h->records[i].bytes, h->records[i].size, &o);
        if (rc < 0)
            break;
        doom(g, r, &o);
        if (o.job == g->job && o.number == g->number && o.type > LARDER__REC_LEAVE)
            rc = keep_outcome(g, &o);
    }
    return rc;
}

static int agree(group *g, larder__agreement *agreed) {
    larder_writer mine = {0};
    larder_reader theirs;
    larder__agreement_write(&g->mine, &mine);
    int rc = mine.code < 0 ? mine.code : larder__journal_agree(g->journal, &mine, &theirs);
    if (rc == 0)
        rc = larder__agreement_read(agreed, &theirs);
    larder__writer_free(&mine);
    if (rc < 0)
        return rc;
    if (agreed->keys != g->mine.keys || agreed->forms_id != g->mine.forms_id)
        return larder__fail(LARDER_E_ARGS, "the jobs of this group train on something else: name "
                                           "another group in shared=");
    if (strcmp(agreed->policy, g->mine.policy) != 0)
        return larder__fail(LARDER_E_ARGS,
                            "this group's cache is ruled by %.60s, not by %.60s: name another "
                            "group in shared=",
                            agreed->policy, g->mine.policy);
    return 0;
}

static int join(group *g) {
    larder__agreement agreed;
    larder__history h;
    int rc = agree(g, &agreed);
    if (rc < 0)
        return rc;
    larder__replica *fresh = NULL;
    g->replica_conf.agreement = &agreed;
    rc = larder__replica_open(&fresh, &g->replica_conf);
    if (rc == 0)
        rc = larder__journal_join(g->journal, g->again, &g->job, &h);
    if (rc == 0 && h.snapshot_size) {
        larder_reader in = {.at = h.snapshot,
                            .end = (const unsigned char *)h.snapshot + h.snapshot_size};
        rc = larder__replica_load(fresh, &in);
    }
    if (rc == 0)
        rc = apply_all(g, fresh, &h);
    if (rc < 0) {
        larder__replica_close(&fresh);
        memset(g->table, 0xff, g->mine.keys * sizeof *g->table);
        return rc;
    }
    pthread_mutex_lock(&g->state);
    g->replica = fresh;
    pthread_mutex_unlock(&g->state);
    queue_clear(g);
    g->doomed_count = g->doomed_old = 0; /* whoever wrote those deletes them */
    g->streaming = larder__replica_stream(g->replica, &g->stream);
    if (!g->streaming) {
        larder_writer *w = begin(g, LARDER__REC_STREAM);
        larder_write_u64(w, g->mine.seed);
        larder_write_u64(w, 0);
        larder_write_u64(w, 0);
        queue_end(g);
    }
    if (g->epoch_begun)
        queue_epoch(g);
    pthread_mutex_lock(&g->lists);
    g->made_count = 0;
    pthread_mutex_unlock(&g->lists);
    g->again = true;
    g->retry_after = RETRY_FIRST;
    if (g->stats)
        larder__stat_add(g->stats, g->joined, 1);
    return 0;
}

/* Is there a group to ask? Looks for it now and then, and only where Redis is there. */
static bool there(group *g) {
    if (g->replica && larder__far_away(g->far)) {
        lose(g);
        return false;
    }
    if (g->replica)
        return true;
    if (larder__now() < g->retry_at || larder__far_away(g->far))
        return false;
    if (join(g) == 0)
        return true;
    larder__far_say(g->far, larder_errmsg());
    g->retry_at = larder__now() + g->retry_after;
    g->retry_after = g->retry_after * 2 < RETRY_MOST ? g->retry_after * 2 : RETRY_MOST;
    return false;
}

static void save_now_and_then(group *g) {
    if (larder__journal_since_snapshot(g->journal) < SNAPSHOT_EVERY ||
        !larder__replica_first(g->replica, g->job))
        return;
    larder_writer w = {0};
    larder__replica_save(g->replica, &w);
    if (larder__journal_snapshot(g->journal, &w) < 0)
        lose(g);
    larder__writer_free(&w);
}

/* Sends what is queued, of which the last is the question, and hears what came of it. */
static bool step(group *g) {
    larder__record records[8];
    larder__history h;
    for (size_t i = 0; i < g->queued; i++) {
        size_t from = i ? g->ends[i - 1] : 0;
        records[i] = (larder__record){g->queue.bytes + from, g->ends[i] - from};
    }
    int rc = g->queue.code;
    if (rc == 0)
        rc = larder__journal_step(g->journal, records, g->queued, &h);
    queue_clear(g);
    delete_old(g);
    if (rc == 0) {
        pthread_mutex_lock(&g->state);
        rc = apply_all(g, g->replica, &h);
        pthread_mutex_unlock(&g->state);
    }
    if (rc < 0) {
        larder__far_say(g->far, larder_errmsg());
        lose(g);
        if (rc == LARDER_E_CHANGED) /* it is there, but without us: join again at once */
            g->retry_at = 0;
        return false;
    }
    save_now_and_then(g);
    return g->replica != NULL;
}

/* Asks; where the group has gone on without us, once more. `question` writes the record. */
static bool ask(group *g, void (*question)(group *, const void *, size_t), const void *arg,
                size_t n) {
    for (int tries = 0; tries < 2; tries++) {
        if (!there(g))
            return false;
        question(g, arg, n);
        if (step(g))
            return true;
    }
    return false;
}

/* A word that needs no answer goes with the next question, or at once where many have come. */
static bool room_to_tell(group *g) {
    if (!g->replica)
        return false;
    if (g->queued >= 5)
        step(g);
    return g->replica != NULL;
}

/* ---- claims ---------------------------------------------------------------------------------- */

static void answer_alone(group *g, const larder_access *want, larder__ticket *t) {
    bool asked = want->tag != LARDER_TAG_FETCH;
    *t = (larder__ticket){.key = want->key,
                          .flight = asked ? (larder__flight *)(void *)&nowhere_to_put_it : NULL,
                          .size = want->size,
                          .kind = asked ? LARDER_MISS : LARDER_HIT,
                          .task = asked ? LARDER__MAKE : LARDER__READY};
    if (asked)
        count(g, g->alone);
}

static void link_alone(void *st, const larder_access *want, larder__ticket *out) {
    answer_alone(st, want, out);
}

static void errand_done(void *arg, uint64_t unused) {
    (void)unused;
    larder__errand_unref(&(larder__errand *){arg});
}

static larder__value value_of(const larder__ticket *t, uint8_t form) {
    return (larder__value){.id = t->key,
                           .mark = t->mark,
                           .size = t->size,
                           .form = form,
                           .held = form == LARDER_DECODED ? LARDER__ANY_FORM : form};
}

/* A promise of bytes that are in Redis; NULL: no memory. */
static larder__errand *promise(larder__ticket *t) {
    larder__value v = value_of(t, t->form);
    larder__errand *e = larder__errand_new(&v);
    t->buf = e ? larder__buf_outside(NULL, t->size, errand_done, e, 0) : NULL;
    if (e && !t->buf)
        larder__errand_unref(&e);
    return t->buf ? e : NULL;
}

/* From an answer to a ticket of the loader's; an errand to send, or NULL. */
static larder__errand *board(group *g, const larder__ticket *a, const larder_access *in,
                             larder__ticket *out) {
    *out = *a;
    out->task = LARDER__READY;
    if (a->kind != LARDER_MISS) {
        if (in->tag == LARDER_TAG_FETCH) /* it is there, or not wanted after all */
            return NULL;
        larder__errand *e = promise(out);
        if (!e)
            answer_alone(g, in, out);
        return e;
    }
    passage *p = a->kept ? larder__malloc(sizeof *p) : NULL;
    if (!p) {
        answer_alone(g, in, out);
        return NULL;
    }
    *p = (passage){g, value_of(a, a->make)};
    out->task = LARDER__MAKE;
    out->flight = (larder__flight *)(void *)p;
    return NULL;
}

static void board_all(group *g, const larder_access *in, size_t n, larder__ticket *out) {
    enum { AT_ONCE = 256 };
    larder__errand *errands[AT_ONCE];
    for (size_t i = 0; i < n;) {
        size_t m = 0;
        for (; i < n && m < AT_ONCE; i++)
            if ((errands[m] = board(g, &g->answers[i], &in[i], &out[i])))
                m++;
        larder__far_send(g->far, errands, m);
    }
}

/* Are these the requests that an exchange has answered already? */
static bool take_kept(group *g, const larder_access *in, size_t n, larder__ticket *out) {
    size_t *left = g->rows ? &g->rows : &g->fetched;
    bool same = *left == n && g->replica;
    for (size_t i = 0; same && i < n; i++)
        same = g->answers[i].key == in[i].key;
    if (!same)
        return false;
    board_all(g, in, n, out);
    *left = 0;
    memmove(g->answers, g->answers + n, g->fetched * sizeof *g->answers);
    return true;
}

static void write_rows(larder_writer *w, const larder_access *in, size_t n) {
    for (size_t i = 0; i < n; i++) {
        larder__rec_row row = {(uint32_t)in[i].key, in[i].size, in[i].tag, in[i].score};
        larder_write_bytes(w, &row, sizeof row);
    }
}

static void question_claim(group *g, const void *in, size_t n) {
    queue_made(g);
    write_rows(begin(g, LARDER__REC_CLAIM), in, n);
    queue_end(g);
}

/* Promises that nobody will keep: others are not to wait for them. */
static void note_made(group *g, uint64_t key, uint64_t mark) {
    pthread_mutex_lock(&g->lists);
    if (g->made_count == g->made_cap) {
        size_t cap = g->made_cap ? 2 * g->made_cap : 256;
        larder__doomed *more = larder__realloc(g->made, cap * sizeof *more);
        if (more) {
            g->made = more;
            g->made_cap = cap;
        }
    }
    if (g->made_count < g->made_cap)
        g->made[g->made_count++] = (larder__doomed){key, mark, 0};
    pthread_mutex_unlock(&g->lists);
}

static void refuse_kept(group *g) {
    for (size_t i = 0; i < g->rows + g->fetched; i++)
        if (g->answers[i].kind == LARDER_MISS && g->answers[i].kept)
            note_made(g, g->answers[i].key, g->answers[i].mark);
    g->rows = g->fetched = 0;
}

static int link_claim(void *st, larder_access *in, size_t n, larder__ticket *out) {
    group *g = st;
    if (n == 0)
        return 0;
    pthread_mutex_lock(&g->talk);
    if (!take_kept(g, in, n, out)) {
        refuse_kept(g);
        bool answered = ask(g, question_claim, in, n) && g->rows == n;
        if (answered)
            board_all(g, in, n, out);
        for (size_t i = 0; !answered && i < n; i++)
            answer_alone(g, &in[i], &out[i]);
        g->rows = g->fetched = 0;
    }
    pthread_mutex_unlock(&g->talk);
    return 0;
}

/* ---- filling --------------------------------------------------------------------------------- */

static void stored(void *arg, bool there_now) {
    passage *p = arg;
    (void)there_now; /* if not, whoever asks finds nothing and makes it */
    note_made(p->g, p->value.id, p->value.mark);
    larder__free(p);
}

/* It may have left again before it was made. */
static bool still_wanted(group *g, const larder__value *v) {
    pthread_mutex_lock(&g->state);
    bool wanted = g->replica && larder__replica_holds(g->replica, v->id, v->mark);
    pthread_mutex_unlock(&g->state);
    return wanted;
}

static void link_fill(void *st, larder__ticket *t, larder_buf *b) {
    group *g = st;
    passage *p = (passage *)(void *)t->flight;
    t->flight = NULL;
    if (p == &nowhere_to_put_it)
        return;
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
    uint32_t seconds = still_wanted(g, &p->value) ? g->ttl : BRIEFLY;
    larder__far_put(g->far, &p->value, b, seconds, stored, p);
}

static void link_fail(void *st, larder__ticket *t, int code, const char *why) {
    passage *p = (passage *)(void *)t->flight;
    (void)st, (void)code, (void)why;
    t->flight = NULL;
    if (p != &nowhere_to_put_it)
        stored(p, false);
}

/* Has somebody promised this very value and not brought it yet? */
static bool promised(group *g, const larder__value *v) {
    pthread_mutex_lock(&g->state);
    bool yes = g->replica && larder__replica_holds(g->replica, v->id, v->mark) &&
               larder__replica_maker(g->replica, v->id) != UINT32_MAX;
    pthread_mutex_unlock(&g->state);
    return yes;
}

static larder_buf *ask_again(group *g, const larder__value *v, uint8_t *held) {
    larder__errand *e = larder__errand_new(v);
    if (!e)
        return NULL;
    larder__far_send(g->far, (larder__errand *const[]){e}, 1);
    larder_buf *out = larder__far_receive(g->far, e);
    *held = larder__errand_held(e);
    larder__errand_unref(&e);
    return out;
}

/* What the others did since our last question; nobody may be asking one for a while. */
static void hear_news(group *g) {
    if (pthread_mutex_trylock(&g->talk) != 0)
        return;
    if (g->replica && !g->rows && !g->fetched) {
        queue_made(g);
        step(g);
    }
    pthread_mutex_unlock(&g->talk);
}

/* Another job is at it: looks again, less and less often. Makers take their batches in the order of
 * the journal, and make before they wait; so whoever waits, waits for somebody who is not waiting
 * for them. */
static larder_buf *wait_for_maker(group *g, const larder__value *v, uint8_t *held) {
    double began = larder__now(), pause = 0.001, news = began + NEWS_SECONDS;
    count(g, g->waited);
    while (larder__now() < began + MAKER_SECONDS && !larder__far_away(g->far)) {
        if (began < atomic_load(&g->impatient_until))
            return NULL;
        bool last = !promised(g, v); /* what is made now is there */
        larder_buf *out = ask_again(g, v, held);
        if (out || last)
            return out;
        larder__sleep_until(larder__now() + pause);
        pause = pause < 0.02 ? 1.5 * pause : 0.02;
        if (larder__now() > news) {
            hear_news(g);
            news = larder__now() + NEWS_SECONDS;
        }
    }
    count(g, g->stuck);
    atomic_store(&g->impatient_until, larder__now() + IMPATIENCE_SECONDS);
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

static int link_wait(void *st, larder__ticket *t, larder_buf **out) {
    passage *p = (passage *)(void *)t->flight;
    uint8_t held = LARDER_ENCODED;
    t->flight = NULL;
    *out = wait_for_maker(st, &p->value, &held);
    bool got = does(t, &p->value, held, out);
    larder__free(p);
    if (!got && t->kind == LARDER_HIT)
        t->kind = LARDER_MISS;
    return got ? 0 : LARDER__TAKE_OVER;
}

static int link_receive(void *st, larder__ticket *t, larder_buf *token, larder_buf **out) {
    group *g = st;
    larder__errand *e = larder__buf_outside_arg(token, errand_done);
    larder__value v = *larder__errand_value(e);
    *out = larder__far_receive(g->far, e);
    bool got = does(t, &v, *out ? larder__errand_held(e) : LARDER_ENCODED, out);
    larder_buf_unref(&token);
    if (got)
        return 0;
    passage *p = larder__malloc(sizeof *p);
    if (p)
        *p = (passage){g, v};
    t->flight = (larder__flight *)(void *)(p ? p : &nowhere_to_put_it);
    t->size = v.size;
    if (p && promised(g, &v)) {
        t->task = LARDER__WAIT;
        return 0;
    }
    /* Nobody has it: made here, and put where it should be. */
    t->task = LARDER__MAKE;
    t->make = t->form;
    if (t->kind == LARDER_HIT)
        t->kind = LARDER_MISS;
    return 0;
}

/* ---- the rest of the talk -------------------------------------------------------------------- */

static void link_score(void *st, const uint64_t *keys, const float *scores, size_t n) {
    group *g = st;
    pthread_mutex_lock(&g->talk);
    if (room_to_tell(g)) {
        larder_writer *w = begin(g, LARDER__REC_SCORES);
        for (size_t i = 0; i < n; i++) {
            larder_write_u32(w, (uint32_t)keys[i]);
            larder_write_bytes(w, &scores[i], sizeof scores[i]);
        }
        queue_end(g);
    }
    pthread_mutex_unlock(&g->talk);
}

static void link_accuracy(void *st, double accuracy) {
    group *g = st;
    pthread_mutex_lock(&g->talk);
    if (room_to_tell(g)) {
        larder_write_f64(begin(g, LARDER__REC_ACCURACY), accuracy);
        queue_end(g);
    }
    pthread_mutex_unlock(&g->talk);
}

static void link_list(void *st, const uint8_t *tags) {
    group *g = st;
    pthread_mutex_lock(&g->talk);
    g->tags = tags;
    pthread_mutex_unlock(&g->talk);
}

static void note_seen(group *g, uint64_t id) {
    if (g->seen && id < g->mine.keys)
        g->seen[id >> 6] |= (uint64_t)1 << (id & 63);
}

static void link_epoch(void *st, uint64_t epoch) {
    group *g = st;
    pthread_mutex_lock(&g->talk);
    g->epoch = epoch;
    if (g->seen)
        memset(g->seen, 0, seen_words(g) * sizeof *g->seen);
    for (uint64_t id = 0; g->tags && id < g->mine.keys; id++)
        if ((g->tags[id] & LARDER_TAG_RANK) == LARDER_TAG_LEFT)
            note_seen(g, id);
    if (room_to_tell(g))
        queue_epoch(g);
    g->epoch_begun = true; /* whoever joins from here on tells it */
    pthread_mutex_unlock(&g->talk);
}

static void question_exchange(group *g, const void *arg, size_t n) {
    const uint64_t *wanted = arg;
    queue_made(g);
    larder_writer *w = begin(g, LARDER__REC_EXCHANGE);
    larder_write_u32(w, FETCH_AT_ONCE);
    for (size_t i = 0; i < n; i++)
        write_rows(w, &(larder_access){.key = wanted[i], .score = NAN}, 1);
    queue_end(g);
}

static void link_exchange(void *st, const uint64_t *wanted, size_t n, uint64_t *served) {
    group *g = st;
    pthread_mutex_lock(&g->talk);
    refuse_kept(g);
    bool answered = g->exchanges && ask(g, question_exchange, wanted, n) && g->rows == n;
    for (size_t i = 0; i < n; i++) {
        served[i] = answered ? g->answers[i].key : wanted[i];
        note_seen(g, served[i]);
    }
    pthread_mutex_unlock(&g->talk);
}

static bool link_stream(void *st, larder_stream *s, bool join) {
    group *g = st;
    pthread_mutex_lock(&g->talk);
    bool got = join && g->streaming;
    if (got)
        *s = g->stream;
    if (!join && room_to_tell(g)) {
        larder_writer *w = begin(g, LARDER__REC_STREAM);
        larder_write_u64(w, s->seed);
        larder_write_u64(w, s->sweep);
        larder_write_u64(w, s->at);
        queue_end(g);
    }
    pthread_mutex_unlock(&g->talk);
    return got;
}

static void question_picks(group *g, const void *seed, size_t n) {
    queue_made(g);
    larder_writer *w = begin(g, LARDER__REC_PICKS);
    larder_write_u32(w, (uint32_t)n);
    larder_write_u64(w, *(const uint64_t *)seed);
    queue_end(g);
}

static bool link_pick(void *st, larder_rng *rng, uint64_t *key, double *share) {
    group *g = st;
    pthread_mutex_lock(&g->talk);
    if (g->pick_at >= g->picked) {
        g->picked = g->pick_at = 0;
        ask(g, question_picks, &(uint64_t){larder_rng_next(rng)}, PICKS_AT_ONCE);
    }
    bool got = g->pick_at < g->picked;
    if (got) {
        *key = g->picks[g->pick_at];
        *share = g->shares[g->pick_at++];
    }
    pthread_mutex_unlock(&g->talk);
    return got;
}

static void question_fetch(group *g, const void *unused, size_t n) {
    (void)unused;
    queue_made(g);
    larder_write_u32(begin(g, LARDER__REC_FETCH), (uint32_t)(n < 65535 ? n : 65535));
    queue_end(g);
}

static size_t link_fetch(void *st, uint64_t *keys, size_t max) {
    group *g = st;
    size_t n = 0;
    pthread_mutex_lock(&g->talk);
    if (g->exchanges) { /* they came with the answer to the exchange */
        for (; n < max && n < g->fetched && !g->rows; n++)
            keys[n] = g->answers[n].key;
    } else if (ask(g, question_fetch, NULL, max)) {
        n = g->key_count < max ? g->key_count : max;
        if (n)
            memcpy(keys, g->keys, n * sizeof *keys);
    }
    pthread_mutex_unlock(&g->talk);
    return n;
}

static void link_look(void *st, larder_slots *out) {
    group *g = st;
    pthread_mutex_lock(&g->state);
    const larder_slots *s =
        g->replica ? larder__cache_slots(larder__replica_cache(g->replica)) : NULL;
    out->slot_of = g->table;
    out->resident = s ? s->resident : 0;
    out->bytes = s ? s->bytes : 0;
    out->budget = s ? s->budget : g->mine.budget;
    pthread_mutex_unlock(&g->state);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void link_close(void **st) {
    group *g = *st;
    *st = NULL;
    if (!g)
        return;
    if (g->replica) {
        g->doomed_old = g->doomed_count;
        delete_old(g);
        larder__journal_leave(g->journal);
    }
    larder__replica_close(&g->replica);
    larder__journal_close(&g->journal);
    larder__far_close(&g->far); /* its thread calls `stored` */
    larder__writer_free(&g->queue);
    larder__free(g->answers);
    larder__free(g->keys);
    larder__free(g->doomed);
    larder__free(g->made);
    larder__free(g->seen);
    larder__free(g->table);
    pthread_mutex_destroy(&g->talk);
    pthread_mutex_destroy(&g->state);
    pthread_mutex_destroy(&g->lists);
    larder__free(g);
}

const larder__link larder__link_group = {
    .name = "redis",
    .claim = link_claim,
    .fill = link_fill,
    .fail = link_fail,
    .wait = link_wait,
    .receive = link_receive,
    .score = link_score,
    .accuracy = link_accuracy,
    .list = link_list,
    .epoch = link_epoch,
    .exchange = link_exchange,
    .stream = link_stream,
    .alone = link_alone,
    .pick = link_pick,
    .fetch = link_fetch,
    .look = link_look,
    .close = link_close,
};

static double probe_jobs(const void *arg) {
    group *g = (group *)(uintptr_t)arg;
    pthread_mutex_lock(&g->state);
    double jobs = g->replica ? larder__replica_jobs(g->replica) : 0;
    pthread_mutex_unlock(&g->state);
    return jobs;
}

static int show(group *g, larder__stats *stats) {
    if (!stats)
        return 0;
    int rc = larder__stat_counter(stats, &g->alone, "group_unshared", "samples",
                                  "misses that were read for this job alone");
    if (rc == 0)
        rc = larder__stat_counter(stats, &g->waited, "group_waited", "samples",
                                  "another job was reading them");
    if (rc == 0)
        rc = larder__stat_counter(stats, &g->stuck, "group_stuck", "samples",
                                  "another job promised to read them and did not in time");
    if (rc == 0)
        rc = larder__stat_counter(stats, &g->joined, "group_joined", "times",
                                  "this job joined its group");
    if (rc == 0)
        rc = larder__stat_probe(stats, "group_jobs", "jobs", "that share the cache now", probe_jobs,
                                g);
    g->stats = stats;
    return rc;
}

static int open_parts(group *g, const larder__group_conf *conf) {
    char owner[64];
    snprintf(owner, sizeof owner, "g-%.40s", conf->redis->group);
    larder__far_conf far = {.redis = conf->redis,
                            .fingerprint = conf->fingerprint,
                            .owner = owner,
                            .stats = conf->stats};
    g->table = larder__malloc(g->mine.keys * sizeof *g->table);
    if (!g->table || (g->exchanges && !(g->seen = larder__calloc(seen_words(g), sizeof *g->seen))))
        return LARDER_E_NOMEM;
    memset(g->table, 0xff, g->mine.keys * sizeof *g->table);
    g->replica_conf.slot_of = g->table;
    int rc = larder__far_open(&g->far, &far);
    if (rc == 0)
        rc = larder__journal_open(&g->journal, g->far, conf->redis->group, conf->fingerprint, LEASE,
                                  conf->redis->ttl ? 7 * conf->redis->ttl : 0);
    return rc;
}

int larder__group_open(larder__cache **out, const larder__group_conf *conf) {
    *out = NULL;
    group *g = larder__calloc(1, sizeof *g);
    uint32_t number;
    if (!g)
        return LARDER_E_NOMEM;
    pthread_mutex_init(&g->talk, NULL);
    pthread_mutex_init(&g->state, NULL);
    pthread_mutex_init(&g->lists, NULL);
    g->mine = conf->agreement;
    g->retry_after = RETRY_FIRST;
    g->ttl = conf->redis->ttl;
    g->replica_conf = (larder__replica_conf){
        .size = conf->size, .size_of = conf->size_of, .size_arg = conf->size_arg};
    /* No two jobs that have the same place one after the other count alike. */
    if (getrandom(&number, sizeof number, 0) == (ssize_t)sizeof number)
        g->number = number;
    g->exchanges = strncmp(g->mine.policy, "ods", 3) == 0 &&
                   (g->mine.policy[3] == '\0' || g->mine.policy[3] == ':');
    int rc = open_parts(g, conf);
    if (rc == 0)
        rc = show(g, conf->stats);
    if (rc == 0)
        rc = join(g);
    if (rc < 0) {
        link_close(&(void *){g});
        return rc;
    }
    return larder__cache_open_link(out, &larder__link_group, g, g->mine.keys, conf->stats);
}

void larder__group_note(void *st, char *out, size_t cap) {
    larder__far_note(((group *)st)->far, out, cap);
}

#else
int larder__group_open(larder__cache **out, const larder__group_conf *conf) {
    larder__far *none;
    (void)conf;
    *out = NULL;
    return larder__far_open(&none, NULL);
}
void larder__group_note(void *st, char *out, size_t cap) {
    (void)st;
    snprintf(out, cap, "%s", "");
}
const larder__link larder__link_group = {.name = "redis"};
#endif
