#include "loader/figures/stall.h"

#include "base/clock.h"
#include "loader/inside.h"

#include <string.h>

/* ---- seats ----------------------------------------------------------------------------------- */

static _Thread_local larder__seat *mine;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t get(const _Atomic uint64_t *at) {
    return atomic_load_explicit(at, memory_order_relaxed);
}

/* There is one writer: no need for an addition that others could see half-way. */
static void add(_Atomic uint64_t *to, uint64_t n) {
    atomic_store_explicit(to, get(to) + n, memory_order_relaxed);
}

void larder__seat_take(larder__seat *s) {
    mine = s;
    if (s)
        atomic_store_explicit(&s->since, now_ns(), memory_order_relaxed);
}

static uint64_t share_of(const larder__seat *s, uint64_t ns) {
    uint64_t share = atomic_load_explicit(&s->decode_share, memory_order_relaxed);
    return (uint64_t)((double)ns * (double)share / 65536);
}

larder__at larder__seat_turn(larder__at at) {
    larder__seat *s = mine;
    if (!s)
        return LARDER__AT_NOTHING;
    larder__at was = (larder__at)atomic_load_explicit(&s->at, memory_order_relaxed);
    if (was == at)
        return was;
    uint64_t now = now_ns(), since = get(&s->since), took = now > since ? now - since : 0;
    add(&s->spent[was], took);
    if (was == LARDER__AT_PREPARE)
        add(&s->decoding, share_of(s, took));
    atomic_store_explicit(&s->since, now, memory_order_relaxed);
    atomic_store_explicit(&s->at, at, memory_order_relaxed);
    return was;
}

void larder__seat_share(double share) {
    double most = share > 1 ? 1 : share < 0 ? 0 : share;
    if (mine)
        atomic_store_explicit(&mine->decode_share, (uint32_t)(most * 65536), memory_order_relaxed);
}

double larder__stall_preparing(const larder_loader *l, uint32_t from, uint32_t to) {
    uint64_t sum = 0, now = now_ns();
    for (uint32_t i = from; i < to; i++) {
        const larder__seat *s = &l->seats[i];
        uint64_t since = get(&s->since), here = since && now > since ? now - since : 0;
        bool at_it = atomic_load_explicit(&s->at, memory_order_relaxed) == LARDER__AT_PREPARE;
        sum += get(&s->spent[LARDER__AT_PREPARE]) + (at_it ? here : 0);
    }
    return (double)sum * 1e-9;
}

/* ---- one wait -------------------------------------------------------------------------------- */

enum { DECODING = LARDER__AT_KINDS, SUMS };

/* Seconds of all threads by what they were at, up to now. A thread that turns while we look may be
 * counted a little wrong; who uses the sums clamps what comes out. */
static void sum_seats(const larder_loader *l, double out[SUMS]) {
    uint64_t sum[SUMS] = {0}, now = now_ns();
    uint32_t used = l->conf.threads + LARDER__FREIGHT_THREADS + l->readers.started;
    for (uint32_t i = 0; i < used; i++) {
        const larder__seat *s = &l->seats[i];
        uint32_t at = atomic_load_explicit(&s->at, memory_order_relaxed);
        uint64_t since = get(&s->since), here = since && now > since ? now - since : 0;
        for (uint32_t k = 0; k < LARDER__AT_KINDS; k++)
            if (!(s->reader && k == LARDER__AT_READ))
                sum[k] += get(&s->spent[k]) + (k == at ? here : 0);
        sum[DECODING] += get(&s->decoding) + (at == LARDER__AT_PREPARE ? share_of(s, here) : 0);
    }
    for (int k = 0; k < SUMS; k++)
        out[k] = (double)sum[k] * 1e-9;
}

void larder__stall_begin(larder_loader *l, double now) {
    l->stall = (larder__stall){.waiting = true, .since = now, .noted = now};
    sum_seats(l, l->stall.before);
}

/* Is the batch that training waits for still on its way from storage? */
static bool awaits_storage(const larder_loader *l) {
    if (l->taken >= l->planned || l->idle == 0)
        return false;
    const larder__place *p = &l->ring[l->taken % l->conf.ahead];
    return p->phase == LARDER__WORKING &&
           (p->next_row < p->rows || atomic_load_explicit(&p->reading, memory_order_relaxed) > 0);
}

static void note(larder_loader *l, double now) {
    larder__stall *s = &l->stall;
    if (awaits_storage(l))
        s->storage += now - s->noted;
    s->noted = now;
}

void larder__stall_note(larder_loader *l) {
    if (l->stall.waiting)
        note(l, larder__now());
}

void larder__stall_end(larder_loader *l, double now) {
    larder__stall *s = &l->stall;
    const larder__loader_stats *t = &l->stat;
    double after[SUMS], part[SUMS], all = 0;
    if (!s->waiting)
        return;
    note(l, now);
    s->waiting = false;
    double waited = now - s->since, rest = waited - s->storage;
    larder__stat_spend(l->stats, t->time[LARDER__TIME_STORAGE], s->storage);
    l->starved += s->storage;
    if (!(rest > 0))
        return;
    sum_seats(l, after);
    for (int k = LARDER__AT_READ; k < SUMS; k++) {
        part[k] = after[k] > s->before[k] ? after[k] - s->before[k] : 0;
        all += k < DECODING ? part[k] : 0;
    }
    if (!(all > 0)) { /* threads are being started, or woken */
        larder__stat_spend(l->stats, t->time[LARDER__TIME_ASSEMBLY], rest);
        return;
    }
    double scale = rest / all, decode = part[DECODING];
    decode = decode < part[LARDER__AT_PREPARE] ? decode : part[LARDER__AT_PREPARE];
    const double by[LARDER__TIMES] = {[LARDER__TIME_STORAGE] = part[LARDER__AT_READ],
                                      [LARDER__TIME_DECODE] = decode,
                                      [LARDER__TIME_AUGMENT] = part[LARDER__AT_PREPARE] - decode,
                                      [LARDER__TIME_CACHE] = part[LARDER__AT_CACHE],
                                      [LARDER__TIME_ASSEMBLY] = part[LARDER__AT_COPY]};
    for (int k = LARDER__TIME_STORAGE; k < LARDER__TIMES; k++)
        larder__stat_spend(l->stats, t->time[k], by[k] * scale);
    l->starved += by[LARDER__TIME_STORAGE] * scale;
}
