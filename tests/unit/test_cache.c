/* The cache with real bytes and threads: single flight, failures, loans, growth, budget, stand-ins,
 * cold entries, allocation failures. Byte i of key k is known, so contents can be checked anywhere.
 */
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/spec.h"
#include "base/state.h"
#include "cache_kit.h"
#include "plugins.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned char byte_at(uint64_t key, size_t i) {
    return (unsigned char)larder__mix64(key * 1000003 + i);
}

static bool is_entry(larder_buf *b, uint64_t key, size_t least) {
    if (!b || larder_buf_size(b) < least)
        return false;
    const unsigned char *p = larder_buf_data(b);
    for (size_t i = 0; i < larder_buf_size(b); i++)
        if (p[i] != byte_at(key, i))
            return false;
    return true;
}

static larder_buf *new_entry(uint64_t key, size_t size) {
    larder_buf *b = larder_buf_new(size);
    for (size_t i = 0; b && i < size; i++)
        ((unsigned char *)larder_buf_data(b))[i] = byte_at(key, i);
    return b;
}

typedef struct maker {
    _Atomic uint64_t calls, with_have;
    larder__cache *gate; /* does not return before this cache has seen gate_requests requests */
    uint64_t gate_requests;
    int code;   /* fail with it when negative */
    int one_in; /* fail only one call in so many; 0: always */
} maker;

static int make(void *arg, const larder_access *want, larder_buf *have, larder_buf **out) {
    maker *m = arg;
    uint64_t call = atomic_fetch_add(&m->calls, 1);
    larder__cache_figures f = {0};
    while (m->gate && f.requests < m->gate_requests) {
        larder__cache_read_figures(m->gate, &f);
        sched_yield();
    }
    if (m->code < 0 && (!m->one_in || call % (uint64_t)m->one_in == 0))
        return larder__fail(m->code, "sample %llu is broken", (unsigned long long)want->key);
    if (have) {
        atomic_fetch_add(&m->with_have, 1);
        if (!is_entry(have, want->key, 1) || larder_buf_size(have) >= want->size)
            return larder__fail(LARDER_E_FORMAT, "what is there already is not a shorter version");
    }
    *out = new_entry(want->key, want->size);
    return *out ? 0 : LARDER_E_NOMEM;
}

static larder_access ask(uint64_t key, uint32_t size) {
    return (larder_access){.key = key, .size = size, .next_use = LARDER_UNKNOWN, .score = NAN};
}

static larder__cache *open_lru(uint64_t keys, uint64_t budget) {
    return kit_cache(larder__policy_find("lru"), &larder__store_heap, keys, budget, 1);
}

static larder__cache_figures figures(larder__cache *c) {
    larder__cache_figures f;
    larder__cache_read_figures(c, &f);
    return f;
}

/* Gets one entry, checks it, and returns how it came. */
static uint8_t get_one(larder__cache *c, maker *m, uint64_t key, uint32_t size) {
    larder_access a = ask(key, size);
    larder_buf *b;
    uint8_t kind;
    check_ok(larder__cache_get(c, &a, 1, make, m, &b, &kind));
    assert_true(is_entry(b, key, size));
    larder_buf_unref(&b);
    return kind;
}

/* ---- single flight --------------------------------------------------------------------------- */

enum { GETTERS = 8 };

typedef struct getter {
    larder__cache *c;
    maker *m;
    larder_buf *got;
    int rc;
    char why[256];
} getter;

static void *get_key_five(void *arg) {
    getter *g = arg;
    larder_access a = ask(5, 1000);
    g->rc = larder__cache_get(g->c, &a, 1, make, g->m, &g->got, NULL);
    snprintf(g->why, sizeof g->why, "%s", larder_errmsg());
    return NULL;
}

static void all_at_once(getter g[GETTERS], larder__cache *c, maker *m) {
    pthread_t threads[GETTERS];
    *m = (maker){.gate = c, .gate_requests = GETTERS, .code = m->code};
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
        larder__cache *c = open_lru(10, budgets[b]);
        getter g[GETTERS];
        maker m = {0};
        all_at_once(g, c, &m);
        assert_int_equal(m.calls, 1);
        larder__cache_figures f = figures(c);
        /* Not kept: all miss, and share one read; so kinds never depend on timing. */
        assert_int_equal(f.misses, budgets[b] ? 1 : GETTERS);
        assert_int_equal(f.hits, budgets[b] ? GETTERS - 1 : 0);
        assert_int_equal(f.loaned_bytes, budgets[b] ? 0 : 1000);
        for (int i = 0; i < GETTERS; i++) {
            check_ok(g[i].rc);
            assert_ptr_equal(g[i].got, g[0].got);
            assert_true(is_entry(g[i].got, 5, 1000));
        }
        for (int i = 0; i < GETTERS; i++) {
            larder_buf *mine = g[i].got;
            larder_buf_unref(&mine);
        }
        assert_int_equal(figures(c).loaned_bytes, 0);
        larder__cache_close(&c);
    }
}

static void test_failure_reaches_all(void **st) {
    (void)st;
    larder__cache *c = open_lru(10, 5000);
    getter g[GETTERS];
    maker m = {.code = LARDER_E_IO};
    all_at_once(g, c, &m);
    assert_int_equal(m.calls, 1);
    for (int i = 0; i < GETTERS; i++) {
        assert_int_equal(g[i].rc, LARDER_E_IO);
        assert_null(g[i].got);
        assert_string_equal(g[i].why, "sample 5 is broken");
    }
    maker fine = {0};
    assert_int_equal(get_one(c, &fine, 5, 1000), LARDER_MISS); /* the next one tries again */
    assert_int_equal(get_one(c, &fine, 5, 1000), LARDER_HIT);
    assert_int_equal(fine.calls, 1);
    larder__cache_close(&c);
}

/* One failing entry fails the call, gives out nothing, and leaves the others usable. */
static void test_failure_inside_a_batch(void **st) {
    (void)st;
    larder__cache *c = open_lru(10, 5000);
    maker m = {.code = LARDER_E_FORMAT, .one_in = 3};
    larder_access a[4] = {ask(1, 100), ask(2, 100), ask(1, 100), ask(3, 100)};
    larder_buf *out[4];
    assert_int_equal(larder__cache_get(c, a, 4, make, &m, out, NULL), LARDER_E_FORMAT);
    for (int i = 0; i < 4; i++)
        assert_null(out[i]);
    assert_string_equal(larder_errmsg(), "sample 1 is broken");
    maker fine = {0};
    assert_int_equal(get_one(c, &fine, 2, 100), LARDER_HIT);
    assert_int_equal(get_one(c, &fine, 1, 100), LARDER_MISS);
    assert_int_equal(figures(c).loaned_bytes, 0);
    larder__cache_close(&c);
}

/* ---- loans ----------------------------------------------------------------------------------- */

static void test_evicted_while_held(void **st) {
    (void)st;
    larder__cache *c = open_lru(10, 200);
    maker m = {0};
    larder_access a = ask(0, 100);
    larder_buf *held;
    check_ok(larder__cache_get(c, &a, 1, make, &m, &held, NULL));
    assert_int_equal(figures(c).loaned_bytes, 0); /* resident: counted there */
    get_one(c, &m, 1, 100);
    get_one(c, &m, 2, 100);
    assert_false(larder__cache_resident(c, 0));
    larder__cache_figures f = figures(c);
    assert_int_equal(f.loaned_bytes, 100);
    assert_int_equal(f.resident_bytes, 200);
    assert_true(is_entry(held, 0, 100));
    larder_buf_unref(&held);
    assert_int_equal(figures(c).loaned_bytes, 0);
    larder__cache_close(&c);
}

static void test_held_beyond_close(void **st) {
    (void)st;
    larder__cache *c = open_lru(10, 200);
    maker m = {0};
    larder_access a = ask(0, 100);
    larder_buf *held;
    check_ok(larder__cache_get(c, &a, 1, make, &m, &held, NULL));
    larder__cache_close(&c);
    assert_null(c);
    assert_true(is_entry(held, 0, 100));
    larder_buf_unref(&held);
}

static void test_evicted_while_made(void **st) {
    (void)st;
    larder__cache *c = open_lru(10, 200);
    larder_access a[] = {ask(0, 100), ask(0, 100), ask(1, 100), ask(2, 100), ask(0, 100)};
    larder__ticket t[5];
    check_ok(larder__cache_claim(c, a, 5, t)); /* 2 evicts 0, then 0 comes back and evicts 1 */
    const uint8_t tasks[] = {LARDER__MAKE, LARDER__WAIT, LARDER__MAKE, LARDER__MAKE, LARDER__WAIT};
    for (int i = 0; i < 5; i++)
        assert_int_equal(t[i].task, tasks[i]);
    assert_false(larder__cache_resident(c, 1));
    larder_buf *b[5] = {0};
    for (int i = 0; i < 5; i++)
        if (t[i].task == LARDER__MAKE) {
            b[i] = new_entry(a[i].key, 100);
            larder__cache_fill(c, &t[i], b[i]);
        }
    for (int i = 0; i < 5; i++)
        if (t[i].task == LARDER__WAIT)
            check_ok(larder__cache_wait(c, &t[i], &b[i]));
    assert_ptr_equal(b[0], b[1]);
    assert_ptr_equal(b[0], b[4]);
    larder__cache_figures f = figures(c);
    assert_int_equal(f.resident_bytes, 200);
    assert_int_equal(f.loaned_bytes, 100); /* entry 1 never got in */
    for (int i = 0; i < 5; i++)
        larder_buf_unref(&b[i]);
    maker m = {0};
    assert_int_equal(get_one(c, &m, 0, 100), LARDER_HIT);
    assert_int_equal(get_one(c, &m, 2, 100), LARDER_HIT);
    assert_int_equal(m.calls, 0);
    larder__cache_close(&c);
}

/* ---- rows that grow -------------------------------------------------------------------------- */

static void test_growing(void **st) {
    (void)st;
    larder__cache *c = open_lru(10, 1000);
    maker m = {0};
    assert_int_equal(get_one(c, &m, 3, 100), LARDER_MISS);
    assert_int_equal(get_one(c, &m, 3, 300), LARDER_MISS);
    assert_int_equal(m.with_have, 1);
    assert_int_equal(get_one(c, &m, 3, 200), LARDER_HIT); /* gets all 300 */
    assert_int_equal(figures(c).resident_bytes, 300);
    assert_int_equal(get_one(c, &m, 4, 700), LARDER_MISS);
    assert_int_equal(get_one(c, &m, 3, 400), LARDER_MISS); /* 4 has to go */
    assert_false(larder__cache_resident(c, 4));
    assert_int_equal(m.with_have, 2);
    assert_int_equal(get_one(c, &m, 3, 1001), LARDER_MISS); /* longer than the cache: not kept */
    assert_int_equal(m.with_have, 3);
    assert_false(larder__cache_resident(c, 3));
    assert_int_equal(figures(c).resident_bytes, 0);
    assert_int_equal(figures(c).loaned_bytes, 0);
    larder__cache_close(&c);
}

static void test_growing_while_made(void **st) {
    (void)st;
    larder__cache *c = open_lru(10, 1000);
    larder_access a[] = {ask(3, 100), ask(3, 200), ask(3, 150)};
    larder__ticket t[3];
    check_ok(larder__cache_claim(c, a, 3, t));
    assert_int_equal(t[0].task, LARDER__MAKE);
    assert_int_equal(t[1].task, LARDER__MAKE); /* the first is too short for it */
    assert_int_equal(t[2].task, LARDER__WAIT);
    larder_buf *longer = new_entry(3, 200), *shorter = new_entry(3, 100), *waited;
    larder__cache_fill(c, &t[1], longer);
    larder__cache_fill(c, &t[0], shorter); /* late and short: must not replace the long one */
    check_ok(larder__cache_wait(c, &t[2], &waited));
    assert_ptr_equal(waited, longer);
    larder_buf_unref(&waited);
    larder_buf_unref(&longer);
    larder_buf_unref(&shorter);
    maker m = {0};
    assert_int_equal(get_one(c, &m, 3, 200), LARDER_HIT);
    assert_int_equal(m.calls, 0);
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

static void test_whole_batch_looked_up_first(void **st) {
    (void)st;
    larder__cache *c = open_lru(10, 200);
    maker m = {0};
    get_one(c, &m, 0, 100);
    get_one(c, &m, 1, 100);
    larder_access a[] = {ask(2, 100), ask(0, 100), ask(3, 100), ask(1, 100), ask(2, 100)};
    larder__ticket t[5];
    check_ok(larder__cache_claim_batch(c, a, 5, t));
    const uint8_t kinds[] = {LARDER_MISS, LARDER_HIT, LARDER_MISS, LARDER_HIT, LARDER_MISS};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(t[i].kind, kinds[i]);
        if (t[i].task == LARDER__READY)
            assert_true(is_entry(t[i].buf, a[i].key, 100));
    }
    assert_int_equal(t[4].task, LARDER__WAIT);
    for (int i = 0; i < 5; i++) {
        larder_buf *b = NULL;
        if (t[i].task == LARDER__MAKE) {
            b = new_entry(a[i].key, 100);
            larder__cache_fill(c, &t[i], b);
        } else if (t[i].task == LARDER__WAIT) {
            check_ok(larder__cache_wait(c, &t[i], &b));
            assert_true(is_entry(b, 2, 100));
        } else
            larder__ticket_drop(&t[i]);
        larder_buf_unref(&b);
    }
    larder__cache_figures f = figures(c);
    assert_int_equal(f.hits, 2);
    assert_int_equal(f.misses, 5);
    assert_int_equal(f.loaned_bytes, 0);
    larder__cache_close(&c);
}

/* ---- the budget ------------------------------------------------------------------------------ */

static void test_fill_of_another_size(void **st) {
    (void)st;
    const size_t sizes[] = {150, 50, 0};
    for (int i = 0; i < 3; i++) {
        larder__cache *c = open_lru(10, 120);
        larder_access a = ask(0, 100);
        larder__ticket t;
        check_ok(larder__cache_claim(c, &a, 1, &t));
        larder_buf *b = new_entry(0, sizes[i]);
        larder__cache_fill(c, &t, b);
        larder__cache_figures f = figures(c);
        assert_true(f.resident_bytes <= 120);
        assert_int_equal(f.loaned_bytes, sizes[i]); /* the bytes are ours, not the cache's */
        larder_buf_unref(&b);
        assert_int_equal(figures(c).loaned_bytes, 0);
        maker m = {0};
        assert_int_equal(get_one(c, &m, 0, 100), LARDER_MISS);
        assert_int_equal(get_one(c, &m, 0, 100), LARDER_HIT);
        larder__cache_close(&c);
    }
}

static larder_args usual_args(const larder_policy *p) {
    larder_args args;
    check_ok(larder__args_parse(&args, "policy", &p->plugin, "", ',', NULL));
    return args;
}

static void test_budget_covers_metadata(void **st) {
    (void)st;
    for (size_t p = 0; larder__policies[p]; p++) {
        enum { BUDGET = 20000, N = 200 };
        larder_args args = usual_args(larder__policies[p]);
        larder__cache_conf conf = {.policy = larder__policies[p],
                                   .args = &args,
                                   .store = &larder__store_heap,
                                   .keys = N,
                                   .budget = BUDGET,
                                   .budget_covers_all = true};
        larder__cache *c;
        check_ok(larder__cache_open(&c, &conf));
        larder__args_free(&args);
        maker m = {0};
        uint64_t most = 0;
        for (uint64_t i = 0; i < 3000; i++) {
            uint64_t key = larder__mix64(i) % N;
            get_one(c, &m, key, 10 + (uint32_t)(key % 300));
            larder__cache_figures f = figures(c);
            uint64_t all = f.resident_bytes + f.metadata_bytes;
            most = all > most ? all : most;
            assert_true(all <= BUDGET);
        }
        assert_true(most > BUDGET - 600); /* and it is made use of */
        larder__cache_close(&c);
    }
    larder__cache_conf tiny = {.policy = larder__policy_find("lru"),
                               .store = &larder__store_heap,
                               .keys = 1000,
                               .budget = 100, /* not even the tables fit */
                               .budget_covers_all = true};
    larder__cache *c;
    check_ok(larder__cache_open(&c, &tiny));
    maker m = {0};
    assert_int_equal(get_one(c, &m, 1, 1), LARDER_MISS);
    assert_int_equal(get_one(c, &m, 1, 1), LARDER_MISS);
    assert_int_equal(figures(c).resident, 0);
    larder__cache_close(&c);
}

/* A newcomer that takes over its victim's slot needs no room for a second one. */
static void test_budget_of_one_slot(void **st) {
    (void)st;
    larder__cache_conf conf = {.policy = larder__policy_find("minio"),
                               .store = &larder__store_heap,
                               .keys = 2,
                               .budget = 1 << 20,
                               .budget_covers_all = true};
    larder__cache *c;
    check_ok(larder__cache_open(&c, &conf));
    uint64_t empty = figures(c).metadata_bytes;
    maker m = {0};
    get_one(c, &m, 0, 100);
    uint64_t one = figures(c).metadata_bytes - empty;
    larder__cache_close(&c);
    conf.policy = larder__policy_find("lru");
    conf.budget = empty + one + 500; /* tables, one slot of minio's, some more */
    check_ok(larder__cache_open(&c, &conf));
    larder__cache_figures before = figures(c);
    uint32_t room = (uint32_t)(conf.budget - before.metadata_bytes - one - conf.policy->slot_size);
    assert_int_equal(get_one(c, &m, 0, room), LARDER_MISS);
    assert_true(larder__cache_resident(c, 0));
    assert_int_equal(get_one(c, &m, 1, room), LARDER_MISS);
    assert_true(larder__cache_resident(c, 1));
    assert_false(larder__cache_resident(c, 0));
    larder__cache_close(&c);
}

/* ---- stand-ins ------------------------------------------------------------------------------- */

static uint64_t stand_in_key;
static bool stand_in(void *st, const larder_access *a, uint64_t *other) {
    (void)st;
    *other = stand_in_key;
    return a->key >= 5;
}

static void test_stand_in(void **st) {
    (void)st;
    larder_policy p = *larder__policy_find("lru");
    p.lends = &(const larder_policy_lends){.stand_in = stand_in};
    larder__cache *c = kit_cache(&p, &larder__store_heap, 10, 1000, 1);
    maker m = {0};
    get_one(c, &m, 2, 100);
    larder_access a[] = {ask(7, 100), ask(3, 100)};
    larder__ticket t[2];
    stand_in_key = 2;
    check_ok(larder__cache_claim(c, a, 2, t));
    assert_int_equal(t[0].kind, LARDER_SUBSTITUTE);
    assert_int_equal(t[0].key, 2);
    assert_true(is_entry(t[0].buf, 2, 100));
    assert_int_equal(t[1].kind, LARDER_MISS);
    assert_int_equal(t[1].key, 3);
    assert_false(larder__cache_resident(c, 7));
    larder__ticket_drop(&t[0]);
    larder__cache_fail(c, &t[1], LARDER_E_IO, "no");
    const uint64_t useless[] = {9, 1000, UINT64_MAX}; /* not resident, not a key: not taken */
    for (int i = 0; i < 3; i++) {
        larder__cache *other = kit_cache(&p, &larder__store_heap, 10, 1000, 1);
        stand_in_key = useless[i];
        larder_access b = ask(6 + (uint64_t)i, 100);
        check_ok(larder__cache_claim(other, &b, 1, t));
        assert_int_equal(t[0].kind, LARDER_MISS);
        larder__cache_fail(other, &t[0], LARDER_E_IO, "no");
        assert_int_equal(figures(other).substitutes, 0);
        larder__cache_close(&other);
    }
    larder__cache_figures f = figures(c);
    assert_int_equal(f.substitutes, 1);
    assert_int_equal(f.requests, f.hits + f.misses + f.substitutes);
    larder__cache_close(&c);
}

/* ---- saved state ----------------------------------------------------------------------------- */

static void test_cold_after_load(void **st) {
    (void)st;
    for (size_t p = 0; larder__policies[p]; p++) {
        larder__cache *c = kit_cache(larder__policies[p], &larder__store_heap, 10, 400, 1);
        larder__cache *d = kit_cache(larder__policies[p], &larder__store_heap, 10, 400, 2);
        maker m = {0};
        for (uint64_t k = 0; k < 3; k++)
            get_one(c, &m, k, 100);
        kit_copy_state(c, d);
        assert_int_equal(figures(d).resident_bytes, 300);
        assert_true(larder__cache_resident(d, 1));
        maker n = {0};
        assert_int_equal(get_one(d, &n, 1, 100), LARDER_MISS); /* decided, but its bytes are gone */
        assert_int_equal(n.calls, 1);
        assert_int_equal(get_one(d, &n, 1, 100), LARDER_HIT);
        assert_int_equal(get_one(d, &n, 2, 150), LARDER_MISS); /* cold and too short */
        assert_int_equal(n.with_have, 0);
        assert_int_equal(get_one(d, &n, 0, 50), LARDER_MISS); /* made as long as it was */
        assert_int_equal(get_one(d, &n, 0, 100), LARDER_HIT);
        assert_int_equal(figures(d).evictions, 0);
        assert_int_equal(figures(d).loaned_bytes, 0);
        larder__cache_close(&c);
        larder__cache_close(&d);
    }
}

static void test_save_while_made(void **st) {
    (void)st;
    larder__cache *c = open_lru(10, 300), *d = open_lru(10, 300);
    larder_access a[] = {ask(0, 100), ask(1, 100)};
    larder__ticket t[2];
    check_ok(larder__cache_claim(c, a, 2, t));
    kit_copy_state(c, d);
    for (int i = 0; i < 2; i++)
        larder__cache_fail(c, &t[i], LARDER_E_CANCELLED, "stopped");
    maker m = {0};
    assert_true(larder__cache_resident(d, 0));
    assert_int_equal(get_one(d, &m, 0, 100), LARDER_MISS);
    larder__cache_close(&c);
    larder__cache_close(&d);
}

static void test_unknown_keys(void **st) {
    (void)st;
    larder__cache *c = open_lru(10, 300);
    larder_access a[] = {ask(0, 100), ask(10, 100)};
    larder_buf *out[2];
    maker m = {0};
    assert_int_equal(larder__cache_get(c, a, 2, make, &m, out, NULL), LARDER_E_RANGE);
    assert_int_equal(figures(c).requests, 0);
    assert_false(larder__cache_resident(c, UINT64_MAX));
    larder__cache_close(&c);
    larder__cache_close(&c); /* closing nothing is fine */
    larder__cache_conf huge = {
        .policy = larder__policy_find("lru"), .store = &larder__store_null, .keys = UINT32_MAX};
    assert_int_equal(larder__cache_open(&c, &huge), LARDER_E_RANGE);
    assert_null(c);
}

static void test_stats(void **st) {
    (void)st;
    larder__stats *stats;
    check_ok(larder__stats_open(&stats));
    larder__cache_conf conf = {.policy = larder__policy_find("lru"),
                               .store = &larder__store_heap,
                               .keys = 10,
                               .budget = 300,
                               .stats = stats};
    larder__cache *c;
    check_ok(larder__cache_open(&c, &conf));
    maker m = {0};
    for (uint64_t k = 0; k < 5; k++)
        get_one(c, &m, k, 100);
    bool found = false;
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder__stat_read(stats, i, &v) == 0; i++)
        if (strcmp(v.name, "cache_evictions") == 0) {
            assert_true(v.value == 2);
            found = true;
        }
    assert_true(found);
    larder__cache_close(&c);
    larder__stats_close(&stats);
}

/* ---- allocation failures --------------------------------------------------------------------- */

/* Everything a cache does that may allocate. Answers the first failure; leaves nothing behind. */
static int whole_life(const larder_policy *p, const larder_args *args, maker *m) {
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
            a[i] = ask((i * 7 + (uint64_t)round) % 50, 40 + 20 * (uint32_t)round);
        rc = larder__cache_get(c, a, N, make, m, out, NULL);
        for (int i = 0; i < N; i++) {
            if (rc == 0)
                assert_true(is_entry(out[i], a[i].key, a[i].size));
            larder_buf_unref(&out[i]);
        }
        larder__cache_figures f = figures(c);
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
        larder_args args = usual_args(larder__policies[p]);
        for (int all = 0; all < 2; all++) {
            uint64_t n = 1;
            for (;; n++) {
                maker m = {0};
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
    larder__cache *c = open_lru(500, 10000);
    maker m = {0};
    larder_access a[200];
    larder_buf *out[200];
    for (uint64_t i = 0; i < 200; i++)
        a[i] = ask(i, 40);
    int rc = LARDER_E_NOMEM, tries = 0;
    for (; rc < 0; tries++) { /* each time a little further, as what was made stays */
        assert_int_equal(rc, LARDER_E_NOMEM);
        larder__mem_fail_at(7, 1);
        rc = larder__cache_get(c, a, 200, make, &m, out, NULL);
        larder__mem_fail_at(0, 0);
    }
    assert_true(tries > 20);
    for (uint64_t i = 0; i < 200; i++) {
        assert_true(is_entry(out[i], i, 40));
        larder_buf_unref(&out[i]);
    }
    assert_int_equal(figures(c).resident_bytes, 8000);
    assert_int_equal(figures(c).loaned_bytes, 0);
    larder__cache_close(&c);
}

/* ---- many threads ---------------------------------------------------------------------------- */

enum { WORKERS = 4, STRESS_KEYS = 64, HELD = 5 };

typedef struct worker {
    larder__cache *c;
    uint64_t seed, rounds, budget;
    _Atomic uint64_t *wrong;
    maker *m;
} worker;

static void look_around(worker *w, larder_rng *rng) {
    larder__cache_figures f = figures(w->c);
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
            a[i] = ask(larder_rng_below(&rng, STRESS_KEYS), 1 + larder_rng_below(&rng, 120));
        int rc = larder__cache_get(w->c, a, n, make, w->m, out, NULL);
        if (rc < 0 && (rc != LARDER_E_IO || !strstr(larder_errmsg(), "is broken")))
            atomic_fetch_add(w->wrong, 1);
        for (size_t i = 0; i < n; i++) { /* held for a while, then checked once more */
            if (rc == 0 && !is_entry(out[i], a[i].key, a[i].size))
                atomic_fetch_add(w->wrong, 1);
            size_t at = larder_rng_below(&rng, HELD);
            if (held[at] && !is_entry(held[at], held_key[at], 1))
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
        maker m = {.code = LARDER_E_IO, .one_in = 50};
        worker w[WORKERS];
        pthread_t threads[WORKERS];
        for (int i = 0; i < WORKERS; i++) {
            w[i] = (worker){c, (uint64_t)i, rounds, BUDGET, &wrong, &m};
            assert_int_equal(pthread_create(&threads[i], NULL, work, &w[i]), 0);
        }
        for (int i = 0; i < WORKERS; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(wrong, 0);
        assert_int_equal(figures(c).loaned_bytes, 0);
        assert_true(figures(c).resident > 0);
        larder__cache_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_maker_for_all),
        cmocka_unit_test(test_failure_reaches_all),
        cmocka_unit_test(test_failure_inside_a_batch),
        cmocka_unit_test(test_evicted_while_held),
        cmocka_unit_test(test_held_beyond_close),
        cmocka_unit_test(test_evicted_while_made),
        cmocka_unit_test(test_growing),
        cmocka_unit_test(test_growing_while_made),
        cmocka_unit_test(test_waiting_only_gives_the_promise_back),
        cmocka_unit_test(test_whole_batch_looked_up_first),
        cmocka_unit_test(test_fill_of_another_size),
        cmocka_unit_test(test_budget_covers_metadata),
        cmocka_unit_test(test_budget_of_one_slot),
        cmocka_unit_test(test_stand_in),
        cmocka_unit_test(test_cold_after_load),
        cmocka_unit_test(test_save_while_made),
        cmocka_unit_test(test_unknown_keys),
        cmocka_unit_test(test_stats),
        cmocka_unit_test(test_allocation_countdown),
        cmocka_unit_test(test_goes_on_after_failed_allocation),
        cmocka_unit_test(test_stress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
