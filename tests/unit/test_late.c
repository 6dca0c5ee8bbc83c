/* Libraries that are opened at their first use: what is found, and what is said where it is not. */
#include "check.h"

#include "base/late.h"

#include <larder/larder.h>
#include <string.h>

static void *rounded, *none;
static const larder__late_call known[] = {{"floor", &rounded}, {NULL, NULL}},
                               unknown[] = {
                                   {"floor", &rounded}, {"larder__no_such", &none}, {NULL, NULL}};

static void says(const char *words) {
    if (!strstr(larder_errmsg(), words))
        fail_msg("\"%s\" is not in: %s", words, larder_errmsg());
}

static void finds_functions(void **state) {
    (void)state;
    larder__late l = {.file = "libm.so.6", .calls = known}, linked = {.file = NULL};
    double (*call)(double);
    assert_int_equal(larder__late_open(&l), 0);
    memcpy(&call, &rounded, sizeof call);
    assert_true(call(2.5) == 2);
    rounded = NULL; /* a second time it is not looked for */
    assert_int_equal(larder__late_open(&l), 0);
    assert_null(rounded);
    assert_int_equal(larder__late_open(&linked), 0);
}

static void names_what_is_missing(void **state) {
    (void)state;
    larder__late absent = {.file = "libno-such.so.7", .calls = known},
                 old = {.file = "libm.so.6", .calls = unknown};
    for (int i = 0; i < 2; i++) { /* and again: nothing is taken for open */
        assert_int_equal(larder__late_open(&absent), LARDER_E_UNSUPPORTED);
        says("libno-such.so.7 cannot be opened");
        assert_int_equal(larder__late_open(&old), LARDER_E_UNSUPPORTED);
        says("libm.so.6 has no function larder__no_such");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_functions),
        cmocka_unit_test(names_what_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
