/* The threads: draw the next batch when there is room for one, else prepare rows that were read,
 * else read rows of the oldest batch that still has any. Drawing is done by one thread at a time
 * and in order; the rest by all. */
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "loader/inside.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

/* ---- filling rows ---------------------------------------------------------------------------- */

uint64_t larder__row_seed(const larder_loader *l, const larder__planned *p, size_t row) {
    if (larder__draw_ranks(l->draw))
        return larder__place_seed(l->conf.seed, larder__draw_batch(l->draw), 0, 1, p->number,
                                  p->at + row);
    return larder__place_seed(l->conf.seed, l->conf.batch, l->conf.rank, l->conf.world, p->number,
                              row);
}

static void row_failed(larder__place *p, size_t row, int code, const char *why) {
    char *out = p->faults[row].why;
    size_t cap = sizeof p->faults[row].why;
    p->faults[row].code = code;
    if (strncmp(why, "sample ", 7) == 0)
        snprintf(out, cap, "%s", why);
    else
        snprintf(out, cap, "sample %llu: %s", (unsigned long long)p->plan.tickets[row].key, why);
}

/* The chance of an augmented entry: of its own, not a row's. */
static uint64_t entry_seed(const larder_loader *l, uint64_t mark) {
    return larder__mix64(l->conf.seed ^ larder__mix64(~mark));
}

static int make_row(larder_loader *l, larder__scratch *scratch, larder_buf *bytes, larder_form form,
                    uint64_t seed, void *out) {
    const void *data = larder_buf_data(bytes);
    size_t size = larder_buf_size(bytes);
    if (form == LARDER_ENCODED)
        return larder__pipeline_run(l->pipeline, scratch, data, size, seed, out);
    if (form == LARDER_DECODED)
        return larder__pipeline_run_decoded(l->pipeline, scratch, data, size, seed, out);
    if (size != l->row_bytes)
        return larder__fail(LARDER_E_FORMAT, "an augmented sample of %zu bytes, not %zu", size,
                            l->row_bytes);
    memcpy(out, data, size);
    return 0;
}

/* In front of the sentence: which sample. */
static int name_sample(larder_loader *l, uint64_t id, int rc) {
    char name[160] = "?";
    larder__data_name(l->data, id, name, sizeof name);
    return larder__fail_in(rc, "sample %llu (%s)", (unsigned long long)id, name);
}

int larder__row_decode(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t row,
                       uint64_t id, larder_buf *bytes, larder_form form, uint64_t seed) {
    larder_sample s;
    int rc = larder__data_stat(l->data, id, &s);
    if (rc == 0)
        rc = make_row(l, scratch, bytes, form, seed, p->x + row * l->row_bytes);
    if (rc < 0)
        return name_sample(l, id, rc);
    p->y[row] = s.label;
    p->served[row] = id;
    return 0;
}

enum { PROBED = 64 };

static double thread_seconds(void) { return larder__seconds_of(CLOCK_THREAD_CPUTIME_ID); }

/* plan=auto has to know what pixels would save before there are any: the first rows are prepared
 * once more, from theirs. Nobody sees the result, so what goes wrong here is left out. */
static void probe_pixels(larder_loader *l, larder__scratch *scratch, larder_buf *encoded,
                         uint64_t seed) {
    larder_buf *pixels = NULL;
    unsigned char *row = larder__malloc(l->row_bytes + 1);
    if (row && larder__pipeline_decode(l->pipeline, scratch, encoded, SIZE_MAX, &pixels) == 0 &&
        pixels) {
        double begun = thread_seconds();
        if (make_row(l, scratch, pixels, LARDER_DECODED, seed, row) == 0)
            larder__pace_stage(&l->pace, true, thread_seconds() - begun);
    }
    larder_buf_unref(&pixels);
    larder__free(row);
}

static void note_stage(larder_loader *l, larder__scratch *scratch, const larder__ticket *t,
                       larder_buf *bytes, uint64_t seed, double cpu) {
    if (t->held == LARDER_AUGMENTED)
        return;
    larder__pace_stage(&l->pace, t->held == LARDER_DECODED, cpu);
    if (t->held == LARDER_ENCODED && atomic_load(&l->probed) < PROBED &&
        atomic_fetch_add(&l->probed, 1) < PROBED)
        probe_pixels(l, scratch, bytes, seed);
}

static void finish_row(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t row,
                       larder_buf *bytes) {
    const larder__ticket *t = &p->plan.tickets[row];
    p->kind[row] = t->kind;
    uint64_t seed = p->calm      ? LARDER__NO_CHANCE
                    : p->chances ? p->chances[row]
                                 : larder__row_seed(l, &p->plan, row);
    p->form[row] = t->form;
    double begun = l->plans ? thread_seconds() : 0;
    int rc = larder__row_decode(l, scratch, p, row, t->key, bytes, t->held, seed);
    if (rc < 0)
        row_failed(p, row, rc, larder_errmsg());
    else if (l->plans)
        note_stage(l, scratch, t, bytes, seed, thread_seconds() - begun);
}

/* The entry that the cache wants, from what was read; `held` says what became of it. */
static int make_entry(larder_loader *l, larder__scratch *scratch, const larder__ticket *t,
                      larder_buf *read, larder_buf **out, uint8_t *held) {
    *out = NULL;
    *held = t->make;
    int rc = 0;
    larder__at was =
        t->make == LARDER_ENCODED ? LARDER__AT_CACHE : larder__seat_turn(LARDER__AT_PREPARE);
    if (t->make == LARDER_DECODED)
        rc = larder__pipeline_decode(l->pipeline, scratch, read, t->size, out);
    else if (t->make == LARDER_AUGMENTED) {
        if (!(*out = larder_buf_new(l->row_bytes)))
            return LARDER_E_NOMEM;
        rc = make_row(l, scratch, read, LARDER_ENCODED, entry_seed(l, t->mark),
                      larder_buf_data(*out));
    }
    larder__seat_turn(was);
    if (rc < 0) {
        larder_buf_unref(out);
        return name_sample(l, t->key, rc);
    }
    if (!*out) { /* wanted as it is, or too large decoded */
        *out = larder_buf_ref(read);
        *held = LARDER_ENCODED;
    }
    return 0;
}

typedef struct joint { /* room for one joint read of several rows */
    uint64_t *ids;
    size_t *rows;
    larder_read *reads;
    larder_rect *rects; /* of each read; unused where samples are read whole */
    larder_buf **bytes; /* of each row, one reference or NULL */
} joint;

/* Hands the cache its entry, made of what was read, and leaves in *bytes what the row begins with.
 * Done by whoever reads: those who wait for an entry wait for somebody who is at it. */
static void settle_entry(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t row,
                         larder_buf **bytes) {
    larder__ticket *t = &p->plan.tickets[row];
    larder__cache *cache = larder__draw_cache(l->draw);
    larder_buf *entry = NULL;
    int rc = scratch || t->make == LARDER_ENCODED
                 ? make_entry(l, scratch, t, *bytes, &entry, &t->held)
                 : LARDER_E_NOMEM;
    if (rc < 0) {
        if (row < p->plan.n)
            row_failed(p, row, rc, larder_errmsg());
        larder__cache_fail(cache, t, rc, larder_errmsg());
        larder_buf_unref(bytes);
        return;
    }
    larder__cache_fill(cache, t, entry);
    if (t->held != t->form) { /* the row begins with what was read */
        larder_buf_unref(&entry);
        t->held = LARDER_ENCODED;
        return;
    }
    larder_buf_unref(bytes);
    *bytes = entry;
}

/* Working memory to make entries with; NULL where there is none to make. */
static larder__scratch *entry_scratch(const larder__place *p, size_t from, size_t n) {
    larder__scratch *scratch = NULL;
    for (size_t i = 0; !scratch && i < n; i++)
        if (p->plan.tickets[from + i].task == LARDER__MAKE &&
            p->plan.tickets[from + i].make != LARDER_ENCODED && larder__scratch_open(&scratch) < 0)
            break;
    return scratch;
}

static int read_rows(larder_loader *l, larder__place *p, size_t from, size_t m, const joint *j) {
    if (!l->parts)
        return larder__data_read(l->data, j->ids, m, j->reads);
    for (size_t k = 0; k < m; k++)
        j->rects[k] = larder__planned_rect(&p->plan, l->parts, from + j->rows[k]);
    return larder__data_read_parts(l->data, j->ids, j->rects, m, j->reads);
}

/* Reads what has to be made, all together, and hands it to the cache. */
static void make_rows(larder_loader *l, larder__place *p, size_t from, size_t n, joint *j) {
    uint64_t *ids = j->ids;
    size_t *rows = j->rows, m = 0;
    larder_read *reads = j->reads;
    larder_buf **bytes = j->bytes;
    for (size_t i = 0; i < n; i++)
        if (p->plan.tickets[from + i].task == LARDER__MAKE && p->plan.tickets[from + i].flight) {
            rows[m] = i;
            ids[m++] = p->plan.tickets[from + i].key;
        }
    if (m == 0)
        return;
    double begun = larder__now(), cpu = larder__seconds_of(CLOCK_THREAD_CPUTIME_ID);
    larder__pace_read paced = larder__pace_read_begin(&l->pace, begun, m);
    atomic_fetch_add(&p->reading, 1);
    larder__seat_turn(LARDER__AT_READ);
    int rc = read_rows(l, p, from, m, j);
    larder__seat_turn(LARDER__AT_CACHE);
    double ended = larder__now();
    larder__pace_read_end(&l->pace, ended, paced);
    larder__stat_observe(l->stats, l->stat.read_time, ended - begun);
    larder__readers_note(l, p, ended - begun, larder__seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu);
    uint64_t total = 0;
    larder__scratch *scratch = entry_scratch(p, from, n);
    for (size_t k = 0; k < m; k++) {
        size_t row = from + rows[k];
        int code = rc < 0 ? rc : reads[k].code;
        if (code < 0) {
            const char *why = rc < 0 ? larder_errmsg() : reads[k].why;
            if (row < p->plan.n)
                row_failed(p, row, code, why);
            larder__cache_fail(larder__draw_cache(l->draw), &p->plan.tickets[row], code, why);
            continue;
        }
        bytes[rows[k]] = reads[k].buf;
        total += larder_buf_size(reads[k].buf);
        if (row < p->plan.n)
            p->read_bytes[row] = (uint32_t)larder_buf_size(reads[k].buf);
        settle_entry(l, scratch, p, row, &bytes[rows[k]]);
    }
    larder__scratch_close(&scratch);
    larder__seat_turn(LARDER__AT_NOTHING);
    larder__stat_add(l->stats, l->stat.storage_reads, m);
    larder__stat_add(l->stats, l->stat.storage_bytes, total);
}

/* Another job had promised to read it and cannot: for this row alone, the cache knows nothing. */
int larder__row_alone(larder_loader *l, uint64_t id, larder_buf **out) {
    larder_read read = {0};
    int rc = larder__data_read(l->data, &id, 1, &read);
    if (rc == 0 && read.code < 0) {
        rc = read.code;
        larder__errmsg_set(read.why);
    }
    if (rc < 0)
        return rc;
    *out = read.buf;
    larder__stat_add(l->stats, l->stat.storage_reads, 1);
    larder__stat_add(l->stats, l->stat.storage_bytes, larder_buf_size(read.buf));
    return 0;
}

/* Entries that the cache holds elsewhere come first; those that are gone there are read with the
 * misses. */
static void receive_rows(larder_loader *l, larder__place *p, size_t from, size_t n) {
    double begun = larder__now(), cpu = thread_seconds();
    larder__seat_turn(LARDER__AT_CACHE);
    if (larder__cache_receive(larder__draw_cache(l->draw), p->plan.tickets + from, n,
                              p->bytes + from) < 0)
        for (size_t i = from; i < from + n; i++)
            if (i < p->plan.n && p->plan.tickets[i].task == LARDER__READY && !p->bytes[i])
                row_failed(p, i, LARDER_E_NOMEM, "out of memory");
    larder__seat_turn(LARDER__AT_NOTHING);
    if (larder__cache_is_far(larder__draw_cache(l->draw)))
        larder__readers_note(l, NULL, larder__now() - begun, thread_seconds() - cpu);
}

int larder__row_bytes(larder_loader *l, larder__place *p, size_t row, larder_buf **out,
                      uint8_t *held) {
    larder__ticket *t = &p->plan.tickets[row];
    int rc = 0;
    *out = p->bytes[row];
    p->bytes[row] = NULL;
    if (t->task == LARDER__READY && t->buf) {
        *out = t->buf;
        t->buf = NULL;
    } else if (t->task == LARDER__WAIT)
        rc = larder__cache_wait(larder__draw_cache(l->draw), t, out);
    *held = t->held;
    if (rc == LARDER__TAKE_OVER) {
        *held = LARDER_ENCODED;
        return larder__row_alone(l, t->key, out);
    }
    if (p->faults[row].code < 0)
        return larder__fail(p->faults[row].code, "%s", p->faults[row].why);
    return rc < 0 || *out ? rc : larder__fail(LARDER_E_STATE, "nobody brought its bytes");
}

void larder__rows_read(larder_loader *l, larder__place *p, size_t from, size_t n) {
    receive_rows(l, p, from, n);
    uint64_t ids[LARDER__ROWS_AT_ONCE];
    size_t rows[LARDER__ROWS_AT_ONCE];
    larder_read reads[LARDER__ROWS_AT_ONCE];
    larder_rect rects[LARDER__ROWS_AT_ONCE];
    make_rows(l, p, from, n, &(joint){ids, rows, reads, rects, p->bytes + from});
}

typedef struct split { /* of the time of some rows */
    double all, decoding;
} split;

/* Every so many rows it is measured which part of them is decoding; a clock read is dear beside a
 * small row. */
static void finish_timed(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t row,
                         larder_buf *bytes, split *s) {
    enum { EVERY = 64 };
    if (row % EVERY) {
        finish_row(l, scratch, p, row, bytes);
        return;
    }
    larder__scratch_time(scratch, true);
    double begun = larder__now();
    finish_row(l, scratch, p, row, bytes);
    s->all += larder__now() - begun;
    s->decoding += larder__scratch_decoding(scratch);
    larder__scratch_time(scratch, false);
}

/* Rows that somebody else reads: their maker came before us and is at it, so this ends. */
static void finish_waiting(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t row,
                           larder_buf **bytes, split *s) {
    larder__ticket *t = &p->plan.tickets[row];
    larder__at was = larder__seat_turn(LARDER__AT_READ);
    int rc = larder__cache_wait(larder__draw_cache(l->draw), t, bytes);
    if (rc == LARDER__TAKE_OVER && row < p->plan.n) {
        rc = larder__row_alone(l, t->key, bytes);
        t->held = LARDER_ENCODED;
    }
    larder__seat_turn(was);
    if (row >= p->plan.n)
        return;
    if (rc < 0) {
        row_failed(p, row, rc, larder_errmsg());
        return;
    }
    /* A miss that shares a read costs what it would have alone: what the ledger says follows from
     * the order. The counters have the bytes that really came. */
    larder_sample sample;
    if (t->kind == LARDER_MISS && larder__data_stat(l->data, t->key, &sample) == 0)
        p->read_bytes[row] = sample.bytes;
    finish_timed(l, scratch, p, row, *bytes, s);
}

/* What these rows weigh in storage. */
static uint64_t demand_of(larder_loader *l, const larder__place *p, size_t from, size_t n) {
    uint64_t bytes = 0;
    larder_sample s;
    for (size_t i = from; i < from + n && i < p->plan.n; i++)
        bytes += larder__data_stat(l->data, p->plan.tickets[i].key, &s) == 0 ? s.bytes : 0;
    return bytes;
}

/* Finished rows are only copied. */
static larder__at work_of(const larder__place *p, size_t from, size_t n) {
    for (size_t i = from; i < from + n; i++)
        if (p->plan.tickets[i].task != LARDER__READY || p->plan.tickets[i].held != LARDER_AUGMENTED)
            return LARDER__AT_PREPARE;
    return LARDER__AT_COPY;
}

/* Of a loader that decides the order alone. */
static void book_rows(larder_loader *l, larder__place *p, size_t from, size_t n) {
    for (size_t i = from; i < from + n && i < p->plan.n; i++) {
        const larder__ticket *t = &p->plan.tickets[i];
        larder_sample s = {.label = -1};
        larder__data_stat(l->data, t->key, &s);
        p->y[i] = s.label;
        p->served[i] = t->key;
        p->kind[i] = t->kind;
        p->form[i] = t->form;
        p->read_bytes[i] = larder__planned_bytes(&p->plan, l->parts, i);
    }
}

void larder__rows_prepare(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t from,
                          size_t n) {
    if (l->conf.order_only) {
        book_rows(l, p, from, n);
        return;
    }
    larder_buf **bytes = p->bytes + from;
    split times = {0};
    double begun = larder__now();
    larder__seat_turn(work_of(p, from, n));
    for (size_t i = 0; i < n; i++) {
        larder__ticket *t = &p->plan.tickets[from + i];
        if (t->task == LARDER__READY && t->buf) {
            bytes[i] = t->buf;
            t->buf = NULL;
        }
        if (bytes[i] && from + i < p->plan.n) /* what was fetched besides only had to be filled */
            finish_timed(l, scratch, p, from + i, bytes[i], &times);
        else if (from + i < p->plan.n && t->task != LARDER__WAIT && p->faults[from + i].code == 0)
            row_failed(p, from + i, LARDER_E_STATE, "nobody brought its bytes");
        larder_buf_unref(&bytes[i]);
    }
    larder__stat_observe(l->stats, l->stat.decode_time, larder__now() - begun);
    for (size_t i = 0; i < n; i++)
        if (p->plan.tickets[from + i].task == LARDER__WAIT) {
            finish_waiting(l, scratch, p, from + i, &bytes[i], &times);
            larder_buf_unref(&bytes[i]);
        }
    if (times.all > 0)
        larder__seat_share(times.decoding / times.all);
    larder__seat_turn(LARDER__AT_NOTHING);
    if (!p->calm)
        larder__stat_add(l->stats, l->stat.demand_bytes, demand_of(l, p, from, n));
}

/* What was fetched besides is only to be filled. */
static void settle_package(larder_loader *l, larder__place *p, size_t from, size_t n,
                           larder_buf **bytes) {
    for (size_t i = 0; i < n; i++) {
        larder__ticket *t = &p->plan.tickets[from + i];
        larder_buf_unref(&bytes[i]);
        larder__ticket_drop(t);
        if (t->task == LARDER__WAIT && t->flight)
            larder__cache_wait(larder__draw_cache(l->draw), t, &bytes[i]);
        larder_buf_unref(&bytes[i]);
    }
}

/* Takes what it can from the package that was laid down before. */
static void take_from_crate(larder_loader *l, larder__place *p, size_t from, size_t n, joint *j) {
    size_t *rows = j->rows, m = 0;
    larder_buf **got = larder__calloc(n, sizeof *got);
    for (size_t i = 0; got && i < n; i++)
        if (p->plan.tickets[from + i].kind == LARDER_MISS) {
            rows[m] = i;
            j->ids[m++] = p->plan.tickets[from + i].key;
        }
    double begun = larder__now();
    larder__at was = larder__seat_turn(LARDER__AT_READ);
    p->scratch_bytes = m ? larder__crate_take(l->crates, p->crate, j->ids, m, got) : 0;
    larder__seat_turn(was);
    larder__stat_observe(l->stats, l->stat.scratch_time, larder__now() - begun);
    larder__stat_add(l->stats, l->stat.scratch_read, p->scratch_bytes);
    for (size_t k = 0; k < m; k++) {
        larder__ticket *t = &p->plan.tickets[from + rows[k]];
        if (!got[k])
            continue;
        p->scratch_samples++;
        p->scratch_payload += p->plan.accesses[from + rows[k]].size;
        if (t->task == LARDER__MAKE) /* else somebody else is at it, and a copy more does no harm */
            larder__cache_fill(larder__draw_cache(l->draw), t, got[k]);
        larder_buf_unref(&got[k]);
    }
    larder__free(got);
}

/* Lays down what was fetched, unless it was read from there. */
static void lay_down(larder_loader *l, larder__place *p, size_t from, size_t n, joint *j) {
    for (size_t i = 0; i < n; i++)
        j->ids[i] = p->plan.tickets[from + i].key;
    p->scratch_written = larder__crate_put(l->crates, p->crate, j->ids, j->bytes, n);
    larder__stat_add(l->stats, l->stat.scratch_written, p->scratch_written);
}

/* A package of its own bytes: from the scratch folder in one piece where it lies there, the rest
 * from storage by one joint read; then it is laid down. */
static void fill_whole(larder_loader *l, larder__place *p, size_t from, size_t n, joint *j) {
    if (p->crate && !p->lays_down)
        take_from_crate(l, p, from, n, j);
    make_rows(l, p, from, n, j);
    for (size_t i = 0; i < n; i++) {
        larder__ticket *t = &p->plan.tickets[from + i];
        larder__ticket_drop(t);
        if (t->task == LARDER__WAIT && t->flight)
            larder__cache_wait(larder__draw_cache(l->draw), t, &j->bytes[i]);
    }
    if (p->crate && p->lays_down)
        lay_down(l, p, from, n, j);
    for (size_t i = 0; i < n; i++)
        larder_buf_unref(&j->bytes[i]);
}

/* Entries fetched besides: a package is one joint read, however large. Where memory for that is
 * short it is read in pieces. */
static void fill_package(larder_loader *l, larder__place *p, size_t from, size_t n) {
    joint j = {.ids = larder__malloc(n * sizeof *j.ids),
               .rows = larder__malloc(n * sizeof *j.rows),
               .reads = larder__malloc(n * sizeof *j.reads),
               .rects = larder__malloc(n * sizeof *j.rects),
               .bytes = larder__calloc(n, sizeof *j.bytes)};
    bool whole = j.ids && j.rows && j.reads && j.rects && j.bytes;
    if (whole)
        fill_whole(l, p, from, n, &j);
    else if (p->crate && p->lays_down) /* a broken promise must be told */
        larder__crate_put(l->crates, p->crate, NULL, NULL, 0);
    if (p->crate)
        larder__crate_leave(l->crates, &p->crate);
    larder__free(j.ids);
    larder__free(j.rows);
    larder__free(j.reads);
    larder__free(j.rects);
    larder__free(j.bytes);
    for (size_t at = 0; !whole && at < n; at += LARDER__ROWS_AT_ONCE) {
        size_t some = n - at < LARDER__ROWS_AT_ONCE ? n - at : LARDER__ROWS_AT_ONCE;
        larder__rows_read(l, p, from + at, some);
        settle_package(l, p, from + at, some, p->bytes + from + at);
    }
}

/* ---- drawing batches ------------------------------------------------------------------------- */

/* A cache that keeps parts may hold too little of a sample by now: then it is read alone. */
static int reclaim(larder_loader *l, larder__planned *p, size_t row, uint64_t id, larder_form form,
                   uint64_t mark) {
    larder__cache *cache = larder__draw_cache(l->draw);
    uint32_t size = larder__entry_bytes(l, id);
    if (p->holds) {
        bool resident = larder__cache_resident(cache, id);
        p->holds[row] = larder__parts_hold(l->parts, p->number, row, id, resident);
        bool enough = resident && larder__parts_holds(l->parts, p->number, row, id);
        size = enough ? larder__parts_bytes(l->parts, id, &p->holds[row]) : 0;
    }
    return larder__cache_reclaim(cache, id, size, form, mark, &p->tickets[row]);
}

/* With ranks that share: all rows of the batch, in case it is saved again; and those of others that
 * are cold will come from them. */
static void reopen_whole(larder_loader *l, larder__planned *p, const larder__kept *k,
                         larder__slice own) {
    p->whole_n = p->whole ? k->n : 0;
    for (size_t i = 0; i < p->whole_n; i++) {
        p->whole[i] = (larder__decided){.id = k->ids[i],
                                        .key = k->served[i],
                                        .mark = k->mark[i],
                                        .weight = k->weights[i],
                                        .substitute = k->substitute[i],
                                        .form = k->form[i]};
        if (own.again || i < own.from || i - own.from >= own.n)
            larder__cache_expect(larder__draw_cache(l->draw), k->served[i]);
    }
}

/* A batch from before a save: its decisions stand, only the bytes have to be found again. */
static int reopen_kept(larder_loader *l, larder__planned *p) {
    larder__kept *k = l->kept;
    larder__slice own = larder__draw_slice(l->draw, k->n);
    p->number = k->number;
    p->epoch = k->epoch;
    p->whole_length = k->length;
    p->length = larder__draw_share(l->draw, k->length);
    p->at = own.from;
    p->first = k->first;
    p->last = k->last;
    p->n = p->fetched = p->dropped_count = 0;
    p->package = (larder_package){0};
    larder__planned_note_plan(p, l->draw);
    for (size_t i = 0; i < own.n; i++) {
        size_t row = own.from + i;
        int rc = reclaim(l, p, i, k->served[row], (larder_form)k->form[row], k->mark[row]);
        if (rc < 0)
            return rc;
        if (k->substitute[row])
            p->tickets[i].kind = LARDER_SUBSTITUTE;
        p->ids[i] = k->ids[row];
        p->weights[i] = k->weights[row];
        p->n++; /* counted one by one, so that a failure leaves only tickets that are open */
    }
    reopen_whole(l, p, k, own);
    larder__draw_note_rows(l->draw, k->number, k->n);
    return 0;
}

static bool may_draw(const larder_loader *l) {
    if (l->planning || l->failed || l->evaluation.due ||
        l->ring[l->planned % l->conf.ahead].phase != LARDER__FREE)
        return false;
    return l->kept || l->conf.epochs == 0 || larder__draw_epoch(l->draw) < l->conf.epochs;
}

/* Settles, in the order of batches, who lays a package down and who reads it. */
static void plan_package(larder_loader *l, larder__place *p) {
    p->crate = NULL;
    p->scratch_samples = p->scratch_payload = p->scratch_bytes = p->scratch_written = 0;
    for (size_t i = 0; l->crates && i < p->plan.dropped_count; i++)
        larder__crates_drop(l->crates, p->plan.dropped[i]);
    if (l->crates && p->plan.package.number && larder__planned_reads(&p->plan))
        p->crate = larder__crates_find(l->crates, p->plan.package.number, &p->lays_down);
}

/* Called with the lock held; gives it up while drawing. */
static void draw_batch(larder_loader *l) {
    larder__place *p = &l->ring[l->planned % l->conf.ahead];
    l->planning = true;
    pthread_mutex_unlock(&l->lock);
    larder__seat_turn(LARDER__AT_CACHE);
    p->plan.n = p->plan.fetched = 0;
    larder_pace pace = larder__pace_now(&l->pace);
    larder__draw_pace(l->draw, &pace);
    int rc = l->kept ? reopen_kept(l, &p->plan) : larder__draw_next(l->draw, &p->plan);
    larder__curve fresh = {.low = (double)NAN};
    if (rc == 0)
        plan_package(l, p);
    if (rc == 0 && p->plan.first)
        larder__shown_scores(l->draw, larder__data_about(l->data)->count, &fresh);
    larder__seat_turn(LARDER__AT_NOTHING);
    pthread_mutex_lock(&l->lock);
    if (isfinite(fresh.low)) {
        larder__curve *c = larder__shown_curve(l, p->plan.epoch);
        c->low = fresh.low, c->high = fresh.high;
        memcpy(c->bins, fresh.bins, sizeof c->bins);
    }
    larder__stall_note(l);
    l->planning = false;
    if (rc < 0) {
        l->torn = true;
        larder__loader_fail(l, rc);
    } else if (rc == LARDER__EVALUATE) {
        l->evaluation.due = true;
    } else {
        if (l->kept) {
            larder__kept *done = l->kept;
            l->kept = done->next;
            done->next = NULL;
            larder__kept_free(done);
        }
        larder__place_begin(l, p);
        l->planned++;
    }
    pthread_cond_broadcast(&l->work);
    pthread_cond_broadcast(&l->ready);
}

void larder__place_begin(larder_loader *l, larder__place *p) {
    p->reported = false;
    p->next_row = p->pieces_read = 0;
    p->unprepared = p->plan.n;
    memset(p->kind, LARDER_HIT, p->plan.n);
    p->rows = p->rows_left = p->plan.n + p->plan.fetched;
    memset(p->read_bytes, 0, p->plan.n * sizeof *p->read_bytes);
    for (size_t i = 0; i < p->plan.n; i++)
        p->faults[i].code = 0;
    p->phase = LARDER__WORKING;
    pthread_cond_broadcast(&l->work);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Some of the batch's rows, or the whole package behind them. */
static size_t rows_to_take(const larder_loader *l, const larder__place *p) {
    bool besides = p->next_row >= p->plan.n;
    size_t left = (besides ? p->rows : p->plan.n) - p->next_row;
    return l->piece < left && !(besides && !l->spread) ? l->piece : left;
}

static bool has_rows(const larder__place *p) {
    return p->phase == LARDER__WORKING && p->next_row < p->rows;
}

larder__place *larder__unread_find(larder_loader *l) {
    if (l->readers.under_way >= l->conf.inflight)
        return NULL;
    for (int k = 0; k < 2; k++)
        if (has_rows(&l->evaluation.places[k]))
            return &l->evaluation.places[k];
    for (uint64_t k = l->taken; k < l->planned; k++) {
        larder__place *p = &l->ring[k % l->conf.ahead];
        if (has_rows(p))
            return p;
    }
    return NULL;
}

/* Batch k may be prepared once the batch before it in its memory has been given back. It must have
 * been taken at all: whoever was read first must not push out one that comes first. */
static bool may_prepare(const larder_loader *l, const larder__place *p) {
    uint64_t k = p->plan.number;
    if (p->calm)
        return true;
    uint64_t of = l->x_of[k % l->conf.prefetch];
    return k < l->taken + l->conf.prefetch && (of == k || of == UINT64_MAX);
}

static void lend_pixels(larder_loader *l, larder__place *p) {
    uint64_t k = p->plan.number;
    if (p->calm || l->x_of[k % l->conf.prefetch] == k)
        return;
    l->x_of[k % l->conf.prefetch] = k;
    p->x = larder__block_pixels(l->x[k % l->conf.prefetch]);
    p->batch.x = l->conf.order_only ? NULL : p->x;
}

/* The oldest batch with a piece that was read and may be prepared. */
static larder__place *find_read(larder_loader *l) {
    for (int k = 0; k < 2; k++)
        if (l->evaluation.places[k].phase == LARDER__WORKING && l->evaluation.places[k].pieces_read)
            return &l->evaluation.places[k];
    for (uint64_t k = l->taken; k < l->planned && k < l->taken + l->conf.prefetch; k++) {
        larder__place *p = &l->ring[k % l->conf.ahead];
        if (p->phase == LARDER__WORKING && p->pieces_read && may_prepare(l, p))
            return p;
    }
    return NULL;
}

static void take_read(larder_loader *l, larder__place *p, size_t *from, size_t *n) {
    size_t i = 0;
    while (!p->piece_read[i])
        i++;
    p->piece_read[i] = false;
    p->pieces_read--;
    *from = i * l->piece;
    *n = p->plan.n - *from < l->piece ? p->plan.n - *from : l->piece;
}

static void rows_finished(larder_loader *l, larder__place *p, size_t n) {
    p->rows_left -= n;
    if (p->rows_left > 0)
        return;
    if (!p->calm)
        larder__stat_observe(l->stats, l->stat.fill, larder__now() - p->begun);
    p->phase = LARDER__FILLED;
    pthread_cond_broadcast(&l->ready);
}

void larder__unread_take(larder_loader *l, larder__place *p, size_t *from, size_t *n) {
    *from = p->next_row;
    *n = rows_to_take(l, p);
    p->next_row += *n;
    if (*from == 0)
        p->begun = larder__now();
    l->readers.under_way++;
    if (larder__readers_wanted(l) && larder__unread_find(l))
        larder__readers_call(l); /* one more beside us */
    pthread_mutex_unlock(&l->lock);
    bool package = *from >= p->plan.n;
    if (package)
        fill_package(l, p, *from, *n);
    else
        larder__rows_read(l, p, *from, *n);
    pthread_mutex_lock(&l->lock);
    l->readers.under_way--;
    if (package) {
        rows_finished(l, p, *n);
        *n = 0;
    }
}

void larder__unread_keep(larder_loader *l, larder__place *p, size_t from) {
    p->piece_read[from / l->piece] = true;
    p->pieces_read++;
    pthread_cond_signal(&l->work);
    if (p->calm) /* the user's thread helps */
        pthread_cond_broadcast(&l->ready);
}

static void prepare(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t from,
                    size_t n) {
    lend_pixels(l, p);
    pthread_mutex_unlock(&l->lock);
    larder__rows_prepare(l, scratch, p, from, n);
    pthread_mutex_lock(&l->lock);
    p->unprepared -= n;
    if (p->unprepared == 0 && l->conf.on_bad == LARDER_BAD_REPLACE && !p->calm) {
        pthread_mutex_unlock(&l->lock);
        larder__bad_replace(l, scratch, p);
        pthread_mutex_lock(&l->lock);
    }
    rows_finished(l, p, n);
}

/* Where storage answers at once, whoever read a piece prepares it while it is in its caches. */
static void read_and_prepare(larder_loader *l, larder__scratch *scratch, larder__place *p) {
    size_t from, n;
    larder__unread_take(l, p, &from, &n);
    if (n && may_prepare(l, p))
        prepare(l, scratch, p, from, n);
    else if (n)
        larder__unread_keep(l, p, from);
}

static void prepare_read(larder_loader *l, larder__scratch *scratch, larder__place *p) {
    size_t from, n;
    take_read(l, p, &from, &n);
    prepare(l, scratch, p, from, n);
}

bool larder__place_work(larder_loader *l, larder__scratch *scratch, larder__place *p) {
    if (p->pieces_read)
        prepare_read(l, scratch, p);
    else if (has_rows(p))
        read_and_prepare(l, scratch, p);
    else
        return false;
    return true;
}

/* One step of a thread's work; false: there is none for it. */
static bool work(larder_loader *l, larder__scratch *scratch) {
    larder__place *p;
    if (may_draw(l))
        draw_batch(l);
    else if ((p = find_read(l)))
        prepare_read(l, scratch, p);
    else if ((p = larder__unread_find(l)) && !larder__readers_wanted(l))
        read_and_prepare(l, scratch, p);
    else if (p) {
        larder__readers_call(l);
        return !larder__readers_wanted(l); /* there may be none to be had */
    } else
        return false;
    return true;
}

static void rest(larder_loader *l) {
    larder__stall_note(l);
    l->idle++;
    pthread_cond_wait(&l->work, &l->lock);
    larder__stall_note(l);
    l->idle--;
}

void *larder__worker_run(void *arg) {
    larder_loader *l = arg;
    larder__scratch *scratch = NULL;
    int rc = larder__scratch_open(&scratch);
    pthread_mutex_lock(&l->lock);
    if (rc < 0) {
        larder__loader_fail(l, rc);
        pthread_cond_broadcast(&l->ready);
    }
    larder__seat_take(&l->seats[l->seated++]);
    while (!l->stop && !l->failed)
        if (!work(l, scratch))
            rest(l);
    pthread_mutex_unlock(&l->lock);
    larder__scratch_close(&scratch);
    return NULL;
}

void larder__worker_abandon(larder_loader *l) {
    larder__cache *cache = l->draw ? larder__draw_cache(l->draw) : NULL;
    /* Makers first: whoever waits for one of them must not wait for ever. */
    for (int waiting = 0; waiting < 2; waiting++)
        for (uint32_t k = 0; l->ring && k < l->conf.ahead; k++) {
            larder__place *p = &l->ring[k];
            for (size_t i = 0; p->phase != LARDER__LENT && i < p->plan.n + p->plan.fetched; i++) {
                larder__ticket *t = &p->plan.tickets[i];
                larder_buf **bytes = &p->bytes[i];
                larder_buf_unref(bytes);
                if (!waiting && t->flight && t->task == LARDER__MAKE)
                    larder__cache_fail(cache, t, LARDER_E_CANCELLED, "the loader was closed");
                else if (waiting && t->flight && t->task == LARDER__WAIT)
                    larder__cache_wait(cache, t, bytes);
                larder_buf_unref(bytes);
                larder__ticket_drop(t);
            }
        }
}
