/* Memory, and the two caches that lie in it: bytes a second that threads read in place. */
#include "base/clock.h"
#include "base/err.h"
#include "base/limit.h"
#include "base/mem.h"
#include "base/spec.h"
#include "base/threads.h"
#include "cache/local.h"
#include "plugins.h"
#include "profile/profile_inside.h"
#include "unix/attach.h"

#include <math.h>
#include <stdio.h>

enum { PANE = 32 << 20, SHELF = 64 << 20, MOST_KEYS = 1 << 16, AT_ONCE = 64 };

/* ---- memory alone ---------------------------------------------------------------------------- */

typedef struct panes {
    larder__profiler *p;
    size_t bytes; /* of each thread's */
    bool copies;
    double seconds;
    _Atomic uint64_t sink; /* so that reading is not left out */
    _Atomic bool starved;
    pthread_mutex_t lock;
    double rate; /* of all threads together */
} panes;

static uint64_t sum_words(const void *bytes, size_t size) {
    uint64_t sum[4] = {0}, w[4];
    const unsigned char *at = bytes;
    for (size_t i = 0; i + sizeof w <= size; i += sizeof w) {
        memcpy(w, at + i, sizeof w);
        for (int k = 0; k < 4; k++)
            sum[k] += w[k];
    }
    return sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
}

/* Bytes a second, after the pages are there. */
static double move(panes *s, unsigned char *to, const unsigned char *from) {
    uint64_t moved = 0;
    double begun = larder__now(), now;
    do {
        if (to)
            memcpy(to, from, s->bytes);
        atomic_fetch_add(&s->sink, to ? to[moved % s->bytes] : sum_words(from, s->bytes));
        moved += s->bytes;
        now = larder__now();
    } while (now < begun + s->seconds && !larder__profiler_stopped(s->p));
    return (double)moved / (now - begun);
}

static void pane(void *arg, uint32_t member) {
    panes *s = arg;
    unsigned char *from = larder__memalign(64, s->bytes);
    unsigned char *to = s->copies ? larder__memalign(64, s->bytes) : NULL;
    if (from && (to || !s->copies)) {
        memset(from, (int)member + 1, s->bytes);
        if (to)
            memset(to, 0, s->bytes);
        double rate = move(s, to, from);
        pthread_mutex_lock(&s->lock);
        s->rate += rate;
        pthread_mutex_unlock(&s->lock);
    } else
        atomic_store(&s->starved, true);
    larder__free(from);
    larder__free(to);
}

static int measure_panes(larder__profiler *p, uint32_t threads, bool copies, double seconds,
                         double *out) {
    uint64_t share = larder__memory_limit() / 16 / threads;
    panes s = {.p = p, .copies = copies, .seconds = seconds};
    s.bytes = share < PANE ? (size_t)share & ~(size_t)63 : PANE;
    if (s.bytes < 4096)
        return larder__fail(LARDER_E_NOMEM, "too little memory to measure it");
    pthread_mutex_init(&s.lock, NULL);
    larder__threads_run(pane, &s, threads);
    pthread_mutex_destroy(&s.lock);
    *out = s.rate;
    return atomic_load(&s.starved) ? LARDER_E_NOMEM : 0;
}

/* ---- a cache --------------------------------------------------------------------------------- */

typedef struct shelf {
    larder__profiler *p;
    larder__cache *cache;
    uint64_t keys;
    uint32_t size;
    double until;
    _Atomic uint64_t moved, sink, now;
    pthread_mutex_t lock;
    int code;
} shelf;

static int make_entry(void *arg, const larder_access *want, larder_buf *have, larder_buf **out) {
    (void)arg, (void)have;
    *out = larder_buf_new(want->size);
    if (!*out)
        return LARDER_E_NOMEM;
    memset(larder_buf_data(*out), (int)want->key, want->size);
    return 0;
}

/* One batch; the first time round it fills the cache. */
static int take_some(shelf *s, const uint64_t *keys, size_t n, uint64_t *sum) {
    larder_access a[AT_ONCE];
    larder_buf *bufs[AT_ONCE];
    uint64_t now = atomic_fetch_add(&s->now, n), bytes = 0;
    for (size_t i = 0; i < n; i++)
        a[i] = (larder_access){.key = keys[i],
                               .now = now + i,
                               .next_use = LARDER_UNKNOWN,
                               .size = s->size,
                               .group = LARDER_NO_GROUP,
                               .score = NAN};
    int rc = larder__cache_get(s->cache, a, n, make_entry, NULL, bufs, NULL);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        *sum += sum_words(larder_buf_data(bufs[i]), larder_buf_size(bufs[i]));
        bytes += larder_buf_size(bufs[i]);
        larder_buf_unref(&bufs[i]);
    }
    atomic_fetch_add(&s->moved, bytes);
    return rc;
}

static void shopper(void *arg, uint32_t member) {
    shelf *s = arg;
    larder_rng rng;
    uint64_t keys[AT_ONCE], sum = 0;
    int rc;
    larder_rng_seed(&rng, 1, member);
    do {
        for (size_t i = 0; i < AT_ONCE; i++)
            keys[i] = larder_rng_below(&rng, (uint32_t)s->keys);
        rc = take_some(s, keys, AT_ONCE, &sum);
    } while (rc == 0 && larder__now() < s->until && !larder__profiler_stopped(s->p));
    atomic_fetch_add(&s->sink, sum);
    pthread_mutex_lock(&s->lock);
    s->code = rc < 0 ? rc : s->code;
    pthread_mutex_unlock(&s->lock);
}

static int measure_shelf(shelf *s, uint32_t threads, double seconds, double *out) {
    uint64_t keys[AT_ONCE], sum = 0;
    int rc = 0;
    for (uint64_t at = 0; rc == 0 && at < s->keys && !larder__profiler_stopped(s->p);) {
        size_t n = 0;
        while (n < AT_ONCE && at < s->keys)
            keys[n++] = at++;
        rc = take_some(s, keys, n, &sum);
    }
    if (rc < 0)
        return rc;
    pthread_mutex_init(&s->lock, NULL);
    atomic_store(&s->moved, 0);
    double begun = larder__now();
    s->until = begun + seconds;
    larder__threads_run(shopper, s, threads);
    *out = (double)atomic_load(&s->moved) / (larder__now() - begun);
    pthread_mutex_destroy(&s->lock);
    return s->code;
}

/* Entries as large as a mean sample, as many as shall be read at random. */
static shelf shelf_of(larder__profiler *p, const larder__profile *about) {
    double size = (double)about->bytes / (double)about->samples;
    shelf s = {.p = p};
    s.size = size < 64 ? 64 : size > SHELF ? SHELF : (uint32_t)size;
    s.keys = SHELF / s.size;
    s.keys = s.keys < 1 ? 1 : s.keys > MOST_KEYS ? MOST_KEYS : s.keys;
    return s;
}

static int measure_own(larder__profiler *p, double seconds, larder__profile *out) {
    shelf s = shelf_of(p, out);
    const larder_policy *lru = larder__policy_find("lru");
    larder_args args;
    int rc = larder__args_parse(&args, "policy", &lru->plugin, "", ',', NULL);
    if (rc < 0)
        return rc;
    larder__cache_conf conf = {.policy = lru,
                               .args = &args,
                               .store = &larder__store_heap,
                               .keys = s.keys,
                               .budget = s.keys * s.size,
                               .seed = 1};
    rc = larder__cache_open(&s.cache, &conf);
    larder__args_free(&args);
    if (rc == 0)
        rc = measure_shelf(&s, out->threads, seconds, &out->cache);
    larder__cache_close(&s.cache);
    return rc;
}

/* The daemon gets a data set of its own for this, which is gone with us. */
static int measure_daemon(larder__profiler *p, double seconds, larder__profile *out) {
    shelf s = shelf_of(p, out);
    larder__attach_conf conf = {.door = *p->conf.door,
                                .hello = {.batch = AT_ONCE,
                                          .identity = 0x70726f66696c65u ^ s.size,
                                          .about.keys = s.keys,
                                          .payload = s.keys * s.size,
                                          .about.seed = 1,
                                          .about.share = {[LARDER_ENCODED] = 1}}};
    snprintf(conf.hello.name, sizeof conf.hello.name, "profile");
    snprintf(conf.hello.about.policy, sizeof conf.hello.about.policy, "lru");
    snprintf(conf.hello.budget, sizeof conf.hello.budget, "100%%");
    int rc = larder__attach_open(&s.cache, &conf);
    if (rc == 0)
        rc = measure_shelf(&s, out->threads, seconds, &out->daemon);
    larder__cache_close(&s.cache);
    return rc < 0 ? larder__fail_in(rc, "the daemon at %s", p->conf.door->path) : rc;
}

int larder__measure_memory(larder__profiler *p, double seconds, larder__profile *out) {
    double each =
        seconds / (3 + (p->conf.door != NULL) + (p->conf.redis != NULL) + (p->conf.disk != NULL));
    out->daemon = out->redis = out->disk = NAN;
    int rc = measure_panes(p, out->threads, false, each, &out->memory_read);
    if (rc == 0)
        rc = measure_panes(p, out->threads, true, each, &out->memory_copy);
    if (rc == 0 && (rc = measure_own(p, each, out)) == 0)
        larder__profiler_tell(p, "memory: %.1f GB/s read, %.1f GB/s copied; cache: %.1f GB/s",
                              out->memory_read / 1e9, out->memory_copy / 1e9, out->cache / 1e9);
    if (rc == 0 && p->conf.door && (rc = measure_daemon(p, each, out)) == 0)
        larder__profiler_tell(p, "daemon: %.1f GB/s read in place", out->daemon / 1e9);
    if (rc == 0 && p->conf.redis && (rc = larder__measure_redis(p, each, out)) == 0)
        larder__profiler_tell(p, "Redis: %.3f GB/s", out->redis / 1e9);
    if (rc == 0 && p->conf.disk && (rc = larder__measure_disk(p, each, out)) == 0)
        larder__profiler_tell(p, "disk: %.3f GB/s", out->disk / 1e9);
    return rc == 0 && larder__profiler_stopped(p) ? larder__fail(LARDER_E_CANCELLED, "stopped")
                                                  : rc;
}
