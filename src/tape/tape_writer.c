#include "tape/tape.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENOUGH = 256 << 10 };        /* bytes that make a block */
static const double patience = 1.0; /* seconds after which less is one too */

struct larder__tape_writer {
    pthread_mutex_t lock;
    int fd; /* -1: it has ended early, `why` says why */
    bool plain;
    char path[4096], why[512];
    larder_writer buffer; /* the block that is gathered, its frame first */
    uint64_t blocks, written, batches;
    double since; /* when the first record came into the block */
    unsigned width;
    uint8_t *seen; /* a bit an id: its size is on the tape */
};

uint64_t larder__tape_hash(uint64_t block, const void *payload, size_t n) {
    return larder__hash_bytes(block + 1, payload, n);
}

unsigned larder__tape_width(uint64_t samples) {
    unsigned width = 1;
    while (width < 32 && (uint64_t)1 << width < samples)
        width++;
    return width;
}

/* ---- putting out ----------------------------------------------------------------------------- */

static void begin_block(larder__tape_writer *t) {
    t->buffer.size = 0;
    larder__write_space(&t->buffer, LARDER__TAPE_FRAME);
}

/* What was put out before stays readable: a block that came half is cut off again. */
static void give_up(larder__tape_writer *t, const char *why) {
    snprintf(t->why, sizeof t->why, "%.300s: recording ended after %llu batches: %s", t->path,
             (unsigned long long)t->batches, why);
    if (t->fd >= 0) {
        if (t->plain && ftruncate(t->fd, (off_t)t->written) != 0)
            (void)0; /* the reader leaves out a torn tail as well */
        close(t->fd);
    }
    t->fd = -1;
}

static int put_out(larder__tape_writer *t, const unsigned char *bytes, size_t n) {
    for (size_t at = 0; at < n;) {
        ssize_t put = write(t->fd, bytes + at, n - at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? errno : EIO;
        at += (size_t)put;
    }
    t->written += n;
    return 0;
}

static void set_le(unsigned char *to, uint64_t v, size_t n) {
    for (size_t i = 0; i < n; i++)
        to[i] = (unsigned char)(v >> (8 * i));
}

static void end_block(larder__tape_writer *t) {
    larder_writer *b = &t->buffer;
    if (t->fd < 0 || (b->size <= LARDER__TAPE_FRAME && b->code == 0))
        return;
    if (b->code < 0 || b->size - LARDER__TAPE_FRAME > LARDER__TAPE_BLOCK_MAX) {
        give_up(t, "no memory");
        return;
    }
    size_t n = b->size - LARDER__TAPE_FRAME;
    set_le(b->bytes, n, 4);
    set_le(b->bytes + 4, larder__tape_hash(t->blocks, b->bytes + LARDER__TAPE_FRAME, n), 8);
    int err = put_out(t, b->bytes, b->size);
    if (err)
        give_up(t, strerror(err));
    t->blocks++;
    begin_block(t);
}

void larder__tape_flush(larder__tape_writer *t) {
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    if (t->buffer.size >= ENOUGH || t->buffer.code < 0 ||
        (t->buffer.size > LARDER__TAPE_FRAME && larder__now() > t->since + patience))
        end_block(t);
    pthread_mutex_unlock(&t->lock);
}

uint64_t larder__tape_written(larder__tape_writer *t, char *why, size_t cap) {
    if (!t)
        return 0;
    pthread_mutex_lock(&t->lock);
    uint64_t written = t->written;
    if (cap)
        snprintf(why, cap, "%s", t->why);
    pthread_mutex_unlock(&t->lock);
    return written;
}

/* ---- records --------------------------------------------------------------------------------- */

/* With the lock held after it, where there is something to write on. */
static bool begin(larder__tape_writer *t, larder__tape_tag tag) {
    if (!t)
        return false;
    pthread_mutex_lock(&t->lock);
    if (t->fd < 0) {
        pthread_mutex_unlock(&t->lock);
        return false;
    }
    if (t->buffer.size <= LARDER__TAPE_FRAME)
        t->since = larder__now();
    unsigned char byte = (unsigned char)tag;
    larder_write_bytes(&t->buffer, &byte, 1);
    return true;
}

static void put_count(larder_writer *w, uint64_t v) {
    unsigned char b[10];
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        b[n++] = (unsigned char)(v | 0x80);
    b[n++] = (unsigned char)v;
    larder_write_bytes(w, b, n);
}

static void put_f32(larder_writer *w, float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    larder_write_u32(w, bits);
}

static void put_losses(larder_writer *w, const float *loss, size_t n) {
    for (size_t i = 0; i < n; i++)
        put_f32(w, loss[i]);
}

/* Values of `width` bits each, the lowest bits first. */
typedef struct bits {
    larder_writer *to;
    uint64_t held;
    unsigned count;
} bits;

static void put_bits(bits *b, uint64_t v, unsigned width) {
    b->held |= v << b->count;
    for (b->count += width; b->count >= 8; b->count -= 8, b->held >>= 8) {
        unsigned char byte = (unsigned char)b->held;
        larder_write_bytes(b->to, &byte, 1);
    }
}

static void end_bits(bits *b) {
    if (b->count)
        put_bits(b, 0, 8 - b->count);
}

static void put_ids(const larder__tape_writer *t, larder_writer *w, const uint64_t *ids, size_t n) {
    bits b = {.to = w};
    for (size_t i = 0; i < n; i++)
        put_bits(&b, ids[i], t->width);
    end_bits(&b);
}

static void put_label(larder_writer *w, int64_t label) {
    put_count(w, label >= 0 && label < INT32_MAX ? (uint64_t)label + 1 : 0);
}

/* Sizes and classes of the ids that come for the first time, in their order. */
static void put_news(larder__tape_writer *t, uint64_t id, const larder__tape_rows *r) {
    uint8_t bit = (uint8_t)(1u << (id & 7));
    if (t->seen[id >> 3] & bit)
        return;
    t->seen[id >> 3] |= bit;
    int64_t label = -1;
    put_count(&t->buffer, r->about(r->arg, id, &label));
    put_label(&t->buffer, label);
}

static bool served_apart(uint8_t kind) {
    return kind == LARDER_SUBSTITUTE || kind == LARDER_REPLACED;
}

static void put_rows(larder__tape_writer *t, size_t n, const larder__tape_rows *r) {
    larder_writer *w = &t->buffer;
    put_ids(t, w, r->ids, n);
    bits kinds = {.to = w};
    for (size_t i = 0; i < n; i++)
        put_bits(&kinds, r->kinds[i] & 3, 2);
    end_bits(&kinds);
    bits apart = {.to = w};
    for (size_t i = 0; i < n; i++)
        if (served_apart(r->kinds[i]))
            put_bits(&apart, r->served[i], t->width);
    end_bits(&apart);
    for (size_t i = 0; i < n; i++) {
        put_news(t, r->ids[i], r);
        put_news(t, r->served[i], r);
    }
}

void larder__tape_add_batch(larder__tape_writer *t, const larder__tape_batch *b,
                            const larder__tape_rows *r) {
    if (!begin(t, LARDER__TAPE_BATCH))
        return;
    larder_writer *w = &t->buffer;
    put_count(w, b->number);
    put_count(w, b->epoch);
    put_count(w, b->length);
    put_count(w, b->n);
    put_count(w, (uint64_t)b->first | (uint64_t)b->last << 1);
    put_f32(w, (float)b->waited);
    put_f32(w, (float)b->starved);
    put_f32(w, (float)b->stepped);
    larder_write_f64(w, b->pace.read_seconds);
    larder_write_f64(w, b->pace.step_seconds);
    larder_write_f64(w, b->pace.trained);
    larder_write_f64(w, b->pace.waited);
    put_count(w, b->read_bytes);
    put_count(w, b->fetched);
    put_count(w, b->fetched_bytes);
    put_rows(t, b->n, r);
    t->batches++;
    pthread_mutex_unlock(&t->lock);
}

/* A label beyond 31 bits is none. */
void larder__tape_add_classes(larder__tape_writer *t, uint64_t first, const int64_t *labels,
                              size_t n) {
    if (!begin(t, LARDER__TAPE_CLASSES))
        return;
    put_count(&t->buffer, first);
    put_count(&t->buffer, n);
    for (size_t i = 0; i < n; i++)
        put_label(&t->buffer, labels[i]);
    pthread_mutex_unlock(&t->lock);
}

void larder__tape_add_turn(larder__tape_writer *t, const larder_turn *turn) {
    if (!begin(t, LARDER__TAPE_TURN))
        return;
    put_count(&t->buffer, turn->batch);
    larder_write_f64(&t->buffer, turn->value);
    pthread_mutex_unlock(&t->lock);
}

void larder__tape_add_losses(larder__tape_writer *t, uint64_t batch, const float *loss, size_t n) {
    if (!begin(t, LARDER__TAPE_LOSSES))
        return;
    put_count(&t->buffer, batch);
    put_count(&t->buffer, n);
    put_losses(&t->buffer, loss, n);
    pthread_mutex_unlock(&t->lock);
}

void larder__tape_add_accuracy(larder__tape_writer *t, uint64_t batch, double accuracy) {
    if (!begin(t, LARDER__TAPE_ACCURACY))
        return;
    put_count(&t->buffer, batch);
    larder_write_f64(&t->buffer, accuracy);
    pthread_mutex_unlock(&t->lock);
}

static void add_by_id(larder__tape_writer *t, larder__tape_tag tag, uint64_t number,
                      const uint64_t *ids, const float *loss, size_t n) {
    if (!begin(t, tag))
        return;
    put_count(&t->buffer, number);
    put_count(&t->buffer, n);
    put_ids(t, &t->buffer, ids, n);
    put_losses(&t->buffer, loss, n);
    pthread_mutex_unlock(&t->lock);
}

void larder__tape_add_rows(larder__tape_writer *t, uint64_t batch, const uint64_t *ids,
                           const float *loss, size_t n) {
    add_by_id(t, LARDER__TAPE_ROWS, batch, ids, loss, n);
}

void larder__tape_add_looked(larder__tape_writer *t, uint64_t epoch, const uint64_t *ids,
                             const float *loss, size_t n) {
    add_by_id(t, LARDER__TAPE_LOOKED, epoch, ids, loss, n);
}

void larder__tape_add_epoch(larder__tape_writer *t, const larder_figures *f, double seconds) {
    if (!begin(t, LARDER__TAPE_EPOCH))
        return;
    const uint64_t all[] = {f->epoch,
                            f->served,
                            f->hits,
                            f->substitutes,
                            f->repeats,
                            f->misses,
                            f->background_reads,
                            f->storage_bytes,
                            f->bad,
                            f->evaluated,
                            f->evaluation_reads,
                            f->scratch_reads,
                            f->scratch_bytes,
                            f->scratch_written,
                            f->form_hits[LARDER_ENCODED] + f->form_hits[LARDER_SHRUNK],
                            f->form_hits[1],
                            f->form_hits[2]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        put_count(&t->buffer, all[i]);
    larder_write_f64(&t->buffer, f->touched);
    larder_write_f64(&t->buffer, seconds);
    end_block(t); /* an epoch that is over is on the tape */
    pthread_mutex_unlock(&t->lock);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void put_job(larder_writer *w, const larder__tape_job *j) {
    unsigned char tag = LARDER__TAPE_JOB;
    larder_write_bytes(w, &tag, 1);
#define PUT_text(name) larder__write_text(w, j->name);
#define PUT_u64(name) larder_write_u64(w, j->name);
#define PUT_f64(name) larder_write_f64(w, j->name);
#define XX(kind, name) PUT_##kind(name)
    LARDER__TAPE_FIELDS(XX)
#undef XX
}

/* %p and %r filled in. */
static int make_path(char out[4096], const char *pattern, uint64_t rank) {
    size_t at = 0;
    for (const char *p = pattern; *p && at < 4095; p++) {
        bool process = p[0] == '%' && p[1] == 'p', number = p[0] == '%' && p[1] == 'r';
        if (process || number)
            at += (size_t)snprintf(out + at, 4096 - at, "%llu",
                                   (unsigned long long)(process ? (uint64_t)getpid() : rank));
        else
            out[at++] = *p;
        p += process || number;
    }
    if (at >= 4095)
        return larder__fail(LARDER_E_ARGS, "the name of the file to record to is too long");
    out[at] = 0;
    return 0;
}

static int fail_errno(const char *path, const char *what) {
    int err = errno;
    return larder__fail(larder__code_of_errno(err), "%s: %s: %s", path, what, strerror(err));
}

/* Somebody's holiday pictures are not to be lost to a slip in the command line. */
static int take_file(larder__tape_writer *t) {
    struct stat st;
    char head[sizeof LARDER__TAPE_MAGIC] = "";
    if (fstat(t->fd, &st) != 0)
        return fail_errno(t->path, "cannot be looked at");
    t->plain = S_ISREG(st.st_mode);
    if (!t->plain)
        return 0;
    if (flock(t->fd, LOCK_EX | LOCK_NB) != 0)
        return larder__fail(LARDER_E_STATE,
                            "%s: another loader records there; %%p in the name stands for the "
                            "process, %%r for the rank",
                            t->path);
    ssize_t got = larder__read_some(t->fd, head, 8);
    if (lseek(t->fd, 0, SEEK_SET) != 0)
        return fail_errno(t->path, "cannot be read");
    if (got != 0 && (got < 8 || memcmp(head, LARDER__TAPE_MAGIC, 8) != 0))
        return larder__fail(LARDER_E_ARGS,
                            "%s: is there and is no record of larder; it is left alone", t->path);
    return ftruncate(t->fd, 0) == 0 ? 0 : fail_errno(t->path, "cannot be emptied");
}

/* A disk that is full already ends the tape, not the job. */
static void start(larder__tape_writer *t, const larder__tape_job *job) {
    unsigned char head[LARDER__TAPE_HEAD] = LARDER__TAPE_MAGIC;
    set_le(head + 8, LARDER__TAPE_VERSION, 4);
    int err = put_out(t, head, sizeof head);
    if (err) {
        give_up(t, strerror(err));
        return;
    }
    begin_block(t);
    put_job(&t->buffer, job);
    end_block(t);
}

int larder__tape_create(larder__tape_writer **out, const char *path, const larder__tape_job *job) {
    *out = NULL;
    larder__tape_writer *t = larder__calloc(1, sizeof *t);
    if (!t)
        return LARDER_E_NOMEM;
    pthread_mutex_init(&t->lock, NULL);
    t->fd = -1;
    t->width = larder__tape_width(job->samples);
    int rc = make_path(t->path, path, job->rank);
    if (rc == 0 && !(t->seen = larder__calloc(job->samples / 8 + 1, 1)))
        rc = LARDER_E_NOMEM;
    if (rc == 0)
        rc = larder__stream_open(&t->fd, t->path, O_RDWR);
    if (rc == 0)
        rc = take_file(t);
    if (rc == 0)
        start(t, job);
    if (rc < 0) {
        larder__tape_finish(&t);
        return rc;
    }
    *out = t;
    return 0;
}

void larder__tape_finish(larder__tape_writer **pt) {
    larder__tape_writer *t = *pt;
    *pt = NULL;
    if (!t)
        return;
    if (t->blocks && begin(t, LARDER__TAPE_END)) {
        put_count(&t->buffer, t->batches);
        end_block(t);
        pthread_mutex_unlock(&t->lock);
    }
    if (t->fd >= 0)
        close(t->fd);
    larder__writer_free(&t->buffer);
    larder__free(t->seen);
    pthread_mutex_destroy(&t->lock);
    larder__free(t);
}
