/* Sampler and cache together must meet what can be worked out on paper for shuffled epochs. c is
 * the cached share, hit ratios are those of later epochs.
 *   lru     c + (1-c) ln(1-c)
 *   minio   c exactly, also when quiver chooses the order
 *   random  1 - c ln(c + (1-c) e^(1/c)). Each miss evicts one of cN, so a resident survives x
 *           misses (in units of N) with e^(-x/c). With F(t) the misses up to phase t of an epoch,
 *           F'(v) = 1 - integral of e^(-(F(1) - F(u) + F(v))/c) du; g = e^(F/c) makes this linear,
 *           g' = (g - c)/c with g(0) = 1, so F(1) = c ln g(1) = c ln(c + (1-c) e^(1/c)).
 * And around a loop: lru 0, minio and belady c. */
#include "base/mem.h"
#include "base/spec.h"
#include "cache_kit.h"
#include "plugins.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 100, EPOCHS = 5, SIZE = 3072 };

static bool is_resident(const void *arg, uint64_t id) { return larder__cache_resident(arg, id); }

/* Mean hit ratio of epochs 1 and later; *least and *most are of single epochs. */
static double hit_ratio(const char *sampler, const char *policy, uint64_t n, double c,
                        uint64_t seed, double *least, double *most) {
    const larder_sampler *q = larder__sampler_find(sampler);
    larder__cache *cache = kit_cache(larder__policy_find(policy), &larder__store_null, n,
                                     (uint64_t)(c * (double)n) * SIZE, seed);
    larder_draw_env env = {.n = n,
                           .seed = seed,
                           .batch = BATCH,
                           .world = 1,
                           .resident = is_resident,
                           .resident_arg = cache};
    larder_args args;
    check_ok(larder__args_parse(&args, "sampler", &q->plugin, "", ',', NULL));
    void *st = calloc(1, q->plugin.state_size);
    check_ok(q->init(st, &env, &args));
    double sum = 0;
    *least = 1, *most = 0;
    for (uint64_t e = 0, now = 0; e < EPOCHS; e++) {
        uint64_t hits = 0;
        larder_pick picks[BATCH];
        larder_access a[BATCH];
        larder__ticket t[BATCH];
        check_ok(q->epoch(st, e));
        for (size_t k; (k = q->draw(st, picks, BATCH)) > 0;) {
            for (size_t i = 0; i < k; i++)
                a[i] = (larder_access){
                    .key = picks[i].id, .now = now++, .next_use = LARDER_UNKNOWN, .size = SIZE};
            check_ok(larder__cache_claim(cache, a, k, t));
            for (size_t i = 0; i < k; i++)
                hits += t[i].kind == LARDER_HIT;
        }
        double ratio = (double)hits / (double)n;
        if (e == 0) {
            assert_int_equal(hits, 0);
            continue;
        }
        sum += ratio;
        *least = fmin(*least, ratio);
        *most = fmax(*most, ratio);
    }
    q->fini(st);
    free(st);
    larder__args_free(&args);
    larder__cache_close(&cache);
    return sum / (EPOCHS - 1);
}

static const double shares[] = {0.05, 0.2, 0.4, 0.6, 0.8, 0.95};
static const uint64_t sizes[] = {1000, 20000, 50000};

/* The mean over EPOCHS - 1 epochs must lie within 4.5 standard deviations of the paper's value; the
 * hits of one epoch are at most as spread as independent ones. 1/n: what the limit leaves out. */
static void check_form(const char *policy, double (*form)(double)) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t k = 0; k < sizeof shares / sizeof *shares; k++)
            for (uint64_t seed = 0; seed < 3; seed++) {
                double n = (double)sizes[i], want = form(shares[k]), least, most;
                double got = hit_ratio("uniform", policy, sizes[i], shares[k], seed, &least, &most);
                double sd = sqrt(fmax(want * (1 - want), 1 / n) / (n * (EPOCHS - 1)));
                if (fabs(got - want) > 4.5 * sd + 2 / n)
                    fail_msg("%s, n %g, c %g, seed %d: hit %.5f, on paper %.5f, sd %.5f", policy, n,
                             shares[k], (int)seed, got, want, sd);
            }
}

static double lru_form(double c) { return c + (1 - c) * log(1 - c); }
static double random_form(double c) { return 1 - c * log(c + (1 - c) * exp(1 / c)); }

static void test_lru(void **st) {
    (void)st;
    assert_true(fabs(lru_form(0.2) - 0.021) < 0.001 && fabs(lru_form(0.8) - 0.478) < 0.001);
    check_form("lru", lru_form);
}

static void test_random(void **st) {
    (void)st;
    check_form("random", random_form);
}

static void check_static(const char *sampler) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t k = 0; k < sizeof shares / sizeof *shares; k++)
            for (uint64_t seed = 0; seed < 3; seed++) {
                double least, most, n = (double)sizes[i], want = floor(shares[k] * n) / n;
                hit_ratio(sampler, "minio", sizes[i], shares[k], seed, &least, &most);
                assert_true(fabs(least - want) < 1e-9 && fabs(most - want) < 1e-9);
            }
}

static void test_minio(void **st) {
    (void)st;
    check_static("uniform");
}

static void test_quiver(void **st) {
    (void)st;
    check_static("quiver");
}

/* Everything fits: no policy may miss after the first epoch. Nothing fits: nobody may hit. */
static void test_all_or_nothing(void **st) {
    (void)st;
    for (size_t p = 0; larder__policies[p]; p++) {
        double least, most;
        assert_true(
            hit_ratio("uniform", larder__policies[p]->plugin.name, 1000, 1, 1, &least, &most) == 1);
        assert_true(
            hit_ratio("uniform", larder__policies[p]->plugin.name, 1000, 0, 1, &least, &most) == 0);
    }
}

/* A loop longer than the cache: LRU and FIFO always throw away what comes next; no policy
 * gets beyond K/n, which MIN with bypass reaches by keeping what came first, as MinIO does. */
static void test_loop(void **st) {
    (void)st;
    enum { N = 1000, K = 400, ROUNDS = 50 };
    const struct {
        const char *policy;
        double ratio;
    } want[] = {{"lru", 0}, {"fifo", 0}, {"minio", (double)K / N}, {"belady", (double)K / N}};
    for (size_t p = 0; p < 4; p++) {
        larder__cache *c =
            kit_cache(larder__policy_find(want[p].policy), &larder__store_null, N, K, 1);
        uint64_t hits = 0;
        for (uint64_t i = 0; i < N * ROUNDS; i++) {
            larder_access a = {.key = i % N, .now = i, .next_use = i + N, .size = 1};
            larder__ticket t;
            check_ok(larder__cache_claim(c, &a, 1, &t));
            hits += t.kind == LARDER_HIT && i >= N;
        }
        double got = (double)hits / (N * (ROUNDS - 1.0));
        if (fabs(got - want[p].ratio) > 1e-9)
            fail_msg("%s on a loop: %.6f", want[p].policy, got);
        larder__cache_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lru),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_minio),
        cmocka_unit_test(test_quiver),
        cmocka_unit_test(test_all_or_nothing),
        cmocka_unit_test(test_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
