/* Sets that give their k-th member, against an array of flags. */
#include "check.h"

#include "base/mem.h"
#include "base/pickset.h"
#include "base/state.h"

#include <stdlib.h>
#include <string.h>

static void compare(const larder__pickset *s, const bool *in, uint32_t n) {
    uint32_t k = 0, *list = calloc(n, sizeof *list);
    larder__pickset_list(s, list);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(larder__pickset_has(s, i), in[i]);
        if (!in[i])
            continue;
        assert_int_equal(list[k], i);
        assert_int_equal(larder__pickset_at(s, k++), i);
    }
    assert_int_equal(s->count, k);
    free(list);
}

static void a_set_is_its_flags(void **state) {
    (void)state;
    const uint32_t sizes[] = {1, 2, 63, 64, 65, 511, 512, 513, 1025, 5000};
    larder_rng rng;
    larder_rng_seed(&rng, 1, 1);
    for (size_t c = 0; c < sizeof sizes / sizeof *sizes; c++) {
        uint32_t n = sizes[c];
        bool *in = calloc(n, sizeof *in);
        larder__pickset s, copy;
        check_ok(larder__pickset_open(&s, n));
        check_ok(larder__pickset_open(&copy, n));
        for (int step = 0; step < 3000; step++) {
            uint32_t i = larder_rng_below(&rng, n);
            in[i] = larder_rng_below(&rng, 3) > 0; /* also what is there, or not there, already */
            if (in[i])
                larder__pickset_add(&s, i);
            else
                larder__pickset_cut(&s, i);
            if (step % 500 == 0)
                compare(&s, in, n);
        }
        compare(&s, in, n);
        memcpy(copy.words, s.words, (n + 63) / 64 * sizeof *s.words);
        larder__pickset_recount(&copy);
        compare(&copy, in, n);
        larder__pickset_clear(&s);
        memset(in, 0, n * sizeof *in);
        compare(&s, in, n);
        larder__pickset_close(&s);
        larder__pickset_close(&copy);
        free(in);
    }
}

static void members_are_drawn_alike(void **state) {
    (void)state;
    enum { DRAWS = 70000 };
    larder__pickset s;
    larder_rng rng;
    uint32_t times[7] = {0};
    larder_rng_seed(&rng, 2, 2);
    check_ok(larder__pickset_open(&s, 2000));
    for (uint32_t i = 0; i < 7; i++)
        larder__pickset_add(&s, i * 300);
    for (int i = 0; i < DRAWS; i++)
        times[larder__pickset_draw(&s, &rng) / 300]++;
    for (int i = 0; i < 7; i++)
        assert_in_range(times[i], DRAWS / 7 - 500, DRAWS / 7 + 500); /* five standard deviations */
    larder__pickset_close(&s);
}

static void no_memory_is_said(void **state) {
    (void)state;
    for (uint64_t at = 1; at <= 2; at++) {
        larder__pickset s;
        larder__mem_fail_at(at, 0);
        assert_int_equal(larder__pickset_open(&s, 100), LARDER_E_NOMEM);
        larder__mem_fail_at(0, 0);
        larder__pickset_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_is_its_flags),
        cmocka_unit_test(members_are_drawn_alike),
        cmocka_unit_test(no_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
