/* Entries that are being made, by real threads: single flight, failures, loans, and allocations
 * that fail. */
#include "base/mem.h"
#include "base/spec.h"
#include "base/state.h"
#include "entry_kit.h"
#include "plugins.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- single flight --------------------------------------------------------------------------- */

enum { GETTERS = 8 };

typedef struct getter {
    larder__cache *c;
    entry_maker *m;
    larder_buf *got;
    int rc;
    char why[256];
} getter;

static void *get_key_five(void *arg) {
    getter *g = arg;
    larder_access a = entry_ask(5, 1000);
    g->rc = larder__cache_get(g->c, &a, 1, entry_make, g->m, &g->got, NULL);
    snprintf(g->why, sizeof g->why, "%s", larder_errmsg());
    return NULL;
}

static void all_at_once(getter g[GETTERS], larder__cache *c, entry_maker *m) {
    pthread_t threads[GETTERS];
    *m = (entry_maker){.gate = c, .gate_requests = GETTERS, .code = m->code};
    for (int i = 0; i < GETTERS; i++) {
        g[i] = (getter){.c = c, .m = m};
        assert_int_equal(pthread_create(&threads[i], NULL, get_key_five, &g[i]), 0);
    }
    for (int i = 0; i < GETTERS; i++)
        pthread_join(threads[i], NULL);
}

static void test_one_maker_for_all(void **st) {
    (void)st;
    const uint64_t budgets[] = {5000, 0}; /* kept, and passed on without being kept */
    for (int b = 0; b < 2; b++) {
        larder__cache *c = entry_lru(10, budgets[b]);
        getter g[GETTERS];
        entry_maker m = {0};
        all_at_once(g, c, &m);
        assert_int_equal(m.calls, 1);
        larder__cache_figures f = entry_figures(c);
        /* Not kept: all miss, and share one read; so kinds never depend on timing. */
        assert_int_equal(f.misses, budgets[b] ? 1 : GETTERS);
        assert_int_equal(f.hits, budgets[b] ? GETTERS - 1 : 0);
        assert_int_equal(f.loaned_bytes, budgets[b] ? 0 : 1000);
        for (int i = 0; i < GETTERS; i++) {
            check_ok(g[i].rc);
            assert_ptr_equal(g[i].got, g[0].got);
            assert_true(entry_is(g[i].got, 5, 1000));
        }
        for (int i = 0; i < GETTERS; i++) {
            larder_buf *mine = g[i].got;
            larder_buf_unref(&mine);
        }
        assert_int_equal(entry_figures(c).loaned_bytes, 0);
        larder__cache_close(&c);
    }
}

static void test_failure_reaches_all(void **st) {
    (void)st;
    larder__cache *c = entry_lru(10, 5000);
    getter g[GETTERS];
    entry_maker m = {.code = LARDER_E_IO};
    all_at_once(g, c, &m);
    assert_int_equal(m.calls, 1);
    for (int i = 0; i < GETTERS; i++) {
        assert_int_equal(g[i].rc, LARDER_E_IO);
        assert_null(g[i].got);
        assert_string_equal(g[i].why, "sample 5 is broken");
    }
    entry_maker fine = {0};
    assert_int_equal(entry_get(c, &fine, 5, 1000), LARDER_MISS); /* the next one tries again */
    assert_int_equal(entry_get(c, &fine, 5, 1000), LARDER_HIT);
    assert_int_equal(fine.calls, 1);
    larder__cache_close(&c);
}

/* One failing entry fails the call, gives out nothing, and leaves the others usable. */
static void test_failure_inside_a_batch(void **st) {
    (void)st;
    larder__cache *c = entry_lru(10, 5000);
    entry_maker m = {.code = LARDER_E_FORMAT, .one_in = 3};
    larder_access a[4] = {entry_ask(1, 100), entry_ask(2, 100), entry_ask(1, 100),
                          entry_ask(3, 100)};
    larder_buf *out[4];
    assert_int_equal(larder__cache_get(c, a, 4, entry_make, &m, out, NULL), LARDER_E_FORMAT);
    for (int i = 0; i < 4; i++)
        assert_null(out[i]);
    assert_string_equal(larder_errmsg(), "sample 1 is broken");
    entry_maker fine = {0};
    assert_int_equal(entry_get(c, &fine, 2, 100), LARDER_HIT);
    assert_int_equal(entry_get(c, &fine, 1, 100), LARDER_MISS);
    assert_int_equal(entry_figures(c).loaned_bytes, 0);
    larder__cache_close(&c);
}
/* A cache whose maker is always gone, and that has the ticket settled once more. */
static int given_back;
static int wait_in_vain(larder__cache *c, larder__ticket *t, larder_buf **out) {
    (void)c, (void)out;
    t->flight = (larder__flight *)(void *)&given_back;
    return LARDER__TAKE_OVER;
}
static void take_back(larder__cache *c, larder__ticket *t, int code, const char *why) {
    (void)c, (void)why;
    assert_true(code < 0);
    assert_ptr_equal(t->flight, &given_back);
    given_back++;
    t->flight = NULL;
}

static void test_waiting_only_gives_the_promise_back(void **st) {
    (void)st;
    static const larder__cache_ops ops = {.wait = wait_in_vain, .failed = take_back};
    larder__cache c = {.ops = &ops};
    larder__ticket t = {.task = LARDER__WAIT};
    larder_buf *out = NULL;
    larder__cache_wait_only(&c, &t, &out);
    assert_int_equal(given_back, 1);
    assert_null(t.flight);
    assert_null(out);
}

/* ---- loans ----------------------------------------------------------------------------------- */

static void test_evicted_while_held(void **st) {
    (void)st;
    larder__cache *c = entry_lru(10, 200);
    entry_maker m = {0};
    larder_access a = entry_ask(0, 100);
    larder_buf *held;
    check_ok(larder__cache_get(c, &a, 1, entry_make, &m, &held, NULL));
    assert_int_equal(entry_figures(c).loaned_bytes, 0); /* resident: counted there */
    entry_get(c, &m, 1, 100);
    entry_get(c, &m, 2, 100);
    assert_false(larder__cache_resident(c, 0));
    larder__cache_figures f = entry_figures(c);
    assert_int_equal(f.loaned_bytes, 100);
    assert_int_equal(f.resident_bytes, 200);
    assert_true(entry_is(held, 0, 100));
    larder_buf_unref(&held);
    assert_int_equal(entry_figures(c).loaned_bytes, 0);
    larder__cache_close(&c);
}

static void test_held_beyond_close(void **st) {
    (void)st;
    larder__cache *c = entry_lru(10, 200);
    entry_maker m = {0};
    larder_access a = entry_ask(0, 100);
    larder_buf *held;
    check_ok(larder__cache_get(c, &a, 1, entry_make, &m, &held, NULL));
    larder__cache_close(&c);
    assert_null(c);
    assert_true(entry_is(held, 0, 100));
    larder_buf_unref(&held);
}

static void test_evicted_while_made(void **st) {
    (void)st;
    larder__cache *c = entry_lru(10, 200);
    larder_access a[] = {entry_ask(0, 100), entry_ask(0, 100), entry_ask(1, 100), entry_ask(2, 100),
                         entry_ask(0, 100)};
    larder__ticket t[5];
    check_ok(larder__cache_claim(c, a, 5, t)); /* 2 evicts 0, then 0 comes back and evicts 1 */
    const uint8_t tasks[] = {LARDER__MAKE, LARDER__WAIT, LARDER__MAKE, LARDER__MAKE, LARDER__WAIT};
    for (int i = 0; i < 5; i++)
        assert_int_equal(t[i].task, tasks[i]);
    assert_false(larder__cache_resident(c, 1));
    larder_buf *b[5] = {0};
    for (int i = 0; i < 5; i++)
        if (t[i].task == LARDER__MAKE) {
            b[i] = entry_new(a[i].key, 100);
            larder__cache_fill(c, &t[i], b[i]);
        }
    for (int i = 0; i < 5; i++)
        if (t[i].task == LARDER__WAIT)
            check_ok(larder__cache_wait(c, &t[i], &b[i]));
    assert_ptr_equal(b[0], b[1]);
    assert_ptr_equal(b[0], b[4]);
    larder__cache_figures f = entry_figures(c);
    assert_int_equal(f.resident_bytes, 200);
    assert_int_equal(f.loaned_bytes, 100); /* entry 1 never got in */
    for (int i = 0; i < 5; i++)
        larder_buf_unref(&b[i]);
    entry_maker m = {0};
    assert_int_equal(entry_get(c, &m, 0, 100), LARDER_HIT);
    assert_int_equal(entry_get(c, &m, 2, 100), LARDER_HIT);
    assert_int_equal(m.calls, 0);
    larder__cache_close(&c);
}
/* ---- allocation failures --------------------------------------------------------------------- */

/* Everything a cache does that may allocate. Answers the first failure; leaves nothing behind. */
static int whole_life(const larder_policy *p, const larder_args *args, entry_maker *m) {
    larder__cache *c = NULL, *d = NULL;
    larder_writer w = {0};
    larder__cache_conf conf = {.policy = p,
                               .args = args,
                               .store = &larder__store_heap,
                               .keys = 100,
                               .budget = 2000,
                               .seed = 1};
    int rc = larder__cache_open(&c, &conf);
    for (int round = 0; rc == 0 && round < 3; round++) {
        enum { N = 80 }; /* more than the tickets that fit on the stack */
        larder_access a[N];
        larder_buf *out[N] = {0};
        for (uint64_t i = 0; i < N; i++)
            a[i] = entry_ask((i * 7 + (uint64_t)round) % 50, 40 + 20 * (uint32_t)round);
        rc = larder__cache_get(c, a, N, entry_make, m, out, NULL);
        for (int i = 0; i < N; i++) {
            if (rc == 0)
                assert_true(entry_is(out[i], a[i].key, a[i].size));
            larder_buf_unref(&out[i]);
        }
        larder__cache_figures f = entry_figures(c);
        assert_true(f.resident_bytes <= 2000);
        assert_int_equal(f.loaned_bytes, 0);
    }
    if (rc == 0) {
        larder__cache_save(c, &w);
        rc = w.code;
    }
    if (rc == 0)
        rc = larder__cache_open(&d, &conf);
    if (rc == 0) {
        larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
        rc = larder__cache_load(d, &r);
    }
    larder__writer_free(&w);
    larder__cache_close(&d);
    larder__cache_close(&c);
    return rc;
}

static void test_allocation_countdown(void **st) {
    (void)st;
    for (size_t p = 0; larder__policies[p]; p++) {
        larder_args args = kit_args(larder__policies[p]);
        for (int all = 0; all < 2; all++) {
            uint64_t n = 1;
            for (;; n++) {
                entry_maker m = {0};
                larder__mem_fail_at(n, all);
                int rc = whole_life(larder__policies[p], &args, &m);
                int failed = larder__mem_failed();
                larder__mem_fail_at(0, 0);
                assert_int_equal(rc, failed ? LARDER_E_NOMEM : 0);
                if (!failed)
                    break;
            }
            assert_true(n > 100);
        }
        larder__args_free(&args);
    }
}

/* After a failed call the cache goes on as if it had not been made. */
static void test_goes_on_after_failed_allocation(void **st) {
    (void)st;
    larder__cache *c = entry_lru(500, 10000);
    entry_maker m = {0};
    larder_access a[200];
    larder_buf *out[200];
    for (uint64_t i = 0; i < 200; i++)
        a[i] = entry_ask(i, 40);
    int rc = LARDER_E_NOMEM, tries = 0;
    for (; rc < 0; tries++) { /* each time a little further, as what was made stays */
        assert_int_equal(rc, LARDER_E_NOMEM);
        larder__mem_fail_at(7, 1);
        rc = larder__cache_get(c, a, 200, entry_make, &m, out, NULL);
        larder__mem_fail_at(0, 0);
    }
    assert_true(tries > 20);
    for (uint64_t i = 0; i < 200; i++) {
        assert_true(entry_is(out[i], i, 40));
        larder_buf_unref(&out[i]);
    }
    assert_int_equal(entry_figures(c).resident_bytes, 8000);
    assert_int_equal(entry_figures(c).loaned_bytes, 0);
    larder__cache_close(&c);
}
/* ---- many threads ---------------------------------------------------------------------------- */

enum { WORKERS = 4, STRESS_KEYS = 64, HELD = 5 };

typedef struct worker {
    larder__cache *c;
    uint64_t seed, rounds, budget;
    _Atomic uint64_t *wrong;
    entry_maker *m;
} worker;

static void look_around(worker *w, larder_rng *rng) {
    larder__cache_figures f = entry_figures(w->c);
    if (f.resident_bytes > w->budget || f.requests != f.hits + f.misses + f.substitutes)
        atomic_fetch_add(w->wrong, 1);
    uint64_t key = larder_rng_below(rng, STRESS_KEYS);
    float score = (float)larder_rng_unit(rng);
    larder__cache_resident(w->c, key);
    larder__cache_score(w->c, &key, &score, 1);
    larder__cache_batch(w->c);
    larder__cache_epoch(w->c, f.requests / STRESS_KEYS);
    larder_writer saved = {0};
    larder__cache_save(w->c, &saved);
    larder__writer_free(&saved);
}

static void *work(void *arg) {
    worker *w = arg;
    larder_rng rng;
    larder_rng_seed(&rng, w->seed, 3);
    larder_buf *held[HELD] = {0};
    uint64_t held_key[HELD] = {0};
    for (uint64_t round = 0; round < w->rounds; round++) {
        larder_access a[HELD];
        larder_buf *out[HELD];
        size_t n = 1 + larder_rng_below(&rng, HELD);
        for (size_t i = 0; i < n; i++)
            a[i] = entry_ask(larder_rng_below(&rng, STRESS_KEYS), 1 + larder_rng_below(&rng, 120));
        int rc = larder__cache_get(w->c, a, n, entry_make, w->m, out, NULL);
        if (rc < 0 && (rc != LARDER_E_IO || !strstr(larder_errmsg(), "is broken")))
            atomic_fetch_add(w->wrong, 1);
        for (size_t i = 0; i < n; i++) { /* held for a while, then checked once more */
            if (rc == 0 && !entry_is(out[i], a[i].key, a[i].size))
                atomic_fetch_add(w->wrong, 1);
            size_t at = larder_rng_below(&rng, HELD);
            if (held[at] && !entry_is(held[at], held_key[at], 1))
                atomic_fetch_add(w->wrong, 1);
            larder_buf_unref(&held[at]);
            held[at] = rc == 0 ? out[i] : NULL;
            held_key[at] = a[i].key;
        }
        if (round % 16 == 0)
            look_around(w, &rng);
    }
    for (int i = 0; i < HELD; i++)
        larder_buf_unref(&held[i]);
    return NULL;
}

static void test_stress(void **st) {
    (void)st;
    uint64_t rounds = getenv("LARDER_LONG") ? 60000 : 3000;
    for (size_t p = 0; larder__policies[p]; p++) {
        enum { BUDGET = 1500 };
        larder__cache *c =
            kit_cache(larder__policies[p], &larder__store_heap, STRESS_KEYS, BUDGET, 1);
        _Atomic uint64_t wrong = 0;
        entry_maker m = {.code = LARDER_E_IO, .one_in = 50};
        worker w[WORKERS];
        pthread_t threads[WORKERS];
        for (int i = 0; i < WORKERS; i++) {
            w[i] = (worker){c, (uint64_t)i, rounds, BUDGET, &wrong, &m};
            assert_int_equal(pthread_create(&threads[i], NULL, work, &w[i]), 0);
        }
        for (int i = 0; i < WORKERS; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(wrong, 0);
        assert_int_equal(entry_figures(c).loaned_bytes, 0);
        assert_true(entry_figures(c).resident > 0);
        larder__cache_close(&c);
    }
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_maker_for_all),
        cmocka_unit_test(test_failure_reaches_all),
        cmocka_unit_test(test_failure_inside_a_batch),
        cmocka_unit_test(test_waiting_only_gives_the_promise_back),
        cmocka_unit_test(test_evicted_while_held),
        cmocka_unit_test(test_held_beyond_close),
        cmocka_unit_test(test_evicted_while_made),
        cmocka_unit_test(test_allocation_countdown),
        cmocka_unit_test(test_goes_on_after_failed_allocation),
        cmocka_unit_test(test_stress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
