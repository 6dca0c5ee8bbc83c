/* The threads: draw the next batch when there is room for one, else fill rows of the oldest batch
 * that still has any. Drawing is done by one thread at a time and in order; filling by all. */
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "loader/inside.h"

#include <stdio.h>

/* ---- filling rows ---------------------------------------------------------------------------- */

uint64_t larder__row_seed(const larder_loader *l, uint64_t batch, size_t row) {
    return larder__place_seed(l->conf.seed, l->conf.batch, l->conf.rank, l->conf.world, batch, row);
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

int larder__row_decode(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t row,
                       uint64_t id, larder_buf *bytes, uint64_t seed) {
    larder_sample s;
    int rc = larder__data_stat(l->data, id, &s);
    if (rc == 0)
        rc = larder__pipeline_run(l->pipeline, scratch, larder_buf_data(bytes),
                                  larder_buf_size(bytes), seed, p->x + row * l->row_bytes);
    if (rc < 0) {
        char name[160] = "?";
        larder__data_name(l->data, id, name, sizeof name);
        return larder__fail_in(rc, "sample %llu (%s)", (unsigned long long)id, name);
    }
    p->y[row] = s.label;
    p->served[row] = id;
    return 0;
}

static void finish_row(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t row,
                       larder_buf *bytes) {
    const larder__ticket *t = &p->plan.tickets[row];
    p->kind[row] = t->kind;
    int rc = larder__row_decode(l, scratch, p, row, t->key, bytes,
                                larder__row_seed(l, p->plan.number, row));
    if (rc < 0)
        row_failed(p, row, rc, larder_errmsg());
}

typedef struct joint { /* room for one joint read of several rows */
    uint64_t *ids;
    size_t *rows;
    larder_read *reads;
    larder_rect *rects; /* of each read; unused where samples are read whole */
    larder_buf **bytes; /* of each row, one reference or NULL */
} joint;

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
        if (p->plan.tickets[from + i].task == LARDER__MAKE) {
            rows[m] = i;
            ids[m++] = p->plan.tickets[from + i].key;
        }
    if (m == 0)
        return;
    double begun = larder__now();
    larder__pace_read_begin(&l->pace, begun);
    int rc = read_rows(l, p, from, m, j);
    double ended = larder__now();
    larder__pace_read_end(&l->pace, ended, m);
    larder__stat_observe(l->stats, l->stat.read_time, ended - begun);
    uint64_t total = 0;
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
        larder__cache_fill(larder__draw_cache(l->draw), &p->plan.tickets[row], reads[k].buf);
    }
    larder__stat_add(l->stats, l->stat.storage_reads, m);
    larder__stat_add(l->stats, l->stat.storage_bytes, total);
}

/* Another job had promised to read it and cannot: for this row alone, the cache knows nothing. */
static int read_alone(larder_loader *l, uint64_t id, larder_buf **out) {
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

void larder__rows_fill(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t from,
                       size_t n) {
    uint64_t ids[LARDER__ROWS_AT_ONCE];
    size_t rows[LARDER__ROWS_AT_ONCE];
    larder_read reads[LARDER__ROWS_AT_ONCE];
    larder_rect rects[LARDER__ROWS_AT_ONCE];
    larder_buf *bytes[LARDER__ROWS_AT_ONCE] = {0};
    make_rows(l, p, from, n, &(joint){ids, rows, reads, rects, bytes});
    double begun = larder__now();
    for (size_t i = 0; i < n; i++) {
        larder__ticket *t = &p->plan.tickets[from + i];
        if (t->task == LARDER__READY && t->buf) {
            bytes[i] = t->buf;
            t->buf = NULL;
        }
        if (bytes[i] && from + i < p->plan.n) /* what was fetched besides only had to be filled */
            finish_row(l, scratch, p, from + i, bytes[i]);
        larder_buf_unref(&bytes[i]);
    }
    larder__stat_observe(l->stats, l->stat.decode_time, larder__now() - begun);
    for (size_t i = 0; i < n; i++) { /* the maker is ahead of us in the queue, so this ends */
        larder__ticket *t = &p->plan.tickets[from + i];
        if (t->task != LARDER__WAIT)
            continue;
        int rc = larder__cache_wait(larder__draw_cache(l->draw), t, &bytes[i]);
        if (from + i >= p->plan.n) {
            larder_buf_unref(&bytes[i]);
            continue;
        }
        if (rc == LARDER__TAKE_OVER)
            rc = read_alone(l, t->key, &bytes[i]);
        if (rc < 0)
            row_failed(p, from + i, rc, larder_errmsg());
        else {
            /* A miss that shares a read costs what it would have alone: what the ledger says
             * follows from the order. The counters have the bytes that really came. */
            if (t->kind == LARDER_MISS)
                p->read_bytes[from + i] = (uint32_t)larder_buf_size(bytes[i]);
            finish_row(l, scratch, p, from + i, bytes[i]);
        }
        larder_buf_unref(&bytes[i]);
    }
}

/* Entries fetched besides: a package is one joint read, however large. Where memory for that is
 * short it is read in pieces. */
static void fill_package(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t from,
                         size_t n) {
    joint j = {.ids = larder__malloc(n * sizeof *j.ids),
               .rows = larder__malloc(n * sizeof *j.rows),
               .reads = larder__malloc(n * sizeof *j.reads),
               .rects = larder__malloc(n * sizeof *j.rects),
               .bytes = larder__calloc(n, sizeof *j.bytes)};
    bool whole = j.ids && j.rows && j.reads && j.rects && j.bytes;
    if (whole)
        make_rows(l, p, from, n, &j);
    for (size_t i = 0; whole && i < n; i++) {
        larder__ticket *t = &p->plan.tickets[from + i];
        larder_buf_unref(&j.bytes[i]);
        larder__ticket_drop(t);
        if (t->task == LARDER__WAIT && t->flight)
            larder__cache_wait(larder__draw_cache(l->draw), t, &j.bytes[i]);
        larder_buf_unref(&j.bytes[i]);
    }
    larder__free(j.ids);
    larder__free(j.rows);
    larder__free(j.reads);
    larder__free(j.rects);
    larder__free(j.bytes);
    for (size_t at = 0; !whole && at < n; at += LARDER__ROWS_AT_ONCE)
        larder__rows_fill(l, scratch, p, from + at,
                          n - at < LARDER__ROWS_AT_ONCE ? n - at : LARDER__ROWS_AT_ONCE);
}

/* ---- drawing batches ------------------------------------------------------------------------- */

/* A cache that keeps parts may hold too little of a sample by now: then it is read alone. */
static int reclaim(larder_loader *l, larder__planned *p, size_t row, uint64_t id) {
    larder__cache *cache = larder__draw_cache(l->draw);
    uint32_t size = larder__entry_bytes(l, id);
    if (p->holds) {
        bool resident = larder__cache_resident(cache, id);
        p->holds[row] = larder__parts_hold(l->parts, p->number, row, id, resident);
        bool enough = resident && larder__parts_holds(l->parts, p->number, row, id);
        size = enough ? larder__parts_bytes(l->parts, id, &p->holds[row]) : 0;
    }
    return larder__cache_reclaim(cache, id, size, &p->tickets[row]);
}

/* A batch from before a save: its decisions stand, only the bytes have to be found again. */
static int reopen_kept(larder_loader *l, larder__planned *p) {
    larder__kept *k = l->kept;
    p->number = k->number;
    p->epoch = k->epoch;
    p->length = k->length;
    p->first = k->first;
    p->last = k->last;
    p->n = p->fetched = 0;
    for (size_t i = 0; i < k->n; i++) {
        int rc = reclaim(l, p, i, k->served[i]);
        if (rc < 0)
            return rc;
        if (k->substitute[i])
            p->tickets[i].kind = LARDER_SUBSTITUTE;
        p->ids[i] = k->ids[i];
        p->weights[i] = k->weights[i];
        p->n++; /* counted one by one, so that a failure leaves only tickets that are open */
    }
    return 0;
}

static bool may_draw(const larder_loader *l) {
    if (l->planning || l->failed || l->evaluation.due ||
        l->ring[l->planned % l->conf.prefetch].phase != LARDER__FREE)
        return false;
    return l->kept || l->conf.epochs == 0 || larder__draw_epoch(l->draw) < l->conf.epochs;
}

/* Called with the lock held; gives it up while drawing. */
static void draw_batch(larder_loader *l) {
    larder__place *p = &l->ring[l->planned % l->conf.prefetch];
    l->planning = true;
    pthread_mutex_unlock(&l->lock);
    p->plan.n = p->plan.fetched = 0;
    larder_pace pace = larder__pace_now(&l->pace);
    larder__draw_pace(l->draw, &pace);
    int rc = l->kept ? reopen_kept(l, &p->plan) : larder__draw_next(l->draw, &p->plan);
    pthread_mutex_lock(&l->lock);
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
        p->reported = false;
        p->next_row = 0;
        p->rows = p->rows_left = p->plan.n + p->plan.fetched;
        memset(p->read_bytes, 0, p->plan.n * sizeof *p->read_bytes);
        for (size_t i = 0; i < p->plan.n; i++)
            p->faults[i].code = 0;
        p->phase = LARDER__WORKING;
        l->planned++;
    }
    pthread_cond_broadcast(&l->work);
    pthread_cond_broadcast(&l->ready);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Some of the batch's rows, or the whole package behind them. */
static size_t rows_to_take(const larder_loader *l, const larder__place *p) {
    size_t left = p->rows - p->next_row;
    if (p->next_row >= p->plan.n)
        return left;
    left = p->plan.n - p->next_row;
    size_t share = l->conf.batch / (2 * (size_t)l->conf.threads);
    share = share < 1 ? 1 : share > LARDER__ROWS_AT_ONCE ? LARDER__ROWS_AT_ONCE : share;
    return share < left ? share : left;
}

/* The oldest batch with rows nobody has taken; NULL: none. */
static larder__place *find_rows(larder_loader *l) {
    for (uint64_t k = l->taken; k < l->planned; k++) {
        larder__place *p = &l->ring[k % l->conf.prefetch];
        if (p->phase == LARDER__WORKING && p->next_row < p->rows)
            return p;
    }
    return NULL;
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
    while (!l->stop && !l->failed) {
        larder__place *p;
        if (may_draw(l))
            draw_batch(l);
        else if ((p = find_rows(l))) {
            size_t from = p->next_row, n = rows_to_take(l, p);
            p->next_row += n;
            pthread_mutex_unlock(&l->lock);
            if (from < p->plan.n)
                larder__rows_fill(l, scratch, p, from, n);
            else
                fill_package(l, scratch, p, from, n);
            pthread_mutex_lock(&l->lock);
            p->rows_left -= n;
            if (p->rows_left == 0) {
                p->phase = LARDER__FILLED;
                pthread_cond_broadcast(&l->ready);
            }
        } else
            pthread_cond_wait(&l->work, &l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    larder__scratch_close(&scratch);
    return NULL;
}

void larder__worker_abandon(larder_loader *l) {
    larder__cache *cache = l->draw ? larder__draw_cache(l->draw) : NULL;
    /* Makers first: whoever waits for one of them must not wait for ever. */
    for (int waiting = 0; waiting < 2; waiting++)
        for (uint32_t k = 0; l->ring && k < l->conf.prefetch; k++) {
            larder__place *p = &l->ring[k];
            for (size_t i = 0; p->phase != LARDER__LENT && i < p->plan.n + p->plan.fetched; i++) {
                larder__ticket *t = &p->plan.tickets[i];
                larder_buf *bytes = NULL;
                if (!waiting && t->flight && t->task == LARDER__MAKE)
                    larder__cache_fail(cache, t, LARDER_E_CANCELLED, "the loader was closed");
                else if (waiting && t->flight && t->task == LARDER__WAIT)
                    larder__cache_wait(cache, t, &bytes);
                larder_buf_unref(&bytes);
                larder__ticket_drop(t);
            }
        }
}
