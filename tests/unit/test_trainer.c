/* The closed loop on samples made up on the spot: what it answers, refuses and survives. */
#include "check.h"

#include "base/mem.h"
#include "train/trainer.h"

#include <math.h>
#include <string.h>

#define SET "mem:?n=100&h=4&w=4&c=1&classes=3"
#define OTHER "mem:?n=40&h=4&w=4&c=1&classes=3&seed=2"

static larder__trainer_conf conf(void) {
    return (larder__trainer_conf){.source = SET,
                                  .test = OTHER,
                                  .recipe = "lru",
                                  .cache = "50%",
                                  .net = "mlp",
                                  .batch = 16,
                                  .seed = 1,
                                  .epochs = 2,
                                  .threads = 2};
}

static void test_epochs(void **state) {
    (void)state;
    larder__trainer_conf c = conf();
    larder__trainer *t = NULL;
    larder__epoch e;
    check_ok(larder__trainer_open(&t, &c));
    assert_int_equal(larder__trainer_samples(t), 100);
    assert_true(larder__trainer_rate(t) == 0.05);
    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(larder__trainer_epoch(t, &e), 0);
        assert_int_equal(e.epoch, i);
        assert_int_equal(e.served, 100);
        assert_int_equal(e.hits + e.misses, 100);
        assert_true(e.accuracy >= 0 && e.accuracy <= 1 && e.top5 == 1 && e.loss > 0);
        assert_true(e.stall_seconds <= e.seconds);
    }
    assert_int_equal(larder__trainer_epoch(t, &e), LARDER_END);
    larder__trainer_close(&t);
    larder__trainer_close(&t);
}

/* A paced step holds its batch as long as asked, the last one of an epoch by its part; a sleep
 * never ends early, so this bound holds on any machine. What is learnt is the same. */
static void test_pace(void **state) {
    (void)state;
    double loss[2];
    for (int paced = 0; paced < 2; paced++) {
        larder__trainer_conf c = conf();
        c.pace = paced * 0.004;
        larder__trainer *t = NULL;
        larder__epoch e;
        check_ok(larder__trainer_open(&t, &c));
        assert_int_equal(larder__trainer_epoch(t, &e), 0);
        assert_true(e.seconds - e.stall_seconds >= c.pace * 100 / 16);
        loss[paced] = e.loss;
        larder__trainer_close(&t);
    }
    assert_true(loss[0] == loss[1]);
}

/* Two epochs of seven batches, the last one of each with four samples. */
static void tick_count(void *arg, const larder__tick *tick) {
    uint64_t *seen = arg;
    assert_int_equal(tick->step, ++*seen);
    assert_int_equal(tick->steps, 14);
    assert_true(tick->stall_seconds <= tick->seconds);
    assert_int_equal(tick->served,
                     tick->step * 16 - (tick->step >= 7 ? 12 : 0) - (tick->step >= 14 ? 12 : 0));
}

static void test_ticks(void **state) {
    (void)state;
    uint64_t seen = 0;
    larder__trainer_conf c = conf();
    c.tick = tick_count;
    c.tick_arg = &seen;
    larder__trainer *t = NULL;
    larder__epoch e;
    check_ok(larder__trainer_open(&t, &c));
    while (larder__trainer_epoch(t, &e) == 0) {
    }
    assert_int_equal(seen, 14);
    larder__trainer_close(&t);
}

static void tick_cancel(void *arg, const larder__tick *tick) {
    if (tick->step == 3)
        larder__trainer_cancel(*(larder__trainer **)arg);
}

static void test_cancel(void **state) {
    (void)state;
    larder__trainer *t = NULL;
    larder__trainer_conf c = conf();
    c.tick = tick_cancel;
    c.tick_arg = &t;
    larder__epoch e;
    check_ok(larder__trainer_open(&t, &c));
    assert_int_equal(larder__trainer_epoch(t, &e), LARDER_E_CANCELLED);
    assert_int_equal(e.served, 48); /* the three that were trained on, no more */
    assert_true(isnan(e.accuracy) && e.loss > 0);
    larder__trainer_close(&t);
}

static void test_divergence(void **state) {
    (void)state;
    larder__trainer *t = NULL;
    larder__trainer_conf c = conf();
    c.rate = 1e6;
    larder__epoch e;
    check_ok(larder__trainer_open(&t, &c));
    assert_int_equal(larder__trainer_epoch(t, &e), LARDER_E_RANGE);
    assert_non_null(strstr(larder_errmsg(), "diverged"));
    larder__trainer_close(&t);
}

static void refuse(const larder__trainer_conf *c, int code, const char *word) {
    larder__trainer *t = NULL;
    assert_int_equal(larder__trainer_open(&t, c), code);
    if (!strstr(larder_errmsg(), word))
        fail_msg("\"%s\" does not say \"%s\"", larder_errmsg(), word);
    assert_null(t);
}

static void test_refusals(void **state) {
    (void)state;
    larder__trainer_conf c = conf();
    c.test = SET;
    c.derived = true;
    refuse(&c, LARDER_E_NOTFOUND, "training data itself");
    c.test = SET "&part=test"; /* what a source without parts would say */
    refuse(&c, LARDER_E_ARGS, "--test");
    c.source = "mem:?n=none";
    c.test = "mem:?n=none&split=test";
    refuse(&c, LARDER_E_ARGS, "source mem");
    assert_null(strstr(larder_errmsg(), "--test"));
    c = conf();
    c.test = "mem:?n=40&h=5&w=4&c=1&classes=3";
    refuse(&c, LARDER_E_ARGS, "4x4x1");
    c = conf();
    c.source = "mem:?n=40&h=4&w=4&c=1&classes=0";
    refuse(&c, LARDER_E_ARGS, "classes");
    c = conf();
    c.net = "rnn";
    refuse(&c, LARDER_E_ARGS, "rnn");
    c = conf();
    c.epochs = 0;
    refuse(&c, LARDER_E_ARGS, "epoch");
    c = conf();
    c.augment = "nonsense";
    refuse(&c, LARDER_E_ARGS, "nonsense");
}

static void test_wrong_test_label(void **state) {
    (void)state;
    larder__trainer *t = NULL;
    larder__trainer_conf c = conf();
    c.test = "mem:?n=40&h=4&w=4&c=1&classes=9"; /* more classes than were trained */
    larder__epoch e;
    check_ok(larder__trainer_open(&t, &c));
    assert_int_equal(larder__trainer_epoch(t, &e), LARDER_E_RANGE);
    assert_non_null(strstr(larder_errmsg(), "validation"));
    larder__trainer_close(&t);
}

static void test_out_of_memory(void **state) {
    (void)state;
    larder__trainer_conf c = conf();
    uint64_t at = 1;
    for (;; at++) {
        larder__trainer *t = NULL;
        larder__mem_fail_at(at, 0);
        int rc = larder__trainer_open(&t, &c);
        bool failed = larder__mem_failed() != 0;
        larder__mem_fail_at(0, 0);
        assert_true(rc < 0 ? t == NULL : t != NULL);
        if (!failed)
            assert_int_equal(rc, 0);
        larder__trainer_close(&t);
        if (!failed)
            break;
    }
    assert_true(at > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_pace),
        cmocka_unit_test(test_ticks),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_divergence),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_wrong_test_label),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
