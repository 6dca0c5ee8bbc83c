/* JSON as it is written. */
#include "base/json.h"
#include "check.h"

#include <math.h>
#include <stdlib.h>

static void test_everything(void **st) {
    (void)st;
    char *text;
    size_t size;
    larder__json j = {.to = open_memstream(&text, &size)};
    assert_non_null(j.to);
    larder__json_open(&j, NULL, '{');
    larder__json_text(&j, "na\"me", "a\\b\n\x01 \xc3\xa9\x7f");
    larder__json_u64(&j, "most", UINT64_MAX);
    larder__json_f64(&j, "third", 1.0 / 3);
    larder__json_f64(&j, "nan", NAN);
    larder__json_f64(&j, "inf", -INFINITY);
    larder__json_f64(&j, "whole", 20);
    larder__json_bool(&j, "yes", true);
    larder__json_open(&j, "list", '[');
    larder__json_u64(&j, NULL, 1);
    larder__json_open(&j, NULL, '{');
    larder__json_close(&j, '}');
    larder__json_bool(&j, NULL, false);
    larder__json_close(&j, ']');
    larder__json_open(&j, "empty", '[');
    larder__json_close(&j, ']');
    larder__json_u64(&j, "last", 0);
    larder__json_close(&j, '}');
    fclose(j.to);
    assert_string_equal(text,
                        "{\"na\\\"me\": \"a\\\\b\\u000a\\u0001 \xc3\xa9\\u007f\", "
                        "\"most\": 18446744073709551615, \"third\": 0.333333333, \"nan\": null, "
                        "\"inf\": null, \"whole\": 20, \"yes\": true, \"list\": [1, {}, false], "
                        "\"empty\": [], \"last\": 0}\n");
    free(text);
}

static void test_several_values(void **st) {
    (void)st;
    char *text;
    size_t size;
    larder__json j = {.to = open_memstream(&text, &size)};
    for (int i = 0; i < 2; i++) { /* a line each, no comma between */
        j = (larder__json){.to = j.to};
        larder__json_open(&j, NULL, '{');
        larder__json_close(&j, '}');
    }
    fclose(j.to);
    assert_string_equal(text, "{}\n{}\n");
    free(text);
}

/* File names are any bytes; JSON is UTF-8. */
static void test_bytes_that_are_no_text(void **st) {
    (void)st;
    static const struct {
        const char *bytes, *json;
    } cases[] = {
        {"a\xff", "\"a\\udcff\""},
        {"\xc3", "\"\\udcc3\""},
        {"\xc3\xa9", "\"\xc3\xa9\""},
        {"\xc0\x80", "\"\\udcc0\\udc80\""},
        {"\xe2\x82\xac", "\"\xe2\x82\xac\""},
        {"\xe2\x82", "\"\\udce2\\udc82\""},
        {"\xed\xa0\x80", "\"\\udced\\udca0\\udc80\""},
        {"\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\""},
        {"\xf5\x80", "\"\\udcf5\\udc80\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text;
        size_t size;
        larder__json j = {.to = open_memstream(&text, &size)};
        larder__json_text(&j, NULL, cases[i].bytes);
        fclose(j.to);
        assert_string_equal(text, cases[i].json);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_that_are_no_text),
        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_several_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
