#include "redis/far_store.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/random.h>

/* One resident. It lives as long as its token, which the slot holds, everybody who was promised the
 * bytes, and whoever writes them; then it is deleted in Redis. */
typedef struct entry {
    struct far_store *store;
    larder__value value;
    larder_buf *token;           /* not counted: the others' */
    larder_buf *bytes;           /* while they are written, or as long as they are in front */
    struct entry *next, *before; /* the ring of those in front */
    bool in_front, used, written, gone;
} entry;

typedef struct far_store {
    larder__far *far;
    larder_buf **tokens;  /* by slot */
    pthread_mutex_t lock; /* of all entries, and of what follows */
    uint64_t front, front_used;
    uint32_t ttl;
    bool inclusive;
    entry *hand; /* goes round those in front */
    uint64_t mark;
    larder__stats *stats;
    larder__stat front_hits;
} far_store;

/* ---- in front -------------------------------------------------------------------------------- */

static void ring_add(far_store *s, entry *e) {
    entry *at = s->hand;
    e->next = at ? at : e;
    e->before = at ? at->before : e;
    e->next->before = e->before->next = e;
    s->hand = e->next;
    e->in_front = true;
    e->used = false;
    s->front_used += e->value.size;
}

static void ring_remove(far_store *s, entry *e) {
    e->next->before = e->before;
    e->before->next = e->next;
    if (s->hand == e)
        s->hand = e->next == e ? NULL : e->next;
    e->in_front = false;
    s->front_used -= e->value.size;
}

/* Room for `size` bytes in front. Where all of it lies in Redis too, whoever was not used since the
 * hand last passed gives way; else whoever is there stays. */
static bool front_room(far_store *s, uint64_t size) {
    if (size > s->front)
        return false;
    while (s->front_used + size > s->front) {
        entry *e = s->hand;
        if (!s->inclusive || !e)
            return false;
        s->hand = e->next;
        if (!e->used && !e->written)
            return false; /* its only copy, as yet */
        if (!e->used) {
            ring_remove(s, e);
            larder_buf_unref(&e->bytes);
        }
        e->used = false;
    }
    return true;
}

/* ---- entries --------------------------------------------------------------------------------- */

static void entry_done(void *arg, uint64_t unused) {
    (void)unused;
    entry *e = arg;
    far_store *s = e->store;
    pthread_mutex_lock(&s->lock);
    if (e->in_front)
        ring_remove(s, e);
    pthread_mutex_unlock(&s->lock);
    if (e->written)
        larder__far_drop(s->far, &e->value);
    larder_buf_unref(&e->bytes);
    larder__free(e);
}

/* The keeper's word. It had a reference to the token. */
static void stored(void *arg, bool there) {
    entry *e = arg;
    far_store *s = e->store;
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
    far_store *s = st;
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
                 .bytes = larder_buf_ref(b)};
    bool front = s->front && front_room(s, size);
    if (front)
        ring_add(s, e);
    pthread_mutex_unlock(&s->lock);
    s->tokens[slot] = token;
    if (front && !s->inclusive)
        return;
    larder_buf_ref(token); /* for the keeper */
    larder__far_put(s->far, &e->value, b, s->ttl, stored, e);
}

static larder_buf *redis_get(void *st, larder_slot slot) {
    far_store *s = st;
    larder_buf *token = s->tokens[slot], *out = NULL;
    if (!token)
        return NULL;
    entry *e = larder__buf_outside_arg(token, entry_done);
    pthread_mutex_lock(&s->lock);
    if (e->bytes)
        out = larder_buf_ref(e->bytes);
    else if (!e->gone)
        out = larder_buf_ref(token);
    if (e->bytes && e->in_front && s->stats)
        larder__stat_add(s->stats, s->front_hits, 1);
    e->used = true;
    pthread_mutex_unlock(&s->lock);
    return out;
}

static void redis_drop(void *st, larder_slot slot) {
    far_store *s = st;
    larder_buf_unref(&s->tokens[slot]);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void errand_done(void *arg, uint64_t unused) {
    (void)unused;
    larder__errand_unref(&(larder__errand *){arg});
}

/* A token becomes an errand that holds it. Where memory is short it stays a token, and will not
 * come. */
static larder__errand *start(larder_buf **b) {
    const entry *e = larder__buf_outside_arg(*b, entry_done);
    larder__errand *errand = e ? larder__errand_new(&e->value) : NULL;
    if (!errand)
        return NULL;
    larder_buf *promise = larder__buf_outside(NULL, e->value.size, errand_done, errand, 0);
    if (!promise) {
        larder__errand_unref(&errand);
        return NULL;
    }
    larder__errand_hold(errand, *b);
    *b = promise;
    return errand;
}

static void redis_send(void *st, larder_buf **tokens, size_t n) {
    enum { AT_ONCE = 256 };
    far_store *s = st;
    larder__errand *errands[AT_ONCE];
    for (size_t i = 0; i < n;) {
        size_t m = 0;
        for (; i < n && m < AT_ONCE; i++)
            if ((errands[m] = start(&tokens[i])))
                m++;
        larder__far_send(s->far, errands, m);
    }
}

/* What lies in Redis too comes in front where there is room. */
static void keep_in_front(far_store *s, entry *e, larder_buf *b) {
    pthread_mutex_lock(&s->lock);
    if (!e->in_front && !e->bytes && front_room(s, e->value.size)) {
        e->bytes = larder_buf_ref(b);
        ring_add(s, e);
    }
    pthread_mutex_unlock(&s->lock);
}

static larder_buf *redis_receive(void *st, larder_buf *b, uint8_t *held) {
    far_store *s = st;
    (void)held; /* told when it was put */
    if (larder__buf_outside_arg(b, entry_done)) {
        larder_buf_unref(&b);
        return NULL;
    }
    larder__errand *e = larder__buf_outside_arg(b, errand_done);
    if (!e)
        return b; /* the bytes themselves */
    larder_buf *out = larder__far_receive(s->far, e);
    if (out && s->inclusive && s->front)
        keep_in_front(s, larder__buf_outside_arg(larder__errand_token(e), entry_done), out);
    larder_buf_unref(&b);
    return out;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void redis_close(void **st) {
    far_store *s = *st;
    *st = NULL;
    if (!s)
        return;
    larder__far *far = s->far; /* entries that were still to be written end now, and ask for it */
    larder__far_close(&far);
    larder__free(s->tokens);
    pthread_mutex_destroy(&s->lock);
    larder__free(s);
}

static double probe_front(const void *st) {
    far_store *s = (far_store *)(uintptr_t)st;
    pthread_mutex_lock(&s->lock);
    double bytes = (double)s->front_used;
    pthread_mutex_unlock(&s->lock);
    return bytes;
}

static int show(far_store *s, larder__stats *stats) {
    if (!stats || !s->front)
        return 0;
    int rc = larder__stat_counter(stats, &s->front_hits, "front_hits", "samples",
                                  "from the cache in front of Redis");
    s->stats = stats;
    return rc < 0 ? rc
                  : larder__stat_probe(stats, "front_bytes", "bytes",
                                       "in the cache in front of Redis", probe_front, s);
}

int larder__far_store_open(void **out, const larder__far_store_conf *conf) {
    *out = NULL;
    char owner[24];
    uint64_t nonce;
    if (getrandom(&nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce)
        return larder__fail(LARDER_E_IO, "no chance for a name from the system");
    snprintf(owner, sizeof owner, "%016llx", (unsigned long long)nonce);
    far_store *s = larder__calloc(1, sizeof *s);
    if (!s)
        return LARDER_E_NOMEM;
    pthread_mutex_init(&s->lock, NULL);
    s->front = conf->front;
    s->ttl = conf->redis->ttl;
    s->inclusive = conf->redis->inclusive;
    larder__far_conf far = {.redis = conf->redis,
                            .fingerprint = conf->fingerprint,
                            .owner = owner,
                            .lease = true,
                            .stats = conf->stats};
    int rc = (s->tokens = larder__calloc(conf->slots, sizeof *s->tokens)) ? 0 : LARDER_E_NOMEM;
    if (rc == 0)
        rc = larder__far_open(&s->far, &far);
    if (rc == 0)
        rc = show(s, conf->stats);
    if (rc < 0)
        redis_close(&(void *){s});
    else
        *out = s;
    return rc;
}

larder__far *larder__far_store_far(void *state) { return ((far_store *)state)->far; }

static int not_like_this(void **st, uint64_t slots) {
    (void)slots;
    *st = NULL;
    return larder__fail(LARDER_E_STATE, "a store in Redis is opened by larder__far_store_open");
}

const larder__store larder__store_redis = {
    .name = "redis",
    .real = true,
    /* What an entry takes besides its bytes, in Redis (key, head, objects) and here. */
    .slot_size = 128 + LARDER__VALUE_HEAD + sizeof(entry),
    .open = not_like_this,
    .close = redis_close,
    .put = redis_put,
    .get = redis_get,
    .drop = redis_drop,
    .send = redis_send,
    .receive = redis_receive,
};
