/* The thread that has the device decode: it takes some rows of the oldest batch that was sent, and
 * waits until they are there. Cores may take some of the others. */
#include "loader/fill/freight_inside.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int larder__decoder_open(larder_loader *l, larder__decoder *k) {
    larder__gpu *g = l->device->gpu;
    k->loader = l;
    k->jobs = larder__calloc(LARDER__FREIGHT_PICTURES * l->conf.views, sizeof *k->jobs);
    if (!k->jobs)
        return LARDER_E_NOMEM;
    int rc = larder__loader_scratch(l, &k->scratch);
    rc = rc < 0 ? rc : larder__jpegs_open(&k->jpegs, g, !l->device->fast);
    rc = rc < 0 ? rc : larder__gpu_stream_open(g, &k->stream, true);
    return rc < 0 ? rc : larder__gpu_event_open(g, &k->over);
}

void larder__decoder_close(larder__gpu *g, larder__decoder *k) {
    larder__scratch_close(&k->scratch);
    larder__jpegs_close(&k->jpegs);
    larder__gpu_piece_free(g, &k->pictures);
    larder__gpu_piece_free(g, &k->work);
    larder__gpu_unpin(g, k->staging);
    larder__gpu_event_close(g, &k->over);
    larder__gpu_stream_close(g, &k->stream);
    larder__free(k->jobs);
    *k = (larder__decoder){0};
}

/* ---- what is sent ---------------------------------------------------------------------------- */

void larder__freight_send(larder_loader *l, larder__place *p) {
    larder__freight *d = l->device;
    p->behind = NULL;
    if (d->last)
        d->last->behind = p;
    else
        d->first = p;
    d->last = p;
    p->begun_there = 0;
    p->open_there = p->undecoded = p->device_rows;
    pthread_cond_signal(&d->sent);
    larder__freight_awaited(l);
}

typedef struct piece { /* rows from..to-1 of a place, the next ones to be tried being `at` on */
    larder__place *place;
    size_t from, to, at;
} piece;

/* Orders of a piece, as many as there is memory for. */
static size_t take_orders(larder__decoder *k, piece *p) {
    size_t n = 0, bytes = 0;
    for (; p->at < p->to; p->at++) {
        const larder__order *from = &p->place->orders->each[p->at];
        if (!from->bytes)
            continue;
        k->to[n] = from->picture;
        k->orders[n] =
            (larder__jpeg_order){.bytes = from->jpeg, .size = from->size, .to = &k->to[n]};
        larder__jpegs_choose(k->jpegs, &k->orders[n], &from->reach);
        size_t more = larder__jpeg_planes(&k->to[n], 0);
        if (bytes + more > LARDER__FREIGHT_BYTES)
            break;
        k->rows[n++] = p->at;
        bytes += more;
    }
    return n;
}

/* Files that lie in memory that is not pinned, all in one piece that is. */
static int stage_files(larder__decoder *k, size_t n) {
    const size_t row = k->loader->row_bytes;
    larder__gpu *g = k->loader->device->gpu;
    size_t bytes = 0;
    int rc = 0;
    for (size_t i = 0; i < n; i++)
        bytes += k->orders[i].size > row ? k->orders[i].size : 0;
    if (bytes > k->staged) {
        void *fresh = NULL;
        larder__gpu_unpin(g, k->staging);
        k->staged = 0;
        rc = larder__gpu_pinned(g, &fresh, bytes + bytes / 4);
        k->staging = fresh;
        k->staged = rc < 0 ? 0 : bytes + bytes / 4;
    }
    bytes = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (k->orders[i].size > row) {
            k->orders[i].bytes = memcpy(k->staging + bytes, k->orders[i].bytes, k->orders[i].size);
            bytes += k->orders[i].size;
        }
    return rc;
}

static int lay_pictures(larder__decoder *k, size_t n) {
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += larder__jpeg_planes(&k->to[i], 0);
    int rc = larder__gpu_piece_grow(k->loader->device->gpu, &k->pictures, bytes, "decoded pictures",
                                    k->stream);
    bytes = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        bytes += larder__jpeg_planes(&k->to[i], k->pictures.at + bytes);
    return rc;
}

/* The jobs of what was decoded. */
static size_t fill_jobs(larder__decoder *k, const larder__place *p, size_t n) {
    const larder__orders *o = p->orders;
    const larder__freight *d = k->loader->device;
    const larder__twin *t = larder__pixel_block_beside(p->block);
    size_t jobs = 0, view_bytes = d->row_bytes / o->views;
    for (size_t i = 0; i < n; i++)
        for (size_t v = 0; v < o->views && !k->orders[i].failed; v++) {
            larder__levels_job *j = &k->jobs[jobs++];
            *j = o->jobs[k->rows[i] * o->views + v];
            j->from = k->to[i];
            j->out = t->levels + k->rows[i] * d->row_bytes + v * view_bytes;
        }
    return jobs;
}

/* Some of the rows; what the device refused stays an order. */
static int make_some(larder__decoder *k, piece *p) {
    larder_loader *l = k->loader;
    larder__freight *d = l->device;
    larder__twin *t = larder__pixel_block_beside(p->place->block);
    larder_shape s = larder__loader_shape(l);
    size_t n = take_orders(k, p);
    int rc = stage_files(k, n);
    rc = rc < 0 ? rc : lay_pictures(k, n);
    rc = rc < 0 || n == 0 ? rc : larder__jpegs_decode(k->jpegs, k->orders, n, k->stream);
    rc = rc < 0 ? rc
                : larder__levels_make(d->code, k->jobs, fill_jobs(k, p->place, n),
                                      (larder__levels_shape){(int32_t)s.w, (int32_t)s.h,
                                                             l->conf.layout == LARDER_NHWC},
                                      &k->work, k->stream);
    rc = rc < 0 ? rc : larder__gpu_event_record(d->gpu, k->over, k->stream);
    rc = rc < 0 ? rc : larder__gpu_event_wait(d->gpu, k->over);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (!k->orders[i].failed) {
            t->made[k->rows[i]] = 1;
            larder__order_drop(&p->place->orders->each[k->rows[i]]);
        }
    return rc;
}

/* Rows that are still orders, by the cores as ever. */
static size_t make_rest(larder_loader *l, larder__scratch *scratch, const piece *p) {
    size_t n = 0;
    for (size_t i = p->from; i < p->to; i++) {
        larder__order *o = &p->place->orders->each[i];
        if (!o->bytes)
            continue;
        larder__row_finish(l, scratch, p->place, i, o->bytes);
        larder__order_drop(o);
        n++;
    }
    return n;
}

static void give_up(larder_loader *l, int rc) {
    larder__freight *d = l->device;
    if (d->decode == LARDER__DECODE_THERE)
        larder__loader_fail(l, larder__fail_in(rc, "decode=gpu"));
    else if (!d->lost)
        larder__note(l->stats,
                     "the GPU decodes no more, and all pictures are decoded by the cores: %s",
                     larder_errmsg());
    d->lost = true;
    d->share = d->seen = 0;
    larder__stat_set(l->stats, l->stat.gpu_share, 0);
}

static void note_refused(larder_loader *l, const larder__decoder *k, size_t n) {
    larder__freight *d = l->device;
    int code = larder__jpegs_refused(k->jpegs);
    larder__stat_add(l->stats, l->stat.gpu_refused, n);
    if (code && !d->refusal_told)
        larder__note(l->stats,
                     "nvJPEG would not decode a file that looks plain (its code %d): the cores do, "
                     "also others that follow (gpu_refused)",
                     code);
    d->refusal_told |= code != 0;
}

static size_t orders_of(const piece *p) {
    size_t n = 0;
    for (size_t i = p->from; i < p->to; i++)
        n += p->place->orders->each[i].bytes != NULL;
    return n;
}

/* With the lock held. */
static void made_all(larder_loader *l, larder__scratch *scratch, const piece *p) {
    /* Where the device was to do it, the job ends before the first batch that it did not make. */
    bool over = l->device->lost && l->device->decode == LARDER__DECODE_THERE;
    if ((p->place->undecoded -= p->to - p->from) == 0 && !over)
        larder__place_prepared(l, scratch, p->place, 1);
}

/* With the lock held, which is given up meanwhile. */
static void serve(larder__decoder *k, piece *p) {
    larder_loader *l = k->loader;
    char why[256] = "";
    int rc = 0;
    pthread_mutex_unlock(&l->lock);
    size_t wanted = orders_of(p);
    double begun = larder__now();
    while (rc == 0 && p->at < p->to)
        rc = make_some(k, p);
    double took = larder__now() - begun;
    if (rc < 0)
        snprintf(why, sizeof why, "%s", larder_errmsg());
    size_t rest = make_rest(l, k->scratch, p), made = wanted - rest;
    pthread_mutex_lock(&l->lock);
    if (rc < 0) {
        larder__errmsg_set(why);
        give_up(l, rc);
    } else if (rest)
        note_refused(l, k, rest);
    p->place->made_there += made;
    if (made)
        larder__stat_observe(l->stats, l->stat.gpu_time, took);
    made_all(l, k->scratch, p);
}

/* Rows of the oldest batch that nobody is at, at most so many: its first ones, or, for who helps,
 * its last. False: there are none. */
static bool take_piece(larder__freight *d, piece *out, size_t most, bool last) {
    larder__place *p = d->first;
    if (!p)
        return false;
    size_t left = p->open_there - p->begun_there, n = left < most ? left : most;
    size_t from = last ? p->open_there - n : p->begun_there;
    *out = (piece){.place = p, .from = from, .at = from, .to = from + n};
    if (last)
        p->open_there -= n;
    else
        p->begun_there += n;
    if (p->begun_there == p->open_there) {
        d->first = p->behind;
        d->last = d->first ? d->last : NULL;
    }
    return true;
}

/* ---- by the cores after all ------------------------------------------------------------------ */

static bool wants_help(const larder_loader *l) {
    const larder__freight *d = l->device;
    return d && d->decode == LARDER__DECODE_AUTO && d->first && l->stall.waiting;
}

void larder__freight_awaited(larder_loader *l) {
    if (wants_help(l))
        pthread_cond_broadcast(&l->work);
}

bool larder__freight_help(larder_loader *l, larder__scratch *scratch) {
    enum { SOME = 4 }; /* a few milliseconds' worth */
    piece p;
    if (!wants_help(l) || !take_piece(l->device, &p, SOME, true))
        return false;
    pthread_mutex_unlock(&l->lock);
    larder__at was = larder__seat_turn(LARDER__AT_PREPARE);
    make_rest(l, scratch, &p);
    larder__seat_turn(was);
    pthread_mutex_lock(&l->lock);
    made_all(l, scratch, &p);
    return true;
}

/* ---- the device's thread --------------------------------------------------------------------- */

static void *decoder_run(void *arg) {
    larder__decoder *k = arg;
    larder_loader *l = k->loader;
    piece p;
    pthread_mutex_lock(&l->lock);
    larder__seat_take(&l->seats[l->conf.threads]);
    larder__seat_share(1); /* who waits for it waits for decoding */
    while (!l->stop) {
        if (!take_piece(l->device, &p, LARDER__FREIGHT_PICTURES, false)) {
            pthread_cond_wait(&l->device->sent, &l->lock);
            continue;
        }
        larder__seat_turn(LARDER__AT_PREPARE);
        serve(k, &p);
        larder__seat_turn(LARDER__AT_NOTHING);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

int larder__freight_start(larder_loader *l) {
    larder__freight *d = l->device;
    if (!larder__freight_decodes(l) || d->running)
        return 0;
    int err = pthread_create(&d->decoder.thread, NULL, decoder_run, &d->decoder);
    d->running = err == 0;
    return err ? larder__fail(LARDER_E_NOMEM, "cannot start a thread: %s", strerror(err)) : 0;
}

double larder__freight_share(const larder_loader *l) {
    const larder__freight *d = l->device;
    return d && d->decode != LARDER__DECODE_HERE ? d->seen : d && d->could ? -1 : -2;
}

void larder__freight_end(larder_loader *l) {
    larder__freight *d = l->device;
    if (!d)
        return;
    pthread_mutex_lock(&l->lock);
    pthread_cond_broadcast(&d->sent);
    pthread_mutex_unlock(&l->lock);
    if (d->running)
        pthread_join(d->decoder.thread, NULL);
    d->running = false;
    larder__decoder_close(d->gpu, &d->decoder);
}
