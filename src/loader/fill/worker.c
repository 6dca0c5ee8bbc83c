/* The threads: draw the next batch when there is room for one, else prepare rows that were read,
 * else read rows of the oldest batch that still has any, else wait for rows that another job
 * brings: others may be waiting for what is still to be read here. Last they help the device out.
 * Drawing is done by one thread at a time and in order; the rest by all. */
#include "base/clock.h"
#include "loader/fill/joint.h"
#include "loader/inside.h"

#include <sched.h>
#include <sys/resource.h>

/* A block of what the sampler brings: neighbours, where a few may be left out. */
static size_t block_to_take(const larder__place *p) {
    enum { APART = 4 };
    const larder_access *a = p->plan.accesses;
    size_t i = p->next_row + 1;
    while (i < p->rows && a[i].key > a[i - 1].key && a[i].key - a[i - 1].key <= APART)
        i++;
    return i - p->next_row;
}

/* Some of the batch's rows, or the whole package behind them. */
static size_t rows_to_take(const larder_loader *l, const larder__place *p) {
    bool besides = p->next_row >= p->plan.n;
    if (besides && larder__draw_sampler(l->draw)->brings)
        return block_to_take(p);
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

/* The memory that came back last is written first: where training takes batches as fast as they are
 * made, two or three pieces go round, and not all. */
static void lend_pixels(larder_loader *l, larder__place *p) {
    uint64_t k = p->plan.number;
    size_t at = k % l->conf.prefetch;
    if (p->calm || l->x_of[at] == k)
        return;
    if (l->x_of[l->x_warm] == UINT64_MAX) {
        larder__pixel_block *warm = l->x[l->x_warm];
        l->x[l->x_warm] = l->x[at];
        l->x[at] = warm;
    }
    l->x_of[at] = k;
    larder__place_lend(l, p, l->x[at]);
}

enum { READ = 1, AWAITED }; /* of piece_read; the second: a row of it is another job's to bring */

static bool has_read(const larder__place *p, bool awaited) {
    return p->phase == LARDER__WORKING && p->pieces_read > (awaited ? 0 : p->pieces_awaited);
}

/* The oldest batch with a piece that was read and may be prepared, without waiting for anybody
 * unless `awaited`. */
static larder__place *find_read(larder_loader *l, bool awaited) {
    for (int k = 0; k < 2; k++)
        if (has_read(&l->evaluation.places[k], awaited))
            return &l->evaluation.places[k];
    for (uint64_t k = l->taken; k < l->planned && k < l->taken + l->conf.prefetch; k++) {
        larder__place *p = &l->ring[k % l->conf.ahead];
        if (has_read(p, awaited) && may_prepare(l, p))
            return p;
    }
    return NULL;
}

static void take_read(larder_loader *l, larder__place *p, size_t *from, size_t *n) {
    size_t i = 0;
    uint8_t first = p->pieces_read > p->pieces_awaited ? READ : AWAITED;
    while (p->piece_read[i] != first)
        i++;
    p->piece_read[i] = 0;
    p->pieces_read--;
    p->pieces_awaited -= first == AWAITED;
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
        larder__package_fill(l, p, *from, *n);
    else
        larder__rows_read(l, p, *from, *n);
    pthread_mutex_lock(&l->lock);
    l->readers.under_way--;
    if (package) {
        rows_finished(l, p, *n);
        *n = 0;
    }
}

static bool is_awaited(const larder__place *p, size_t from, size_t n) {
    for (size_t i = from; i < from + n; i++)
        if (p->plan.tickets[i].task == LARDER__WAIT)
            return true;
    return false;
}

void larder__unread_keep(larder_loader *l, larder__place *p, size_t from, size_t n) {
    bool awaited = is_awaited(p, from, n);
    p->piece_read[from / l->piece] = awaited ? AWAITED : READ;
    p->pieces_read++;
    p->pieces_awaited += awaited;
    pthread_cond_signal(&l->work);
    if (p->calm) /* the user's thread helps */
        pthread_cond_broadcast(&l->ready);
}

/* False: the run is over. */
static bool join(larder_loader *l, larder__place *p) {
    pthread_mutex_unlock(&l->lock);
    int rc = larder__batch_join(l, p);
    pthread_mutex_lock(&l->lock);
    if (rc < 0)
        larder__loader_fail(l, rc);
    return rc == 0;
}

void larder__place_prepared(larder_loader *l, larder__scratch *scratch, larder__place *p,
                            size_t n) {
    p->unprepared -= n;
    bool last = p->unprepared == 0 && !p->calm;
    if (last && l->conf.on_bad == LARDER_BAD_REPLACE) {
        pthread_mutex_unlock(&l->lock);
        larder__bad_replace(l, scratch, p);
        pthread_mutex_lock(&l->lock);
    }
    if (p->unprepared == 0 && l->maker.whole && !join(l, p) && !p->calm)
        return; /* nobody takes it; who evaluates waits for all rows, and hears it then */
    if (last && l->pipeline && !l->conf.order_only && larder__pipeline_mixes(l->pipeline)) {
        pthread_mutex_unlock(&l->lock);
        int rc = larder__mixing_do(l, p);
        if (rc < 0)
            larder__row_failed(p, 0, rc, larder_errmsg());
        pthread_mutex_lock(&l->lock);
    }
    rows_finished(l, p, n);
}

/* Of these rows, how many were for the device. */
static size_t sent_of(const larder__place *p, size_t from, size_t n) {
    size_t end = from + n < p->device_rows ? from + n : p->device_rows;
    return end > from ? end - from : 0;
}

static void prepare(larder_loader *l, larder__scratch *scratch, larder__place *p, size_t from,
                    size_t n) {
    lend_pixels(l, p);
    pthread_mutex_unlock(&l->lock);
    larder__rows_prepare(l, scratch, p, from, n);
    pthread_mutex_lock(&l->lock);
    size_t sent = sent_of(p, from, n);
    p->unsent -= sent;
    if (sent && p->unsent == 0)
        larder__freight_send(l, p);
    larder__place_prepared(l, scratch, p, n);
}

/* Where storage answers at once, whoever read a piece prepares it while it is in its caches. */
static void read_and_prepare(larder_loader *l, larder__scratch *scratch, larder__place *p) {
    size_t from, n;
    larder__unread_take(l, p, &from, &n);
    if (n && may_prepare(l, p) && !is_awaited(p, from, n))
        prepare(l, scratch, p, from, n);
    else if (n)
        larder__unread_keep(l, p, from, n);
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
    if (larder__drawing_due(l))
        larder__drawing_do(l);
    else if ((p = find_read(l, false)))
        prepare_read(l, scratch, p);
    else if ((p = larder__unread_find(l)) && !larder__readers_wanted(l))
        read_and_prepare(l, scratch, p);
    else {
        if (p)
            larder__readers_call(l);
        if (p && !larder__readers_wanted(l)) /* there may be none to be had */
            return true;
        if (!(p = find_read(l, true)))
            return larder__freight_help(l, scratch);
        prepare_read(l, scratch, p);
    }
    return true;
}

static void rest(larder_loader *l) {
    larder__stall_note(l);
    l->idle++;
    pthread_cond_wait(&l->work, &l->lock);
    larder__stall_note(l);
    l->idle--;
}

/* There is work as soon as training takes a batch. A thread that is woken for it must not push
 * aside the very thread that is about to train with that batch; it only wants its share, and less
 * than that where a device decodes what is not done in time: what cores take from the thread that
 * launches training's kernels costs more than they bring. Both are of this thread alone, and it
 * works without, too. */
static void stand_back(const larder_loader *l) {
    enum { BEHIND = 5 };
    struct sched_param none = {0};
    if (sched_getscheduler(0) != SCHED_OTHER)
        return;
    sched_setscheduler(0, SCHED_BATCH, &none);
    if (larder__freight_decodes(l))
        setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + BEHIND);
}

/* Others who wait for what was drawn here are not to wait for ever. */
static void fail_makers(larder_loader *l, const char *why) {
    larder__cache *cache = larder__draw_cache(l->draw);
    for (uint32_t k = 0; l->ring && k < l->conf.ahead; k++) {
        larder__place *p = &l->ring[k];
        for (size_t i = 0; p->phase != LARDER__LENT && i < p->plan.n + p->plan.fetched; i++) {
            larder__ticket *t = &p->plan.tickets[i];
            if (t->flight && t->task == LARDER__MAKE)
                larder__cache_fail(cache, t, LARDER_E_CANCELLED, why);
        }
    }
}

void larder__thread_ends(larder_loader *l) {
    l->ended++;
    if (l->failed && !l->stop && !l->device && l->ended == l->running + l->readers.started)
        fail_makers(l, "the run is over");
}

void *larder__worker_run(void *arg) {
    larder_loader *l = arg;
    larder__scratch *scratch = NULL;
    stand_back(l);
    int rc = larder__loader_scratch(l, &scratch);
    pthread_mutex_lock(&l->lock);
    if (rc < 0)
        larder__loader_fail(l, rc);
    larder__seat_take(&l->seats[l->seated++]);
    while (!l->stop && !l->failed)
        if (!work(l, scratch))
            rest(l);
    larder__thread_ends(l);
    pthread_mutex_unlock(&l->lock);
    larder__scratch_close(&scratch);
    return NULL;
}

void larder__worker_abandon(larder_loader *l) {
    if (!l->draw) /* half-open: nothing was ever claimed */
        return;
    larder__cache *cache = larder__draw_cache(l->draw);
    /* Makers first: whoever waits for one of them must not wait for ever. */
    fail_makers(l, "the loader was closed");
    for (uint32_t k = 0; l->ring && k < l->conf.ahead; k++) {
        larder__place *p = &l->ring[k];
        for (size_t i = 0; p->phase != LARDER__LENT && i < p->plan.n + p->plan.fetched; i++) {
            larder__ticket *t = &p->plan.tickets[i];
            larder_buf **bytes = &p->bytes[i];
            larder_buf_unref(bytes);
            if (t->flight && t->task == LARDER__WAIT)
                larder__cache_wait_only(cache, t, bytes);
            larder_buf_unref(bytes);
            larder__ticket_drop(t);
        }
    }
}
