/* Reuse intervals of a sequence short enough to count by hand, and of random ones against a slow
 * twin. */
#include "check.h"

#include "sim/intervals.h"

#include <larder/plugin.h>

#include <string.h>

static void test_by_hand(void **st) {
    (void)st;
    const uint32_t ids[] = {0, 1, 0, 2, 1, 0, 0, 3};
    const uint64_t ends[] = {2, 4, 6, 8};
    larder__intervals v;
    check_ok(larder__intervals_find(&v, ids, 5, ends, 2));
    assert_int_equal(v.run.accesses, 8);
    assert_int_equal(v.run.first, 4);
    const uint64_t levels[] = {1, 3, 0, 0}; /* intervals 2, 3, 3, 1 */
    assert_memory_equal(v.run.level, levels, sizeof levels);
    assert_int_equal(v.quarter[0].first, 2);
    assert_int_equal(v.quarter[1].first + v.quarter[1].level[1], 2);
    assert_int_equal(v.change[0][0], 3); /* 0, 3, 4 stay; 1 and 2 change by one */
    assert_int_equal(v.change[0][1], 2);
    assert_int_equal(larder__intervals_find(&v, ids, 5, ends, 0), LARDER_E_ARGS);
}

static void test_twin(void **st) {
    (void)st;
    enum { LEN = 300, KEYS = 25 };
    larder_rng rng;
    larder_rng_seed(&rng, 8, 8);
    for (int round = 0; round < 100; round++) {
        uint32_t ids[LEN];
        uint64_t step = 1 + larder_rng_below(&rng, 30);
        const uint64_t ends[] = {larder_rng_below(&rng, 60), 100, 100, LEN};
        for (int i = 0; i < LEN; i++)
            ids[i] = larder_rng_below(&rng, KEYS);
        larder__intervals v;
        check_ok(larder__intervals_find(&v, ids, KEYS, ends, step));
        uint64_t level[LARDER__LEVELS] = {0}, first = 0;
        for (int i = (int)ends[2]; i < LEN; i++) { /* the last quarter */
            int back = i - 1;
            while (back >= 0 && ids[back] != ids[i])
                back--;
            uint64_t times = (uint64_t)(i - back) / step;
            if (back < 0)
                first++;
            else
                level[times > 3 ? 3 : times]++;
        }
        assert_int_equal(v.quarter[3].first, first);
        assert_memory_equal(v.quarter[3].level, level, sizeof level);
        assert_int_equal(v.quarter[2].accesses, 0);
        for (int q = 0; q < 3; q++) {
            uint64_t change[LARDER__CHANGES] = {0};
            for (uint32_t k = 0; k < KEYS; k++) {
                int by = 0;
                for (uint64_t i = q ? ends[q - 1] : 0; i < ends[q + 1]; i++)
                    by += ids[i] != k ? 0 : i < ends[q] ? -1 : 1;
                by = by < 0 ? -by : by;
                change[by > 4 ? 4 : by]++;
            }
            assert_memory_equal(v.change[q], change, sizeof change);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_twin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
