/* What becomes of bytes: rows of a batch, and entries that the cache keeps in another form. */
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "loader/fill/below.h"

#include <stdatomic.h>
#include <stdio.h>

uint64_t larder__row_seed(const larder_loader *l, const larder__planned *p, size_t row) {
    if (larder__draw_ranks(l->draw))
        return larder__place_seed(l->conf.seed, larder__draw_batch(l->draw), 0, 1, p->number,
                                  larder__planned_place(p, row));
    return larder__place_seed(l->conf.seed, l->conf.batch, l->conf.rank, l->conf.world, p->number,
                              row);
}

void larder__row_failed(larder__place *p, size_t row, int code, const char *why) {
    char *out = p->faults[row].why;
    size_t cap = sizeof p->faults[row].why;
    p->faults[row].code = code;
    p->faulty = true;
    if (strncmp(why, "sample ", 7) == 0)
        snprintf(out, cap, "%s", why);
    else
        snprintf(out, cap, "sample %llu: %s", (unsigned long long)p->plan.tickets[row].key, why);
}

/* The chance of an augmented entry: of its own, not a row's. */
static uint64_t entry_seed(const larder_loader *l, uint64_t mark) {
    return larder__mix64(l->conf.seed ^ larder__mix64(~mark));
}

static int make_view(larder_loader *l, larder__scratch *scratch, larder_buf *bytes,
                     larder_form form, uint64_t seed, void *out) {
    const void *data = larder_buf_data(bytes);
    size_t size = larder_buf_size(bytes);
    if (form == LARDER_ENCODED)
        return larder__pipeline_run(l->pipeline, scratch, data, size, seed, out);
    if (form == LARDER_DECODED)
        return larder__pipeline_run_decoded(l->pipeline, scratch, data, size, seed, out);
    return larder__pipeline_run_shrunk(l->pipeline, scratch, data, size, seed, out);
}

uint64_t larder__view_seed(uint64_t seed, size_t view) {
    return view == 0 || seed == LARDER__NO_CHANCE ? seed : larder__mix64(seed + view);
}

int larder__pixels_make(larder_loader *l, larder__scratch *scratch, larder_buf *bytes,
                        larder_form form, uint64_t seed, void *out) {
    const void *data = larder_buf_data(bytes);
    size_t size = larder_buf_size(bytes), each = l->row_bytes / l->conf.views;
    int rc = 0;
    for (size_t v = 0; form != LARDER_AUGMENTED && v < l->conf.views && rc == 0; v++)
        rc = make_view(l, scratch, bytes, form, larder__view_seed(seed, v), (char *)out + v * each);
    if (form != LARDER_AUGMENTED)
        return rc;
    if (size != l->row_bytes)
        return larder__fail(LARDER_E_FORMAT, "an augmented sample of %zu bytes, not %zu", size,
                            l->row_bytes);
    memcpy(out, data, size);
    return 0;
}

int larder__row_blame(larder_loader *l, uint64_t id, int rc) {
    char name[160] = "?";
    larder__data_name(l->data, id, name, sizeof name);
    return larder__fail_in(rc, "sample %llu (%s)", (unsigned long long)id, name);
}

int larder__row_decode(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t row,
                       uint64_t id, larder_buf *bytes, larder_form form, uint64_t seed) {
    larder_sample s;
    int rc = larder__data_stat(l->data, id, &s);
    if (rc == 0 && l->maker.make)
        rc = larder__made_row(l, scratch, p, row, id, bytes, form, seed, s.label);
    else if (rc == 0 && l->columns)
        rc = larder__fields_fill(l, scratch, p, row, id, bytes, seed, s.label);
    else if (rc == 0)
        rc = larder__pixels_make(l, scratch, bytes, form, seed, p->x + row * l->row_bytes);
    if (rc < 0)
        return larder__row_blame(l, id, rc);
    if (!l->columns)
        p->y[row] = s.label;
    p->served[row] = id;
    return 0;
}

enum { PROBED = 64 };

/* plan=auto has to know what pixels would save before there are any: the first rows are prepared
 * once more, from theirs. Nobody sees the result, so what goes wrong here is left out. */
static void probe_pixels(larder_loader *l, larder__scratch *scratch, larder_buf *encoded,
                         uint64_t seed) {
    larder_buf *pixels = NULL;
    unsigned char *row = larder__malloc(l->row_bytes + 1);
    if (row && larder__pipeline_decode(l->pipeline, scratch, encoded, SIZE_MAX, &pixels) == 0 &&
        pixels) {
        double begun = larder__scratch_seconds(scratch);
        if (larder__pixels_make(l, scratch, pixels, LARDER_DECODED, seed, row) == 0)
            larder__pace_stage(&l->pace, true, larder__scratch_seconds(scratch) - begun);
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

uint64_t larder__row_chance(const larder_loader *l, const larder__place *p, size_t row) {
    return p->calm      ? LARDER__NO_CHANCE
           : p->chances ? p->chances[row]
                        : larder__row_seed(l, &p->plan, row);
}

/* What is the program's own is kept as it is, whatever way its size is found out. */
uint8_t larder__row_form(const larder_loader *l, const larder__ticket *t) {
    return (uint8_t)((l->own ? LARDER_ENCODED : t->form) | (t->front ? LARDER__FRONT : 0));
}

/* What the cache held cannot be made into a row: it may have been damaged there, so storage is
 * asked once before the sample is bad. */
static int read_again(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t row,
                      uint64_t seed, int code) {
    const larder__ticket *t = &p->plan.tickets[row];
    larder_buf *bytes = NULL;
    char why[256];
    if (t->task == LARDER__MAKE || l->parts || code == LARDER_E_NOMEM)
        return code;
    snprintf(why, sizeof why, "%s", larder_errmsg());
    int rc = larder__row_alone(l, p, t->key, &bytes);
    if (rc == 0)
        rc = larder__row_decode(l, scratch, p, row, t->key, bytes, LARDER_ENCODED, seed);
    if (rc == 0) {
        p->read_bytes[row] += (uint32_t)larder_buf_size(bytes);
        larder__stat_add(l->stats, l->stat.healed, 1);
        if (!atomic_exchange(&l->healed_told, true))
            larder__note(l->stats,
                         "what the cache held of a sample was no good, and it was read again: %s; "
                         "others that are follow without a word (cache_healed)",
                         why);
    }
    larder_buf_unref(&bytes);
    return rc;
}

void larder__row_finish(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t row,
                        larder_buf *bytes) {
    const larder__ticket *t = &p->plan.tickets[row];
    uint64_t seed = larder__row_chance(l, p, row);
    double begun = l->plans ? larder__scratch_seconds(scratch) : 0;
    int rc = larder__row_decode(l, scratch, p, row, t->key, bytes, t->held, seed);
    if (rc < 0)
        rc = read_again(l, scratch, p, row, seed, rc);
    if (rc < 0)
        larder__row_failed(p, row, rc, larder_errmsg());
    else if (l->plans)
        note_stage(l, scratch, t, bytes, seed, larder__scratch_seconds(scratch) - begun);
}

/* A row for the device is written down instead, and its label with it. */
static bool leave_to_device(larder_loader *l, larder__place *p, size_t row, larder_buf *bytes) {
    const larder__ticket *t = &p->plan.tickets[row];
    larder_sample s;
    if (row >= p->device_rows || larder__data_stat(l->data, t->key, &s) < 0 ||
        !larder__freight_order(l, p, row, bytes, t->held, larder__row_chance(l, p, row)))
        return false;
    p->y[row] = s.label;
    p->served[row] = t->key;
    return true;
}

static void finish_row(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t row,
                       larder_buf *bytes) {
    const larder__ticket *t = &p->plan.tickets[row];
    p->kind[row] = t->kind;
    p->form[row] = larder__row_form(l, t);
    if (leave_to_device(l, p, row, bytes))
        return;
    larder__row_finish(l, scratch, p, row, bytes);
}

/* The entry that the cache wants, from what was read; `held` says what became of it. */
int larder__entry_make(larder_loader *l, larder__scratch *scratch, const larder__ticket *t,
                       larder_buf *read, larder_buf **out, uint8_t *held) {
    *out = NULL;
    *held = t->make;
    int rc = 0;
    larder__at was =
        t->make == LARDER_ENCODED ? LARDER__AT_CACHE : larder__seat_turn(LARDER__AT_PREPARE);
    if (t->make == LARDER_DECODED)
        rc = larder__pipeline_decode(l->pipeline, scratch, read, t->size, out);
    else if (t->make == LARDER_SHRUNK)
        rc = larder__shrink_make(l, scratch, read, out);
    else if (t->make == LARDER_AUGMENTED) {
        if (!(*out = larder_buf_new(l->row_bytes)))
            return LARDER_E_NOMEM;
        rc = larder__pixels_make(l, scratch, read, LARDER_ENCODED, entry_seed(l, t->mark),
                                 larder_buf_data(*out));
    }
    larder__seat_turn(was);
    if (rc < 0) {
        larder_buf_unref(out);
        return larder__row_blame(l, t->key, rc);
    }
    if (!*out) { /* wanted as it is, too large decoded or too small to shrink */
        *out = larder_buf_ref(read);
        *held = LARDER_ENCODED;
    }
    return 0;
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
    if (row >= p->plan.n) { /* fetched besides */
        larder__cache_wait_only(larder__draw_cache(l->draw), t, bytes);
        larder__seat_turn(was);
        return;
    }
    int rc = larder__cache_wait(larder__draw_cache(l->draw), t, bytes);
    if (rc == LARDER__TAKE_OVER)
        rc = larder__row_take_over(l, p, t, bytes);
    larder__seat_turn(was);
    if (rc < 0) {
        larder__row_failed(p, row, rc, larder_errmsg());
        return;
    }
    /* A miss that shares a read costs what it would have alone: what the ledger says follows from
     * the order. The counters have the bytes that really came. With a disk below, where it came
     * from does not follow from the order, and its maker has said it. */
    larder_sample sample;
    if (t->kind == LARDER_MISS && !l->below && larder__data_stat(l->data, t->key, &sample) == 0)
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
        p->form[i] = larder__row_form(l, t);
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
    if (l->maker.make) {
        larder__rows_made(l, scratch, p, from, n);
        larder__stat_observe(l->stats, l->stat.decode_time, larder__now() - begun);
        n = 0;
    }
    for (size_t i = 0; i < n; i++) {
        larder__ticket *t = &p->plan.tickets[from + i];
        if (t->task == LARDER__READY && t->buf) {
            bytes[i] = t->buf;
            t->buf = NULL;
        }
        if (bytes[i] && from + i < p->plan.n) /* what was fetched besides only had to be filled */
            finish_timed(l, scratch, p, from + i, bytes[i], &times);
        else if (from + i < p->plan.n && t->task != LARDER__WAIT && p->faults[from + i].code == 0)
            larder__row_failed(p, from + i, LARDER_E_STATE, "nobody brought its bytes");
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
