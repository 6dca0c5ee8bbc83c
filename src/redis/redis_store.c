#include "redis/redis_store.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/world.h"
#include "redis/fetch_token.h"

#include <pthread.h>
#include <stdio.h>

/* One resident. It lives as long as its token, which the slot holds, everybody who was promised the
 * bytes, and whoever writes them; then it is deleted in Redis. */
typedef struct entry {
    struct redis_store *store;
    larder__value value;
    larder_buf *token; /* not counted: the others' */
    larder_buf *bytes; /* while they are written, or as long as they are in front */
    bool in_front, written, gone;
} entry;

typedef struct redis_store {
    larder__redis_values *far;
    larder_buf **tokens;  /* by slot */
    pthread_mutex_t lock; /* of all entries, and of what follows */
    uint32_t ttl;
    bool inclusive;
    uint64_t mark;
} redis_store;

/* ---- entries --------------------------------------------------------------------------------- */

static void entry_done(void *arg, uint64_t unused) {
    (void)unused;
    entry *e = arg;
    if (e->written)
        larder__redis_values_drop(e->store->far, &e->value);
    larder_buf_unref(&e->bytes);
    larder__free(e);
}

/* The writer's word. It had a reference to the token. */
static void stored(void *arg, bool there) {
    entry *e = arg;
    redis_store *s = e->store;
    larder_buf *token = e->token, *bytes = NULL;
    pthread_mutex_lock(&s->lock);
    e->written = true; /* if it failed half-way, it may still lie there */
    e->gone = !there;
    if (!e->in_front) {
        bytes = e->bytes;
        e->bytes = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    larder_buf_unref(&bytes);
    larder_buf_unref(&token);
}

static void redis_put(void *st, larder_slot slot, larder_buf *b, const larder__entry *about) {
    redis_store *s = st;
    larder_buf_unref(&s->tokens[slot]);
    entry *e = larder__calloc(1, sizeof *e);
    uint32_t size = (uint32_t)larder_buf_size(b);
    larder_buf *token = e ? larder__buf_outside(e, size, entry_done, e, 0) : NULL;
    if (!token) {
        larder__free(e);
        return; /* gone: it is made again when next asked for */
    }
    pthread_mutex_lock(&s->lock);
    *e = (entry){.store = s,
                 .value = {.id = about->key,
                           .mark = ++s->mark,
                           .size = size,
                           .form = about->form,
                           .held = about->held},
                 .token = token,
                 .bytes = larder_buf_ref(b),
                 .in_front = about->front};
    pthread_mutex_unlock(&s->lock);
    s->tokens[slot] = token;
    if (about->front && !s->inclusive)
        return;
    larder_buf_ref(token); /* for the writer */
    larder__redis_values_put(s->far, &e->value, b, s->ttl, stored, e);
}

static larder_buf *redis_get(void *st, larder_slot slot) {
    redis_store *s = st;
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

/* Only where all lies in Redis too. What comes to the front brings its bytes when it is next
 * received; what leaves it while it is still being written keeps them until it is. */
static void redis_place(void *st, larder_slot slot, bool front) {
    redis_store *s = st;
    entry *e = s->tokens[slot] ? larder__buf_outside_arg(s->tokens[slot], entry_done) : NULL;
    larder_buf *bytes = NULL;
    if (!e)
        return;
    pthread_mutex_lock(&s->lock);
    e->in_front = front;
    if (!front && e->written) {
        bytes = e->bytes;
        e->bytes = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    larder_buf_unref(&bytes);
}

static void redis_drop(void *st, larder_slot slot) {
    redis_store *s = st;
    larder_buf_unref(&s->tokens[slot]);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static const larder__value *value_of(larder_buf *token) {
    const entry *e = larder__buf_outside_arg(token, entry_done);
    return e ? &e->value : NULL;
}

static void redis_send(void *st, larder_buf **tokens, size_t n) {
    larder__fetch_token_all(((redis_store *)st)->far, tokens, n, value_of);
}

static void keep_in_front(redis_store *s, entry *e, larder_buf *b) {
    pthread_mutex_lock(&s->lock);
    if (e->in_front && !e->bytes)
        e->bytes = larder_buf_ref(b);
    pthread_mutex_unlock(&s->lock);
}

static larder_buf *redis_receive(void *st, larder_buf *b, uint8_t *held) {
    redis_store *s = st;
    (void)held; /* told when it was put */
    if (larder__buf_outside_arg(b, entry_done)) {
        larder_buf_unref(&b);
        return NULL;
    }
    larder__redis_fetch *e = larder__fetch_token_of(b);
    if (!e)
        return b; /* the bytes themselves */
    larder_buf *out = larder__redis_values_receive(s->far, e);
    if (out && s->inclusive)
        keep_in_front(s, larder__buf_outside_arg(larder__redis_fetch_token(e), entry_done), out);
    larder_buf_unref(&b);
    return out;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void redis_close(void **st) {
    redis_store *s = *st;
    *st = NULL;
    if (!s)
        return;
    larder__redis_values *far =
        s->far; /* entries that were still to be written end now, and ask for it */
    larder__redis_values_close(&far);
    larder__free(s->tokens);
    pthread_mutex_destroy(&s->lock);
    larder__free(s);
}

int larder__redis_store_open(void **out, const larder__redis_store_conf *conf) {
    *out = NULL;
    char owner[24];
    uint64_t nonce;
    if (larder__world_chance(&nonce, sizeof nonce) < 0)
        return larder__fail(LARDER_E_IO, "no chance for a name from the system");
    snprintf(owner, sizeof owner, "%016llx", (unsigned long long)nonce);
    redis_store *s = larder__calloc(1, sizeof *s);
    if (!s)
        return LARDER_E_NOMEM;
    pthread_mutex_init(&s->lock, NULL);
    s->ttl = conf->redis->ttl;
    s->inclusive = conf->redis->inclusive;
    larder__redis_values_conf far = {.redis = conf->redis,
                                     .identity = conf->identity,
                                     .owner = owner,
                                     .lease = true,
                                     .stats = conf->stats};
    int rc = (s->tokens = larder__calloc(conf->slots, sizeof *s->tokens)) ? 0 : LARDER_E_NOMEM;
    if (rc == 0)
        rc = larder__redis_values_open(&s->far, &far);
    if (rc < 0)
        redis_close(&(void *){s});
    else
        *out = s;
    return rc;
}

static void redis_note(void *st, char *out, size_t cap) {
    larder__redis_values_note(((redis_store *)st)->far, out, cap);
}

const larder__store larder__store_redis = {
    .name = "redis",
    .real = true,
    /* What an entry takes besides its bytes, in Redis (key, head, objects) and here. */
    .slot_size = 128 + LARDER__VALUE_HEAD + sizeof(entry),
    .close = redis_close,
    .put = redis_put,
    .get = redis_get,
    .drop = redis_drop,
    .place = redis_place,
    .send = redis_send,
    .receive = redis_receive,
    .note = redis_note,
};
