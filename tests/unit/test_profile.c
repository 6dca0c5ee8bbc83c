/* The profiler: every sample read at most once, rates that fit each other, storage as slow as it
 * was made, bad and tiny data sets, stopping. No time is asserted. */
#include "check.h"

#include "base/mem.h"
#include "plan/rates.h"
#include "profile/bench_machine.h"
#include "profile/profile.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static larder__profiler_conf conf_of(const char *source) {
    return (larder__profiler_conf){
        .source = source, .threads = 2, .dtype = LARDER_U8, .seconds = 0.6};
}

static larder__profile profile(const larder__profiler_conf *conf) {
    larder__profiler *p;
    larder__profile found;
    check_ok(larder__profiler_open(&p, conf));
    check_ok(larder__profiler_run(p, &found));
    larder__profiler_close(&p);
    return found;
}

static void check_sane(const larder__profile *p) {
    uint64_t reads = 0;
    for (int k = 0; k < LARDER__DEPTHS; k++)
        reads += p->depths[k].reads;
    assert_in_range(reads, 1, p->samples); /* none twice */
    const double positive[] = {p->row_bytes,  p->decoded_bytes, p->decode.core,
                               p->decode.all, p->augment.core,  p->augment.all,
                               p->cache,      p->memory_read,   p->memory_copy};
    for (size_t i = 0; i < sizeof positive / sizeof *positive; i++)
        assert_true(positive[i] > 0 && isfinite(positive[i]));
    larder_rates r;
    larder_plan plan;
    larder__rates_defaults(&r);
    larder__profile_rates(p, &r);
    r.t_gpu = 1000, r.s_cache = 1e6;
    check_ok(larder__plan_make(&plan, &r, LARDER_PLAN_SHARED));
}

static void test_raw_pixels(void **st) {
    (void)st;
    larder__profiler_conf conf = conf_of("mem:?n=20000&h=16&w=16&c=3");
    larder__profile p = profile(&conf);
    check_sane(&p);
    assert_int_equal(p.samples, 20000);
    assert_true(p.row_bytes == 16 * 16 * 3 && p.decoded_bytes == 16 * 16 * 3);
    conf.dtype = LARDER_F32;
    p = profile(&conf);
    assert_true(p.row_bytes == 4 * 16 * 16 * 3 && p.decoded_bytes == 16 * 16 * 3);
    assert_true(isnan(p.daemon));
}

/* What the throttle lets pass is an upper bound at every depth, but for its burst. */
static void test_slow_storage_is_seen(void **st) {
    (void)st;
    larder__profiler_conf conf =
        conf_of("slow:bandwidth=1MiB,latency=2ms,burst=0:mem:?n=20000&h=16&w=16&c=3");
    conf.seconds = 2;
    larder__profile p = profile(&conf);
    bool small;
    check_sane(&p);
    assert_true(larder__depth_rate(larder__profile_storage(&p, &small)) < 0x1p20 * 1.05);
    assert_false(small);
    assert_true(p.depths[0].latency >= 2e-3);
}

/* A depth that tells goes before one that is faster and does not: few reads, or all there was in no
 * time. */
static void test_which_depth_counts(void **st) {
    (void)st;
    bool small;
    larder__profile p = {
        .depths = {{.inflight = 1, .reads = 10, .bytes = 1000, .seconds = 1},
                   {.inflight = 4, .reads = 100, .bytes = 30000, .seconds = 1},
                   {.inflight = 16, .reads = 63, .bytes = 63000, .seconds = 1},
                   {.inflight = 64, .reads = 500, .bytes = 50000, .seconds = 0.01, .whole = true}}};
    assert_ptr_equal(larder__profile_storage(&p, &small), &p.depths[1]);
    assert_false(small);
    p.depths[2].reads++;
    assert_ptr_equal(larder__profile_storage(&p, &small), &p.depths[2]);
    p.depths[3].seconds = 0.05;
    assert_ptr_equal(larder__profile_storage(&p, &small), &p.depths[3]);
    assert_false(small);
    for (int k = 0; k < LARDER__DEPTHS; k++)
        p.depths[k].reads = 3;
    assert_ptr_equal(larder__profile_storage(&p, &small), &p.depths[3]);
    assert_true(small);
    assert_true(larder__depth_rate(&p.depths[3]) == 1e6);
}

static void test_tiny(void **st) {
    (void)st;
    const char *const sources[] = {"mem:?n=1&h=4&w=4&c=3", "mem:?n=3&h=4&w=4&c=3",
                                   "mem:?n=9&h=4&w=4&c=3"};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        larder__profiler_conf conf = conf_of(sources[i]);
        conf.seconds = 0.2;
        larder__profile p = profile(&conf);
        bool small;
        check_sane(&p);
        assert_true(larder__depth_rate(larder__profile_storage(&p, &small)) > 0);
        assert_true(small);
    }
}

static void test_bad_samples(void **st) {
    (void)st;
    larder__profiler *p;
    larder__profile found;
    larder__profiler_conf conf = conf_of("mem:?n=400&bytes=300"); /* no pictures */
    conf.augment = "rrc:size=8";
    check_ok(larder__profiler_open(&p, &conf));
    assert_int_equal(larder__profiler_run(p, &found), LARDER_E_FORMAT);
    assert_non_null(strstr(larder_errmsg(), "no sample could be decoded: sample "));
    larder__profiler_close(&p);
    conf.source = "/nowhere/at/all";
    assert_true(larder__profiler_open(&p, &conf) < 0);
    assert_null(p);
    conf = conf_of("mem:?n=400&h=4&w=4&c=3");
    conf.augment = "nonsense";
    assert_true(larder__profiler_open(&p, &conf) < 0);
}

static void *cancel(void *p) {
    larder__profiler_cancel(p);
    return NULL;
}

static void test_cancel(void **st) {
    (void)st;
    larder__profiler *p;
    larder__profile found;
    larder__profiler_conf conf = conf_of("slow:latency=10s:mem:?n=400&h=4&w=4&c=3");
    conf.seconds = 3600;
    pthread_t thread;
    check_ok(larder__profiler_open(&p, &conf));
    assert_int_equal(pthread_create(&thread, NULL, cancel, p), 0);
    assert_int_equal(larder__profiler_run(p, &found), LARDER_E_CANCELLED);
    pthread_join(thread, NULL);
    larder__profiler_close(&p);
}

static void test_json_is_flat(void **st) {
    (void)st;
    larder__profiler_conf conf = conf_of("mem:?n=400&h=4&w=4&c=3");
    conf.seconds = 0.2;
    larder__profile p = profile(&conf);
    larder_rates r;
    larder__rates_defaults(&r);
    larder__profile_rates(&p, &r);
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    check_ok(larder__profile_write(to, &p, &r, &conf));
    fclose(to);
    assert_int_equal(text[0], '{');
    assert_null(strpbrk(text + 1, "{["));
    assert_non_null(strstr(text, "\"t_gpu\": null"));
    assert_non_null(strstr(text, "\"storage_64_iops\": "));
    free(text);
}

static void says(int rc, int code, const char *words) {
    if (rc != code || !strstr(larder_errmsg(), words))
        fail_msg("%d, \"%s\"; expected %d, \"%s\"", rc, larder_errmsg(), code, words);
}

/* What `larder doctor` measures, where there is no disk or no memory for it. */
static void test_machine_in_trouble(void **st) {
    (void)st;
    char folder[256], path[4200], far[4300];
    larder__disk_bench disk;
    double rate;
    check_folder(folder);
    snprintf(path, sizeof path, "%s/none", folder);
    says(larder__bench_disk(path, 0, &disk), LARDER_E_NOTFOUND, "it cannot be looked at");
    says(larder__bench_disk("/proc", 0, &disk), LARDER_E_FULL, "/proc: there is no room");
    memset(path, '/',
           sizeof path - 1); /* one that the system finds, and with a name behind no more */
    path[4090] = 0;
    snprintf(far, sizeof far, "%s%s", folder, path + strlen(folder));
    says(larder__bench_disk(far, 0, &disk), LARDER_E_ARGS, "the name is too long");
    larder__mem_fail_at(1, 0);
    says(larder__bench_disk(folder, 0, &disk), LARDER_E_NOMEM, "out of memory");
    check_folder_remove(folder);
    int (*const all[])(double, double *) = {larder__bench_decode, larder__bench_copy};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        bool failed = true, built = true; /* without JPEG there is nothing to decode */
        rate = 0;
        for (uint64_t n = 1; failed; n++) {
            larder__mem_fail_at(n, 0);
            int rc = all[i](0, &rate);
            failed = larder__mem_failed();
            larder__mem_fail_at(0, 0);
            assert_true(rc == 0 || (failed && rc == LARDER_E_NOMEM) || rc == LARDER_E_UNSUPPORTED);
            built = rc != LARDER_E_UNSUPPORTED;
            failed = failed && built;
        }
        assert_true(rate > 0 || !built);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_raw_pixels),         cmocka_unit_test(test_slow_storage_is_seen),
        cmocka_unit_test(test_which_depth_counts), cmocka_unit_test(test_tiny),
        cmocka_unit_test(test_bad_samples),        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_json_is_flat),       cmocka_unit_test(test_machine_in_trouble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
