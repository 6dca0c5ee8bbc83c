/* The measured rates: reads at the same time count once, changes are followed, totals do not fade.
 */
#include "check.h"

#include "loader/figures/pace.h"

#include <math.h>

static void overlapping_reads_count_once(void **state) {
    (void)state;
    larder__pace p;
    larder__pace_open(&p);
    assert_true(larder__pace_now(&p).read_seconds == 0 && larder__pace_now(&p).step_seconds == 0);
    larder__pace_read a = larder__pace_read_begin(&p, 10.0, 10);
    larder__pace_read b = larder__pace_read_begin(&p, 10.1, 10);
    larder__pace_read_end(&p, 10.2, a);
    larder__pace_read_end(&p, 10.4, b);        /* 20 samples in 0.4 seconds */
    a = larder__pace_read_begin(&p, 50.0, 10); /* the pause between is nobody's */
    larder__pace_read_end(&p, 50.2, a);
    assert_true(fabs(larder__pace_now(&p).read_seconds - 0.02) < 1e-3);
    larder__pace_close(&p);
}

static void rates_follow_and_totals_stay(void **state) {
    (void)state;
    larder__pace p;
    larder__pace_open(&p);
    for (int i = 0; i < 100; i++) {
        larder__pace_step(&p, 0.1, 10);
        larder__pace_wait(&p, 0.05);
    }
    assert_true(fabs(larder__pace_now(&p).step_seconds - 0.01) < 1e-6);
    for (int i = 0; i < 100; i++)
        larder__pace_step(&p, 0.3, 10); /* ten memories long */
    assert_true(fabs(larder__pace_now(&p).step_seconds - 0.03) < 1e-4);
    assert_true(fabs(larder__pace_now(&p).trained - 40) < 1e-6);
    assert_true(fabs(larder__pace_now(&p).waited - 5) < 1e-6);
    larder__pace_close(&p);
}

/* A storage that moves `each` seconds a sample after `late` seconds, asked by up to `depth` at once
 * for ten samples each; every now and then it has nothing to do. */
static double measured(double each, double late, int depth) {
    larder__pace p;
    larder__pace_open(&p);
    double now = 1, free_at = 1;
    for (int round = 0; round < 40; round++) {
        larder__pace_read reads[8];
        double ends[8];
        for (int i = 0; i < depth; i++) {
            reads[i] = larder__pace_read_begin(&p, now, 10);
            free_at = (free_at > now ? free_at : now) + 10 * each;
            ends[i] = free_at + late;
        }
        for (int i = 0; i < depth; i++)
            larder__pace_read_end(&p, now = ends[i], reads[i]);
    }
    double out = larder__pace_now(&p).read_seconds;
    larder__pace_close(&p);
    return out;
}

static void latency_is_not_the_cost_of_a_sample(void **state) {
    (void)state;
    assert_true(fabs(measured(1e-3, 0, 8) - 1e-3) < 1e-5);   /* a thin wire */
    assert_true(fabs(measured(1e-3, 0.1, 8) - 1e-3) < 1e-5); /* thin and long */
    assert_true(measured(1e-5, 0.1, 8) < 1e-4);              /* long alone */
    assert_true(measured(1e-5, 0.1, 1) > 0.009); /* one at a time: the line is not known */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(overlapping_reads_count_once),
                                       cmocka_unit_test(latency_is_not_the_cost_of_a_sample),
                                       cmocka_unit_test(rates_follow_and_totals_stay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
