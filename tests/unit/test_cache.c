/* What a cache holds, with real bytes: entries that grow, the budget, stand-ins, saved state and
 * cold entries. */
#include "base/hash.h"
#include "base/spec.h"
#include "base/state.h"
#include "entry_kit.h"
#include "plugins.h"

#include <stdio.h>
#include <string.h>

/* ---- rows that grow -------------------------------------------------------------------------- */

static void test_growing(void **st) {
    (void)st;
    larder__cache *c = entry_lru(10, 1000);
    entry_maker m = {0};
    assert_int_equal(entry_get(c, &m, 3, 100), LARDER_MISS);
    assert_int_equal(entry_get(c, &m, 3, 300), LARDER_MISS);
    assert_int_equal(m.with_have, 1);
    assert_int_equal(entry_get(c, &m, 3, 200), LARDER_HIT); /* gets all 300 */
    assert_int_equal(entry_figures(c).resident_bytes, 300);
    assert_int_equal(entry_get(c, &m, 4, 700), LARDER_MISS);
    assert_int_equal(entry_get(c, &m, 3, 400), LARDER_MISS); /* 4 has to go */
    assert_false(larder__cache_resident(c, 4));
    assert_int_equal(m.with_have, 2);
    assert_int_equal(entry_get(c, &m, 3, 1001), LARDER_MISS); /* longer than the cache: not kept */
    assert_int_equal(m.with_have, 3);
    assert_false(larder__cache_resident(c, 3));
    assert_int_equal(entry_figures(c).resident_bytes, 0);
    assert_int_equal(entry_figures(c).loaned_bytes, 0);
    larder__cache_close(&c);
}

static void test_growing_while_made(void **st) {
    (void)st;
    larder__cache *c = entry_lru(10, 1000);
    larder_access a[] = {entry_ask(3, 100), entry_ask(3, 200), entry_ask(3, 150)};
    larder__ticket t[3];
    check_ok(larder__cache_claim(c, a, 3, t));
    assert_int_equal(t[0].task, LARDER__MAKE);
    assert_int_equal(t[1].task, LARDER__MAKE); /* the first is too short for it */
    assert_int_equal(t[2].task, LARDER__WAIT);
    larder_buf *longer = entry_new(3, 200), *shorter = entry_new(3, 100), *waited;
    larder__cache_fill(c, &t[1], longer);
    larder__cache_fill(c, &t[0], shorter); /* late and short: must not replace the long one */
    check_ok(larder__cache_wait(c, &t[2], &waited));
    assert_ptr_equal(waited, longer);
    larder_buf_unref(&waited);
    larder_buf_unref(&longer);
    larder_buf_unref(&shorter);
    entry_maker m = {0};
    assert_int_equal(entry_get(c, &m, 3, 200), LARDER_HIT);
    assert_int_equal(m.calls, 0);
    larder__cache_close(&c);
}

/* ---- claims ---------------------------------------------------------------------------------- */

static void test_whole_batch_looked_up_first(void **st) {
    (void)st;
    larder__cache *c = entry_lru(10, 200);
    entry_maker m = {0};
    entry_get(c, &m, 0, 100);
    entry_get(c, &m, 1, 100);
    larder_access a[] = {entry_ask(2, 100), entry_ask(0, 100), entry_ask(3, 100), entry_ask(1, 100),
                         entry_ask(2, 100)};
    larder__ticket t[5];
    check_ok(larder__cache_claim_batch(c, a, 5, t));
    const uint8_t kinds[] = {LARDER_MISS, LARDER_HIT, LARDER_MISS, LARDER_HIT, LARDER_MISS};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(t[i].kind, kinds[i]);
        if (t[i].task == LARDER__READY)
            assert_true(entry_is(t[i].buf, a[i].key, 100));
    }
    assert_int_equal(t[4].task, LARDER__WAIT);
    for (int i = 0; i < 5; i++) {
        larder_buf *b = NULL;
        if (t[i].task == LARDER__MAKE) {
            b = entry_new(a[i].key, 100);
            larder__cache_fill(c, &t[i], b);
        } else if (t[i].task == LARDER__WAIT) {
            check_ok(larder__cache_wait(c, &t[i], &b));
            assert_true(entry_is(b, 2, 100));
        } else
            larder__ticket_drop(&t[i]);
        larder_buf_unref(&b);
    }
    larder__cache_figures f = entry_figures(c);
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
        larder__cache *c = entry_lru(10, 120);
        larder_access a = entry_ask(0, 100);
        larder__ticket t;
        check_ok(larder__cache_claim(c, &a, 1, &t));
        larder_buf *b = entry_new(0, sizes[i]);
        larder__cache_fill(c, &t, b);
        larder__cache_figures f = entry_figures(c);
        assert_true(f.resident_bytes <= 120);
        assert_int_equal(f.loaned_bytes, sizes[i]); /* the bytes are ours, not the cache's */
        larder_buf_unref(&b);
        assert_int_equal(entry_figures(c).loaned_bytes, 0);
        entry_maker m = {0};
        assert_int_equal(entry_get(c, &m, 0, 100), LARDER_MISS);
        assert_int_equal(entry_get(c, &m, 0, 100), LARDER_HIT);
        larder__cache_close(&c);
    }
}

static void test_budget_covers_metadata(void **st) {
    (void)st;
    for (size_t p = 0; larder__policies[p]; p++) {
        enum { BUDGET = 20000, N = 200 };
        larder_args args = kit_args(larder__policies[p]);
        larder__cache_conf conf = {.policy = larder__policies[p],
                                   .args = &args,
                                   .store = &larder__store_heap,
                                   .keys = N,
                                   .budget = BUDGET,
                                   .budget_covers_all = true};
        larder__cache *c;
        check_ok(larder__cache_open(&c, &conf));
        larder__args_free(&args);
        entry_maker m = {0};
        uint64_t most = 0;
        for (uint64_t i = 0; i < 3000; i++) {
            uint64_t key = larder__mix64(i) % N;
            entry_get(c, &m, key, 10 + (uint32_t)(key % 300));
            larder__cache_figures f = entry_figures(c);
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
    entry_maker m = {0};
    assert_int_equal(entry_get(c, &m, 1, 1), LARDER_MISS);
    assert_int_equal(entry_get(c, &m, 1, 1), LARDER_MISS);
    assert_int_equal(entry_figures(c).resident, 0);
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
    uint64_t empty = entry_figures(c).metadata_bytes;
    entry_maker m = {0};
    entry_get(c, &m, 0, 100);
    uint64_t one = entry_figures(c).metadata_bytes - empty;
    larder__cache_close(&c);
    conf.policy = larder__policy_find("lru");
    conf.budget = empty + one + 500; /* tables, one slot of minio's, some more */
    check_ok(larder__cache_open(&c, &conf));
    larder__cache_figures before = entry_figures(c);
    uint32_t room = (uint32_t)(conf.budget - before.metadata_bytes - one - conf.policy->slot_size);
    assert_int_equal(entry_get(c, &m, 0, room), LARDER_MISS);
    assert_true(larder__cache_resident(c, 0));
    assert_int_equal(entry_get(c, &m, 1, room), LARDER_MISS);
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
    entry_maker m = {0};
    entry_get(c, &m, 2, 100);
    larder_access a[] = {entry_ask(7, 100), entry_ask(3, 100)};
    larder__ticket t[2];
    stand_in_key = 2;
    check_ok(larder__cache_claim(c, a, 2, t));
    assert_int_equal(t[0].kind, LARDER_SUBSTITUTE);
    assert_int_equal(t[0].key, 2);
    assert_true(entry_is(t[0].buf, 2, 100));
    assert_int_equal(t[1].kind, LARDER_MISS);
    assert_int_equal(t[1].key, 3);
    assert_false(larder__cache_resident(c, 7));
    larder__ticket_drop(&t[0]);
    larder__cache_fail(c, &t[1], LARDER_E_IO, "no");
    const uint64_t useless[] = {9, 1000, UINT64_MAX}; /* not resident, not a key: not taken */
    for (int i = 0; i < 3; i++) {
        larder__cache *other = kit_cache(&p, &larder__store_heap, 10, 1000, 1);
        stand_in_key = useless[i];
        larder_access b = entry_ask(6 + (uint64_t)i, 100);
        check_ok(larder__cache_claim(other, &b, 1, t));
        assert_int_equal(t[0].kind, LARDER_MISS);
        larder__cache_fail(other, &t[0], LARDER_E_IO, "no");
        assert_int_equal(entry_figures(other).substitutes, 0);
        larder__cache_close(&other);
    }
    larder__cache_figures f = entry_figures(c);
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
        entry_maker m = {0};
        for (uint64_t k = 0; k < 3; k++)
            entry_get(c, &m, k, 100);
        kit_copy_state(c, d);
        assert_int_equal(entry_figures(d).resident_bytes, 300);
        assert_true(larder__cache_resident(d, 1));
        entry_maker n = {0};
        assert_int_equal(entry_get(d, &n, 1, 100),
                         LARDER_MISS); /* decided, but its bytes are gone */
        assert_int_equal(n.calls, 1);
        assert_int_equal(entry_get(d, &n, 1, 100), LARDER_HIT);
        assert_int_equal(entry_get(d, &n, 2, 150), LARDER_MISS); /* cold and too short */
        assert_int_equal(n.with_have, 0);
        assert_int_equal(entry_get(d, &n, 0, 50), LARDER_MISS); /* made as long as it was */
        assert_int_equal(entry_get(d, &n, 0, 100), LARDER_HIT);
        assert_int_equal(entry_figures(d).evictions, 0);
        assert_int_equal(entry_figures(d).loaned_bytes, 0);
        larder__cache_close(&c);
        larder__cache_close(&d);
    }
}

static void test_save_while_made(void **st) {
    (void)st;
    larder__cache *c = entry_lru(10, 300), *d = entry_lru(10, 300);
    larder_access a[] = {entry_ask(0, 100), entry_ask(1, 100)};
    larder__ticket t[2];
    check_ok(larder__cache_claim(c, a, 2, t));
    kit_copy_state(c, d);
    for (int i = 0; i < 2; i++)
        larder__cache_fail(c, &t[i], LARDER_E_CANCELLED, "stopped");
    entry_maker m = {0};
    assert_true(larder__cache_resident(d, 0));
    assert_int_equal(entry_get(d, &m, 0, 100), LARDER_MISS);
    larder__cache_close(&c);
    larder__cache_close(&d);
}

static void test_unknown_keys(void **st) {
    (void)st;
    larder__cache *c = entry_lru(10, 300);
    larder_access a[] = {entry_ask(0, 100), entry_ask(10, 100)};
    larder_buf *out[2];
    entry_maker m = {0};
    assert_int_equal(larder__cache_get(c, a, 2, entry_make, &m, out, NULL), LARDER_E_RANGE);
    assert_int_equal(entry_figures(c).requests, 0);
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
    entry_maker m = {0};
    for (uint64_t k = 0; k < 5; k++)
        entry_get(c, &m, k, 100);
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
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growing),
        cmocka_unit_test(test_growing_while_made),
        cmocka_unit_test(test_whole_batch_looked_up_first),
        cmocka_unit_test(test_fill_of_another_size),
        cmocka_unit_test(test_budget_covers_metadata),
        cmocka_unit_test(test_budget_of_one_slot),
        cmocka_unit_test(test_stand_in),
        cmocka_unit_test(test_cold_after_load),
        cmocka_unit_test(test_save_while_made),
        cmocka_unit_test(test_unknown_keys),
        cmocka_unit_test(test_stats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
