/* plan=auto of several jobs on one served set: what they tell is added up, the plan follows, and
 * what makes no sense changes nothing. */
#include "check.h"
#include "unix/served_plan.h"

#include <math.h>

enum { KEYS = 300, MEAN = 1000 };

static larder__served *open_set(bool movable) {
    larder__served *s = NULL;
    larder__served_conf conf = {.identity = 1,
                                .about = {.keys = KEYS,
                                          .seed = 1,
                                          .budget = KEYS * MEAN,
                                          .policy = "ods",
                                          .forms_id = 5,
                                          .share = {1},
                                          .decoded_ratio = 1.5,
                                          .row_bytes = 2 * MEAN},
                                .movable = movable,
                                .spare = KEYS * MEAN / 4,
                                .batch = 10,
                                .mean = MEAN};
    check_ok(larder__served_open(&s, &conf));
    return s;
}

/* So many batches of this job; how often the cache was shared out anew. */
static size_t ask(larder__served *s, uint32_t job, const larder_pace *pace, int batches,
                  larder__plan_turn *last) {
    size_t changes = 0;
    for (int i = 0; i < batches; i++) {
        larder__outcome out;
        check_ok(larder__served_apply(s, job, &(larder__op){.type = LARDER__OP_TOUCH},
                                      &(larder_writer){0}, &out));
        changes += larder__served_rates(s, job, pace, 1, last);
    }
    return changes;
}

/* Storage is quick, decoding is not: pixels are worth their room. And the other way round. */
static const larder_pace slow_decoder = {1e-5, 1e-6, 1e-2, 1e-4, 0, 0};
static const larder_pace slow_storage = {1e-1, 1e-6, 1e-4, 9e-5, 0, 0};

static void test_follows_rates(void **st) {
    (void)st;
    larder__served *s = open_set(true);
    larder__plan_turn p = {0};
    larder_split now;
    size_t changes;
    uint32_t a, b;
    check_ok(larder__served_join(s, 0, false, 1, &a));
    check_ok(larder__served_join(s, 0, false, 1, &b));
    assert_true(isnan(larder__served_training(s, a)));
    assert_int_equal(ask(s, a, &slow_decoder, 10, &p), 0); /* too early */
    assert_int_equal(ask(s, a, &slow_decoder, 20, &p), 1);
    assert_int_equal(p.held_up_by, LARDER_RESOURCE_CPU);
    assert_true(p.decoded > 50 && p.expected > p.before);
    assert_true(larder__served_split(s, &now, &changes));
    assert_int_equal(now.decoded, p.decoded);
    assert_int_equal(changes, 1);
    assert_true(fabs(larder__served_training(s, a) - 1e6) < 1);
    for (int i = 0; i < 400; i++) { /* both jobs now wait for storage */
        ask(s, a, &slow_storage, 1, &p);
        ask(s, b, &slow_storage, 1, &p);
    }
    assert_true(larder__served_split(s, &now, &changes));
    assert_int_equal(now.encoded, 100);
    assert_int_equal(p.held_up_by, LARDER_RESOURCE_STORAGE);
    larder__served_close(&s);
}

static void test_nonsense(void **st) {
    (void)st;
    static const larder_pace wrong[] = {
        {0, 1, 1, 1, 0, 0}, {1, -1, 1, 1, 0, 0}, {1, 1, NAN, 1, 0, 0}, {1, 1, 1, INFINITY, 0, 0}};
    larder__served *s = open_set(true), *fixed = open_set(false);
    larder__plan_turn p;
    uint32_t a;
    check_ok(larder__served_join(s, 0, false, 1, &a));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(ask(s, a, &wrong[i], 40, &p), 0);
    assert_false(larder__served_rates(s, a, &slow_decoder, NAN, &p));
    assert_false(larder__served_rates(s, a, &slow_decoder, 0, &p));
    assert_false(larder__served_rates(s, a, &slow_decoder, 1e9, &p));
    check_ok(larder__served_join(fixed, 0, false, 1, &a));
    assert_int_equal(ask(fixed, a, &slow_decoder, 60, &p), 0); /* nobody wanted it */
    larder__served_close(&s);
    larder__served_close(&fixed);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_follows_rates),
                                       cmocka_unit_test(test_nonsense)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
