/* Which number of a user may be anybody's, by what the kernel says of this process's namespace. */
#include "check.h"

#include "base/own_user.h"

#include <unistd.h>

#define ALL "         0          0 4294967295\n" /* as the kernel has it */
#define FEW "         0     100000      65536\n"

static void test_nobody_is_left_out(void **state) {
    (void)state;
    assert_int_equal(larder__anybodys_number("65534\n", ALL), UINT32_MAX);
    assert_int_equal(larder__anybodys_number("1234\n", ALL), UINT32_MAX);
    assert_int_equal(larder__anybodys_number(NULL, ALL), UINT32_MAX);
}

static void test_some_are_left_out(void **state) {
    (void)state;
    static const char *const maps[] = {
        FEW,
        "",
        "\n",
        "         0          0      65536\n",
        "         0          0 4294967294\n",
        "         0          1 4294967295\n",
        "         0       1000          1\n         1     100000      65536\n",
        "0 0",
        "4294967295 0 0",
        "x" ALL,
        NULL,
    };
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        assert_int_equal(larder__anybodys_number("65534\n", maps[i]), 65534);
        assert_int_equal(larder__anybodys_number("1234\n", maps[i]), 1234);
        assert_int_equal(larder__anybodys_number(NULL, maps[i]), 65534);
        assert_int_equal(larder__anybodys_number("", maps[i]), 65534);
        assert_int_equal(larder__anybodys_number("x", maps[i]), 65534);
    }
}

static void test_others_are_not_oneself(void **state) {
    (void)state;
    assert_false(larder__is_own_user(geteuid() + 1));
    assert_false(larder__is_own_or_root(geteuid() + 1));
    assert_false(larder__is_own_user(UINT32_MAX));
    assert_true(larder__is_own_or_root(0));
    assert_string_equal(larder__why_not_own(geteuid() + 1), "");
    if (geteuid() < 60000) /* the usual number of nobody is above */
        assert_true(larder__is_own_user(geteuid()));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_is_left_out),
        cmocka_unit_test(test_some_are_left_out),
        cmocka_unit_test(test_others_are_not_oneself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
