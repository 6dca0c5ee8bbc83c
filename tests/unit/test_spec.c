/* Strings people type, right and wrong. */
#include "base/mem.h"
#include "base/spec.h"
#include "check.h"

#include <math.h>
#include <string.h>

static void test_budgets(void **st) {
    (void)st;
    const struct {
        const char *text;
        double fraction;
        uint64_t bytes;
    } good[] = {
        {"20%", 0.2, 0},
        {"0%", 0, 0},
        {"100%", 1, 0},
        {"2.5%", 0.025, 0},
        {"0", -1, 0},
        {"3072", -1, 3072},
        {"64KiB", -1, 65536},
        {"64kib", -1, 65536},
        {"8GiB", -1, 8589934592u},
        {"1.5 GB", -1, 1500000000u},
        {"5 GiB", -1, 5368709120u},
        {"1M", -1, 1048576},
        {"1e3", -1, 1000},
        {"7B", -1, 7},
        {"1TiB", -1, 1099511627776u},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        larder__budget b;
        check_ok(larder__parse_budget(good[i].text, &b));
        assert_int_equal(b.relative, good[i].fraction >= 0);
        if (b.relative)
            assert_true(fabs(b.fraction - good[i].fraction) < 1e-12);
        else
            assert_int_equal(b.bytes, good[i].bytes);
    }
    static const char *const bad[] = {
        "-1",    "20%%", "1e99GiB", "",      " 5",         "0x10",  "nan", "inf",      "-inf",
        "%",     "-5%",  "101%",    "1e400", "GiB",        "5GiBs", "5 %", "5% ",      "five",
        "1,5GB", "--1",  "1.2.3",   "5e",    "0x1p3",      "-0x1",  "+5",  "5Gi B",    "20 % %",
        "1e99%", "nan%", ".",       "-",     "9999999TiB", "\t5",   "5\n", "infinity", "1_000",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        larder__budget b;
        if (larder__parse_budget(bad[i], &b) != LARDER_E_ARGS)
            fail_msg("budget \"%s\" was taken", bad[i]);
        assert_true(strncmp(larder_errmsg(), "cache", 5) == 0);
    }
}

/* "20" was 20 bytes, and a cache that holds nothing trains on without a word. */
static void test_budgets_without_a_unit(void **st) {
    (void)st;
    static const char *const unclear[] = {"20",  "1",    "100", "0.2",
                                          "0.5", "12.5", "1e1", "20:100/0/0"};
    larder__budget b;
    for (size_t i = 0; i < sizeof unclear / sizeof *unclear; i++) {
        if (larder__parse_budget(unclear[i], &b) != LARDER_E_ARGS)
            fail_msg("budget \"%s\" was taken", unclear[i]);
        assert_non_null(strstr(larder_errmsg(), " bytes? Write "));
    }
    larder__parse_budget("20", &b);
    assert_non_null(strstr(larder_errmsg(), "cache \"20\": 20 % or 20 bytes? Write 20% "));
    static const char *const clear[] = {"0", "0%", "0.0", "20B", "20%", "101", "20KB", "0:100/0/0"};
    for (size_t i = 0; i < sizeof clear / sizeof *clear; i++)
        check_ok(larder__parse_budget(clear[i], &b));
    uint64_t n;
    check_ok(larder__parse_amount("--x", "0", &n));
    check_ok(larder__parse_amount("--x", "20B", &n));
    assert_int_equal(n, 20);
    check_ok(larder__parse_amount("--x", "65536", &n));
    static const char *const few[] = {"20", "256", "65535", "0.5", "20%", "x"};
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        assert_int_equal(larder__parse_amount("--x", few[i], &n), LARDER_E_ARGS);
        assert_memory_equal(larder_errmsg(), "--x", 3);
    }
    larder__parse_amount("--x", "256", &n);
    assert_non_null(strstr(larder_errmsg(), "256 bytes? Write 256MiB or 256GiB"));
}

static void test_splits(void **st) {
    (void)st;
    larder__budget b;
    check_ok(larder__parse_budget("20%", &b));
    assert_false(b.split);
    assert_true(b.share[0] == 1 && b.share[1] == 0 && b.share[2] == 0);
    check_ok(larder__parse_budget("20%:58/42/0", &b));
    assert_true(b.split && b.relative && fabs(b.fraction - 0.2) < 1e-12);
    assert_true(b.share[0] == 0.58 && b.share[1] == 0.42 && b.share[2] == 0);
    check_ok(larder__parse_budget("8GiB:0/33.5/66.5", &b));
    assert_true(b.split && !b.relative && b.bytes == 8589934592u && b.share[2] == 0.665);
    check_ok(larder__parse_budget("700%:0/100/0", &b)); /* pixels are larger than files */
    static const char *const bad[] = {"20%:",        "20%:58",      "20%:58/42",   "20%:58/42/0/0",
                                      "20%:58/42/1", "20%:-1/99/2", ":58/42/0",    "20%:58/42/0 ",
                                      "20%:58//42",  "20%:a/b/c",   "20%:inf/0/0", "101%:100/0/0",
                                      "20%:nan/0/0", "2e6%:0/0/100"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (larder__parse_budget(bad[i], &b) != LARDER_E_ARGS)
            fail_msg("budget \"%s\" was taken", bad[i]);
}

static void test_numbers(void **st) {
    (void)st;
    uint64_t u = 7;
    double d;
    check_ok(larder__parse_u64("batch", "0", 10, &u));
    assert_int_equal(u, 0);
    check_ok(larder__parse_u64("batch", "18446744073709551615", UINT64_MAX, &u));
    assert_int_equal(u, UINT64_MAX);
    static const char *const bad[] = {
        "", "-1", "+1", " 1", "1 ", "1.5", "0x1", "18446744073709551616", "11", "x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(larder__parse_u64("batch", bad[i], 10, &u), LARDER_E_ARGS);
    assert_non_null(strstr(larder_errmsg(), "batch"));
    check_ok(larder__parse_f64("rate", "-2.5e-3", &d));
    assert_true(d == -2.5e-3);
    static const char *const odd[] = {"", "nan", "1e999", "1f", "0x2", " 1", "1 "};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        assert_int_equal(larder__parse_f64("rate", odd[i], &d), LARDER_E_ARGS);
}

static void test_seconds(void **st) {
    (void)st;
    const struct {
        const char *text;
        double seconds;
    } good[] = {{"5ms", 5e-3}, {"2s", 2}, {"150us", 150e-6}, {"0", 0}, {"1.5", 1.5}, {"3ns", 3e-9}};
    double s;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        check_ok(larder__parse_seconds(good[i].text, &s));
        assert_true(fabs(s - good[i].seconds) < 1e-15);
    }
    static const char *const bad[] = {"", "-1s", "5m", "5 ms", "ms", "nan", "1e999s", "5MS"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(larder__parse_seconds(bad[i], &s), LARDER_E_ARGS);
}

static void test_names(void **st) {
    (void)st;
    char name[8];
    const char *rest;
    check_ok(larder__spec_name("lru", name, sizeof name, &rest));
    assert_string_equal(name, "lru");
    assert_string_equal(rest, "");
    check_ok(larder__spec_name("dir:a:b", name, sizeof name, &rest));
    assert_string_equal(name, "dir");
    assert_string_equal(rest, "a:b");
    assert_int_equal(larder__spec_name("", name, sizeof name, &rest), LARDER_E_ARGS);
    assert_int_equal(larder__spec_name(":x", name, sizeof name, &rest), LARDER_E_ARGS);
    assert_int_equal(larder__spec_name("12345678:x", name, sizeof name, &rest), LARDER_E_ARGS);
    check_ok(larder__spec_name("1234567:x", name, sizeof name, &rest));
}

static const larder_param params[] = {
    {"count", "int", "10", "how many", 1, 1000}, {"rate", "float", "0.5", "how fast", 0, 0},
    {"on", "bool", "0", "whether", 0, 0},        {"size", "size", "64KiB", "how large", 0, 0},
    {"wait", "time", "5ms", "how long", 0, 0},   {"way", "a|bb|c", "bb", "which", 0, 0},
    {"name", "text", "", "who", 0, 0},           {0}};
static const larder_plugin plugin = {"test", "for this test", params, 0};

static void test_arguments(void **st) {
    (void)st;
    larder_args a;
    check_ok(larder__args_parse(&a, "policy", &plugin, "", ',', NULL));
    assert_true(larder_args_number(&a, "count") == 10 && larder_args_number(&a, "size") == 65536);
    assert_true(larder_args_number(&a, "wait") == 5e-3 && larder_args_number(&a, "on") == 0);
    assert_string_equal(larder_args_text(&a, "way"), "bb");
    larder__args_free(&a);
    check_ok(larder__args_parse(&a, "policy", &plugin, "count=3,on=true,way=c,name=x=y,count=4",
                                ',', NULL));
    assert_true(larder_args_number(&a, "count") == 4 && larder_args_number(&a, "on") == 1);
    assert_string_equal(larder_args_text(&a, "way"), "c");
    assert_string_equal(larder_args_text(&a, "name"), "x=y");
    assert_true(larder_args_number(&a, "none") == 0);
    assert_string_equal(larder_args_text(&a, "none"), "");
    larder__args_free(&a);
    check_ok(larder__args_parse(&a, "source", &plugin, "count=3&name=a,b", '&', NULL));
    assert_string_equal(larder_args_text(&a, "name"), "a,b");
    larder__args_free(&a);
}

static void test_wrong_arguments(void **st) {
    (void)st;
    static const char *const bad[] = {
        "count=0",  "count=1001", "count=2.5",     "count=",    "count",   "=3",
        "on=yes",   "way=b",      "way=",          "way=a|bb",  "size=-1", "wait=5 ms",
        "rate=nan", "colour=3",   "count=3,,on=1", "count=3,x", ","};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        larder_args a;
        int rc = larder__args_parse(&a, "policy", &plugin, bad[i], ',', NULL);
        if (rc != LARDER_E_ARGS && rc != LARDER_E_RANGE)
            fail_msg("\"%s\" was taken", bad[i]);
        assert_non_null(strstr(larder_errmsg(), "policy test"));
    }
    larder_args a;
    larder__args_parse(&a, "policy", &plugin, "colour=3", ',', NULL);
    assert_non_null(strstr(larder_errmsg(), "it has count, rate, on, size"));
    static const larder_param theirs[] = {{"colour", "text", "", "", 0, 0}, {0}};
    const larder_param *const others[] = {theirs, NULL};
    check_ok(larder__args_parse(&a, "policy", &plugin, "colour=3,count=5", ',', others));
    assert_true(larder_args_number(&a, "count") == 5);
    larder__args_free(&a);
    check_ok(larder__args_parse(&a, "policy", &plugin, "shape=3,count=5", ',', larder__args_any));
    larder__args_free(&a);
    larder__args_parse(&a, "policy", &plugin, "cuont=3", ',', NULL);
    assert_non_null(strstr(larder_errmsg(), "\"cuont\"; did you mean count? It has count, rate"));
    larder__args_parse(&a, "policy", &plugin, "way=b", ',', NULL);
    assert_non_null(strstr(larder_errmsg(), "\"b\" is none of a|bb|c; did you mean bb?"));
}

static void test_keys_of_several(void **st) {
    (void)st;
    static const larder_param theirs[] = {{"colour", "text", "", "", 0, 0}, {0}};
    const larder_param *const lists[] = {params, theirs, NULL};
    check_ok(larder__args_check("recipe", "both", "count=x,colour=3", ',', lists));
    check_ok(larder__args_check("recipe", "both", "", ',', lists));
    assert_int_equal(larder__args_check("recipe", "both", "count", ',', lists), LARDER_E_ARGS);
    assert_int_equal(larder__args_check("recipe", "both", "color=3", ',', lists), LARDER_E_ARGS);
    assert_string_equal(larder_errmsg(), "recipe both has no parameter \"color\"; did you mean "
                                         "colour? It has count, rate, on, size, wait, way, name, "
                                         "colour");
    static larder_param many[101];
    for (size_t i = 0; i < 100; i++)
        many[i] = (larder_param){"abcdefgh", "text", "", "", 0, 0};
    const larder_param *const long_list[] = {many, NULL};
    assert_int_equal(larder__args_check("recipe", "both", "x=3", ',', long_list), LARDER_E_ARGS);
    assert_non_null(strstr(larder_errmsg(), "abcdefgh, … (larder list shows all)"));
}

static void test_allocation(void **st) {
    (void)st;
    for (uint64_t n = 1;; n++) {
        larder_args a;
        larder__mem_fail_at(n, 0);
        int rc = larder__args_parse(&a, "policy", &plugin, "count=3,name=abc", ',', NULL);
        int failed = larder__mem_failed();
        larder__mem_fail_at(0, 0);
        assert_int_equal(rc, failed ? LARDER_E_NOMEM : 0);
        larder__args_free(&a);
        if (!failed)
            break;
    }
}

static void test_print_bytes(void **st) {
    (void)st;
    char out[32];
    assert_string_equal(larder__print_bytes(0, out), "0 B");
    assert_string_equal(larder__print_bytes(1023, out), "1023 B");
    assert_string_equal(larder__print_bytes(65536, out), "64.0 KiB");
    assert_string_equal(larder__print_bytes(1.5 * 1024 * 1024 * 1024, out), "1.5 GiB");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_budgets),         cmocka_unit_test(test_budgets_without_a_unit),
        cmocka_unit_test(test_splits),          cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_seconds),         cmocka_unit_test(test_names),
        cmocka_unit_test(test_arguments),       cmocka_unit_test(test_wrong_arguments),
        cmocka_unit_test(test_keys_of_several), cmocka_unit_test(test_allocation),
        cmocka_unit_test(test_print_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
