/* The threads: draw the next batch when there is room for one, else fill rows of the oldest batch
 * that still has any. Drawing is done by one thread at a time and in order; filling by all. */
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "loader/inside.h"

#include <stdio.h>

/* ---- filling rows ---------------------------------------------------------------------------- */

uint64_t larder__row_seed(const larder_loader *l, uint64_t batch, size_t row) {
    uint64_t place = batch * l->conf.batch * l->conf.world + l->conf.rank * l->conf.batch + row;
    return larder__mix64(l->conf.seed ^ larder__mix64(place + 1));
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

static void finish_row(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t row,
                       larder_buf *bytes) {
    const larder__ticket *t = &p->plan.tickets[row];
    p->kind[row] = t->kind;
    p->form[row] = t->form;
    uint64_t seed = p->calm ? LARDER__NO_CHANCE : larder__row_seed(l, p->plan.number, row);
    int rc = larder__row_decode(l, scratch, p, row, t->key, bytes, t->held, seed);
    if (rc < 0)
        row_failed(p, row, rc, larder_errmsg());
}

/* The entry that the cache wants, from what was read; `held` says what became of it. */
static int make_entry(larder_loader *l, larder__scratch *scratch, const larder__ticket *t,
                      larder_buf *read, larder_buf **out, uint8_t *held) {
    *out = NULL;
    *held = t->make;
    int rc = 0;
    if (t->make == LARDER_DECODED)
        rc = larder__pipeline_decode(l->pipeline, scratch, read, t->size, out);
    else if (t->make == LARDER_AUGMENTED) {
        if (!(*out = larder_buf_new(l->row_bytes)))
            return LARDER_E_NOMEM;
        rc = make_row(l, scratch, read, LARDER_ENCODED, entry_seed(l, t->mark),
                      larder_buf_data(*out));
    }
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
    larder_buf **bytes; /* of each row, one reference or NULL */
} joint;

/* Reads what has to be made, all together. What is kept as it is goes to the cache at once. */
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
    double begun = larder__now();
    larder__pace_read_begin(&l->pace, begun);
    int rc = larder__data_read(l->data, ids, m, reads);
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
        if (p->plan.tickets[row].make == LARDER_ENCODED)
            larder__cache_fill(larder__draw_cache(l->draw), &p->plan.tickets[row], reads[k].buf);
    }
    larder__stat_add(l->stats, l->stat.storage_reads, m);
    larder__stat_add(l->stats, l->stat.storage_bytes, total);
}

/* Hands the cache its entry, if that is still to be made of what was read, and puts into *bytes
 * what the row is made of. */
static void settle_entry(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t row,
                         larder_buf **bytes) {
    larder__ticket *t = &p->plan.tickets[row];
    larder__cache *cache = larder__draw_cache(l->draw);
    if (t->task != LARDER__MAKE || t->make == LARDER_ENCODED || !*bytes)
        return;
    larder_buf *entry;
    int rc = make_entry(l, scratch, t, *bytes, &entry, &t->held);
    if (rc < 0) {
        if (row < p->plan.n)
            row_failed(p, row, rc, larder_errmsg());
        larder__cache_fail(cache, t, rc, larder_errmsg());
        larder_buf_unref(bytes);
        return;
    }
    larder__cache_fill(cache, t, entry);
    if (t->held == t->form) { /* else the row begins with what was read */
        larder_buf_unref(bytes);
        *bytes = entry;
    } else {
        larder_buf_unref(&entry);
        t->held = LARDER_ENCODED;
    }
}

static void settle_row(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t row,
                       larder_buf **bytes) {
    larder__ticket *t = &p->plan.tickets[row];
    if (t->task == LARDER__READY && t->buf) {
        *bytes = t->buf;
        t->buf = NULL;
    }
    settle_entry(l, scratch, p, row, bytes);
    if (*bytes && row < p->plan.n) /* what was fetched besides only had to be filled */
        finish_row(l, scratch, p, row, *bytes);
    larder_buf_unref(bytes);
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

/* Somebody else makes it. They are ahead of us in the queue, so this ends. */
static void await_row(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t row) {
    larder__ticket *t = &p->plan.tickets[row];
    larder_buf *bytes = NULL;
    larder_sample s = {0};
    int rc = larder__cache_wait(larder__draw_cache(l->draw), t, &bytes);
    if (row < p->plan.n && rc == LARDER__TAKE_OVER) {
        rc = read_alone(l, t->key, &bytes);
        t->held = LARDER_ENCODED;
    }
    if (row < p->plan.n && rc < 0)
        row_failed(p, row, rc, larder_errmsg());
    else if (row < p->plan.n) {
        /* A miss that shares a read costs what it would have alone: what the ledger says follows
         * from the order. The counters have the bytes that really came. */
        if (t->kind == LARDER_MISS && larder__data_stat(l->data, t->key, &s) == 0)
            p->read_bytes[row] = s.bytes;
        finish_row(l, scratch, p, row, bytes);
    }
    larder_buf_unref(&bytes);
}

/* Reads and decodes up to LARDER__ROWS_AT_ONCE rows of a place whose tickets are open. */
static void fill_rows(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t from,
                      size_t n) {
    uint64_t ids[LARDER__ROWS_AT_ONCE];
    size_t rows[LARDER__ROWS_AT_ONCE];
    larder_read reads[LARDER__ROWS_AT_ONCE];
    larder_buf *bytes[LARDER__ROWS_AT_ONCE] = {0};
    make_rows(l, p, from, n, &(joint){ids, rows, reads, bytes});
    double begun = larder__now();
    for (size_t i = 0; i < n; i++)
        settle_row(l, scratch, p, from + i, &bytes[i]);
    larder__stat_observe(l->stats, l->stat.decode_time, larder__now() - begun);
    for (size_t i = 0; i < n; i++)
        if (p->plan.tickets[from + i].task == LARDER__WAIT)
            await_row(l, scratch, p, from + i);
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
    p->scratch_bytes = m ? larder__crate_take(l->crates, p->crate, j->ids, m, got) : 0;
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
static void fill_package(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t from,
                         size_t n) {
    joint j = {.ids = larder__malloc(n * sizeof *j.ids),
               .rows = larder__malloc(n * sizeof *j.rows),
               .reads = larder__malloc(n * sizeof *j.reads),
               .bytes = larder__calloc(n, sizeof *j.bytes)};
    bool whole = j.ids && j.rows && j.reads && j.bytes;
    if (whole)
        fill_whole(l, p, from, n, &j);
    else if (p->crate && p->lays_down) /* a broken promise must be told */
        larder__crate_put(l->crates, p->crate, NULL, NULL, 0);
    if (p->crate)
        larder__crate_leave(l->crates, &p->crate);
    larder__free(j.ids);
    larder__free(j.rows);
    larder__free(j.reads);
    larder__free(j.bytes);
    for (size_t at = 0; !whole && at < n; at += LARDER__ROWS_AT_ONCE)
        fill_rows(l, scratch, p, from + at,
                  n - at < LARDER__ROWS_AT_ONCE ? n - at : LARDER__ROWS_AT_ONCE);
}

/* ---- drawing batches ------------------------------------------------------------------------- */

/* A batch from before a save: its decisions stand, only the bytes have to be found again. */
static int reopen_kept(larder_loader *l, larder__planned *p) {
    larder__kept *k = l->kept;
    p->number = k->number;
    p->epoch = k->epoch;
    p->length = k->length;
    p->first = k->first;
    p->last = k->last;
    p->n = p->fetched = p->dropped_count = 0;
    p->package = (larder_package){0};
    for (size_t i = 0; i < k->n; i++) {
        larder_sample s;
        int rc = larder__data_stat(l->data, k->served[i], &s);
        if (rc == 0)
            rc = larder__cache_reclaim(larder__draw_cache(l->draw), k->served[i], s.bytes,
                                       (larder_form)k->form[i], k->mark[i], &p->tickets[i]);
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
    larder__place *p = &l->ring[l->planned % l->conf.prefetch];
    l->planning = true;
    pthread_mutex_unlock(&l->lock);
    p->plan.n = p->plan.fetched = 0;
    larder_pace pace = larder__pace_now(&l->pace);
    larder__draw_pace(l->draw, &pace);
    int rc = l->kept ? reopen_kept(l, &p->plan) : larder__draw_next(l->draw, &p->plan);
    if (rc == 0)
        plan_package(l, p);
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
        larder__place_begin(l, p);
        l->planned++;
    }
    pthread_cond_broadcast(&l->work);
    pthread_cond_broadcast(&l->ready);
}

void larder__place_begin(larder_loader *l, larder__place *p) {
    p->reported = false;
    p->next_row = 0;
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
    size_t left = p->rows - p->next_row;
    if (p->next_row >= p->plan.n && !l->spread)
        return left;
    if (p->next_row < p->plan.n)
        left = p->plan.n - p->next_row;
    size_t share = l->conf.batch / (2 * (size_t)l->conf.threads);
    share = share < 1 ? 1 : share > LARDER__ROWS_AT_ONCE ? LARDER__ROWS_AT_ONCE : share;
    return share < left ? share : left;
}

void larder__place_work(larder_loader *l, larder__scratch *scratch, larder__place *p) {
    size_t from = p->next_row, n = rows_to_take(l, p);
    p->next_row += n;
    pthread_mutex_unlock(&l->lock);
    if (from == 0)
        p->begun = larder__now();
    if (from < p->plan.n || l->spread)
        fill_rows(l, scratch, p, from, n);
    else
        fill_package(l, scratch, p, from, n);
    pthread_mutex_lock(&l->lock);
    p->rows_left -= n;
    if (p->rows_left > 0)
        return;
    if (!p->calm)
        larder__stat_observe(l->stats, l->stat.fill, larder__now() - p->begun);
    p->phase = LARDER__FILLED;
    pthread_cond_broadcast(&l->ready);
}

static bool has_rows(const larder__place *p) {
    return p->phase == LARDER__WORKING && p->next_row < p->rows;
}

/* The oldest batch with rows nobody has taken; NULL: none. */
static larder__place *find_rows(larder_loader *l) {
    for (int k = 0; k < 2; k++)
        if (has_rows(&l->evaluation.places[k]))
            return &l->evaluation.places[k];
    for (uint64_t k = l->taken; k < l->planned; k++) {
        larder__place *p = &l->ring[k % l->conf.prefetch];
        if (has_rows(p))
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
        else if ((p = find_rows(l)))
            larder__place_work(l, scratch, p);
        else
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
