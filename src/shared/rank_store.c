#include "shared/rank_store.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"
#include "base/world.h"

#include <math.h>
#include <pthread.h>

/* One resident. It lives as long as its token, which the slot holds (and for some batches the list
 * of those that left), everybody who was promised the bytes, and whoever writes them. */
typedef struct entry {
    struct job_store *store;
    larder__value value;
    larder_buf *token; /* not counted: the others' */
    larder_buf *bytes; /* while they are written */
    bool ours, gone;   /* we wrote them, or tried to; and could not */
    uint64_t turn;     /* in which it was decided */
} entry;

enum { OURS = 0x8000, VALUE_NOTE = 168 }; /* bytes, about, that a depot notes about a value */
enum { VAIN_MOST = 10 };
static const double WAIT = 0.25, FIRST_PAUSE = 0.0005, LONGEST_PAUSE = 0.02; /* seconds */

typedef struct leaver {
    larder_buf *token;
    uint64_t turn;
} leaver;

typedef struct job_store {
    larder__depot depot;
    larder_buf **tokens; /* by slot */
    uint32_t turns;
    pthread_mutex_t lock; /* of all entries, and of what follows */
    uint16_t *names;      /* by key and form, but for augmented ones, whose names are never used
                             again: entries of that name, and OURS where we wrote it for one */
    uint64_t turn;
    uint64_t waits_from; /* turn from which on others are waited for */
    uint32_t vain;       /* waits in vain, less those that were not */
    leaver *leavers;     /* oldest first, from `first` on */
    size_t first, count, cap;
    larder__stats *stats;
    larder__stat late;
} job_store;

/* ---- entries --------------------------------------------------------------------------------- */

/* NULL: the name is this entry's alone. */
static uint16_t *name_of(const job_store *s, const larder__value *v) {
    return v->form == LARDER_AUGMENTED ? NULL : &s->names[2 * v->id + (v->form != LARDER_ENCODED)];
}

/* A value goes with the last entry of its name: what is resident again needs it, and what has been
 * since then may still be asked for by some rank. */
static void entry_done(void *arg, uint64_t unused) {
    (void)unused;
    entry *e = arg;
    job_store *s = e->store;
    pthread_mutex_lock(&s->lock);
    bool goes = e->ours;
    uint16_t *name = name_of(s, &e->value);
    if (name) {
        *name = (uint16_t)((*name - 1) | (e->ours ? OURS : 0));
        goes = *name == OURS;
        if (goes)
            *name = 0;
    }
    pthread_mutex_unlock(&s->lock);
    if (goes)
        s->depot.ops->drop(s->depot.state, &e->value);
    larder_buf_unref(&e->bytes);
    larder__free(e);
}

/* The depot's word. It had a reference to the token. */
static void stored(void *arg, bool there) {
    entry *e = arg;
    job_store *s = e->store;
    larder_buf *token = e->token, *bytes;
    pthread_mutex_lock(&s->lock);
    e->gone = !there;
    bytes = e->bytes;
    e->bytes = NULL;
    pthread_mutex_unlock(&s->lock);
    larder_buf_unref(&bytes);
    larder_buf_unref(&token);
}

static entry *entry_new(job_store *s, uint32_t size, const larder__entry *about) {
    entry *e = larder__calloc(1, sizeof *e);
    larder_buf *token = e ? larder__buf_outside(e, size, entry_done, e, 0) : NULL;
    if (!token) {
        larder__free(e);
        return NULL;
    }
    *e = (entry){.store = s,
                 .token = token,
                 .value = {.id = about->key,
                           .mark = about->form == LARDER_AUGMENTED ? about->mark : 0,
                           .size = size,
                           .form = about->form,
                           .held = about->held}};
    pthread_mutex_lock(&s->lock);
    e->turn = s->turn;
    uint16_t *name = name_of(s, &e->value);
    if (name)
        ++*name;
    pthread_mutex_unlock(&s->lock);
    return e;
}

static void job_put(void *st, larder_slot slot, larder_buf *b, const larder__entry *about) {
    job_store *s = st;
    larder_buf_unref(&s->tokens[slot]);
    entry *e = entry_new(s, (uint32_t)larder_buf_size(b), about);
    if (!e)
        return; /* gone: it is made again when next asked for */
    e->ours = true;
    e->bytes = larder_buf_ref(b);
    s->tokens[slot] = e->token;
    larder_buf_ref(e->token); /* for the depot */
    s->depot.ops->put(s->depot.state, &e->value, b, stored, e);
}

static void job_expect(void *st, larder_slot slot, uint32_t size, const larder__entry *about) {
    job_store *s = st;
    larder_buf_unref(&s->tokens[slot]);
    entry *e = entry_new(s, size, about);
    if (!e)
        return;
    if (about->form == LARDER_DECODED) /* or the file's bytes, where pixels came to more */
        e->value.held = LARDER__ANY_FORM;
    s->tokens[slot] = e->token;
}

static larder_buf *job_get(void *st, larder_slot slot) {
    job_store *s = st;
    larder_buf *token = s->tokens[slot], *out = NULL;
    if (!token)
        return NULL;
    entry *e = larder__buf_outside_arg(token, entry_done);
    pthread_mutex_lock(&s->lock);
    if (e->bytes)
        out = larder_buf_ref(e->bytes);
    else if (!e->gone)
        out = larder_buf_ref(token);
    e->value.awaited = e->turn < s->turn;
    pthread_mutex_unlock(&s->lock);
    return out;
}

/* ---- leaving --------------------------------------------------------------------------------- */

static bool room_to_leave(job_store *s) {
    if (s->first + s->count < s->cap)
        return true;
    if (s->first >= s->count && s->first) {
        memmove(s->leavers, s->leavers + s->first, s->count * sizeof *s->leavers);
        s->first = 0;
        return true;
    }
    return larder__grow(&s->leavers, &s->cap, s->first + s->count + 1, sizeof *s->leavers) == 0;
}

static void leave(job_store *s, larder_buf *token) {
    pthread_mutex_lock(&s->lock);
    bool stays = room_to_leave(s);
    if (stays)
        s->leavers[s->first + s->count++] = (leaver){token, s->turn};
    pthread_mutex_unlock(&s->lock);
    if (!stays)
        larder_buf_unref(&token);
}

static void job_drop(void *st, larder_slot slot) {
    job_store *s = st;
    larder_buf *token = s->tokens[slot];
    s->tokens[slot] = NULL;
    if (!token)
        return;
    leave(s, token);
}

/* As if it had been put and had left just now: it stays as long as others may ask for it. */
static void job_pass(void *st, larder_buf *b, const larder__entry *about) {
    job_store *s = st;
    entry *e = entry_new(s, (uint32_t)larder_buf_size(b), about);
    if (!e)
        return;
    e->ours = true;
    e->bytes = larder_buf_ref(b);
    larder_buf_ref(e->token); /* for the depot */
    larder_buf *token = e->token;
    s->depot.ops->put(s->depot.state, &e->value, b, stored, e);
    leave(s, token);
}

/* Those that left so many batches ago go for good. */
static void let_go(job_store *s, uint64_t turns) {
    for (larder_buf *token = NULL;; larder_buf_unref(&token)) {
        pthread_mutex_lock(&s->lock);
        if (s->count && s->leavers[s->first].turn + turns <= s->turn) {
            token = s->leavers[s->first++].token;
            s->count--;
        }
        pthread_mutex_unlock(&s->lock);
        if (!token)
            return;
    }
}

static void job_turn(void *st) {
    job_store *s = st;
    pthread_mutex_lock(&s->lock);
    s->turn++;
    pthread_mutex_unlock(&s->lock);
    let_go(s, s->turns);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static const larder__value *value_of(larder_buf *token) {
    const entry *e = larder__buf_outside_arg(token, entry_done);
    return e ? &e->value : NULL;
}

static void job_send(void *st, larder_buf **tokens, size_t n) {
    const larder__depot *d = &((job_store *)st)->depot;
    d->ops->send(d->state, tokens, n, value_of);
}

static bool worth_waiting(job_store *s, const larder__value *v) {
    pthread_mutex_lock(&s->lock);
    bool worth = v->awaited && s->turn >= s->waits_from;
    pthread_mutex_unlock(&s->lock);
    return worth;
}

static void note_wait(job_store *s, bool came) {
    pthread_mutex_lock(&s->lock);
    if (!came)
        s->waits_from = s->turn + ((uint64_t)s->turns << s->vain);
    if (came)
        s->vain -= s->vain > 0;
    else
        s->vain += s->vain < VAIN_MOST;
    pthread_mutex_unlock(&s->lock);
}

/* What another rank reads just now. */
static larder_buf *await_other(job_store *s, larder_buf *promise, uint8_t *held) {
    const larder__depot *d = &s->depot;
    larder_buf *out = NULL;
    double now = larder__world_now(), until = now + WAIT, pause = FIRST_PAUSE;
    if (!worth_waiting(s, d->ops->wanted(promise)))
        return NULL;
    for (; !out && now < until; now = larder__world_now()) {
        larder__world_sleep_until(now + pause);
        pause = fmin(2 * pause, LONGEST_PAUSE);
        d->ops->again(d->state, promise, &out, held);
    }
    note_wait(s, out != NULL);
    return out;
}

static larder_buf *job_receive(void *st, larder_buf *b, uint8_t *held) {
    job_store *s = st;
    larder_buf *out = NULL;
    bool promised = s->depot.ops->receive(s->depot.state, b, &out, held);
    if (!promised && !larder__buf_outside_arg(b, entry_done))
        return b; /* the bytes themselves */
    if (promised && !out)
        out = await_other(s, b, held);
    larder_buf_unref(&b);
    if (!out && s->stats)
        larder__stat_add(s->stats, s->late, 1);
    return out;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void job_close(void **st) {
    job_store *s = *st;
    *st = NULL;
    if (!s)
        return;
    larder__depot depot = s->depot; /* entries still to be written end now, and ask for it */
    if (depot.ops->ending)
        depot.ops->ending(depot.state);
    let_go(s, 0);
    depot.ops->close(&depot.state);
    larder__free(s->tokens);
    larder__free(s->names);
    larder__free(s->leavers);
    pthread_mutex_destroy(&s->lock);
    larder__free(s);
}

int larder__job_store_open(void **out, const larder__job_store_conf *conf) {
    *out = NULL;
    job_store *s = larder__calloc(1, sizeof *s);
    if (!s) {
        conf->depot.ops->close(&(void *){conf->depot.state});
        return LARDER_E_NOMEM;
    }
    pthread_mutex_init(&s->lock, NULL);
    s->depot = conf->depot;
    s->turns = conf->turns;
    s->tokens = larder__calloc(conf->slots, sizeof *s->tokens);
    s->names = larder__calloc(2 * conf->keys, sizeof *s->names);
    int rc = s->tokens && s->names ? 0 : LARDER_E_NOMEM;
    if (rc == 0 && conf->stats)
        rc = larder__stat_counter(conf->stats, &s->late, "ranks_late", "samples",
                                  "of other ranks, not there when wanted: read from storage");
    s->stats = conf->stats;
    if (rc < 0)
        job_close(&(void *){s});
    else
        *out = s;
    return rc;
}

static void job_note(void *st, char *out, size_t cap) {
    const larder__depot *d = &((job_store *)st)->depot;
    d->ops->note(d->state, out, cap);
}

const larder__store larder__store_job = {
    .name = "job",
    .real = true,
    .slot_size = VALUE_NOTE + sizeof(entry),
    .close = job_close,
    .put = job_put,
    .get = job_get,
    .drop = job_drop,
    .send = job_send,
    .receive = job_receive,
    .expect = job_expect,
    .pass = job_pass,
    .turn = job_turn,
    .note = job_note,
};
