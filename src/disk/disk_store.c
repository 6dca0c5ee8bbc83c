#include "disk/disk_store.h"

#include "base/buf.h"
#include "base/mem.h"

#include <pthread.h>

/* Of a slot: a byte beside its key says in which form it is kept and which the bytes have. */
enum { FORM_BITS = 3, FORM_MASK = (1 << FORM_BITS) - 1, THERE = 1 << (2 * FORM_BITS) };
_Static_assert((int)LARDER_FORMS <= (int)FORM_MASK, "a form fits its bits");

typedef struct disk_store {
    larder__disk *disk;
    uint64_t slots;
    uint32_t *keys;       /* by slot */
    uint8_t *notes;       /* by slot: form, held, THERE */
    uint32_t *sizes;      /* by slot; NULL: told by who asks */
    larder_buf **front;   /* by slot: bytes that lie in front; NULL without a tier there */
    uint8_t *in_front;    /* by slot */
    pthread_mutex_t lock; /* of `front` and `in_front`, which receive changes */
} disk_store;

typedef struct token { /* what a buffer stands for whose bytes are on the disk */
    disk_store *store;
    larder__disk_fetch *fetch;
    uint32_t key;
    larder_slot slot;
    bool sent;
} token;

/* ---- tokens ---------------------------------------------------------------------------------- */

static void token_done(void *arg, uint64_t unused) {
    (void)unused;
    token *t = arg;
    larder__disk_fetch_unref(&t->fetch);
    larder__free(t);
}

static larder_buf *token_new(disk_store *s, larder_slot slot, const larder__value *v,
                             uint32_t size) {
    token *t = larder__malloc(sizeof *t);
    larder__disk_fetch *f = t ? larder__disk_fetch_new(v) : NULL;
    if (f)
        *t = (token){.store = s, .fetch = f, .key = (uint32_t)v->id, .slot = slot};
    larder_buf *out = f ? larder__buf_outside(t, size, token_done, t, 0) : NULL;
    if (!out) {
        larder__disk_fetch_unref(&f);
        larder__free(t);
    }
    return out;
}

/* ---- slots ----------------------------------------------------------------------------------- */

static void note(disk_store *s, larder_slot slot, uint32_t size, const larder__entry *e) {
    s->keys[slot] = (uint32_t)e->key;
    s->notes[slot] = (uint8_t)(THERE | e->form | e->held << FORM_BITS);
    if (s->sizes)
        s->sizes[slot] = size;
}

static larder__value value_of(const disk_store *s, larder_slot slot) {
    return (larder__value){.id = s->keys[slot],
                           .size = s->sizes ? s->sizes[slot] : 0,
                           .form = s->notes[slot] & FORM_MASK,
                           .held = s->notes[slot] >> FORM_BITS & FORM_MASK};
}

/* With the lock held; what lay there is let go by the caller, without it. */
static larder_buf *exchange_front(disk_store *s, larder_slot slot, larder_buf *b) {
    larder_buf *was = s->front[slot];
    s->front[slot] = b ? larder_buf_ref(b) : NULL;
    return was;
}

static void lay_in_front(disk_store *s, larder_slot slot, larder_buf *b, bool front) {
    if (!s->front)
        return;
    pthread_mutex_lock(&s->lock);
    larder_buf *was = exchange_front(s, slot, front ? b : NULL);
    s->in_front[slot] = front;
    pthread_mutex_unlock(&s->lock);
    larder_buf_unref(&was);
}

static void disk_put(void *st, larder_slot slot, larder_buf *b, const larder__entry *e) {
    disk_store *s = st;
    note(s, slot, (uint32_t)larder_buf_size(b), e);
    larder__value v = value_of(s, slot);
    v.size = (uint32_t)larder_buf_size(b);
    lay_in_front(s, slot, b, e->front);
    larder__disk_put(s->disk, &v, b);
}

static larder_buf *in_memory(disk_store *s, larder_slot slot) {
    larder_buf *out = NULL;
    if (s->front) {
        pthread_mutex_lock(&s->lock);
        out = s->front[slot] ? larder_buf_ref(s->front[slot]) : NULL;
        pthread_mutex_unlock(&s->lock);
    }
    larder__value v = value_of(s, slot);
    return out ? out : larder__disk_queued(s->disk, &v);
}

static larder_buf *disk_get(void *st, larder_slot slot) {
    disk_store *s = st;
    if (!(s->notes[slot] & THERE))
        return NULL;
    larder_buf *out = in_memory(s, slot);
    if (out || !larder__disk_has(s->disk, s->keys[slot]))
        return out;
    larder__value v = value_of(s, slot);
    return token_new(s, slot, &v, v.size);
}

/* What an earlier run or another job has left. Only where all is kept as it came: it is what it is,
 * and of what was made of it nobody knows yet how large it is. */
static larder_buf *disk_find(void *st, larder_slot slot, uint32_t size, const larder__entry *e) {
    disk_store *s = st;
    if (s->sizes || !larder__disk_has(s->disk, e->key))
        return NULL;
    larder__value v = {.id = e->key, .size = size, .form = e->form, .held = e->held};
    larder_buf *out = token_new(s, slot, &v, size);
    if (out && slot != LARDER_NO_SLOT) {
        note(s, slot, size, e);
        lay_in_front(s, slot, NULL, e->front);
        larder__disk_want(s->disk, e->key);
    }
    return out;
}

/* What comes to the front brings its bytes when it is next received. */
static void disk_place(void *st, larder_slot slot, bool front) {
    disk_store *s = st;
    larder_buf *was = NULL;
    pthread_mutex_lock(&s->lock);
    s->in_front[slot] = front;
    if (!front)
        was = exchange_front(s, slot, NULL);
    pthread_mutex_unlock(&s->lock);
    larder_buf_unref(&was);
}

static void disk_drop(void *st, larder_slot slot) {
    disk_store *s = st;
    if (s->notes[slot] & THERE && s->sizes) /* it may come back in another form */
        larder__disk_forget(s->disk, s->keys[slot]);
    else if (s->notes[slot] & THERE)
        larder__disk_spare(s->disk, s->keys[slot]);
    lay_in_front(s, slot, NULL, false);
    s->notes[slot] = 0;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void disk_send(void *st, larder_buf **tokens, size_t n) {
    disk_store *s = st;
    enum { AT_ONCE = 256 };
    larder__disk_fetch *fetches[AT_ONCE] = {0};
    for (size_t i = 0; i < n;) {
        size_t m = 0;
        for (; i < n && m < AT_ONCE; i++) {
            token *t = larder__buf_outside_arg(tokens[i], token_done);
            if (!t || t->sent)
                continue;
            t->sent = true;
            fetches[m++] = t->fetch;
        }
        larder__disk_send(s->disk, fetches, m);
    }
}

/* It may have left its slot meanwhile, or the front. */
static void keep_in_front(disk_store *s, const token *t, larder_buf *b) {
    if (!s->front || t->slot == LARDER_NO_SLOT)
        return;
    pthread_mutex_lock(&s->lock);
    if (s->in_front[t->slot] && s->keys[t->slot] == t->key && !s->front[t->slot])
        s->front[t->slot] = larder_buf_ref(b);
    pthread_mutex_unlock(&s->lock);
}

static larder_buf *disk_receive(void *st, larder_buf *b, uint8_t *held) {
    disk_store *s = st;
    token *t = larder__buf_outside_arg(b, token_done);
    if (!t)
        return b; /* the bytes themselves */
    larder_buf *out = t->sent ? larder__disk_receive(s->disk, t->fetch) : NULL;
    if (out) {
        *held = larder__disk_fetch_held(t->fetch);
        keep_in_front(s, t, out);
    }
    larder_buf_unref(&b);
    return out;
}

/* ---- how large ------------------------------------------------------------------------------- */

/* Head, bits of blocks and index; and a hundredth for what the file system keeps of its own and for
 * gaps between values. */
enum { FIXED = 1 << 20, INDEX_WORD = 8, BLOCK = 4096, BITS = 8, SPARE_PART = 100 };

larder__disk_measure larder__disk_measured(uint64_t keys, uint64_t payload, uint32_t size,
                                           uint32_t (*size_of)(void *arg, uint64_t id), void *arg) {
    enum { ASKED = 4096 };
    uint64_t asked = size ? 1 : keys < ASKED ? keys : ASKED, all = 0;
    for (uint64_t i = 0; i < asked; i++)
        all += larder__disk_value_bytes(size ? size : size_of(arg, keys / asked * i));
    return (larder__disk_measure){keys, payload, asked ? (double)all / (double)asked : 1};
}

static double mean(const larder__disk_measure *m) {
    return m->keys && m->payload ? (double)m->payload / (double)m->keys : 1;
}

uint64_t larder__disk_holds(const larder__disk_measure *m, uint64_t budget) {
    double fixed = FIXED + (double)(m->keys * INDEX_WORD) + (double)budget / BLOCK / BITS;
    double room = ((double)budget - fixed) * (1 - 1.0 / SPARE_PART);
    return room > 0 ? (uint64_t)(room * (mean(m) / m->each)) : 0;
}

uint64_t larder__disk_takes(const larder__disk_measure *m, uint64_t bytes) {
    double room = (double)bytes / mean(m) * m->each;
    double with = room / (1 - 1.0 / SPARE_PART) + FIXED + (double)(m->keys * INDEX_WORD);
    return (uint64_t)(with * (1 + 1.0 / BLOCK)) + 1;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void disk_close(void **st) {
    disk_store *s = *st;
    *st = NULL;
    if (!s)
        return;
    for (uint64_t i = 0; s->front && i < s->slots; i++)
        larder_buf_unref(&s->front[i]);
    larder__disk_close(&s->disk);
    larder__free(s->keys);
    larder__free(s->notes);
    larder__free(s->sizes);
    larder__free(s->front);
    larder__free(s->in_front);
    pthread_mutex_destroy(&s->lock);
    larder__free(s);
}

static int open_tables(disk_store *s, const larder__disk_store_conf *conf) {
    s->keys = larder__calloc(conf->slots, sizeof *s->keys);
    s->notes = larder__calloc(conf->slots, sizeof *s->notes);
    if (!s->keys || !s->notes)
        return LARDER_E_NOMEM;
    if (conf->forms) {
        s->sizes = larder__calloc(conf->slots, sizeof *s->sizes);
        if (!s->sizes)
            return LARDER_E_NOMEM;
    }
    if (conf->tiered) {
        s->front = larder__calloc(conf->slots, sizeof(larder_buf *));
        s->in_front = larder__calloc(conf->slots, sizeof *s->in_front);
        if (!s->front || !s->in_front)
            return LARDER_E_NOMEM;
    }
    return 0;
}

int larder__disk_store_open(void **out, const larder__disk_store_conf *conf) {
    *out = NULL;
    larder__disk *disk = conf->disk;
    disk_store *s = larder__calloc(1, sizeof *s);
    if (!s) {
        larder__disk_close(&disk);
        return LARDER_E_NOMEM;
    }
    pthread_mutex_init(&s->lock, NULL);
    s->disk = disk;
    s->slots = conf->slots;
    int rc = open_tables(s, conf);
    if (rc < 0)
        disk_close(&(void *){s});
    else
        *out = s;
    return rc;
}

const larder__disk *larder__disk_store_disk(const void *st) {
    return ((const disk_store *)st)->disk;
}

static void disk_note(void *st, char *out, size_t cap) {
    larder__disk_note(((disk_store *)st)->disk, out, cap);
}

const larder__store larder__store_disk = {
    .name = "disk",
    .real = true,
    .lasts = true,
    .slot_size = sizeof(uint32_t) + 2 + sizeof(larder_buf *),
    .close = disk_close,
    .put = disk_put,
    .get = disk_get,
    .drop = disk_drop,
    .find = disk_find,
    .place = disk_place,
    .send = disk_send,
    .receive = disk_receive,
    .note = disk_note,
};
