/* The alias table against a running sum and a binary search, and its edges. */
#include "check.h"
#include "sample/alias.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static void draw_all(const float *w, uint64_t n, uint32_t *out, size_t count, uint64_t seed) {
    larder__alias a;
    larder_rng rng;
    larder_rng_seed(&rng, seed, 3);
    check_ok(larder__alias_open(&a, n));
    check_ok(larder__alias_build(&a, w));
    larder__alias_draw(&a, &rng, out, count);
    larder__alias_close(&a);
}

/* The chance of each id as the table itself has it: its own cell and what others leave to it. */
static void chances(const larder__alias *a, double *p) {
    for (uint32_t i = 0; i < a->n; i++)
        p[i] = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        double keep = (double)a->cells[i].keep / 4294967296.0;
        assert_true(a->cells[i].other < a->n);
        p[i] += keep / a->n;
        p[a->cells[i].other] += (1 - keep) / a->n;
    }
}

static void check_chances(const float *w, uint64_t n) {
    larder__alias a;
    double *p = malloc(n * sizeof *p), sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += (double)w[i];
    check_ok(larder__alias_open(&a, n));
    check_ok(larder__alias_build(&a, w));
    chances(&a, p);
    for (uint64_t i = 0; i < n; i++) {
        double want = (double)w[i] / sum;
        if (fabs(p[i] - want) > 1e-9 + 1e-9 * want)
            fail_msg("id %d of %d: chance %.12g, should be %.12g", (int)i, (int)n, p[i], want);
        if (w[i] == 0)
            assert_true(p[i] == 0);
    }
    larder__alias_close(&a);
    free(p);
}

static void test_table_holds_the_weights(void **st) {
    (void)st;
    larder_rng rng;
    larder_rng_seed(&rng, 4, 4);
    for (int round = 0; round < 400; round++) {
        uint64_t n = 1 + larder_rng_below(&rng, 300);
        float *w = malloc(n * sizeof *w);
        for (uint64_t i = 0; i < n; i++) {
            double u = larder_rng_unit(&rng);
            w[i] = (float)(round % 4 == 0 ? 1 : round % 4 == 1 ? u : pow(u, 20));
            if (round % 3 == 0 && larder_rng_below(&rng, 2) && i)
                w[i] = 0;
        }
        w[0] += 0.1f;
        check_chances(w, n);
        free(w);
    }
}

static void test_edges(void **st) {
    (void)st;
    check_chances((const float[]){5}, 1);
    check_chances((const float[]){0, 0, 1e-45f, 0}, 4); /* the smallest number there is */
    check_chances((const float[]){1e-45f, 2e-45f, 3e-45f}, 3);
    check_chances((const float[]){1, 1, FLT_MAX, 1}, 4);
    check_chances((const float[]){FLT_MAX, FLT_MAX, FLT_MAX}, 3);
    check_chances((const float[]){0, 0, 0, 7, 7}, 5);
    const float wrong[][3] = {{1, NAN, 1}, {1, -1, 1}, {INFINITY, 1, 1}, {0, 0, 0}, {-NAN, 0, 0}};
    larder__alias a;
    check_ok(larder__alias_open(&a, 3));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(larder__alias_build(&a, wrong[i]), LARDER_E_RANGE);
    larder__alias_close(&a);
    check_ok(larder__alias_open(&a, 0));
    assert_int_equal(larder__alias_build(&a, wrong[0]), LARDER_E_RANGE);
    larder__alias_close(&a);
}

/* The slow twin: a running sum and a search. Both must fit the weights. */
static uint32_t slow_draw(const double *up_to, uint32_t n, larder_rng *rng) {
    double at = larder_rng_unit(rng) * up_to[n - 1];
    uint32_t low = 0, high = n - 1;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (up_to[mid] <= at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void test_draws_fit_the_weights(void **st) {
    (void)st;
    enum { N = 30, DRAWS = 300000 };
    float w[N];
    double up_to[N], sum = 0, chi = 0, slow_chi = 0;
    uint64_t times[N] = {0}, slow[N] = {0};
    static uint32_t out[DRAWS];
    for (int i = 0; i < N; i++) {
        w[i] = (float)(i * i % 37 + 1);
        up_to[i] = sum += (double)w[i];
    }
    draw_all(w, N, out, DRAWS, 12);
    larder_rng rng;
    larder_rng_seed(&rng, 1, 1);
    for (int i = 0; i < DRAWS; i++) {
        times[out[i]]++;
        slow[slow_draw(up_to, N, &rng)]++;
    }
    for (int i = 0; i < N; i++) {
        double want = DRAWS * (double)w[i] / sum;
        chi += ((double)times[i] - want) * ((double)times[i] - want) / want;
        slow_chi += ((double)slow[i] - want) * ((double)slow[i] - want) / want;
    }
    assert_true(chi < 58.3 && slow_chi < 58.3); /* 29 degrees of freedom, p = 0.001 */
    assert_true(chi > 9.0);                     /* too even is not random either */
}

/* N draws from equal weights touch 1 - 1/e. */
static void test_equal_weights_touch_63_percent(void **st) {
    (void)st;
    enum { N = 50000 };
    static float w[N];
    static uint32_t out[N];
    static bool seen[N];
    size_t touched = 0;
    for (int i = 0; i < N; i++)
        w[i] = 0.25f;
    draw_all(w, N, out, N, 5);
    for (int i = 0; i < N; i++) {
        touched += !seen[out[i]];
        seen[out[i]] = true;
    }
    assert_true(fabs((double)touched / N - 0.6321) < 0.006);
}

/* Past 2^24 ids every one can still be drawn: odd and even ones alike, up to the last. */
static void test_more_than_2_to_24(void **st) {
    (void)st;
    const uint64_t n = (1u << 24) + 1000003;
    enum { DRAWS = 1 << 20 };
    float *w = malloc(n * sizeof *w);
    uint32_t *out = malloc(DRAWS * sizeof *out);
    for (uint64_t i = 0; i < n; i++)
        w[i] = 1;
    draw_all(w, n, out, DRAWS, 6);
    uint64_t odd = 0, high = 0;
    for (int i = 0; i < DRAWS; i++) {
        odd += out[i] & 1;
        high += out[i] >= 1u << 24;
    }
    assert_true(fabs((double)odd / DRAWS - 0.5) < 0.003);
    assert_true(fabs((double)high / DRAWS - 1000003.0 / (double)n) < 0.003);
    free(w);
    free(out);
}

static void test_same_seed_same_draws(void **st) {
    (void)st;
    float w[1000];
    uint32_t a[1000], b[1000];
    for (int i = 0; i < 1000; i++)
        w[i] = (float)(i % 17);
    draw_all(w, 1000, a, 1000, 5);
    draw_all(w, 1000, b, 1000, 5);
    assert_memory_equal(a, b, sizeof a);
    draw_all(w, 1000, b, 1000, 6);
    assert_memory_not_equal(a, b, sizeof a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_holds_the_weights),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_draws_fit_the_weights),
        cmocka_unit_test(test_equal_weights_touch_63_percent),
        cmocka_unit_test(test_more_than_2_to_24),
        cmocka_unit_test(test_same_seed_same_draws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
