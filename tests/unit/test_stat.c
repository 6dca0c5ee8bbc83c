/* Counters, gauges, histograms and probes. */
#include "base/mem.h"
#include "base/stat.h"

#include "check.h"
#include <larder/plugin.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static double twice(const void *arg) { return 2 * *(const double *)arg; }

typedef struct shared {
    larder__stats *s;
    larder__stat counter, histogram;
} shared;

static void *add_some(void *arg) {
    shared *x = arg;
    for (int i = 0; i < 10000; i++) {
        larder__stat_add(x->s, x->counter, 2);
        larder__stat_observe(x->s, x->histogram, 1 + i % 4);
    }
    return NULL;
}

static void test_all_kinds(void **st) {
    (void)st;
    shared x;
    larder__stat gauge;
    double held = 21;
    check_ok(larder__stats_open(&x.s));
    check_ok(larder__stat_counter(x.s, &x.counter, "reads", "samples", "how many"));
    check_ok(larder__stat_gauge(x.s, &gauge, "share", "", "how much"));
    check_ok(larder__stat_histogram(x.s, &x.histogram, "wait", "s", "how long"));
    check_ok(larder__stat_probe(x.s, "probe", "", "asked", twice, &held));
    larder__stat_set(x.s, gauge, 0.25);
    pthread_t t[10]; /* more than shards */
    for (int i = 0; i < 10; i++)
        assert_int_equal(pthread_create(&t[i], NULL, add_some, &x), 0);
    for (int i = 0; i < 10; i++)
        pthread_join(t[i], NULL);
    larder_stat_value v = {.size = sizeof v};
    larder__stat clock;
    check_ok(larder__stat_clock(x.s, &clock, "busy", "how long"));
    larder__stat_spend(x.s, clock, 1.5);
    larder__stat_spend(x.s, clock, -1); /* a clock only runs forward */
    check_ok(larder__stat_probe_count(x.s, "grows", "", "asked", twice, &held));
    check_ok(larder__stat_read(x.s, 4, &v));
    assert_true(v.type == 'c' && fabs(v.value - 1.5) < 1e-8);
    assert_string_equal(v.unit, "seconds");
    check_ok(larder__stat_read(x.s, 5, &v));
    assert_true(v.type == 'c' && v.value == 42);
    check_ok(larder__stat_read(x.s, 0, &v));
    assert_string_equal(v.name, "reads");
    assert_int_equal(v.type, 'c');
    assert_true(v.value == 200000);
    check_ok(larder__stat_read(x.s, 1, &v));
    assert_true(v.value == 0.25 && v.type == 'g');
    check_ok(larder__stat_read(x.s, 2, &v));
    assert_int_equal(v.count, 100000);
    assert_true(fabs(v.value - 2.5) < 1e-9 && fabs(v.sd - sqrt(1.25)) < 1e-9 && v.max == 4);
    assert_true(v.p50 >= 1.5 && v.p50 <= 2.5 && v.p99 > 3.5 && v.p99 <= 4);
    check_ok(larder__stat_read(x.s, 3, &v));
    assert_true(v.value == 42);
    assert_int_equal(larder__stat_read(x.s, 6, &v), LARDER_E_RANGE);
    larder__stats_close(&x.s);
    assert_null(x.s);
    larder__stats_close(&x.s);
}

/* Buckets are an eighth of an octave wide, so a quantile is right within a sixteenth. */
static void test_quantiles(void **st) {
    (void)st;
    larder__stats *s;
    larder__stat h;
    check_ok(larder__stats_open(&s));
    check_ok(larder__stat_histogram(s, &h, "wait", "s", "how long"));
    larder_stat_value v = {.size = sizeof v};
    check_ok(larder__stat_read(s, h, &v));
    assert_true(v.count == 0 && v.value == 0 && v.p99 == 0);
    for (int i = 1; i <= 10000; i++)
        larder__stat_observe(s, h, i * 1e-6);
    check_ok(larder__stat_read(s, h, &v));
    assert_true(fabs(v.p50 / 5e-3 - 1) < 0.07);
    assert_true(fabs(v.p90 / 9e-3 - 1) < 0.07);
    assert_true(fabs(v.p99 / 9.9e-3 - 1) < 0.07);
    const double odd[] = {0, -1, 1e300, 1e-300};
    for (int i = 0; i < 4; i++)
        larder__stat_observe(s, h, odd[i]);
    check_ok(larder__stat_read(s, h, &v));
    assert_int_equal(v.count, 10004);
    larder__stats_close(&s);
}

static void test_limits(void **st) {
    (void)st;
    larder__stats *s;
    larder__stat h;
    check_ok(larder__stats_open(&s));
    int rc = 0, n = 0;
    while (rc == 0 && n < 1000) {
        rc = larder__stat_histogram(s, &h, "many", "", "of them");
        n += rc == 0;
    }
    assert_int_equal(rc, LARDER_E_RANGE);
    assert_true(n >= 32);
    larder__stats_close(&s);
    larder__mem_fail_at(1, 0);
    assert_int_equal(larder__stats_open(&s), LARDER_E_NOMEM);
    larder__mem_fail_at(0, 0);
    check_ok(larder__stats_open(&s));
    larder__mem_fail_at(1, 0);
    assert_int_equal(larder__stat_histogram(s, &h, "one", "", ""), LARDER_E_NOMEM);
    larder__mem_fail_at(0, 0);
    larder__stats_close(&s);
}

static void *note_some(void *arg) {
    for (int i = 0; i < 20; i++)
        larder__note(arg, "sentence %d", i);
    return NULL;
}

/* Each is said once, whoever says it and however often; names cannot move a reader's cursor. */
static void test_notes(void **st) {
    (void)st;
    larder__stats *s;
    larder__note(NULL, "nobody counts");
    check_ok(larder__stats_open(&s));
    assert_null(larder__note_at(s, 0));
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, note_some, s), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    bool said[20] = {false};
    for (size_t i = 0; i < 20; i++) {
        int which = -1;
        assert_non_null(larder__note_at(s, i));
        assert_int_equal(sscanf(larder__note_at(s, i), "sentence %d", &which), 1);
        assert_true(which >= 0 && which < 20 && !said[which]);
        said[which] = true;
    }
    assert_null(larder__note_at(s, 20));
    larder__note(s, "a file named %s", "\033[2Jx\n\302\2332J\342\200\256");
    assert_string_equal(larder__note_at(s, 20), "a file named \\x1b[2Jx\\x0a\\u009b2J\\u202e");
    for (int i = 100; i < 200; i++)
        larder__note(s, "sentence %d", i);
    assert_string_equal(larder__note_at(s, 31), "sentence 110");
    assert_null(larder__note_at(s, 32));
    larder__stats_close(&s);
}

/* Against counting by hand, over values of all magnitudes. */
static void below_bounds(void **state) {
    (void)state;
    larder__stats *stats = NULL;
    larder__stat counter, waits;
    uint64_t by_hand[LARDER__STAT_BOUNDS + 1] = {0}, got[LARDER__STAT_BOUNDS + 1];
    larder_rng rng;
    larder_rng_seed(&rng, 1, 0);
    check_ok(larder__stats_open(&stats));
    check_ok(larder__stat_counter(stats, &counter, "a", "", "a"));
    check_ok(larder__stat_histogram(stats, &waits, "b", "seconds", "b"));
    assert_true(larder__stat_bound(0) == ldexp(1, -13) && larder__stat_bound(11) == 512);
    for (int i = 0; i < 20000; i++) {
        double v =
            i < 10 ? 0 : ldexp(1 + larder_rng_unit(&rng), (int)larder_rng_below(&rng, 30) - 18);
        larder__stat_observe(stats, waits, v);
        for (size_t k = 0; k < LARDER__STAT_BOUNDS; k++)
            by_hand[k] += v < larder__stat_bound(k);
        by_hand[LARDER__STAT_BOUNDS]++;
    }
    check_ok(larder__stat_below(stats, waits, got));
    for (size_t k = 0; k <= LARDER__STAT_BOUNDS; k++)
        assert_int_equal(got[k], by_hand[k]);
    assert_int_equal(larder__stat_below(stats, counter, got), LARDER_E_RANGE);
    assert_int_equal(larder__stat_below(stats, 9, got), LARDER_E_RANGE);
    larder__stats_close(&stats);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(below_bounds),   cmocka_unit_test(test_all_kinds),
        cmocka_unit_test(test_quantiles), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_notes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
