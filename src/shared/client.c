#include "shared/client.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"

#include <math.h>
#include <pthread.h>

enum { FETCH_AT_ONCE = 1024, PICKS_AT_ONCE = 256, SCORES_AT_ONCE = 1 << 16, RATES_EVERY = 8 };

struct larder__client {
    larder__cache cache; /* first: it is one */
    larder__client_conf conf;
    const larder__carrier *carrier;
    void *st;
    pthread_mutex_t talk;
    larder__stat alone;
    larder__row *rows; /* room for one question */
    size_t room;
    /* Answers to an exchange that wait for the claims that follow it: rows, then entries besides.
     */
    larder__reply *kept;
    size_t kept_room, kept_rows, kept_fetched; /* the last two: still to be claimed */
    uint64_t picks[PICKS_AT_ONCE];
    size_t picked, pick_at;
    /* This job's epoch, for others that come back: one bit a sample that was served in it. */
    uint64_t *seen;      /* NULL: nobody exchanges */
    const uint8_t *tags; /* the sampler's; NULL: all samples are for this job */
    uint64_t epoch;
    bool epoch_begun;
    larder_stream stream; /* where the others were when we came */
    bool streaming;
    uint32_t rates; /* times that they were known */
};

static larder__client *client_of(larder__cache *c) { return (larder__client *)(void *)c; }

static larder__client *enter(larder__cache *c) {
    larder__client *l = client_of(c);
    pthread_mutex_lock(&l->talk);
    return l;
}

static void leave(larder__client *l) { pthread_mutex_unlock(&l->talk); }

/* ---- made for this job alone ----------------------------------------------------------------- */

static char nowhere_to_put_it; /* stands for the promise of an entry that nobody else waits for */

/* Whoever did not ask (tag FETCH) need not read it either. */
void larder__client_alone(larder__client *l, const larder_access *want, larder__ticket *t) {
    bool asked = want->tag != LARDER_TAG_FETCH;
    *t = (larder__ticket){.key = want->key,
                          .flight = asked ? (larder__flight *)(void *)&nowhere_to_put_it : NULL,
                          .size = want->size,
                          .kind = asked ? LARDER_MISS : LARDER_HIT,
                          .task = asked ? LARDER__MAKE : LARDER__READY};
    if (l->conf.stats && asked)
        larder__stat_add(l->conf.stats, l->alone, 1);
}

bool larder__ticket_alone(const larder__ticket *t) {
    return t->flight == (larder__flight *)(void *)&nowhere_to_put_it;
}

/* ---- batches --------------------------------------------------------------------------------- */

static int reserve(larder__client *l, size_t n) {
    return larder__room(&l->rows, &l->room, n, sizeof *l->rows);
}

static void refuse_kept(larder__client *l) {
    if (l->kept_rows + l->kept_fetched)
        l->carrier->refuse(l->st, l->kept, l->kept_rows + l->kept_fetched);
    l->kept_rows = l->kept_fetched = 0;
}

/* Are these the requests that an exchange has answered already? Takes the answers if so. */
static bool take_kept(larder__client *l, const larder_access *in, size_t n, larder__ticket *out) {
    size_t *left = l->kept_rows ? &l->kept_rows : &l->kept_fetched;
    bool same = *left == n;
    for (size_t i = 0; same && i < n; i++)
        same = l->kept[i].key == in[i].key;
    if (!same)
        return false;
    l->carrier->board(l->st, l->kept, in, n, out);
    *left = 0;
    memmove(l->kept, l->kept + n, l->kept_fetched * sizeof *l->kept);
    return true;
}

/* As many requests as may be made at once; there is room for them. */
static void ask_claim(larder__client *l, const larder_access *in, size_t n, larder__ticket *out) {
    larder__replies got;
    for (size_t i = 0; i < n; i++)
        l->rows[i] =
            (larder__row){(uint32_t)in[i].key, in[i].size, in[i].tag, in[i].group, in[i].score};
    larder__op o = {.type = LARDER__OP_CLAIM, .n = n, .rows = l->rows};
    if (l->carrier->there(l->st) && l->carrier->ask(l->st, &o, &got) && got.rows == n) {
        l->carrier->board(l->st, got.at, in, n, out);
        return;
    }
    for (size_t i = 0; i < n; i++)
        larder__client_alone(l, &in[i], &out[i]);
}

static int claim(larder__client *l, larder_access *in, size_t n, larder__ticket *out) {
    if (n == 0 || take_kept(l, in, n, out) ||
        (l->carrier->take && l->carrier->take(l->st, in, n, out)))
        return 0;
    refuse_kept(l);
    size_t most = l->conf.most;
    int rc = reserve(l, n < most ? n : most);
    for (size_t i = 0; rc == 0 && i < n; i += most)
        ask_claim(l, in + i, n - i < most ? n - i : most, out + i);
    return rc;
}

/* Whatever is made there is made for all who want it: whole. */
static int client_claim(larder__cache *c, larder_access *in, size_t n, larder__ticket *out) {
    larder__client *l = enter(c);
    int rc = claim(l, in, n, out);
    leave(l);
    l->carrier->look(l->st, &c->slots);
    for (size_t i = 0; rc == 0 && i < n; i++)
        out[i].kept = true;
    return rc;
}

/* No other has the very row of an augmented entry, and pixels are soon made again. */
static int client_reclaim(larder__cache *c, uint64_t key, uint32_t size, larder_form form,
                          uint64_t mark, larder__ticket *out) {
    larder_access a = {.key = key, .size = size, .group = LARDER_NO_GROUP};
    if (form == LARDER_ENCODED)
        return client_claim(c, &a, 1, out);
    larder__client_alone(client_of(c), &a, out);
    out->form = out->make = form == LARDER_AUGMENTED ? LARDER_AUGMENTED : LARDER_ENCODED;
    out->mark = mark;
    out->kept = true;
    return 0;
}

/* ---- exchanges ------------------------------------------------------------------------------- */

static int keep(larder__client *l, const larder__replies *got) {
    size_t n = got->rows + got->fetched;
    if (larder__grow(&l->kept, &l->kept_room, n, sizeof *l->kept) < 0) {
        l->carrier->refuse(l->st, got->at, n);
        return LARDER_E_NOMEM;
    }
    if (n)
        memcpy(l->kept, got->at, n * sizeof *l->kept);
    l->kept_rows = got->rows;
    l->kept_fetched = got->fetched;
    return 0;
}

static uint32_t size_of(const larder__client *l, uint64_t id) {
    return l->conf.size_of ? l->conf.size_of(l->conf.size_arg, id) : l->conf.size;
}

/* True: the answers are kept. */
static bool ask_exchange(larder__client *l, const uint64_t *wanted, size_t n) {
    larder__replies got;
    if (!l->conf.exchanges || n > l->conf.most || !l->carrier->there(l->st) || reserve(l, n) < 0)
        return false;
    for (size_t i = 0; i < n; i++)
        l->rows[i] = (larder__row){.key = (uint32_t)wanted[i],
                                   .size = size_of(l, wanted[i]),
                                   .group = LARDER_NO_GROUP,
                                   .score = NAN};
    larder__op o = {
        .type = LARDER__OP_EXCHANGE, .number = {FETCH_AT_ONCE}, .n = n, .rows = l->rows};
    return l->carrier->ask(l->st, &o, &got) && got.rows == n && keep(l, &got) == 0;
}

static void note_seen(larder__client *l, uint64_t id) {
    if (l->seen && id < l->conf.keys)
        l->seen[id >> 6] |= (uint64_t)1 << (id & 63);
}

static void client_exchange(larder__cache *c, uint32_t job, const uint64_t *wanted, size_t n,
                            uint64_t *served) {
    larder__client *l = enter(c);
    (void)job; /* we are one, with a number of its own there */
    refuse_kept(l);
    bool answered = ask_exchange(l, wanted, n);
    for (size_t i = 0; i < n; i++) {
        served[i] = answered ? l->kept[i].key : wanted[i];
        note_seen(l, served[i]);
    }
    leave(l);
}

/* ---- other questions ------------------------------------------------------------------------- */

/* A page of picks at a time: they may be a batch old when they are used. */
static void more_picks(larder__client *l, larder_rng *rng) {
    larder__replies got;
    larder__op o = {.type = LARDER__OP_PICKS, .number = {PICKS_AT_ONCE, larder_rng_next(rng)}};
    l->picked = l->pick_at = 0;
    if (!l->carrier->there(l->st) || !l->carrier->ask(l->st, &o, &got))
        return;
    for (; l->picked < got.rows && l->picked < PICKS_AT_ONCE; l->picked++)
        l->picks[l->picked] = got.keys[l->picked];
}

static bool client_pick(larder__cache *c, larder_rng *rng, uint64_t *key) {
    larder__client *l = enter(c);
    if (l->pick_at >= l->picked)
        more_picks(l, rng);
    bool got = l->pick_at < l->picked;
    if (got)
        *key = l->picks[l->pick_at++];
    leave(l);
    return got && *key < c->slots.keys;
}

static size_t client_fetch(larder__cache *c, uint64_t *keys, size_t max) {
    larder__client *l = enter(c);
    larder__replies got;
    larder__op o = {.type = LARDER__OP_FETCH,
                    .number = {max < FETCH_AT_ONCE ? max : FETCH_AT_ONCE}};
    size_t n = 0;
    if (l->conf.exchanges) { /* they came with the answer to the exchange */
        for (; n < max && n < l->kept_fetched && !l->kept_rows; n++)
            keys[n] = l->kept[n].key;
    } else if (l->carrier->there(l->st) && l->carrier->ask(l->st, &o, &got)) {
        for (size_t i = 0; i < got.rows && n < max; i++)
            if (got.keys[i] < l->conf.keys)
                keys[n++] = got.keys[i];
    }
    leave(l);
    return n;
}

static bool client_stream(larder__cache *c, larder_stream *s, bool join) {
    larder__client *l = enter(c);
    bool got = join && l->streaming;
    if (got)
        *s = l->stream;
    if (!join && l->carrier->there(l->st))
        l->carrier->tell(
            l->st, &(larder__op){.type = LARDER__OP_STREAM, .number = {s->seed, s->sweep, s->at}});
    leave(l);
    return got;
}

/* ---- words ----------------------------------------------------------------------------------- */

static size_t seen_words(const larder__client *l) { return (size_t)(l->conf.keys / 64 + 1); }

static void tell_epoch(larder__client *l) {
    l->carrier->tell(l->st, &(larder__op){.type = LARDER__OP_EPOCH,
                                          .number = {l->epoch},
                                          .n = l->seen ? seen_words(l) : 0,
                                          .words = l->seen});
}

/* Whoever joins from here on is told it. */
static void begin_epoch(larder__client *l, uint64_t epoch) {
    l->epoch = epoch;
    if (l->seen)
        memset(l->seen, 0, seen_words(l) * sizeof *l->seen);
    for (uint64_t id = 0; l->tags && id < l->conf.keys; id++)
        if ((l->tags[id] & LARDER_TAG_RANK) == LARDER_TAG_LEFT)
            note_seen(l, id);
    l->epoch_begun = false;
    if (l->carrier->there(l->st))
        tell_epoch(l);
    l->epoch_begun = true;
}

static void tell_scores(larder__client *l, const larder__op *all) {
    for (size_t i = 0; i < all->n && l->carrier->there(l->st); i += SCORES_AT_ONCE) {
        larder__op o = *all;
        o.n = all->n - i < SCORES_AT_ONCE ? all->n - i : SCORES_AT_ONCE;
        o.ids = all->ids + i;
        o.scores = all->scores + i;
        l->carrier->tell(l->st, &o);
    }
}

/* Every eighth time, if all of it is known. */
static bool rates_due(larder__client *l, const larder__op *o) {
    for (int i = 0; i < LARDER__OP_VALUES; i++)
        if (!(o->value[i] > 0))
            return false;
    return l->rates++ % RATES_EVERY == 0;
}

static bool names_keys(const larder__client *l, const larder__op *o) {
    bool fine = o->number[0] < l->conf.keys;
    for (size_t i = 0; fine && i < o->n; i++)
        fine = o->ids[i] < l->conf.keys && o->ids[i] != o->number[0];
    return fine;
}

/* What becomes of RELATE is decided there: so the next best is told too. */
static bool client_tell(larder__cache *c, const larder__op *o) {
    larder__client *l = enter(c);
    if (o->type == LARDER__OP_EPOCH)
        begin_epoch(l, o->number[0]);
    else if (o->type == LARDER__OP_SCORES)
        tell_scores(l, o);
    else if ((o->type != LARDER__OP_RATES || rates_due(l, o)) &&
             (o->type != LARDER__OP_RELATE || names_keys(l, o)) && l->carrier->there(l->st))
        l->carrier->tell(l->st, o);
    leave(l);
    return o->type == LARDER__OP_RATES;
}

static void client_list(larder__cache *c, const uint8_t *tags) {
    larder__client *l = enter(c);
    l->tags = tags;
    leave(l);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void client_fill(larder__cache *c, larder__ticket *t, larder_buf *b) {
    larder__client *l = client_of(c);
    larder__ticket_drop(t);
    if (!larder__ticket_alone(t))
        l->carrier->fill(l->st, t, b);
    t->flight = NULL;
}

static void client_fail(larder__cache *c, larder__ticket *t, int code, const char *why) {
    larder__client *l = client_of(c);
    (void)why;
    larder__ticket_drop(t);
    if (!larder__ticket_alone(t))
        l->carrier->failed(l->st, t, code);
    t->flight = NULL;
}

static int client_wait(larder__cache *c, larder__ticket *t, larder_buf **out) {
    larder__client *l = client_of(c);
    larder__ticket_drop(t);
    return l->carrier->wait(l->st, t, out);
}

static int client_receive(larder__cache *c, larder__ticket *t, larder_buf *token,
                          larder_buf **out) {
    larder__client *l = client_of(c);
    return l->carrier->receive(l->st, t, token, out);
}

/* ---- looking in ------------------------------------------------------------------------------ */

/* It says how large it is, unless it is away. */
static bool client_fits(const larder__cache *c, uint32_t bytes) {
    return bytes <= c->slots.budget || c->slots.budget == 0;
}

static void client_figures(larder__cache *c, larder__cache_figures *out) {
    larder__client *l = client_of(c);
    larder_slots now = {0}; /* those of the cache belong to whoever claims */
    l->carrier->look(l->st, &now);
    *out = (larder__cache_figures){.resident = now.resident,
                                   .resident_bytes = now.bytes,
                                   .budget = now.budget,
                                   .elsewhere = true};
}

static void client_save(larder__cache *c, larder_writer *w) {
    (void)c; /* not ours to save: a name is, so that it is not taken for another */
    larder__write_text(w, LARDER__ELSEWHERE);
}

static int client_load(larder__cache *c, larder_reader *r) {
    char name[64];
    (void)c;
    larder__read_text(r, name, sizeof name);
    return strcmp(name, LARDER__ELSEWHERE) == 0 ? larder_read_status(r)
                                                : larder_read_reject(r, LARDER__OTHER_PLACE);
}

static void client_note(larder__cache *c, char *out, size_t cap) {
    larder__client *l = enter(c);
    l->carrier->note(l->st, out, cap);
    leave(l);
}

/* ---- for carriers ---------------------------------------------------------------------------- */

void larder__client_joined(larder__client *l, const larder_stream *s) {
    l->streaming = s && s->at <= l->conf.keys;
    if (l->streaming)
        l->stream = *s;
    l->picked = l->pick_at = 0;
    if (l->epoch_begun)
        tell_epoch(l);
}

void larder__client_lost(larder__client *l) {
    l->kept_rows = l->kept_fetched = l->picked = l->pick_at = 0;
}

bool larder__client_try(larder__client *l) {
    if (pthread_mutex_trylock(&l->talk) != 0)
        return false;
    if (l->kept_rows + l->kept_fetched == 0)
        return true;
    pthread_mutex_unlock(&l->talk);
    return false;
}

void larder__client_enter(larder__client *l) { pthread_mutex_lock(&l->talk); }
void larder__client_done(larder__client *l) { leave(l); }

/* ---- opening and closing --------------------------------------------------------------------- */

void larder__client_free(larder__client **pl) {
    larder__client *l = *pl;
    *pl = NULL;
    if (!l)
        return;
    larder__free(l->rows);
    larder__free(l->kept);
    larder__free(l->seen);
    pthread_mutex_destroy(&l->talk);
    larder__free(l);
}

static void client_close(larder__cache *c) {
    larder__client *l = client_of(c);
    l->carrier->close(&l->st);
    larder__client_free(&l);
}

#define CLIENT                                                                                     \
    .claim = client_claim, .reclaim = client_reclaim, .fill = client_fill, .failed = client_fail,  \
    .wait = client_wait, .tell = client_tell, .list = client_list, .pick = client_pick,            \
    .fetch = client_fetch, .exchange = client_exchange, .stream = client_stream,                   \
    .fits = client_fits, .figures = client_figures, .save = client_save, .load = client_load,      \
    .note = client_note, .close = client_close
static const larder__cache_ops near_ops = {CLIENT}, far_ops = {CLIENT, .receive = client_receive};

int larder__client_new(larder__client **out, const larder__client_conf *conf) {
    larder__client *l = *out = larder__calloc(1, sizeof *l);
    if (!l)
        return LARDER_E_NOMEM;
    pthread_mutex_init(&l->talk, NULL);
    l->conf = *conf;
    l->cache.slots.keys = conf->keys;
    if (conf->exchanges && !(l->seen = larder__calloc(seen_words(l), sizeof *l->seen))) {
        larder__client_free(out);
        return LARDER_E_NOMEM;
    }
    return 0;
}

int larder__client_open(larder__cache **out, larder__client *l, const larder__carrier *carrier,
                        void *st) {
    l->carrier = carrier;
    l->st = st;
    l->cache.ops = carrier->receive ? &far_ops : &near_ops;
    carrier->look(st, &l->cache.slots);
    larder__stats *stats = l->conf.stats;
    int rc = stats ? larder__cache_show_figures(&l->cache, stats, false, false) : 0;
    if (stats && rc == 0)
        rc = larder__stat_counter(stats, &l->alone, l->conf.alone, "samples",
                                  "misses that were read for this job alone");
    *out = &l->cache;
    if (rc < 0)
        larder__cache_close(out);
    return rc;
}
