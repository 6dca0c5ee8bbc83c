/* A loader under everything a program may do to it at once: batches held and given back in any
 * order, reports or none, states saved and restored in the middle, figures read by another thread,
 * failing and slow reads, cancel and close at any moment. What must hold all the while: every row
 * is the sample it says it is, no id comes twice in an epoch, the figures add up, the budget holds,
 * and everything ends. The sanitizer builds look at the rest. */
#include "loader_kit.h"
#include "look_kit.h"

#include "base/hash.h"
#include "source/source.h"

#include <larder/plugin.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW = 4 * 4 * 3, MOST = 300, HELD = 6, RUNS = 40 };

typedef struct bench { /* one run and what it must serve */
    larder_rng rng;
    char source[128], cache[16];
    larder_loader_conf conf;
    unsigned char truth[MOST][ROW];
    int64_t label[MOST];
    bool bad[MOST];
    uint64_t n, seen[MOST]; /* epoch + 1 in which an id came last */
    larder_loader *loader;
    const larder_batch *held[HELD];
    size_t holds;
    _Atomic bool over;
} bench;

static uint32_t pick(bench *b, uint32_t n) { return larder_rng_below(&b->rng, n); }

/* ---- what is there --------------------------------------------------------------------------- */

static void learn_truth(bench *b) {
    larder__data *d = NULL;
    check_ok(larder__data_open(&d, b->source));
    for (uint64_t id = 0; id < b->n; id++) {
        larder_sample s;
        larder_read read = {0};
        check_ok(larder__data_stat(d, id, &s));
        b->label[id] = s.label;
        check_ok(larder__data_read(d, &id, 1, &read));
        b->bad[id] = read.code < 0;
        if (read.code == 0)
            memcpy(b->truth[id], larder_buf_data(read.buf), ROW);
        larder_buf_unref(&read.buf);
    }
    larder__data_close(&d);
}

static void choose(bench *b, uint64_t seed) {
    static const char *const recipes[] = {"lru",
                                          "minio",
                                          "quiver:factor=3",
                                          "lfu:signal=loss",
                                          "sieve",
                                          "random:sampler=quiver,signal=loss"};
    static const char *const slowness[] = {"",
                                           "slow:latency=1ms:", "slow:bandwidth=1MiB,jitter=2ms:"};
    static const char *const bad[] = {"", "&bad=0", "&bad=1/2/3/5/8/13/21/34/55/89/144"};
    larder_rng_seed(&b->rng, seed, 1);
    b->n = 20 + pick(b, MOST - 20);
    snprintf(b->source, sizeof b->source, "%smem:?n=%u&h=4&w=4&c=3%s", slowness[pick(b, 3)],
             (unsigned)b->n, bad[pick(b, 3)]);
    snprintf(b->cache, sizeof b->cache, "%u%%", (unsigned)pick(b, 101));
    larder_loader_conf *c = &b->conf;
    *c = kit_conf(b->source, recipes[pick(b, 6)]);
    c->augment = NULL;
    c->cache = b->cache;
    c->seed = seed;
    c->batch = 1 + pick(b, 40);
    c->threads = 1 + pick(b, 6);
    c->prefetch = 1 + pick(b, HELD);
    c->lag = c->prefetch + 1 + pick(b, 4);
    c->epochs = 1 + pick(b, 3);
    c->on_bad = pick(b, 2) ? LARDER_BAD_SKIP : LARDER_BAD_REPLACE;
    c->world = pick(b, 3) ? 1 : 1 + pick(b, 4);
    c->rank = pick(b, c->world);
}

/* ---- what must hold -------------------------------------------------------------------------- */

static void check_batch(bench *b, const larder_batch *x) {
    assert_true(x->n > 0 && x->n <= b->conf.batch);
    for (size_t i = 0; i < x->n; i++) {
        uint64_t id = x->served[i];
        assert_true(id < b->n && x->ids[i] < b->n);
        assert_false(b->bad[id]);
        assert_int_equal(x->y[i], b->label[id]);
        assert_memory_equal((const unsigned char *)x->x + i * ROW, b->truth[id], ROW);
        if (x->kind[i] == LARDER_REPLACED) {
            assert_true(b->bad[x->ids[i]]);
            continue;
        }
        assert_int_equal(x->ids[i], id); /* these recipes never substitute */
        assert_true(b->seen[id] != x->epoch + 1);
        b->seen[id] = x->epoch + 1;
    }
}

static double stat_of(larder_loader *l, const char *name) {
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++)
        if (strcmp(v.name, name) == 0)
            return v.value;
    fail_msg("no figure %s", name);
    return 0;
}

static void check_figures(bench *b, uint64_t epoch) {
    larder_figures f = {.size = sizeof f};
    check_ok(larder_loader_figures(b->loader, epoch, &f));
    assert_int_equal(f.hits + f.misses + f.substitutes, f.served);
    assert_true(f.touched >= 0 && f.touched <= 1);
    assert_true(f.storage_bytes % ROW == 0);
    /* A miss may share the read of another; nothing else may be missing from the bytes. */
    assert_true(f.storage_bytes <= (f.misses + f.substitutes + f.background_reads) * ROW);
    assert_true(stat_of(b->loader, "cache_resident_bytes") <=
                stat_of(b->loader, "cache_budget_bytes"));
}

/* ---- somebody else looks in ------------------------------------------------------------------ */

static void *look_in(void *arg) {
    bench *b = arg;
    while (!atomic_load(&b->over)) {
        larder_stat_value v = {.size = sizeof v};
        larder_figures f = {.size = sizeof f};
        larder_bad bad = {.size = sizeof bad};
        for (size_t i = 0; larder_loader_stat(b->loader, i, &v) == 0; i++) {
        }
        larder_loader_figures(b->loader, 0, &f);
        look_audit(b->loader);
        larder_loader_bad(b->loader, 0, &bad);
        if (look_about(b->loader).batches == 0)
            return "no batches";
    }
    return NULL;
}

/* ---- one life of a loader -------------------------------------------------------------------- */

static void give_back(bench *b) {
    float losses[64];
    size_t which = pick(b, (uint32_t)b->holds);
    const larder_batch *x = b->held[which];
    for (size_t i = 0; i < x->n; i++)
        losses[i] = kit_loss(x->served[i], x->epoch);
    if (pick(b, 4))
        check_ok(larder_loader_report(
            b->loader, x, &(larder_feedback){.size = sizeof(larder_feedback), .loss = losses}));
    check_ok(larder_loader_done(b->loader, x));
    b->held[which] = b->held[--b->holds];
}

/* The batches that are held are gone with the old loader; what was taken stays taken. */
static void start_again(bench *b) {
    void *bytes;
    size_t size;
    check_ok(larder_loader_save(b->loader, LARDER_STATE, &bytes, &size));
    larder_loader_close(&b->loader);
    b->holds = 0;
    b->conf.threads = 1 + pick(b, 6);
    b->conf.prefetch = 1 + pick(b, b->conf.lag - 1 < HELD ? b->conf.lag - 1 : HELD);
    check_ok(larder_loader_open(&b->loader, &b->conf));
    check_ok(larder_loader_restore(b->loader, LARDER_STATE, bytes, size));
    larder_free(bytes);
}

/* `steps` calls of next; 1 when the end came. */
static int live(bench *b, uint32_t steps) {
    for (uint32_t k = 0; k < steps; k++) {
        const larder_batch *x;
        int rc = larder_loader_next(b->loader, &x);
        if (rc == LARDER_END)
            return 1;
        if (rc == LARDER_E_STATE && b->holds) {
            give_back(b);
            continue;
        }
        if (rc < 0 && strstr(larder_errmsg(), "every sample of batch"))
            return 1; /* with tiny batches that is right */
        check_ok(rc);
        if (rc == LARDER_END_EPOCH)
            continue;
        check_batch(b, x);
        check_figures(b, x->epoch);
        b->held[b->holds++] = x;
        while (b->holds && (b->holds == b->conf.prefetch || pick(b, 2)))
            give_back(b);
    }
    return 0;
}

static void *cancel(void *l) {
    larder_loader_cancel(l);
    return NULL;
}

static void one_life(uint64_t seed) {
    bench *b = calloc(1, sizeof *b);
    choose(b, seed);
    learn_truth(b);
    check_ok(larder_loader_open(&b->loader, &b->conf));
    int ended = 0;
    while (!ended) {
        pthread_t other;
        atomic_store(&b->over, false);
        pthread_create(&other, NULL, look_in, b);
        ended = live(b, 1 + pick(b, 30));
        atomic_store(&b->over, true);
        void *wrong;
        pthread_join(other, &wrong);
        assert_null(wrong);
        if (!ended && pick(b, 2))
            start_again(b);
        if (pick(b, 8) == 0)
            break; /* closed in the middle of it */
    }
    if (!ended) { /* cancelled from elsewhere: the state is still good */
        pthread_t other;
        const larder_batch *x;
        pthread_create(&other, NULL, cancel, b->loader);
        pthread_join(other, NULL);
        int rc = larder_loader_next(b->loader, &x);
        assert_true(rc == LARDER_E_CANCELLED || rc == LARDER_END_EPOCH);
        start_again(b);
        live(b, 3);
    }
    larder_loader_close(&b->loader);
    free(b);
}

static void anything_at_any_time(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < RUNS; seed++)
        one_life(seed);
}

/* ---- several takers -------------------------------------------------------------------------- */

typedef struct takers {
    larder_loader *loader;
    pthread_mutex_t lock;
    uint64_t count[500];
} takers;

static void *take_all(void *arg) {
    takers *t = arg;
    const larder_batch *x;
    int rc;
    while ((rc = larder_loader_next(t->loader, &x)) != LARDER_END) {
        if (rc == LARDER_E_STATE) /* another one is slow to give its batch back */
            sched_yield();
        if (rc < 0 && rc != LARDER_E_STATE)
            return "failed";
        if (rc)
            continue;
        pthread_mutex_lock(&t->lock);
        for (size_t i = 0; i < x->n; i++)
            t->count[x->served[i]]++;
        pthread_mutex_unlock(&t->lock);
        larder_loader_done(t->loader, x);
    }
    return NULL;
}

static void several_threads_may_take_batches(void **state) {
    (void)state;
    takers t = {.lock = PTHREAD_MUTEX_INITIALIZER};
    larder_loader_conf c = kit_conf("mem:?n=500&h=4&w=4&c=3", "lru");
    c.augment = NULL;
    c.epochs = 20;
    c.batch = 7;
    c.prefetch = 8;
    check_ok(larder_loader_open(&t.loader, &c));
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, take_all, &t);
    for (int i = 0; i < 3; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    for (int i = 0; i < 500; i++)
        assert_int_equal(t.count[i], 20);
    larder_loader_close(&t.loader);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(anything_at_any_time),
        cmocka_unit_test(several_threads_may_take_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
