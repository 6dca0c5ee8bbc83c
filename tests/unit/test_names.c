#include "check.h"

#include "source/names.h"

#include <stdio.h>
#include <string.h>

static void test_many(void **state) {
    (void)state;
    enum { N = 100000 };
    larder__names n = {0};
    larder__names_trim(&n); /* of nothing */
    for (uint64_t i = 0; i < N; i++) {
        char text[64];
        int len = snprintf(text, sizeof text, "%.*s%llu", (int)(i % 30),
                           "abcdefghijklmnopqrstuvwxyzABCD", (unsigned long long)i);
        check_ok(larder__names_add(&n, text, (size_t)len));
    }
    check_ok(larder__names_add(&n, "", 0));
    larder__names_trim(&n);
    assert_int_equal(n.count, N + 1);
    for (uint64_t i = 0; i < N; i += 7) {
        char text[64];
        snprintf(text, sizeof text, "%.*s%llu", (int)(i % 30), "abcdefghijklmnopqrstuvwxyzABCD",
                 (unsigned long long)i);
        assert_string_equal(larder__names_get(&n, i), text);
    }
    assert_string_equal(larder__names_get(&n, N), "");
    larder__names_free(&n);
    larder__names_free(&n);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
