/* No test here asserts a time from above: machines are shared. That a wait is not too short is a
 * promise of the model and can be checked anywhere. */
#include "check.h"

#include "base/clock.h"
#include "source/source.h"

#include <pthread.h>
#include <stdio.h>

static double read_ids(larder__data *d, uint64_t from, size_t n) {
    uint64_t ids[64];
    larder_read out[64];
    double start = larder__now();
    for (size_t i = 0; i < n; i++)
        ids[i] = from + i;
    check_ok(larder__data_read(d, ids, n, out));
    double took = larder__now() - start;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(out[i].code, 0);
        larder_buf_unref(&out[i].buf);
    }
    return took;
}

static void test_rates_and_latency(void **state) {
    (void)state;
    larder__data *d;
    check_ok(larder__data_open(&d, "slow:bandwidth=1MB,burst=0:mem:?n=100&bytes=1000"));
    assert_true(read_ids(d, 0, 40) >= 0.040);
    larder__data_close(&d);
    check_ok(larder__data_open(&d, "slow:iops=1000,burst=0:mem:?n=100&bytes=1000"));
    assert_true(read_ids(d, 0, 40) >= 0.040);
    larder__data_close(&d);
    check_ok(larder__data_open(&d, "slow:latency=20ms,jitter=5ms:mem:?n=100&bytes=1000"));
    assert_true(read_ids(d, 0, 1) >= 0.020);
    assert_true(read_ids(d, 0, 64) >= 0.020);
    larder__data_close(&d);
    /* 10 ms of the rate come at once, the rest does not */
    check_ok(larder__data_open(&d, "slow:bandwidth=1MB:mem:?n=100&bytes=1000"));
    assert_true(read_ids(d, 0, 40) >= 0.029);
    larder__data_close(&d);
}

static void test_bad_samples_pass_through(void **state) {
    (void)state;
    larder__data *d;
    uint64_t ids[2] = {0, 1};
    larder_read out[2];
    check_ok(larder__data_open(&d, "slow:s3,latency=1us,jitter=1us:mem:?n=2&bad=1"));
    check_ok(larder__data_read(d, ids, 2, out));
    assert_int_equal(out[0].code, 0);
    assert_int_equal(out[1].code, LARDER_E_IO);
    larder_buf_unref(&out[0].buf);
    larder__data_close(&d);
}

static void *reader(void *arg) {
    larder__data *d = arg;
    for (uint64_t i = 0; i < 20; i++) {
        uint64_t ids[2] = {i, i + 1};
        larder_read out[2];
        if (larder__data_read(d, ids, 2, out) < 0 || out[0].code < 0 || out[1].code < 0)
            return arg;
        larder_buf_unref(&out[0].buf);
        larder_buf_unref(&out[1].buf);
    }
    return NULL;
}

/* Four readers share one wire: together they are no faster than it. */
static void test_shared_by_threads(void **state) {
    (void)state;
    enum { THREADS = 4 };
    larder__data *d;
    pthread_t ids[THREADS];
    check_ok(larder__data_open(&d, "slow:bandwidth=4MB,iops=4000,latency=100us:mem:?n=100&bytes=1000"));
    double start = larder__now();
    for (size_t t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&ids[t], NULL, reader, d), 0);
    for (size_t t = 0; t < THREADS; t++) {
        void *failed;
        pthread_join(ids[t], &failed);
        assert_null(failed);
    }
    assert_true(larder__now() - start >= THREADS * 40 * 1000 / 4e6 - 0.010);
    larder__data_close(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates_and_latency),
        cmocka_unit_test(test_bad_samples_pass_through),
        cmocka_unit_test(test_shared_by_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
