#include "check.h"

#include "source/source.h"

#include <string.h>

static larder_buf *read_one(larder__data *d, uint64_t id) {
    larder_read out;
    check_ok(larder__data_read(d, &id, 1, &out));
    if (out.code < 0)
        fail_msg("%s", out.why);
    return out.buf;
}

static void test_repeats_from_seed(void **state) {
    (void)state;
    larder__data *a, *b, *c;
    check_ok(larder__data_open(&a, "mem:?n=100&bytes=100-5000&seed=3"));
    check_ok(larder__data_open(&b, "mem:?n=100&bytes=100-5000&seed=3"));
    check_ok(larder__data_open(&c, "mem:?n=100&bytes=100-5000&seed=4"));
    assert_int_equal(larder__data_about(a)->fingerprint, larder__data_about(b)->fingerprint);
    assert_int_not_equal(larder__data_about(a)->fingerprint, larder__data_about(c)->fingerprint);
    uint64_t total = 0, differ = 0;
    for (uint64_t i = 0; i < 100; i++) {
        larder_sample s, t;
        larder_buf *x = read_one(a, i), *y = read_one(b, i);
        check_ok(larder__data_stat(a, i, &s));
        check_ok(larder__data_stat(c, i, &t));
        assert_int_equal(larder_buf_size(x), s.bytes);
        assert_in_range(s.bytes, 100, 5000);
        assert_in_range(s.label, 0, 9);
        assert_int_equal(larder_buf_size(y), s.bytes);
        assert_memory_equal(larder_buf_data(x), larder_buf_data(y), s.bytes);
        total += s.bytes;
        differ += s.bytes != t.bytes;
        larder_buf_unref(&x);
        larder_buf_unref(&y);
    }
    assert_int_equal(total, larder__data_about(a)->bytes);
    assert_true(differ > 50);
    larder__data_close(&a);
    larder__data_close(&b);
    larder__data_close(&c);
}

static void test_shape_and_bad(void **state) {
    (void)state;
    larder__data *d;
    uint64_t ids[3] = {4, 5, 9};
    larder_read out[3];
    check_ok(larder__data_open(&d, "mem:?n=10&h=4&w=5&c=3&bad=9/5"));
    assert_int_equal(larder__data_about(d)->raw.w, 5);
    assert_int_equal(larder__data_about(d)->bytes, 600);
    check_ok(larder__data_read(d, ids, 3, out));
    assert_int_equal(out[0].code, 0);
    assert_int_equal(out[1].code, LARDER_E_IO);
    assert_int_equal(out[2].code, LARDER_E_IO);
    assert_non_null(strstr(out[2].why, "mem#9"));
    larder_buf_unref(&out[0].buf);
    larder__data_close(&d);
}

static void test_ten_million(void **state) {
    (void)state;
    larder__data *d;
    larder_sample s;
    check_ok(larder__data_open(&d, "mem:?n=10000000&classes=1000"));
    assert_int_equal(larder__data_about(d)->count, 10000000);
    assert_int_equal(larder__data_about(d)->bytes, 30720000000);
    check_ok(larder__data_stat(d, 9999999, &s));
    assert_in_range(s.label, 0, 999);
    larder_buf *b = read_one(d, 9999999);
    assert_int_equal(larder_buf_size(b), 3072);
    larder_buf_unref(&b);
    larder__data_close(&d);
}

static void test_wrong_parameters(void **state) {
    (void)state;
    static const char *const wrong[] = {"mem:?bytes=5-3",  "mem:?bytes=-3", "mem:?bytes=1e99",
                                        "mem:?bytes=3-",   "mem:?bad=1//2", "mem:?bad=x",
                                        "mem:?h=4",        "mem:?n=1e10",   "mem:?h=9999&w=1",
                                        "mem:?classes=1.5"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        larder__data *d;
        if (larder__data_open(&d, wrong[i]) >= 0)
            fail_msg("%s was taken", wrong[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repeats_from_seed),
        cmocka_unit_test(test_shape_and_bad),
        cmocka_unit_test(test_ten_million),
        cmocka_unit_test(test_wrong_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
