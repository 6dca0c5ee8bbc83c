/* The measured rates: reads at the same time count once, changes are followed, totals do not fade.
 */
#include "check.h"

#include "loader/pace.h"

#include <math.h>

static void overlapping_reads_count_once(void **state) {
    (void)state;
    larder__pace p;
    larder__pace_open(&p);
    assert_true(larder__pace_now(&p).read_seconds == 0 && larder__pace_now(&p).step_seconds == 0);
    larder__pace_read_begin(&p, 10.0);
    larder__pace_read_begin(&p, 10.1);
    larder__pace_read_end(&p, 10.2, 10);
    larder__pace_read_end(&p, 10.4, 10); /* 20 samples in 0.4 seconds */
    larder__pace_read_begin(&p, 50.0);   /* the pause between is nobody's */
    larder__pace_read_end(&p, 50.2, 10);
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(overlapping_reads_count_once),
                                       cmocka_unit_test(rates_follow_and_totals_stay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
