/* Values that come back from disk. */
#include "base/err.h"
#include "base/mem.h"
#include "base/world.h"
#include "disk/disk_inside.h"
#include "shared/value.h"

#include <string.h>

struct larder__disk_fetch {
    larder__disk_job job; /* first: the reader knows it by that */
    _Atomic uint32_t refs;
    larder__value asked;
    uint8_t held;
    bool sent;
    bool given_up; /* the read may still come, so its memory is not used again */
    uint64_t word;
    double sent_at;
    larder__disk_span *span;
};

larder__disk_fetch *larder__disk_fetch_new(const larder__value *asked) {
    larder__disk_fetch *f = larder__calloc(1, sizeof *f);
    if (!f)
        return NULL;
    atomic_init(&f->refs, 1);
    f->asked = *asked;
    f->held = asked->held;
    return f;
}

void larder__disk_fetch_unref(larder__disk_fetch **pf) {
    larder__disk_fetch *f = *pf;
    *pf = NULL;
    if (!f || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (f->span)
        larder__disk_span_back(f->span);
    larder__free(f);
}

uint8_t larder__disk_fetch_held(const larder__disk_fetch *f) { return f->held; }

/* ---- sending --------------------------------------------------------------------------------- */

static void read_done(larder__disk_job *j) {
    larder__disk_fetch *f = (larder__disk_fetch *)j;
    larder__disk_fetch_unref(&f);
}

/* Is there something to read? Then it knows where and into which memory. */
static bool prepare(larder__disk *d, larder__disk_fetch *f) {
    uint64_t key = f->asked.id;
    f->sent = false;
    f->word = key < d->own->keys && !f->given_up ? atomic_load(&d->own->words[key]) : 0;
    if (!f->word)
        return false;
    uint64_t limit = atomic_load_explicit(&d->folder->head->limit, memory_order_relaxed);
    if (larder__disk_gone(d->folder))
        return false; /* the limit may be none */
    f->job.bytes = 0; /* garbage is seen as such when it is taken */
    f->job.got = 0;
    f->job.over = true;
    f->sent = true;
    if (!larder__disk_word_fits(f->word, d->own->id, key, limit))
        return false;
    uint32_t blocks = larder__disk_blocks(f->word);
    if (f->span && f->span->blocks < blocks) {
        larder__disk_span_back(f->span);
        f->span = NULL;
    }
    if (!f->span)
        f->span = larder__disk_span_get(d->pool, blocks);
    if (!f->span) {
        f->sent = false;
        return false;
    }
    f->job.into = f->span->bytes;
    f->job.bytes = (size_t)blocks * LARDER__DISK_BLOCK;
    f->job.at = (off_t)(larder__disk_place(f->word) * LARDER__DISK_BLOCK);
    f->job.done = read_done;
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    return true;
}

void larder__disk_send(larder__disk *d, larder__disk_fetch *const *all, size_t n) {
    if (larder__disk_resting(&d->no_reads_until) || larder__disk_lost(d)) {
        for (size_t i = 0; i < n; i++)
            all[i]->sent = false;
        return;
    }
    enum { AT_ONCE = 256 };
    larder__disk_job *jobs[AT_ONCE];
    size_t count = 0;
    double now = larder__world_now();
    for (size_t i = 0; i < n; i++) {
        all[i]->sent_at = now;
        if (prepare(d, all[i]))
            jobs[count++] = &all[i]->job;
        if (count == AT_ONCE || (count && i + 1 == n)) {
            larder__disk_reader_send(d->reader, jobs, count);
            count = 0;
        }
    }
}

/* ---- receiving ------------------------------------------------------------------------------- */

typedef enum verdict { SOUND, OTHER, DAMAGED } verdict; /* OTHER: whole, but not what was asked */

static verdict judge(larder__disk *d, larder__disk_fetch *f) {
    const unsigned char *head = f->span ? f->span->bytes : NULL;
    if (!head || f->job.bytes < LARDER__VALUE_HEAD)
        return DAMAGED;
    uint64_t size = larder__value_size(head);
    if (size > f->job.bytes - LARDER__VALUE_HEAD || larder__disk_value_bytes(size) != f->job.bytes)
        return DAMAGED;
    /* The data set's own number stands where other places have the making. */
    larder__value asked = f->asked;
    asked.mark = d->own->id;
    asked.size = asked.size ? asked.size : UINT32_MAX;
    bool fits = larder__value_fits(head, &asked, size);
    if (!larder__value_sound(head, head + LARDER__VALUE_HEAD, size))
        return DAMAGED;
    return fits ? SOUND : OTHER;
}

/* What an entry names is not the value. False: the entry has changed meanwhile, look again. */
static bool take_out(larder__disk *d, larder__disk_fetch *f, verdict v) {
    uint64_t key = f->asked.id, now = atomic_load(&d->own->words[key]);
    while (now && larder__disk_in_era(now, 0) == larder__disk_in_era(f->word, 0)) {
        if (!atomic_compare_exchange_weak(&d->own->words[key], &now, 0))
            continue;
        atomic_fetch_sub_explicit(&d->folder->head->entries, 1, memory_order_relaxed);
        if (v == DAMAGED)
            atomic_fetch_add_explicit(&d->damaged, 1, memory_order_relaxed);
        if (f->job.bytes) /* else its place is not to be believed */
            larder__disk_queue_return(d, larder__disk_place(now), larder__disk_blocks(now));
        return true;
    }
    return now == 0;
}

static larder_buf *take_in(larder__disk *d, larder__disk_fetch *f) {
    larder__disk_head *h = d->folder->head;
    uint32_t size = larder__value_size(f->span->bytes);
    f->held = larder__value_held(f->span->bytes);
    larder__disk_touch(d, f->asked.id, f->word);
    atomic_fetch_add_explicit(&h->touched, f->job.bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&d->reads, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&d->read_bytes, f->job.bytes, memory_order_relaxed);
    larder__disk_span *s = f->span;
    f->span = NULL;
    return larder__disk_span_hand_out(s, LARDER__VALUE_HEAD, size);
}

/* Waits, and reads what is missing of it: 0, or an errno. */
static int complete(larder__disk *d, larder__disk_fetch *f) {
    larder__disk_job *j = &f->job;
    f->given_up = !larder__disk_reader_wait(d->reader, j, f->sent_at + d->patience);
    if (f->given_up)
        return ETIMEDOUT;
    if (j->got < 0 && j->got != -EINTR && j->got != -EAGAIN)
        return (int)-j->got;
    size_t got = j->got > 0 ? (size_t)j->got : 0;
    if (got >= j->bytes)
        return 0;
    got = got / LARDER__DISK_BLOCK * LARDER__DISK_BLOCK; /* as direct reads want it */
    int err = larder__disk_read_at(d->folder->data_file, f->span->bytes + got, j->bytes - got,
                                   j->at + (off_t)got);
    if (err == ENODATA) { /* `data` is shorter now: nothing there is the value */
        memset(f->span->bytes, 0, j->bytes);
        err = 0;
    }
    return err;
}

size_t larder__disk_any(larder__disk *d, larder__disk_fetch *const *all, size_t n) {
    enum { AT_ONCE = 256 };
    larder__disk_job *jobs[AT_ONCE];
    if (n > AT_ONCE)
        n = AT_ONCE; /* one of the first is as good */
    for (size_t i = 0; i < n; i++) {
        if (!all[i]->sent)
            return i; /* it was not there, so nothing is to come */
        jobs[i] = &all[i]->job;
    }
    size_t i =
        n ? larder__disk_reader_wait_any(d->reader, jobs, n, all[0]->sent_at + d->patience) : 0;
    return i < n ? i : 0; /* receiving it says that it took too long */
}

larder_buf *larder__disk_receive(larder__disk *d, larder__disk_fetch *f) {
    for (int attempt = 0; f->sent && attempt < 3; attempt++) {
        f->sent = false;
        int err = complete(d, f);
        if (err) {
            if (err != ECANCELED)
                larder__disk_rest(d, &d->no_reads_until,
                                  "reading failed (%s), so the disk is left alone for %d s",
                                  err == ETIMEDOUT ? "it takes too long" : strerror(err),
                                  LARDER__DISK_REST);
            return NULL;
        }
        verdict v = judge(d, f);
        if (v == SOUND)
            return take_in(d, f);
        if (take_out(d, f, v))
            return NULL;
        larder__disk_send(d, &f, 1); /* it was moved, or written again */
    }
    return NULL;
}
