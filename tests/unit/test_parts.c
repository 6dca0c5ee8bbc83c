/* Which URIs and preparations validation opens. */
#include "check.h"

#include "train/parts.h"

static void check_test_uri(const char *uri, const char *want) {
    char out[LARDER__URI_BYTES];
    check_ok(larder__parts_test_uri(out, uri));
    assert_string_equal(out, want);
}

static void test_test_uri(void **state) {
    (void)state;
    check_test_uri("folder", "folder?split=test");
    check_test_uri("idx:folder?split=train", "idx:folder?split=test");
    check_test_uri("mem:?n=10&split=train&size=4", "mem:?split=test&n=10&size=4");
    check_test_uri("tar:s-00?.tar", "tar:s-00?.tar?split=test"); /* a pattern, no query */
    check_test_uri("slow:bandwidth=1MiB:idx:folder", "idx:folder?split=test");
    check_test_uri("slow:1MiB:slow:2MiB:folder?a=b", "folder?split=test&a=b");
}

static void test_too_long(void **state) {
    (void)state;
    char uri[LARDER__URI_BYTES + 10], out[LARDER__URI_BYTES];
    memset(uri, 'x', sizeof uri);
    uri[LARDER__URI_BYTES - 5] = '\0';
    assert_int_equal(larder__parts_test_uri(out, uri), LARDER_E_ARGS);
    assert_int_equal(larder__parts_slow_uri(out, "bandwidth=1MiB", uri), LARDER_E_ARGS);
    check_ok(larder__parts_test_augment(out, uri));
}

static void test_slow_uri(void **state) {
    (void)state;
    char out[LARDER__URI_BYTES];
    check_ok(larder__parts_slow_uri(out, "bandwidth=20MiB,latency=2ms", "idx:f"));
    assert_string_equal(out, "slow:bandwidth=20MiB,latency=2ms:idx:f");
    assert_int_equal(larder__parts_slow_uri(out, "1MiB:dir", "idx:f"), LARDER_E_ARGS);
}

static void check_augment(const char *train, const char *test) {
    char out[LARDER__URI_BYTES];
    check_ok(larder__parts_test_augment(out, train));
    assert_string_equal(out, test);
}

static void test_augment(void **state) {
    (void)state;
    larder_dataset grey = {.raw = {28, 28, 1}}, cifar = {.raw = {32, 32, 3}}, files = {.count = 1};
    assert_string_equal(larder__parts_augment(&grey), "normalize:preset=fashion");
    check_augment(larder__parts_augment(&grey), "normalize:preset=fashion");
    check_augment(larder__parts_augment(&cifar), "normalize:preset=cifar10");
    check_augment(larder__parts_augment(&files),
                  "resize:size=73|centercrop:size=64|normalize:preset=imagenet");
    check_augment("flip|crop:size=4", "");
    check_augment("flipper|flip:p=1", "flipper"); /* a name that only begins like it stays */
    char out[LARDER__URI_BYTES];
    assert_int_equal(larder__parts_test_augment(out, "rrc|resize:size=9"), LARDER_E_ARGS);
    assert_int_equal(larder__parts_test_augment(out, "rrc:size=-1"), LARDER_E_ARGS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_test_uri),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_slow_uri),
        cmocka_unit_test(test_augment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
