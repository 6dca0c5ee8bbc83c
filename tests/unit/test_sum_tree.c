/* The sum tree against a linear search over the same weights, while they change. */
#include "check.h"
#include "sample/sum_tree.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static void check_sums(larder__sum_tree *t) {
    double sum = 0;
    for (uint64_t i = 0; i < t->n; i++)
        sum += (double)larder__sum_tree_weight(t, i);
    assert_true(fabs(larder__sum_tree_total(t) - sum) <= 1e-6 * sum);
}

/* Draws over a tree of n, of which a few ids have weight: all of them in proportion, no other. */
static void check_draws(uint64_t n, const uint32_t *ids, const float *w, int count) {
    larder__sum_tree t;
    larder_rng rng;
    larder_rng_seed(&rng, n, 1);
    check_ok(larder__sum_tree_open(&t, n));
    assert_int_equal(larder__sum_tree_draw(&t, &rng), UINT32_MAX); /* nothing to draw yet */
    check_ok(larder__sum_tree_set_many(&t, ids, w, (size_t)count));
    check_sums(&t);
    enum { DRAWS = 40000 };
    uint64_t times[8] = {0};
    double sum = 0, chi = 0;
    for (int r = 0; r < DRAWS; r++) {
        uint32_t id = larder__sum_tree_draw(&t, &rng);
        int k = 0;
        while (k < count && ids[k] != id)
            k++;
        assert_true(k < count);
        times[k]++;
    }
    for (int k = 0; k < count; k++)
        sum += (double)w[k];
    for (int k = 0; k < count; k++) {
        double want = DRAWS * (double)w[k] / sum;
        chi += ((double)times[k] - want) * ((double)times[k] - want) / want;
    }
    assert_true(chi < 22.5); /* 6 degrees of freedom, p = 0.001 */
    larder__sum_tree_close(&t);
}

static void test_few_among_many(void **st) {
    (void)st;
    const float w[7] = {1, 2, 3, 0.5f, 1, 4, 2};
    const uint64_t sizes[] = {7, 16, 17, 256, 257, 4097, 70000, 1100000, (1u << 24) + 77};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint32_t ids[7];
        for (uint32_t k = 0; k < 7; k++) /* the first, the last, and some between */
            ids[k] = (uint32_t)((sizes[s] - 1) * k / 6);
        check_draws(sizes[s], ids, w, 7);
    }
}

static void test_weights_change_between_draws(void **st) {
    (void)st;
    enum { N = 300 };
    float w[N];
    double expected[N] = {0};
    uint64_t times[N] = {0};
    larder_rng rng;
    larder_rng_seed(&rng, 5, 5);
    for (int i = 0; i < N; i++)
        w[i] = (float)(i % 7);
    larder__sum_tree t;
    check_ok(larder__sum_tree_open(&t, N));
    check_ok(larder__sum_tree_build(&t, w));
    for (int r = 0; r < 60000; r++) {
        uint32_t i = larder_rng_below(&rng, N);
        w[i] = larder_rng_below(&rng, 4) ? (float)larder_rng_unit(&rng) : 0;
        check_ok(larder__sum_tree_set(&t, i, w[i]));
        assert_true(larder__sum_tree_weight(&t, i) == w[i]);
        double sum = 0;
        for (int k = 0; k < N; k++)
            sum += (double)w[k];
        for (int k = 0; k < N; k++)
            expected[k] += (double)w[k] / sum;
        uint32_t id = larder__sum_tree_draw(&t, &rng);
        assert_true(w[id] > 0);
        times[id]++;
    }
    check_sums(&t);
    double chi = 0;
    for (int k = 0; k < N; k++)
        chi += ((double)times[k] - expected[k]) * ((double)times[k] - expected[k]) / expected[k];
    assert_true(chi < 379.0); /* 299 degrees of freedom, p = 0.001 */
    larder__sum_tree_close(&t);
}

/* A huge weight that came and went leaves no trace in the sums. */
static void test_edges(void **st) {
    (void)st;
    larder__sum_tree t;
    larder_rng rng;
    larder_rng_seed(&rng, 6, 6);
    check_ok(larder__sum_tree_open(&t, 1000));
    check_ok(larder__sum_tree_set(&t, 10, 1e-30f));
    check_ok(larder__sum_tree_set(&t, 11, FLT_MAX));
    check_ok(larder__sum_tree_set(&t, 500, FLT_MAX));
    for (int i = 0; i < 1000; i++) {
        uint32_t id = larder__sum_tree_draw(&t, &rng);
        assert_true(id == 11 || id == 500);
    }
    check_ok(larder__sum_tree_set(&t, 11, 0));
    check_ok(larder__sum_tree_set(&t, 500, 0));
    assert_int_equal(larder__sum_tree_draw(&t, &rng), 10);
    check_ok(larder__sum_tree_set(&t, 10, 1e-45f));
    assert_int_equal(larder__sum_tree_draw(&t, &rng), 10);
    const float wrong[] = {NAN, -1, INFINITY, -INFINITY};
    for (int i = 0; i < 4; i++)
        assert_int_equal(larder__sum_tree_set(&t, 3, wrong[i]), LARDER_E_RANGE);
    assert_true(larder__sum_tree_weight(&t, 3) == 0);
    assert_int_equal(larder__sum_tree_draw(&t, &rng), 10);
    float all[1000] = {0};
    assert_int_equal(larder__sum_tree_build(&t, all), LARDER_E_RANGE);
    larder__sum_tree_close(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_among_many),
        cmocka_unit_test(test_weights_change_between_draws),
        cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
