#include "tape/tape.h"

#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>

/* Arrays grow by halves, and a record never asks for more than its block could hold, so that a
 * file of a kilobyte cannot make us ask for gigabytes. */
typedef struct parser {
    larder__tape *out;
    const char *where;
    larder_reader r; /* of the block under way */
    uint64_t blocks;
    unsigned width;
    uint64_t batch_room, row_room, epoch_room, turn_room, looked_room, looked_row_room;
    uint64_t *row_of; /* by id: a row that served it; NULL: not needed yet */
} parser;

static int bad(parser *p, const char *why) {
    return larder__fail(LARDER_E_FORMAT, "%s: block %llu: %s", p->where,
                        (unsigned long long)p->blocks, why);
}

/* ---- values ---------------------------------------------------------------------------------- */

static uint64_t get_count(larder_reader *r) {
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        unsigned char b = 0;
        larder_read_bytes(r, &b, 1);
        if (shift == 63 && b > 1)
            break;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return v;
    }
    larder_read_reject(r, "a count is too long");
    return 0;
}

static float get_f32(larder_reader *r) {
    uint32_t bits = larder_read_u32(r);
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static double get_seconds(double v) { return v >= 0 && v < 1e12 ? v : 0; }

typedef struct bits {
    larder_reader *from;
    uint64_t held;
    unsigned count;
} bits;

static uint64_t get_bits(bits *b, unsigned width) {
    while (b->count < width) {
        unsigned char byte = 0;
        larder_read_bytes(b->from, &byte, 1);
        b->held |= (uint64_t)byte << b->count;
        b->count += 8;
    }
    uint64_t v = b->held & (((uint64_t)1 << width) - 1);
    b->held >>= width;
    b->count -= width;
    return v;
}

static uint32_t get_id(parser *p, bits *b) {
    uint64_t id = get_bits(b, p->width);
    if (id >= p->out->job.samples) {
        larder_read_reject(&p->r, "an id is beyond the data set");
        return 0;
    }
    return (uint32_t)id;
}

/* Room for `more` elements beyond `have`, maybe elsewhere; NULL: none. *room counts them. */
static void *grow(void *at, uint64_t *room, uint64_t have, uint64_t more, size_t each) {
    if (at && have + more <= *room)
        return at;
    uint64_t want = have + more + (have >> 1) + 16;
    void *grown = want < SIZE_MAX / each ? larder__realloc(at, (size_t)want * each) : NULL;
    if (grown)
        *room = want;
    return grown;
}
#define GROW(array, room, have, more)                                                              \
    ((grown = grow((array), (room), (have), (more), sizeof *(array))) ? ((array) = grown, 0)       \
                                                                      : LARDER_E_NOMEM)

/* ---- records --------------------------------------------------------------------------------- */

static int read_job(parser *p) {
    larder__tape *t = p->out;
    larder__tape_job *j = &t->job;
    unsigned char tag = 0;
    larder_read_bytes(&p->r, &tag, 1);
    if (tag != LARDER__TAPE_JOB)
        return bad(p, "does not say what was recorded");
#define GET_text(name) larder__read_text(&p->r, j->name, sizeof j->name);
#define GET_u64(name) j->name = larder_read_u64(&p->r);
#define GET_f64(name) j->name = larder_read_f64(&p->r);
#define XX(kind, name) GET_##kind(name)
    LARDER__TAPE_FIELDS(XX)
#undef XX
    if (larder_read_status(&p->r) < 0 || larder__read_left(&p->r))
        return bad(p, "what was recorded is not described as expected");
    if (j->samples == 0 || j->samples >= UINT32_MAX || j->batch == 0 || j->batch > 1u << 24 ||
        j->world == 0 || j->world > 1u << 20 || j->rank >= j->world || j->lag > 1u << 20)
        return bad(p, "samples, batch size, rank or lag make no sense");
    if (!(j->decoded_ratio >= 0 && j->decoded_ratio < 1e9))
        j->decoded_ratio = 0;
    p->width = larder__tape_width(j->samples);
    return 0;
}

static int open_tables(parser *p, size_t size) {
    larder__tape *t = p->out;
    uint64_t n = t->job.samples;
    if (n > 1u << 24 && n / 1024 > size)
        return bad(p, "claims more samples than so small a file can be about");
    t->size_of = larder__calloc(n, sizeof *t->size_of);
    t->label_of = larder__calloc(n, sizeof *t->label_of); /* + 1 while reading */
    return t->size_of && t->label_of ? 0 : LARDER_E_NOMEM;
}

static void read_news(parser *p, uint32_t id) {
    larder__tape *t = p->out;
    if (t->size_of[id])
        return;
    uint64_t size = get_count(&p->r), label = get_count(&p->r);
    if (size > UINT32_MAX || label > INT32_MAX)
        larder_read_reject(&p->r, "a sample's size or class is too large");
    t->size_of[id] = size ? (uint32_t)size : 1; /* 0: it has not come yet */
    t->label_of[id] = (int32_t)label;
}

static int read_classes(parser *p) {
    uint64_t first = get_count(&p->r), n = get_count(&p->r), all = p->out->job.samples;
    if (first > all || n > all - first || n > larder__read_left(&p->r))
        return bad(p, "has classes of samples there are not");
    for (uint64_t i = 0; i < n; i++) {
        uint64_t label = get_count(&p->r);
        if (label > INT32_MAX)
            return bad(p, "a sample's class is too large");
        p->out->label_of[first + i] = (int32_t)label;
    }
    return 0;
}

static int room_for_rows(parser *p, uint64_t n) {
    larder__tape *t = p->out;
    void *grown;
    if (n > larder__read_left(&p->r) * 8 || n > t->job.batch)
        return bad(p, "a batch has more rows than fit");
    uint64_t rooms[4] = {p->row_room, p->row_room, p->row_room, p->row_room};
    int rc = GROW(t->ids, &rooms[0], t->requests, n);
    if (rc == 0)
        rc = GROW(t->served, &rooms[1], t->requests, n);
    if (rc == 0)
        rc = GROW(t->kinds, &rooms[2], t->requests, n);
    if (rc == 0)
        rc = GROW(t->loss, &rooms[3], t->requests, n);
    if (rc == 0)
        p->row_room = rooms[0];
    return rc;
}

static int read_rows(parser *p, uint64_t n) {
    larder__tape *t = p->out;
    int rc = room_for_rows(p, n);
    if (rc < 0)
        return rc;
    uint32_t *ids = t->ids + t->requests, *served = t->served + t->requests;
    uint8_t *kinds = t->kinds + t->requests;
    bits b = {.from = &p->r}, k = {.from = &p->r}, s = {.from = &p->r};
    for (uint64_t i = 0; i < n; i++)
        ids[i] = get_id(p, &b);
    for (uint64_t i = 0; i < n; i++)
        kinds[i] = (uint8_t)get_bits(&k, 2);
    for (uint64_t i = 0; i < n; i++) {
        bool apart = kinds[i] == LARDER_SUBSTITUTE || kinds[i] == LARDER_REPLACED;
        served[i] = apart ? get_id(p, &s) : ids[i];
        t->loss[t->requests + i] = NAN;
    }
    for (uint64_t i = 0; i < n && larder_read_status(&p->r) == 0; i++) {
        read_news(p, ids[i]);
        read_news(p, served[i]);
    }
    t->requests += n;
    return 0;
}

static int read_batch(parser *p) {
    larder__tape *t = p->out;
    void *grown;
    larder_reader *r = &p->r;
    larder__tape_batch b = {.number = get_count(r), .accuracy = NAN, .begin = t->requests};
    b.epoch = get_count(r);
    b.length = get_count(r);
    b.n = get_count(r);
    uint64_t flags = get_count(r);
    b.first = flags & 1;
    b.last = flags >> 1 & 1;
    b.waited = get_seconds(get_f32(r));
    b.starved = get_seconds(get_f32(r));
    b.stepped = get_seconds(get_f32(r));
    b.pace.read_seconds = get_seconds(larder_read_f64(r));
    b.pace.step_seconds = get_seconds(larder_read_f64(r));
    b.pace.trained = get_seconds(larder_read_f64(r));
    b.pace.waited = get_seconds(larder_read_f64(r));
    b.read_bytes = get_count(r);
    b.fetched = get_count(r);
    b.fetched_bytes = get_count(r);
    const larder__tape_batch *last = t->count ? &t->batches[t->count - 1] : NULL;
    if (larder_read_status(r) < 0)
        return bad(p, "a batch ends too early");
    if (last && b.number <= last->number)
        return bad(p, "batches are out of order");
    if (b.epoch > 1u << 24 || b.length > t->job.samples * 1024 || b.read_bytes >> 56 ||
        b.fetched_bytes >> 56 || b.fetched >> 40)
        return bad(p, "a batch makes no sense");
    int rc = read_rows(p, b.n);
    if (rc == 0)
        rc = GROW(t->batches, &p->batch_room, t->count, 1);
    if (rc == 0)
        t->batches[t->count++] = b;
    return rc;
}

larder__tape_batch *larder__tape_find(const larder__tape *t, uint64_t number) {
    uint64_t from = 0, to = t->count;
    while (from < to) {
        uint64_t middle = from + (to - from) / 2;
        if (t->batches[middle].number < number)
            from = middle + 1;
        else
            to = middle;
    }
    return from < t->count && t->batches[from].number == number ? &t->batches[from] : NULL;
}

static int read_turn(parser *p) {
    larder__tape *t = p->out;
    void *grown;
    larder_turn turn = {.batch = get_count(&p->r)};
    turn.value = larder_read_f64(&p->r);
    if (!isfinite(turn.value) || (t->turn_count && turn.batch <= t->turns[t->turn_count - 1].batch))
        return bad(p, "what was measured makes no sense");
    int rc = GROW(t->turns, &p->turn_room, t->turn_count, 1);
    if (rc == 0)
        t->turns[t->turn_count++] = turn;
    return rc;
}

static int read_losses(parser *p) {
    larder__tape *t = p->out;
    uint64_t number = get_count(&p->r), n = get_count(&p->r);
    const larder__tape_batch *b = larder__tape_find(t, number);
    if (!b || b->n != n)
        return bad(p, "losses belong to no batch");
    for (uint64_t i = 0; i < n; i++) {
        t->loss[b->begin + i] = get_f32(&p->r);
        t->losses += isfinite(t->loss[b->begin + i]) ? 1 : 0;
    }
    return 0;
}

/* Rows that came together from several ranks, or in another order: those of this batch count. */
static int read_some(parser *p) {
    larder__tape *t = p->out;
    uint64_t number = get_count(&p->r), n = get_count(&p->r);
    const larder__tape_batch *b = larder__tape_find(t, number);
    if (!b || n > larder__read_left(&p->r) / 4)
        return bad(p, "losses belong to no batch");
    if (!p->row_of && !(p->row_of = larder__calloc(t->job.samples, sizeof *p->row_of)))
        return LARDER_E_NOMEM;
    for (uint64_t i = b->begin; i < b->begin + b->n; i++)
        p->row_of[t->served[i]] = i;
    larder_reader ids = p->r;
    size_t packed = (size_t)((n * p->width + 7) / 8);
    if (packed > larder__read_left(&p->r))
        return bad(p, "losses end too early");
    p->r.at += packed;
    bits in = {.from = &ids};
    for (uint64_t i = 0; i < n; i++) {
        uint64_t id = get_bits(&in, p->width);
        float loss = get_f32(&p->r);
        if (id >= t->job.samples)
            return bad(p, "an id is beyond the data set");
        uint64_t row = p->row_of[id];
        if (row < b->begin || row >= b->begin + b->n || t->served[row] != id)
            continue; /* another rank's */
        t->losses += isfinite(loss) && !isfinite(t->loss[row]);
        t->loss[row] = loss;
    }
    return 0;
}

static int read_accuracy(parser *p) {
    larder__tape_batch *b = larder__tape_find(p->out, get_count(&p->r));
    double accuracy = larder_read_f64(&p->r);
    if (!b || !(accuracy >= 0 && accuracy <= 1))
        return bad(p, "an accuracy belongs to no batch, or is none");
    b->accuracy = accuracy;
    return 0;
}

static int read_looked(parser *p) {
    larder__tape *t = p->out;
    void *grown;
    uint64_t epoch = get_count(&p->r), n = get_count(&p->r);
    uint64_t rooms[2] = {p->looked_row_room, p->looked_row_room};
    if (n > larder__read_left(&p->r) / 4 || epoch > 1u << 24)
        return bad(p, "losses looked at again make no sense");
    int rc = GROW(t->looked, &p->looked_room, t->looked_count, 1);
    if (rc == 0)
        rc = GROW(t->looked_ids, &rooms[0], t->looked_rows, n);
    if (rc == 0)
        rc = GROW(t->looked_loss, &rooms[1], t->looked_rows, n);
    if (rc < 0)
        return rc;
    p->looked_row_room = rooms[0];
    bits b = {.from = &p->r};
    for (uint64_t i = 0; i < n; i++)
        t->looked_ids[t->looked_rows + i] = get_id(p, &b);
    for (uint64_t i = 0; i < n; i++)
        t->looked_loss[t->looked_rows + i] = get_f32(&p->r);
    t->looked[t->looked_count++] = (larder__tape_looked){epoch, t->looked_rows, n};
    t->looked_rows += n;
    return 0;
}

static int read_epoch(parser *p) {
    larder__tape *t = p->out;
    void *grown;
    larder__tape_epoch e = {.figures = {.fresh_loss = NAN, .reused_loss = NAN}}; /* not on it */
    larder_figures *f = &e.figures;
    uint64_t *all[] = {&f->epoch,
                       &f->served,
                       &f->hits,
                       &f->substitutes,
                       &f->repeats,
                       &f->misses,
                       &f->background_reads,
                       &f->storage_bytes,
                       &f->bad,
                       &f->evaluated,
                       &f->evaluation_reads,
                       &f->scratch_reads,
                       &f->scratch_bytes,
                       &f->scratch_written,
                       &f->form_hits[0],
                       &f->form_hits[1],
                       &f->form_hits[2]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i] = get_count(&p->r);
    f->touched = larder_read_f64(&p->r);
    e.seconds = get_seconds(larder_read_f64(&p->r));
    if (!(f->touched >= 0 && f->touched <= 1) || f->epoch > 1u << 24)
        return bad(p, "an epoch's figures make no sense");
    e.begin = t->epoch_count ? t->epochs[t->epoch_count - 1].end : 0;
    e.end = t->count;
    int rc = GROW(t->epochs, &p->epoch_room, t->epoch_count, 1);
    if (rc == 0)
        t->epochs[t->epoch_count++] = e;
    return rc;
}

static int read_record(parser *p) {
    unsigned char tag = 0;
    larder_read_bytes(&p->r, &tag, 1);
    switch (tag) {
    case LARDER__TAPE_CLASSES:
        return read_classes(p);
    case LARDER__TAPE_BATCH:
        return read_batch(p);
    case LARDER__TAPE_TURN:
        return read_turn(p);
    case LARDER__TAPE_LOSSES:
        return read_losses(p);
    case LARDER__TAPE_ROWS:
        return read_some(p);
    case LARDER__TAPE_ACCURACY:
        return read_accuracy(p);
    case LARDER__TAPE_LOOKED:
        return read_looked(p);
    case LARDER__TAPE_EPOCH:
        return read_epoch(p);
    case LARDER__TAPE_END:
        p->out->ended = get_count(&p->r) == p->out->count;
        return p->out->ended ? 0 : bad(p, "batches are missing");
    default:
        return bad(p, "holds something unknown");
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static uint64_t get_le(const unsigned char *b, size_t n) {
    uint64_t v = 0;
    for (size_t i = n; i-- > 0;)
        v = v << 8 | b[i];
    return v;
}

static int read_block(parser *p, const unsigned char *payload, size_t n, size_t size) {
    p->r = (larder_reader){payload, payload + n, 0};
    int rc = 0;
    if (p->blocks == 0)
        return (rc = read_job(p)) < 0 ? rc : open_tables(p, size);
    while (rc == 0 && larder__read_left(&p->r) && !p->out->ended) {
        rc = read_record(p);
        if (rc == 0 && larder_read_status(&p->r) < 0)
            rc = bad(p, "a record is malformed");
    }
    return rc;
}

static void note_tail(parser *p, const char *what) {
    snprintf(p->out->torn, sizeof p->out->torn,
             "%.120s %s; %llu batches before it are used (was the job killed, or is it running?)",
             p->where, what, (unsigned long long)p->out->count);
}

static int read_blocks(parser *p, const unsigned char *bytes, size_t size) {
    size_t at = LARDER__TAPE_HEAD;
    int rc = 0;
    for (; rc == 0 && at < size && !p->out->ended; p->blocks++) {
        size_t left = size - at;
        uint64_t n = left >= LARDER__TAPE_FRAME ? get_le(bytes + at, 4) : 0;
        if (left < LARDER__TAPE_FRAME || n > left - LARDER__TAPE_FRAME) {
            if (p->blocks && n <= LARDER__TAPE_BLOCK_MAX)
                note_tail(p, "ends in the middle of a block");
            else
                rc = bad(p,
                         p->blocks ? "its length makes no sense" : "ends before anything is said");
            break;
        }
        const unsigned char *payload = bytes + at + LARDER__TAPE_FRAME;
        if (larder__tape_hash(p->blocks, payload, (size_t)n) != get_le(bytes + at + 4, 8)) {
            if (p->blocks && at + LARDER__TAPE_FRAME + n == size)
                note_tail(p, "has a damaged last block");
            else
                rc = bad(p, "is damaged");
            break;
        }
        rc = read_block(p, payload, (size_t)n, size);
        at += LARDER__TAPE_FRAME + (size_t)n;
    }
    if (rc == 0 && p->blocks == 0)
        rc = bad(p, "ends before anything is said");
    if (rc == 0 && !p->out->ended && !p->out->torn[0])
        note_tail(p, "was not closed");
    return rc;
}

int larder__tape_parse(larder__tape *out, const unsigned char *bytes, size_t size,
                       const char *where) {
    *out = (larder__tape){0};
    parser p = {.out = out, .where = where};
    if (size < 8 || memcmp(bytes, LARDER__TAPE_MAGIC, 8) != 0)
        return larder__fail(LARDER_E_FORMAT, "%s: is no record of a job (larder train --record)",
                            where);
    if (size < LARDER__TAPE_HEAD)
        return larder__fail(LARDER_E_FORMAT, "%s: ends after %zu bytes", where, size);
    int rc = larder__version_check(LARDER__FORMAT_TAPE, where, get_le(bytes + 8, 4));
    if (rc == 0)
        rc = read_blocks(&p, bytes, size);
    larder__free(p.row_of);
    if (rc < 0) {
        larder__tape_free(out);
        return rc;
    }
    for (uint64_t i = 0; i < out->job.samples; i++)
        out->label_of[i]--; /* 0 was none */
    return 0;
}

int larder__tape_read(larder__tape *out, const char *path) {
    unsigned char *bytes = NULL;
    size_t size;
    *out = (larder__tape){0};
    int rc = larder__file_read(path, (size_t)1 << 36, &bytes, &size);
    if (rc == 0)
        rc = larder__tape_parse(out, bytes, size, path);
    larder__free(bytes);
    return rc;
}

void larder__tape_free(larder__tape *t) {
    larder__free(t->batches);
    larder__free(t->ids);
    larder__free(t->served);
    larder__free(t->kinds);
    larder__free(t->loss);
    larder__free(t->size_of);
    larder__free(t->label_of);
    larder__free(t->epochs);
    larder__free(t->turns);
    larder__free(t->looked);
    larder__free(t->looked_ids);
    larder__free(t->looked_loss);
    *t = (larder__tape){0};
}

bool larder__tape_probe(const char *path) {
    return larder__file_begins(path, LARDER__TAPE_MAGIC, 8);
}
