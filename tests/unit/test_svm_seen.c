/* A training is among the jobs of its user while it runs, with what its solver said last. */
#include "check.h"

#include "see/discover.h"
#include "svm/svm_seen.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static const double patience = 60; /* until it answers, which it does at once unless it waits for
                                      a processor */

static const larder__job *find(larder__jobs *jobs) {
    check_ok(larder__discover(jobs, patience));
    for (size_t i = 0; i < jobs->count; i++)
        if (jobs->at[i].pid == (uint64_t)getpid())
            return &jobs->at[i];
    return NULL;
}

static int heard(void *arg, const larder_svm_progress *p) {
    *(uint64_t *)arg = p->iterations;
    return 7;
}

static void shows_and_passes_on(void **state) {
    (void)state;
    larder_svm_conf conf = {.size = sizeof conf};
    larder_svm_defaults(&conf);
    uint64_t iterations = 0;
    conf.progress = heard;
    conf.progress_arg = &iterations;
    larder__svm_seen seen;
    larder__jobs jobs = {0};
    larder__svm_seen_begin(&seen, &conf, 1234);
    larder_svm_progress p = {.problems = 3,
                             .problem = 1,
                             .iterations = 55,
                             .gap = 0.25,
                             .tolerance = 0.001,
                             .seconds = 10,
                             .seconds_left = (double)NAN,
                             .hits = 0.5,
                             .rows_asked = 100,
                             .rows_hit = 50};
    assert_int_equal(seen.conf.progress(seen.conf.progress_arg, &p), 7);
    assert_int_equal(iterations, 55);
    const larder__job *job = find(&jobs);
    assert_non_null(job);
    assert_string_equal(job->kind, "svm");
    assert_string_equal(job->recipe, "c_svc rbf");
    assert_string_equal(job->state, "running");
    assert_true(job->samples == 1234 && job->epoch == 2 && job->epochs == 3);
    assert_true(larder__job_value(job, "svm_gap") == 0.25);
    assert_true(larder__job_value(job, "svm_iterations") == 55);
    assert_true(larder__job_value(job, "misses") == 50);
    assert_null(larder__job_find(job, "svm_left_seconds"));
    larder__svm_seen_end(&seen);
    larder__jobs_clear(&jobs);
    assert_null(find(&jobs));
    larder__jobs_free(&jobs);
}

static void ends_without_beginning(void **state) {
    (void)state;
    larder__svm_seen seen = {0};
    larder__svm_seen_end(&seen);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows_and_passes_on),
        cmocka_unit_test(ends_without_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
