/* Weighted orders without replacement against their slow twin, which draws one id after the other.
 */
#include "check.h"
#include "sample/weighted_order.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static void order_of(const float *w, uint64_t n, larder_rng *rng, uint32_t *out) {
    larder__weighted_order o;
    check_ok(larder__weighted_order_open(&o, n));
    check_ok(larder__weighted_order_make(&o, w, rng, out));
    larder__weighted_order_close(&o);
}

static void check_permutation(const uint32_t *out, uint64_t n) {
    bool *seen = calloc(n, sizeof *seen);
    for (uint64_t i = 0; i < n; i++) {
        assert_true(out[i] < n);
        assert_false(seen[out[i]]);
        seen[out[i]] = true;
    }
    free(seen);
}

static void test_every_id_once(void **st) {
    (void)st;
    larder_rng rng;
    larder_rng_seed(&rng, 1, 1);
    const uint64_t sizes[] = {1, 2, 255, 256, 257, 1000, 70001};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        float *w = malloc(sizes[k] * sizeof *w);
        uint32_t *out = malloc(sizes[k] * sizeof *out);
        for (uint64_t i = 0; i < sizes[k]; i++)
            w[i] = (float)larder_rng_unit(&rng) + 1e-3f;
        order_of(w, sizes[k], &rng, out);
        check_permutation(out, sizes[k]);
        free(w);
        free(out);
    }
}

/* One after the other from those left, by a running sum. */
static void slow_order(const float *w, uint32_t n, larder_rng *rng, uint32_t *out) {
    bool taken[8] = {0};
    for (uint32_t k = 0; k < n; k++) {
        double left = 0;
        for (uint32_t i = 0; i < n; i++)
            left += taken[i] ? 0 : (double)w[i];
        double at = larder_rng_unit(rng) * left;
        uint32_t pick = UINT32_MAX;
        for (uint32_t i = 0; i < n && (pick == UINT32_MAX || at >= 0); i++)
            if (!taken[i]) {
                pick = i;
                at -= (double)w[i];
                if (at < 0)
                    break;
            }
        taken[pick] = true;
        out[k] = pick;
    }
}

/* All 24 orders of four ids, with their exact chances. */
static void test_orders_fit_the_weights(void **st) {
    (void)st;
    enum { N = 4, ROUNDS = 100000 };
    const float w[N] = {1, 2, 4, 0.5f};
    double chi = 0, slow_chi = 0;
    uint64_t times[256] = {0}, slow[256] = {0};
    larder_rng rng;
    larder_rng_seed(&rng, 7, 7);
    larder__weighted_order o;
    check_ok(larder__weighted_order_open(&o, N));
    for (int r = 0; r < ROUNDS; r++) {
        uint32_t out[N];
        check_ok(larder__weighted_order_make(&o, w, &rng, out));
        times[out[0] << 6 | out[1] << 4 | out[2] << 2 | out[3]]++;
        slow_order(w, N, &rng, out);
        slow[out[0] << 6 | out[1] << 4 | out[2] << 2 | out[3]]++;
    }
    larder__weighted_order_close(&o);
    int orders = 0;
    for (uint32_t code = 0; code < 256; code++) {
        uint32_t id[N] = {code >> 6, code >> 4 & 3, code >> 2 & 3, code & 3};
        if ((1u << id[0] | 1u << id[1] | 1u << id[2] | 1u << id[3]) != 15) {
            assert_int_equal(times[code], 0);
            continue;
        }
        double p = 1, left = 7.5;
        for (int k = 0; k < N; left -= (double)w[id[k++]])
            p *= (double)w[id[k]] / left;
        double want = ROUNDS * p;
        chi += ((double)times[code] - want) * ((double)times[code] - want) / want;
        slow_chi += ((double)slow[code] - want) * ((double)slow[code] - want) / want;
        orders++;
    }
    assert_int_equal(orders, 24);
    assert_true(chi < 49.7 && slow_chi < 49.7); /* 23 degrees of freedom, p = 0.001 */
}

/* Equal weights: each id at each place alike, also where ids share a block of random numbers. */
static void test_equal_weights_are_a_shuffle(void **st) {
    (void)st;
    enum { N = 10, ROUNDS = 20000 };
    float w[N];
    static uint64_t table[N][N];
    larder_rng rng;
    larder_rng_seed(&rng, 2, 2);
    for (int i = 0; i < N; i++)
        w[i] = 3;
    for (int r = 0; r < ROUNDS; r++) {
        uint32_t out[N];
        order_of(w, N, &rng, out);
        for (int i = 0; i < N; i++)
            table[out[i]][i]++;
    }
    double chi = 0, expect = (double)ROUNDS / N;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            chi += ((double)table[i][k] - expect) * ((double)table[i][k] - expect) / expect;
    assert_true(chi < 126.1); /* 81 degrees of freedom, p = 0.001 */
}

/* Among a million equal ids many times agree in all bits that are sorted by. Neighbours in the
 * order must be ascending half of the time all the same. */
static void test_ties_are_coins(void **st) {
    (void)st;
    enum { N = 3000000 };
    float *w = malloc(N * sizeof *w);
    uint32_t *out = malloc(N * sizeof *out);
    for (int i = 0; i < N; i++)
        w[i] = 1;
    larder_rng rng;
    larder_rng_seed(&rng, 3, 3);
    order_of(w, N, &rng, out);
    uint64_t up = 0;
    for (int i = 1; i < N; i++)
        up += out[i] > out[i - 1];
    assert_true(fabs((double)up - (N - 1) / 2.0) < 4 * sqrt(N / 12.0)); /* ascents: variance N/12 */
    free(w);
    free(out);
}

static void test_extreme_weights(void **st) {
    (void)st;
    larder_rng rng;
    larder_rng_seed(&rng, 9, 9);
    const float w[] = {0, 1, FLT_MAX, 1e-45f, 1, 0, 1e-20f, 0};
    uint32_t out[8];
    int zero_first = 0, order[8] = {0};
    for (int r = 0; r < 3000; r++) {
        order_of(w, 8, &rng, out);
        check_permutation(out, 8);
        assert_int_equal(out[0], 2);
        assert_true(out[1] == 1 || out[1] == 4);
        assert_int_equal(out[3], 6);
        assert_int_equal(out[4], 3); /* small as it is, it comes before weight zero */
        zero_first += out[5] == 0;
        order[out[1]]++;
    }
    assert_true(abs(zero_first - 1000) < 110); /* zeros come last, in random order */
    assert_true(abs(order[1] - 1500) < 120);
    const float wrong[][2] = {{1, NAN}, {1, -1}, {INFINITY, 1}, {0, 0}};
    larder__weighted_order o;
    check_ok(larder__weighted_order_open(&o, 2));
    for (int i = 0; i < 4; i++)
        assert_int_equal(larder__weighted_order_make(&o, wrong[i], &rng, out), LARDER_E_RANGE);
    larder__weighted_order_close(&o);
}

/* The same on every machine and with every instruction set: an order must not change. */
static void test_golden(void **st) {
    (void)st;
    float w[1000];
    uint32_t out[1000];
    for (int i = 0; i < 1000; i++)
        w[i] = (float)(1 + i % 9);
    larder_rng rng;
    larder_rng_seed(&rng, 42, 0);
    order_of(w, 1000, &rng, out);
    uint64_t h = 7;
    for (int i = 0; i < 1000; i++)
        h = h * 0x100000001b3u + out[i];
    if (h != 0xeb22ec9f627a0d15u)
        fail_msg("the order hashes to 0x%llx", (unsigned long long)h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_id_once),
        cmocka_unit_test(test_orders_fit_the_weights),
        cmocka_unit_test(test_equal_weights_are_a_shuffle),
        cmocka_unit_test(test_ties_are_coins),
        cmocka_unit_test(test_extreme_weights),
        cmocka_unit_test(test_golden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
