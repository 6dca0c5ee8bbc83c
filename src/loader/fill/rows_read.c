/* The bytes of rows: from a cache elsewhere, from storage by one joint read, or past the cache. */
#include "base/asked.h"
#include "base/clock.h"
#include "base/err.h"
#include "loader/fill/below.h"

#include <stdatomic.h>

/* Hands the cache its entry, made of what was read, and leaves in *bytes what the row begins with.
 * Done by whoever reads: those who wait for an entry wait for somebody who is at it. */
static void settle_entry(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t row,
                         larder_buf **bytes) {
    larder__ticket *t = &p->plan.tickets[row];
    larder__cache *cache = larder__draw_cache(l->draw);
    larder_buf *entry = NULL;
    int rc = scratch || t->make == LARDER_ENCODED
                 ? larder__entry_make(l, scratch, t, *bytes, &entry, &t->held)
                 : LARDER_E_NOMEM;
    if (rc < 0) {
        if (row < p->plan.n)
            larder__row_failed(p, row, rc, larder_errmsg());
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
static larder__scratch *entry_scratch(larder_loader *l, const larder__place *p, size_t from,
                                      size_t n) {
    larder__scratch *scratch = NULL;
    for (size_t i = 0; !scratch && i < n; i++)
        if (p->plan.tickets[from + i].task == LARDER__MAKE &&
            p->plan.tickets[from + i].make != LARDER_ENCODED &&
            larder__loader_scratch(l, &scratch) < 0)
            break;
    return scratch;
}

static int read_rows(larder_loader *l, larder__place *p, size_t from, size_t m,
                     const larder__joint *j) {
    if (!l->parts)
        return larder__data_read(l->data, j->ids, m, j->reads);
    for (size_t k = 0; k < m; k++)
        j->rects[k] = larder__planned_rect(&p->plan, l->parts, from + j->rows[k]);
    return larder__data_read_parts(l->data, j->ids, j->rects, m, j->reads);
}

void larder__joint_note(larder_loader *l, larder__place *p, uint64_t before, uint64_t samples,
                        uint64_t bytes) {
    uint64_t requests = larder__requests() - before;
    larder__stat_add(l->stats, l->stat.storage_reads, samples);
    larder__stat_add(l->stats, l->stat.storage_bytes, bytes);
    larder__stat_add(l->stats, l->stat.storage_requests, requests);
    atomic_fetch_add(p ? &p->requests : &l->probe_requests, requests);
}

/* From storage, and how long that took. */
static int read_far(larder_loader *l, larder__place *p, size_t from, size_t m, larder__joint *j) {
    double begun = larder__now(), cpu = larder__thread_seconds();
    larder__pace_read paced = larder__pace_read_begin(&l->pace, begun, m);
    atomic_fetch_add(&p->reading, 1);
    larder__seat_turn(LARDER__AT_READ);
    int rc = read_rows(l, p, from, m, j);
    larder__seat_turn(LARDER__AT_CACHE);
    double ended = larder__now();
    larder__pace_read_end(&l->pace, ended, paced);
    larder__stat_observe(l->stats, l->stat.read_time, ended - begun);
    larder__readers_note(l, p, ended - begun, larder__thread_seconds() - cpu);
    return rc;
}

/* Reads what has to be made, all together, and hands it to the cache. */
void larder__joint_read(larder_loader *l, larder__place *p, size_t from, size_t n,
                        larder__joint *j) {
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
    uint64_t before = larder__requests();
    size_t far = l->below ? larder__below_take(l, j, m) : m;
    int rc = far ? read_far(l, p, from, far, j) : 0;
    if (l->below && rc == 0)
        larder__below_keep(l, j, far);
    uint64_t total = 0;
    larder__scratch *scratch = entry_scratch(l, p, from, n);
    for (size_t k = 0; k < m; k++) {
        size_t row = from + rows[k];
        bool read = k < far;
        int code = rc < 0 && read ? rc : reads[k].code;
        if (code < 0) {
            const char *why = rc < 0 ? larder_errmsg() : reads[k].why;
            if (row < p->plan.n)
                larder__row_failed(p, row, code, why);
            larder__cache_fail(larder__draw_cache(l->draw), &p->plan.tickets[row], code, why);
            continue;
        }
        bytes[rows[k]] = reads[k].buf;
        total += read ? larder_buf_size(reads[k].buf) : 0;
        if (read && row < p->plan.n)
            p->read_bytes[row] = (uint32_t)larder_buf_size(reads[k].buf);
        if (!read && p->plan.tickets[row].kind == LARDER_MISS) /* the tier below had it */
            p->plan.tickets[row].kind = LARDER_HIT;
        settle_entry(l, scratch, p, row, &bytes[rows[k]]);
    }
    larder__scratch_close(&scratch);
    larder__seat_turn(LARDER__AT_NOTHING);
    larder__joint_note(l, p, before, far, total);
}

/* Another job had promised to read it and cannot: for this row alone, the cache knows nothing. */
int larder__row_alone(larder_loader *l, larder__place *p, uint64_t id, larder_buf **out) {
    larder_read read = {0};
    uint64_t before = larder__requests();
    int rc = larder__data_read(l->data, &id, 1, &read);
    if (rc == 0 && read.code < 0) {
        rc = read.code;
        larder__errmsg_set(read.why);
    }
    if (rc < 0)
        return rc;
    *out = read.buf;
    larder__joint_note(l, p, before, 1, larder_buf_size(read.buf));
    return 0;
}

int larder__row_take_over(larder_loader *l, larder__place *p, larder__ticket *t, larder_buf **out) {
    int rc = larder__below_alone(l, p, t->key, out);
    t->held = LARDER_ENCODED;
    larder__cache_took_over(larder__draw_cache(l->draw), t, rc, *out);
    return rc;
}

/* Entries that the cache holds elsewhere come first; those that are gone there are read with the
 * misses. */
static void receive_rows(larder_loader *l, larder__place *p, size_t from, size_t n) {
    double begun = larder__now(), cpu = larder__thread_seconds();
    larder__seat_turn(LARDER__AT_CACHE);
    if (larder__cache_receive(larder__draw_cache(l->draw), p->plan.tickets + from, n,
                              p->bytes + from) < 0)
        for (size_t i = from; i < from + n; i++)
            if (i < p->plan.n && p->plan.tickets[i].task == LARDER__READY && !p->bytes[i])
                larder__row_failed(p, i, LARDER_E_NOMEM, "out of memory");
    larder__seat_turn(LARDER__AT_NOTHING);
    if (larder__cache_is_far(larder__draw_cache(l->draw)))
        larder__readers_note(l, NULL, larder__now() - begun, larder__thread_seconds() - cpu);
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
        return larder__row_take_over(l, p, t, out);
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
    larder__joint j = {ids, rows, reads, rects, p->bytes + from};
    larder__joint_read(l, p, from, n, &j);
}
