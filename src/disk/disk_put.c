/* Values that go to disk: a queue with a bound, and the one thread that writes, gives blocks out
 * and takes them back. */
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/world.h"
#include "disk/disk_inside.h"
#include "disk/disk_space.h"
#include "shared/value.h"

#include <string.h>

enum {
    QUEUE_BYTES = 64 << 20,
    BATCH_BYTES = 4 << 20, /* written at once; also how long a spare value may still be written */
    BUCKETS = 4096,
    LOCK_SECONDS = 2,
    WEAR_SECONDS = 10, /* of `wear` that may come in a burst */
    WASTE = 8,
    RAREST = 6, /* one in 2^6 of those that would displace something */
};

typedef struct item {
    struct item *next;  /* in order */
    struct item *chain; /* in its bucket */
    larder__value value;
    larder_buf *bytes; /* NULL: blocks to give back, no value */
    uint32_t blocks;
    uint64_t place;
    _Atomic bool spare;
    bool on_disk;
} item;

struct larder__disk_queue {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, settled;
    item *first, **last;
    item *buckets[BUCKETS]; /* by key: what waits or is being written */
    uint64_t bytes;         /* of both */
    uint64_t items;
    bool stop, ended;
    /* The thread's own. */
    double tokens, tokens_at;
    unsigned rare; /* of what would displace something, one in 2^rare is written */
    uint64_t turn, displacing, read_then; /* displacing: bytes that did, since the last look */
};

static item **bucket_of(larder__disk_queue *q, uint64_t key) {
    return &q->buckets[(key * 0x9e3779b97f4a7c15u) >> 52];
}

/* With the lock. */
static item *find(larder__disk_queue *q, uint64_t key) {
    item *i = *bucket_of(q, key);
    while (i && i->value.id != key)
        i = i->chain;
    return i;
}

/* Of another form a value has other bytes. */
static bool is_it(const item *i, const larder__value *v, uint64_t size) {
    return i->value.form == v->form && i->value.held == v->held && (!size || i->value.size == size);
}

static void append(larder__disk_queue *q, item *i) {
    *q->last = i;
    q->last = &i->next;
    q->items++;
    pthread_cond_signal(&q->work);
}

static void refuse(larder__disk *d) {
    atomic_fetch_add_explicit(&d->refused, 1, memory_order_relaxed);
}

/* ---- from outside ---------------------------------------------------------------------------- */

void larder__disk_put(larder__disk *d, const larder__value *v, larder_buf *bytes) {
    larder__disk_queue *q = d->queue;
    uint64_t size = larder_buf_size(bytes);
    uint32_t blocks = larder__disk_blocks_of(size);
    uint64_t word = v->id < d->own->keys ? atomic_load(&d->own->words[v->id]) : 0;
    if (word) {
        larder__disk_touch(d, v->id, word);
        return;
    }
    if (v->id >= d->own->keys || !blocks || larder__disk_lost(d) ||
        larder__disk_resting(&d->no_writes_until)) {
        refuse(d);
        return;
    }
    uint64_t whole = (uint64_t)blocks * LARDER__DISK_BLOCK;
    pthread_mutex_lock(&q->lock);
    item *i = find(q, v->id);
    if (i && is_it(i, v, size)) {
        i->spare = false;
    } else if (i) { /* what it was made of before, which is not to be written any more */
        refuse(d);
    } else if (q->bytes && q->bytes + whole > QUEUE_BYTES) {
        refuse(d);
    } else if ((i = larder__calloc(1, sizeof *i))) {
        i->value = *v;
        i->value.size = (uint32_t)size;
        i->value.mark = d->own->id; /* the data set's number: see disk_fetch.c */
        i->bytes = larder_buf_ref(bytes);
        i->blocks = blocks;
        i->chain = *bucket_of(q, v->id);
        *bucket_of(q, v->id) = i;
        q->bytes += whole;
        append(q, i);
    }
    pthread_mutex_unlock(&q->lock);
}

void larder__disk_queue_spare(larder__disk *d, uint64_t key) {
    larder__disk_queue *q = d->queue;
    pthread_mutex_lock(&q->lock);
    item *i = q->bytes ? find(q, key) : NULL;
    if (i)
        i->spare = true;
    pthread_mutex_unlock(&q->lock);
}

larder_buf *larder__disk_queued(larder__disk *d, const larder__value *v) {
    larder__disk_queue *q = d->queue;
    pthread_mutex_lock(&q->lock);
    item *i = q->bytes ? find(q, v->id) : NULL;
    larder_buf *out = i && is_it(i, v, v->size) ? larder_buf_ref(i->bytes) : NULL;
    pthread_mutex_unlock(&q->lock);
    return out;
}

void larder__disk_queue_return(larder__disk *d, uint64_t place, uint32_t blocks) {
    item *i = larder__calloc(1, sizeof *i);
    if (!i) {
        atomic_store(&d->folder->lost, true);
        return;
    }
    i->place = place;
    i->blocks = blocks;
    pthread_mutex_lock(&d->queue->lock);
    append(d->queue, i);
    pthread_mutex_unlock(&d->queue->lock);
}

bool larder__disk_settle(larder__disk *d, double seconds) {
    larder__disk_queue *q = d->queue;
    struct timespec until = larder__timespec_of(larder__world_now() + seconds);
    pthread_mutex_lock(&q->lock);
    int rc = 0;
    while (q->items && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&q->settled, &q->lock, &until);
    bool done = q->items == 0;
    pthread_mutex_unlock(&q->lock);
    return done;
}

/* ---- what is worth a write ------------------------------------------------------------------- */

static bool wear_allows(larder__disk *d, uint64_t bytes) {
    larder__disk_queue *q = d->queue;
    if (d->wear <= 0)
        return true;
    double now = larder__world_now(), most = d->wear * WEAR_SECONDS;
    q->tokens += (now - q->tokens_at) * d->wear;
    q->tokens_at = now;
    if (q->tokens > most)
        q->tokens = most;
    return q->tokens >= (double)bytes;
}

/* Values that displace others do not pay where they write WASTE times more than is read, as under a
 * shuffled order with a cache that keeps the latest: judged anew whenever both together come to a
 * sixteenth of the folder. */
static bool worth_displacing(larder__disk *d) {
    larder__disk_queue *q = d->queue;
    uint64_t all_read = atomic_load(&d->read_bytes), read = all_read - q->read_then;
    if (q->displacing + read > larder__disk_room(d) / 16) {
        bool waste = q->displacing > WASTE * read;
        if (waste && q->rare < RAREST)
            q->rare++;
        else if (!waste && q->rare > 0)
            q->rare--;
        q->displacing = 0;
        q->read_then = all_read;
    }
    return (q->turn++ & ((1u << q->rare) - 1)) == 0;
}

/* ---- a batch --------------------------------------------------------------------------------- */

/* While giving. */
static void find_place(larder__disk *d, item *i) {
    uint64_t bytes = (uint64_t)i->blocks * LARDER__DISK_BLOCK;
    i->place = LARDER__DISK_NOWHERE;
    if (i->spare || atomic_load(&d->own->words[i->value.id]) || !wear_allows(d, bytes))
        return;
    i->place = larder__disk_take(d->folder, i->blocks);
    if (i->place == LARDER__DISK_NOWHERE && worth_displacing(d)) {
        i->place = larder__disk_take_spare(d->folder, i->blocks);
        d->queue->displacing += i->place != LARDER__DISK_NOWHERE ? bytes : 0;
    }
    if (i->place != LARDER__DISK_NOWHERE)
        d->queue->tokens -= (double)bytes;
}

static void fill(unsigned char *to, const item *i) {
    size_t size = i->value.size, whole = (size_t)i->blocks * LARDER__DISK_BLOCK;
    const void *bytes = larder_buf_data(i->bytes);
    larder__value_write(to, &i->value, bytes);
    if (size)
        memcpy(to + LARDER__VALUE_HEAD, bytes, size);
    memset(to + LARDER__VALUE_HEAD + size, 0, whole - LARDER__VALUE_HEAD - size);
}

static bool is_placed(const item *i) {
    return i->bytes && !i->on_disk && i->place != LARDER__DISK_NOWHERE;
}

/* Those from `i` on that lie side by side, in one write: 0, or an errno. */
static int write_run(larder__disk *d, item *i) {
    uint64_t place = i->place;
    uint32_t blocks = 0;
    const item *stop = i;
    for (; stop && (!is_placed(stop) || stop->place == place + blocks); stop = stop->next)
        blocks += is_placed(stop) ? stop->blocks : 0;
    larder__disk_span *s = larder__disk_span_get(d->pool, blocks);
    if (!s)
        return ENOMEM;
    unsigned char *to = s->bytes;
    for (const item *j = i; j != stop; j = j->next)
        if (is_placed(j)) {
            fill(to, j);
            to += (size_t)j->blocks * LARDER__DISK_BLOCK;
        }
    int err =
        larder__disk_write_at(d->folder->data_file, s->bytes, (size_t)blocks * LARDER__DISK_BLOCK,
                              (off_t)(place * LARDER__DISK_BLOCK));
    larder__disk_span_back(s);
    for (item *j = i; !err && j != stop; j = j->next)
        j->on_disk = is_placed(j);
    return err;
}

/* An entry is made only where none is: somebody else may have been faster. */
static bool enter(larder__disk *d, const item *i) {
    larder__disk_head *h = d->folder->head;
    uint64_t era = i->spare ? 0 : atomic_load(&h->era), nothing = 0;
    uint64_t word = larder__disk_word(d->own->id, i->value.id, i->place, i->blocks, era);
    if (!atomic_compare_exchange_strong(&d->own->words[i->value.id], &nothing, word))
        return false;
    atomic_fetch_add_explicit(&h->entries, 1, memory_order_relaxed);
    if (era == 0)
        atomic_fetch_add_explicit(&h->spared, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&d->writes, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&d->written_bytes, (uint64_t)i->blocks * LARDER__DISK_BLOCK,
                              memory_order_relaxed);
    return true;
}

static void write_and_enter(larder__disk *d, item *first) {
    int err = 0;
    for (item *i = first; i && !err; i = i->next)
        if (is_placed(i))
            err = write_run(d, i);
    if (err)
        larder__disk_rest(d, &d->no_writes_until,
                          "writing failed (%s), so nothing is written for %d s; what is there is "
                          "read all the same",
                          strerror(err), LARDER__DISK_REST);
    for (item *i = first; i; i = i->next)
        if (i->on_disk && enter(d, i))
            i->place = LARDER__DISK_NOWHERE; /* the entry's from now on */
}

static int give_out(larder__disk *d, item *first) {
    int rc = larder__disk_giving(d->folder, LOCK_SECONDS);
    if (rc < 0)
        return rc;
    for (item *i = first; i; i = i->next) {
        if (i->bytes)
            find_place(d, i);
        if (i->bytes && i->place == LARDER__DISK_NOWHERE)
            refuse(d);
    }
    larder__disk_given(d->folder);
    return 0;
}

static void give_back(larder__disk *d, const item *first) {
    bool any = false;
    for (const item *i = first; i; i = i->next)
        any |= i->place != LARDER__DISK_NOWHERE;
    if (!any)
        return;
    if (larder__disk_giving(d->folder, LOCK_SECONDS) < 0) {
        atomic_store(&d->folder->lost, true);
        return;
    }
    for (const item *i = first; i; i = i->next)
        if (i->place != LARDER__DISK_NOWHERE)
            larder__disk_give(d->folder, i->place, i->blocks);
    larder__disk_given(d->folder);
}

static void do_batch(larder__disk *d, item *first) {
    larder__disk_folder *f = d->folder;
    int rc = larder__disk_lock_take(f, DISK_WRITING, true, LOCK_SECONDS);
    if (rc == 0) {
        rc = give_out(d, first);
        if (rc == 0)
            rc = larder__disk_whole(f); /* else blocks that look free may be another's */
        if (rc == 0) {
            write_and_enter(d, first);
            give_back(d, first);
        }
        larder__disk_lock_drop(f, DISK_WRITING);
    }
    if (rc < 0) {
        atomic_store(&f->lost, true);
        if (!larder__disk_lost(d))
            larder__disk_rest(d, &d->no_writes_until, "nothing is written for %d s: %s",
                              LARDER__DISK_REST, larder_errmsg());
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* With the lock: what is written next, out of the queue but still to be found by key. */
static item *next_batch(larder__disk_queue *q) {
    uint64_t bytes = 0;
    item *first = q->first, **end = &q->first;
    while (*end && bytes < BATCH_BYTES) {
        bytes += (uint64_t)(*end)->blocks * LARDER__DISK_BLOCK;
        end = &(*end)->next;
    }
    q->first = *end;
    *end = NULL;
    if (!q->first)
        q->last = &q->first;
    return first;
}

/* With the lock. */
static void forget(larder__disk_queue *q, item *i) {
    if (i->bytes) {
        item **at = bucket_of(q, i->value.id);
        while (*at != i)
            at = &(*at)->chain;
        *at = i->chain;
        q->bytes -= (uint64_t)i->blocks * LARDER__DISK_BLOCK;
        larder_buf_unref(&i->bytes);
    }
    q->items--;
    larder__free(i);
}

static void forget_all(larder__disk_queue *q, item *first) {
    for (item *i = first, *next; i; i = next) {
        next = i->next;
        forget(q, i);
    }
    if (q->items == 0)
        pthread_cond_broadcast(&q->settled);
}

static void *run(void *arg) {
    larder__disk *d = arg;
    larder__disk_queue *q = d->queue;
    pthread_mutex_lock(&q->lock);
    for (;;) {
        while (!q->first && !q->stop)
            pthread_cond_wait(&q->work, &q->lock);
        if (q->stop)
            break;
        item *batch = next_batch(q);
        pthread_mutex_unlock(&q->lock);
        do_batch(d, batch);
        pthread_mutex_lock(&q->lock);
        forget_all(q, batch);
    }
    q->ended = true;
    pthread_cond_broadcast(&q->settled);
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

int larder__disk_queue_open(larder__disk *d) {
    larder__disk_queue *q = larder__calloc(1, sizeof *q);
    if (!q)
        return LARDER_E_NOMEM;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->work, &monotonic);
    pthread_cond_init(&q->settled, &monotonic);
    pthread_condattr_destroy(&monotonic);
    q->last = &q->first;
    q->tokens_at = larder__world_now();
    q->tokens = d->wear * WEAR_SECONDS;
    d->queue = q;
    int rc = pthread_create(&q->thread, NULL, run, d);
    if (rc) {
        q->ended = true;
        larder__disk_queue_close(d);
        return larder__fail(LARDER_E_NOMEM, "no thread to be had: %s", strerror(rc));
    }
    return 0;
}

bool larder__disk_queue_close(larder__disk *d) {
    larder__disk_queue *q = d->queue;
    bool begun = !q->ended;
    if (begun)
        larder__disk_settle(d, 1);
    struct timespec until = larder__timespec_of(larder__world_now() + 2 * LOCK_SECONDS);
    pthread_mutex_lock(&q->lock);
    q->stop = true;
    pthread_cond_signal(&q->work);
    for (int rc = 0; !q->ended && rc != ETIMEDOUT;)
        rc = pthread_cond_timedwait(&q->settled, &q->lock, &until);
    bool ended = q->ended;
    pthread_mutex_unlock(&q->lock);
    if (!ended) {
        pthread_detach(q->thread);
        return false;
    }
    if (begun)
        pthread_join(q->thread, NULL);
    if (q->first)
        atomic_store(&d->folder->lost, true); /* perhaps blocks that were to be given back */
    forget_all(q, q->first);
    pthread_cond_destroy(&q->work);
    pthread_cond_destroy(&q->settled);
    pthread_mutex_destroy(&q->lock);
    larder__free(q);
    d->queue = NULL;
    return true;
}
