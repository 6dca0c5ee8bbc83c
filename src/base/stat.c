#include "base/stat.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/notes.h"

#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    FIGURES = 128, /* registered figures at most */
    SHARDS = 8,    /* threads spread over these */
    PARTS = 8,     /* buckets an octave, of equal width: at most an eighth of their value */
    LOWEST = -27,  /* from 2^-27 (7 ns as seconds) to 2^21 */
    BUCKETS = 48 * PARTS
};

typedef struct histogram {
    _Atomic uint64_t bucket[BUCKETS];
    _Atomic uint64_t count;
    _Atomic double sum, squares, max;
} histogram;

typedef struct shard {
    _Alignas(64) _Atomic uint64_t counter[FIGURES];
} shard;

typedef struct figure {
    const char *name, *unit, *help;
    char type;
    double (*probe)(const void *);
    const void *arg;
    histogram *hist; /* SHARDS of them */
    double scale;    /* of a counter: what one of its steps is worth in its unit */
    _Atomic double gauge;
} figure;

struct larder__stats {
    shard shards[SHARDS];
    figure figures[FIGURES];
    uint32_t used;
    larder__notes notes;
};

static uint32_t my_shard(void) {
    static _Atomic uint32_t threads;
    static _Thread_local uint32_t mine;
    if (!mine)
        mine = 1 + atomic_fetch_add(&threads, 1) % SHARDS;
    return mine - 1;
}

int larder__stats_open(larder__stats **out) {
    *out = larder__memalign(64, sizeof **out);
    if (!*out)
        return LARDER_E_NOMEM;
    memset(*out, 0, sizeof **out);
    larder__notes_open(&(*out)->notes);
    return 0;
}

void larder__stats_close(larder__stats **ps) {
    larder__stats *s = *ps;
    *ps = NULL;
    for (uint32_t i = 0; s && i < s->used; i++)
        larder__free(s->figures[i].hist);
    if (s)
        larder__notes_close(&s->notes);
    larder__free(s);
}

static int enter(larder__stats *s, larder__stat *out, figure f) {
    if (s->used == FIGURES)
        return larder__fail(LARDER_E_RANGE, "more than %d figures, at %s", FIGURES, f.name);
    figure *at = &s->figures[s->used];
    at->name = f.name, at->unit = f.unit, at->help = f.help, at->type = f.type;
    at->probe = f.probe, at->arg = f.arg, at->hist = f.hist, at->scale = f.scale;
    *out = s->used++;
    return 0;
}

int larder__stat_counter(larder__stats *s, larder__stat *out, const char *name, const char *unit,
                         const char *help) {
    figure f = {.name = name, .unit = unit, .help = help, .type = 'c', .scale = 1};
    return enter(s, out, f);
}

int larder__stat_clock(larder__stats *s, larder__stat *out, const char *name, const char *help) {
    figure f = {.name = name, .unit = "seconds", .help = help, .type = 'c', .scale = 1e-9};
    return enter(s, out, f);
}

int larder__stat_gauge(larder__stats *s, larder__stat *out, const char *name, const char *unit,
                       const char *help) {
    return enter(s, out, (figure){.name = name, .unit = unit, .help = help, .type = 'g'});
}

int larder__stat_histogram(larder__stats *s, larder__stat *out, const char *name, const char *unit,
                           const char *help) {
    histogram *h = larder__calloc(SHARDS, sizeof *h);
    if (!h)
        return LARDER_E_NOMEM;
    int rc =
        enter(s, out, (figure){.name = name, .unit = unit, .help = help, .type = 'h', .hist = h});
    if (rc < 0)
        larder__free(h);
    return rc;
}

int larder__stat_probe(larder__stats *s, const char *name, const char *unit, const char *help,
                       double (*read)(const void *), const void *arg) {
    larder__stat id;
    figure f = {.name = name, .unit = unit, .help = help, .type = 'g', .probe = read, .arg = arg};
    return enter(s, &id, f);
}

int larder__stat_probe_count(larder__stats *s, const char *name, const char *unit, const char *help,
                             double (*read)(const void *), const void *arg) {
    int rc = larder__stat_probe(s, name, unit, help, read, arg);
    if (rc == 0)
        s->figures[s->used - 1].type = 'c';
    return rc;
}

void larder__stat_add(larder__stats *s, larder__stat id, uint64_t n) {
    atomic_fetch_add_explicit(&s->shards[my_shard()].counter[id], n, memory_order_relaxed);
}

void larder__stat_spend(larder__stats *s, larder__stat id, double seconds) {
    if (seconds > 0)
        larder__stat_add(s, id, (uint64_t)(seconds * 1e9 + 0.5));
}

void larder__stat_set(larder__stats *s, larder__stat id, double value) {
    atomic_store_explicit(&s->figures[id].gauge, value, memory_order_relaxed);
}

static void add_double(_Atomic double *to, double v) {
    double old = atomic_load_explicit(to, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(to, &old, old + v, memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
}

/* From the bits of the number: its exponent says the octave, its next three bits the part of it. */
static uint32_t bucket_of(double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (!(v > 0))
        return 0;
    int64_t at = (int64_t)(bits >> 49) - (1023 + LOWEST) * PARTS;
    return at < 0 ? 0 : at >= BUCKETS ? BUCKETS - 1 : (uint32_t)at;
}

static double middle_of(uint32_t bucket) {
    return ldexp(1 + (bucket % PARTS + 0.5) / PARTS, LOWEST + (int)(bucket / PARTS));
}

void larder__stat_observe(larder__stats *s, larder__stat id, double v) {
    histogram *h = &s->figures[id].hist[my_shard()];
    atomic_fetch_add_explicit(&h->bucket[bucket_of(v)], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->count, 1, memory_order_relaxed);
    add_double(&h->sum, v);
    add_double(&h->squares, v * v);
    double top = atomic_load_explicit(&h->max, memory_order_relaxed);
    while (v > top && !atomic_compare_exchange_weak(&h->max, &top, v)) {
    }
}

/* The middle of the bucket below which the share q of all observations lies. */
static double quantile(const uint64_t *bucket, uint64_t count, double q, double max) {
    uint64_t below = 0, want = (uint64_t)ceil(q * (double)count);
    for (uint32_t i = 0; i < BUCKETS; i++) {
        below += bucket[i];
        if (below >= want)
            return fmin(max, middle_of(i));
    }
    return max;
}

static void read_histogram(const figure *f, larder_stat_value *out) {
    uint64_t bucket[BUCKETS] = {0};
    double sum = 0, squares = 0;
    for (int k = 0; k < SHARDS; k++) {
        histogram *h = &f->hist[k];
        for (int i = 0; i < BUCKETS; i++)
            bucket[i] += atomic_load_explicit(&h->bucket[i], memory_order_relaxed);
        out->count += atomic_load(&h->count);
        sum += atomic_load(&h->sum);
        squares += atomic_load(&h->squares);
        out->max = fmax(out->max, atomic_load(&h->max));
    }
    if (!out->count)
        return;
    out->value = sum / (double)out->count;
    out->sd = sqrt(fmax(0, squares / (double)out->count - out->value * out->value));
    out->p50 = quantile(bucket, out->count, 0.5, out->max);
    out->p90 = quantile(bucket, out->count, 0.9, out->max);
    out->p99 = quantile(bucket, out->count, 0.99, out->max);
}

int larder__stat_read(larder__stats *s, size_t i, larder_stat_value *out) {
    if (i >= s->used)
        return larder__fail(LARDER_E_RANGE, "there are %u figures", s->used);
    figure *f = &s->figures[i];
    *out = (larder_stat_value){.name = f->name, .unit = f->unit, .help = f->help, .type = f->type};
    if (f->probe)
        out->value = f->probe(f->arg);
    else if (f->type == 'g')
        out->value = atomic_load(&f->gauge);
    else if (f->type == 'h')
        read_histogram(f, out);
    else {
        uint64_t sum = 0;
        for (int k = 0; k < SHARDS; k++)
            sum += atomic_load(&s->shards[k].counter[i]);
        out->value = (double)sum * f->scale;
    }
    return 0;
}

int larder__stat_below(larder__stats *s, size_t i, uint64_t out[LARDER__STAT_BOUNDS + 1]) {
    if (i >= s->used || s->figures[i].type != 'h' || !s->figures[i].hist)
        return larder__fail(LARDER_E_RANGE, "figure %zu is no histogram", i);
    const histogram *h = s->figures[i].hist;
    uint32_t at = 0;
    uint64_t below = 0;
    for (size_t k = 0; k <= LARDER__STAT_BOUNDS; k++) {
        /* Bounds are powers of two, where buckets begin. */
        uint32_t end = k < LARDER__STAT_BOUNDS ? bucket_of(larder__stat_bound(k)) : BUCKETS;
        for (; at < end; at++)
            for (int n = 0; n < SHARDS; n++)
                below += atomic_load_explicit(&h[n].bucket[at], memory_order_relaxed);
        out[k] = below;
    }
    return 0;
}

void larder__note(larder__stats *s, const char *format, ...) {
    char sentence[LARDER__NOTE_BYTES];
    if (!s)
        return;
    va_list ap;
    va_start(ap, format);
    vsnprintf(sentence, sizeof sentence, format, ap);
    va_end(ap);
    larder__notes_add(&s->notes, sentence);
}

const char *larder__note_at(const larder__stats *s, size_t i) {
    return larder__notes_at(&s->notes, i);
}
