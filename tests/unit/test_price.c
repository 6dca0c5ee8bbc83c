/* Money from requests and bytes, and what is no price. */
#include "check.h"

#include "sim/price.h"

#include <math.h>
#include <string.h>

static void near(double a, double b) { assert_true(fabs(a - b) <= 1e-12 * fabs(b)); }

static void prices_are_read(void **state) {
    (void)state;
    larder__price p;
    check_ok(larder__price_parse(&p, "get=0.5/1000,byte=2/GiB"));
    near(larder__price_of(&p, 3000, 0), 1.5);
    near(larder__price_of(&p, 0, 3.0 * (1 << 30)), 6);
    check_ok(larder__price_parse(&p, "byte=1/10MB"));
    near(larder__price_of(&p, 1e9, 5e6), 0.5);
    check_ok(larder__price_parse(&p, "get=4e-7/1"));
    near(larder__price_of(&p, 1000, 1e12), 0.0004);
    check_ok(larder__price_parse(&p, "s3"));
    near(larder__price_of(&p, 1000, 0), 0.0004);
    near(larder__price_of(&p, 0, 1 << 30), 0.09);
}

static void others_are_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"",           "gcs",        "get=1",        "get=/1000",
                                        "get=1/0",    "get=-1/10",  "byte=1/",      "byte=1/x",
                                        "byte=1/0",   "get=1/10,",  "get=1/10;s3",  "get=nan/1",
                                        "byte=inf/1", "s3,get=1/1", "get=1/10 GiB", "put=1/10"};
    larder__price p;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (larder__price_parse(&p, wrong[i]) != LARDER_E_ARGS)
            fail_msg("\"%s\" is a price", wrong[i]);
        assert_non_null(strstr(larder_errmsg(), "get=0.0004/1000"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(prices_are_read),
                                       cmocka_unit_test(others_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
