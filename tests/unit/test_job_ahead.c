/* Advice for a job that has not run: with storage and training of constant speed an epoch of minio
 * takes as long as the slower of the two, which is known in closed form, and so is what it reads;
 * and groups of samples that stand for one change none of it. */
#include "check.h"

#include "sim/advice.h"
#include "sim/job_ahead.h"

#include <math.h>
#include <string.h>

enum { SAMPLES = 20000, SIZE = 1000, BATCH = 100 };

static larder__advice advise(double read, double step, uint64_t most, uint64_t each) {
    larder__tape t;
    larder__advice a;
    larder__advice_conf conf = {.memory = UINT64_MAX};
    larder__job_ahead job = {.source = "none",
                             .samples = SAMPLES,
                             .payload = (uint64_t)SAMPLES * SIZE,
                             .batch = BATCH,
                             .read_seconds = read,
                             .step_seconds = step,
                             .most = most};
    check_ok(larder__tape_ahead(&t, &conf.each, &job));
    assert_int_equal(conf.each, each);
    assert_true(t.requests <= most && t.job.payload == (uint64_t)SAMPLES * SIZE);
    check_ok(larder__advise(&a, &t, &conf));
    larder__tape_free(&t);
    return a;
}

static bool near(double a, double b, double by) { return fabs(a - b) <= by * fmax(fabs(b), 1e-9); }

static void check_minio(const larder__advice *a, double read, double step) {
    size_t seen = 0;
    for (size_t i = 0; i < a->count; i++) {
        const larder__advice_row *r = &a->rows[i];
        if (strcmp(r->recipe, "minio") != 0)
            continue;
        double cached = r->percent / 100.0, trains = SAMPLES * step;
        double reads = SAMPLES * (1 - cached) * read;
        seen++;
        assert_true(near(r->hits, cached, 0.001));
        assert_true(near(r->read_bytes, SAMPLES * (1 - cached) * SIZE, 0.001));
        assert_true(near(r->requests, SAMPLES * (1 - cached), 0.001));
        assert_true(r->repeats == 0);
        /* Reading goes some batches ahead, over the end of an epoch too. */
        if (!near(r->seconds, fmax(trains, reads), 0.03))
            fail_msg("cache %d %%: %g s, not %g", r->percent, r->seconds, fmax(trains, reads));
    }
    assert_int_equal(seen, 12);
}

static void closed_form(void **state) {
    (void)state;
    const struct {
        double read, step;
        larder__verdict verdict;
        int knee;
    } cases[] = {{1e-5, 1e-4, LARDER__VERDICT_KEEPS_UP, 0},
                 {1e-4, 5e-5, LARDER__VERDICT_CACHE, 50},
                 {1e-3, 1e-5, LARDER__VERDICT_CACHE, 100}};
    const uint64_t groups[] = {1, 4, 10};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
            larder__advice a = advise(cases[i].read, cases[i].step, SAMPLES / groups[g], groups[g]);
            check_minio(&a, cases[i].read, cases[i].step);
            assert_int_equal(a.verdict, cases[i].verdict);
            assert_int_equal(a.knee, cases[i].knee);
            assert_true(near(a.need, SIZE / cases[i].step, 1e-6));
            assert_true(near(a.give, SIZE / cases[i].read, 1e-6));
            assert_true(near(a.now.seconds, SAMPLES * fmax(cases[i].read, cases[i].step), 0.03));
        }
}

/* Little memory: reuse, and it says so. */
static void little_memory(void **state) {
    (void)state;
    larder__tape t;
    larder__advice a;
    larder__job_ahead job = {"none", SAMPLES, (uint64_t)SAMPLES * SIZE, BATCH, 1e-4, 2e-5, SAMPLES};
    larder__advice_conf conf = {.memory = (uint64_t)SAMPLES * SIZE / 4};
    check_ok(larder__tape_ahead(&t, &conf.each, &job));
    check_ok(larder__advise(&a, &t, &conf));
    assert_int_equal(a.verdict, LARDER__VERDICT_REUSE);
    assert_string_equal(a.best.recipe, "rotate");
    assert_true(a.best.cache_bytes <= (double)conf.memory && a.best.waiting < 0.1);
    assert_true(a.best.repeats > 0.1);
    larder__tape_free(&t);
}

static void what_cannot_be(void **state) {
    (void)state;
    larder__tape t;
    uint64_t each;
    larder__job_ahead empty = {"none", 10, 0, 1, 1, 1, 10};
    assert_int_equal(larder__tape_ahead(&t, &each, &empty), LARDER_E_RANGE);
    larder__job_ahead huge = {"none", 2, UINT64_C(1) << 40, 1, 1, 1, 10};
    assert_int_equal(larder__tape_ahead(&t, &each, &huge), LARDER_E_RANGE);
    larder__job_ahead large = {"none", 8, UINT64_C(8) << 30, 4, 1,
                               1,      2}; /* groups would be too large */
    check_ok(larder__tape_ahead(&t, &each, &large));
    assert_int_equal(each, 1);
    larder__tape_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(closed_form),
                                       cmocka_unit_test(little_memory),
                                       cmocka_unit_test(what_cannot_be)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
