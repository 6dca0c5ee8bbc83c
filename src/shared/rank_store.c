#include "shared/rank_store.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"

#include <pthread.h>

/* One resident. It lives as long as its token, which the slot holds (and for some batches the list
 * of those that left), everybody who was promised the bytes, and whoever writes them. */
typedef struct entry {
    struct job_store *store;
    larder__value value;
    larder_buf *token; /* not counted: the others' */
    larder_buf *bytes; /* while they are written */
    bool ours, gone;   /* we wrote them, or tried to; and could not */
} entry;

enum { OURS = 0x80, VALUE_NOTE = 168 }; /* bytes, about, that a depot notes about a value */

typedef struct leaver {
    larder_buf *token;
    uint64_t turn;
} leaver;

typedef struct job_store {
    larder__depot depot;
    larder_buf **tokens; /* by slot */
    uint32_t turns;
    pthread_mutex_t lock; /* of all entries, and of what follows */
    uint8_t *living;      /* by key: 1 + the form it is resident in; 0: it is not; with OURS where
                             an earlier entry's value was left for it */
    uint64_t turn;
    leaver *leavers; /* oldest first, from `first` on */
    size_t first, count, cap;
    larder__stats *stats;
    larder__stat late;
} job_store;

/* ---- entries --------------------------------------------------------------------------------- */

/* A value that is resident again under the same name stays. */
static void entry_done(void *arg, uint64_t unused) {
    (void)unused;
    entry *e = arg;
    job_store *s = e->store;
    pthread_mutex_lock(&s->lock);
    uint8_t *living = &s->living[e->value.id];
    bool again = e->value.form != LARDER_AUGMENTED && (*living & ~OURS) == e->value.form + 1;
    if (again && e->ours)
        *living |= OURS;
    pthread_mutex_unlock(&s->lock);
    if (e->ours && !again)
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
    return e;
}

static void settle_in(job_store *s, larder_slot slot, const entry *e) {
    pthread_mutex_lock(&s->lock);
    s->living[e->value.id] = (uint8_t)(e->value.form + 1);
    pthread_mutex_unlock(&s->lock);
    s->tokens[slot] = e->token;
}

static void job_put(void *st, larder_slot slot, larder_buf *b, const larder__entry *about) {
    job_store *s = st;
    larder_buf_unref(&s->tokens[slot]);
    entry *e = entry_new(s, (uint32_t)larder_buf_size(b), about);
    if (!e)
        return; /* gone: it is made again when next asked for */
    e->ours = true;
    e->bytes = larder_buf_ref(b);
    settle_in(s, slot, e);
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
    settle_in(s, slot, e);
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

static void job_drop(void *st, larder_slot slot) {
    job_store *s = st;
    larder_buf *token = s->tokens[slot];
    s->tokens[slot] = NULL;
    if (!token)
        return;
    entry *e = larder__buf_outside_arg(token, entry_done);
    pthread_mutex_lock(&s->lock);
    e->ours |= (s->living[e->value.id] & OURS) != 0;
    s->living[e->value.id] = 0;
    bool stays = room_to_leave(s);
    if (stays)
        s->leavers[s->first + s->count++] = (leaver){token, s->turn};
    pthread_mutex_unlock(&s->lock);
    if (!stays)
        larder_buf_unref(&token);
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

static larder_buf *job_receive(void *st, larder_buf *b, uint8_t *held) {
    job_store *s = st;
    larder_buf *out = NULL;
    bool promised = s->depot.ops->receive(s->depot.state, b, &out, held);
    if (!promised && !larder__buf_outside_arg(b, entry_done))
        return b; /* the bytes themselves */
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
    larder__free(s->living);
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
    s->living = larder__calloc(conf->keys, sizeof *s->living);
    int rc = s->tokens && s->living ? 0 : LARDER_E_NOMEM;
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
    .turn = job_turn,
    .note = job_note,
};
