/* JSON that comes from anywhere: what is found in it, and what is refused. */
#include "check.h"

#include "base/json_read.h"

#include <math.h>
#include <string.h>

static void paths(void **state) {
    (void)state;
    static const struct {
        const char *text, *path;
        int code;
        const char *found;
    } cases[] = {
        {"\t{\r\n\"a\" : [ 1 , {\"b\":null} ] }\r\n", "a.1.b", 0, "null"},
        {"{\"a\":NaN}", "a", 0, "NaN"},
        {"{\"a\":Infinity}", "a", 0, "Infinity"},
        {"{\"a\":null,\"b\":NaN,\"c\":Infinity,\"d\":true}", "d", 0, "true"},
        {"{\"a.b\":1}", "a\\.b", 0, "1"},
        {"{\"a\\\\b\":1}", "a\\b", 0, "1"},
        {"[1,2]", "01", 0, "2"},
        {"[1,2]", "1x", LARDER_E_NOTFOUND, NULL},
        {"[1,2]", "x", LARDER_E_NOTFOUND, NULL},
        {"[1,2]", "-1", LARDER_E_NOTFOUND, NULL},
        {"[1,2]", "9", LARDER_E_NOTFOUND, NULL},
        {"[]", "0", LARDER_E_NOTFOUND, NULL},
        {"{}", "a", LARDER_E_NOTFOUND, NULL},
        {"7", "a", LARDER_E_NOTFOUND, NULL},
        {"{\"a\":1", "b", LARDER_E_FORMAT, NULL},
        {"{\"a\" 1}", "b", LARDER_E_FORMAT, NULL},
        {"{a:1}", "b", LARDER_E_FORMAT, NULL},
        {"{\"a\":}", "b", LARDER_E_FORMAT, NULL},
        {"{\"a\":1;}", "b", LARDER_E_FORMAT, NULL},
        {"{\"\\q\":1,\"b\":2}", "q", LARDER_E_NOTFOUND, NULL},
        {"[1}", "3", LARDER_E_FORMAT, NULL},
        {"1 2", "", LARDER_E_FORMAT, NULL},
        {"nul", "", LARDER_E_FORMAT, NULL},
        {"", "", LARDER_E_FORMAT, NULL},
        {"   ", "", LARDER_E_FORMAT, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        larder__json_value v;
        int rc = larder__json_find(cases[i].text, strlen(cases[i].text), cases[i].path, &v);
        if (rc != cases[i].code ||
            (rc == 0 && (v.n != strlen(cases[i].found) || memcmp(v.at, cases[i].found, v.n) != 0)))
            fail_msg("%s, %s: %d", cases[i].text, cases[i].path, rc);
    }
    /* A key that no path can name, and a path that no key can have. */
    char text[600] = "{\"", path[400];
    memset(text + 2, 'k', 300);
    strcpy(text + 302, "\":1,\"b\":2}");
    memset(path, 'k', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    larder__json_value v;
    check_ok(larder__json_find(text, strlen(text), "b", &v));
    assert_int_equal(larder__json_find(text, strlen(text), path, &v), LARDER_E_NOTFOUND);
    /* A zero byte is no digit. */
    assert_int_equal(larder__json_find("1\0002", 3, "", &v), LARDER_E_FORMAT);
}

static void texts(void **state) {
    (void)state;
    static const struct {
        const char *text, *means; /* NULL: refused */
    } cases[] = {
        {"\"\"", ""},
        {"\"a\\n\\\"\\\\\\/\\t\"", "a\n\"\\/\t"},
        {"\"\\u0041\\u00e9\\u20AC\"", "A\303\251\342\202\254"},
        {"\"\\uD83D\\uDE00\"", "\360\237\230\200"},
        {"\"\\ud83d\"", "\357\277\275"},
        {"\"\\ud83dabcdefg\"", "\357\277\275abcdefg"},
        {"\"\\ud83d\\nabcdefg\"", "\357\277\275\nabcdefg"},
        {"\"\\ud83d\\u0041\"", "\357\277\275A"},
        {"\"\\ud83d\\uffff\"", "\357\277\275\357\277\277"},
        {"\"\\udc00\"", "\357\277\275"},
        {"\"\\u12\"", NULL},
        {"\"\\u12G4\"", NULL},
        {"\"\\u12g4\"", NULL},
        {"\"\\u12/4\"", NULL},
        {"\"\\u12 4\"", NULL},
        {"\"\\x\"", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[64];
        size_t n = 0, size = strlen(cases[i].text);
        larder__json_value v = {LARDER__JSON_TEXT, cases[i].text, size};
        int rc = larder__json_unescape(&v, out, &n);
        if (cases[i].means) {
            if (rc != 0 || n != strlen(cases[i].means) || memcmp(out, cases[i].means, n) != 0)
                fail_msg("%s: %d, %.*s", cases[i].text, rc, (int)n, out);
        } else if (rc != LARDER_E_FORMAT)
            fail_msg("%s: taken", cases[i].text);
    }
    char out[8];
    size_t n;
    larder__json_value odd[] = {{LARDER__JSON_NUMBER, "12", 2},
                                {LARDER__JSON_TEXT, "\"", 1},
                                {LARDER__JSON_TEXT, "\"\\\"", 3},
                                {LARDER__JSON_TEXT, "\"\\\0\"", 4}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        assert_int_equal(larder__json_unescape(&odd[i], out, &n), LARDER_E_FORMAT);
}

static void numbers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int code;
        size_t n;
        uint32_t ndim;
        bool whole;
    } cases[] = {
        {"[1,2,3]", 0, 3, 1, true},
        {"[[1,2],[3,4]]", 0, 4, 2, true},
        {"[1,2.5]", 0, 2, 1, false},
        {"[true,false]", 0, 2, 1, true},
        {"[99999999999999999999]", 0, 1, 1, false},
        {"[1,2,3,4,5,6,7,8,9,10]", 0, 10, 1, true}, /* more than there is room for */
        {"[]", 0, 0, 1, false},
        {"[[],[]]", 0, 0, 2, false},
        {"[1,[2]]", LARDER_E_FORMAT, 0, 0, false},
        {"[[1],2]", LARDER_E_FORMAT, 0, 0, false},
        {"[[1],[2,3]]", LARDER_E_FORMAT, 0, 0, false},
        {"[[[[[1]]]]]", LARDER_E_FORMAT, 0, 0, false}, /* deeper than asked for */
        {"[1 2]", LARDER_E_FORMAT, 0, 0, false},
        {"[[1] [2]]", LARDER_E_FORMAT, 0, 0, false},
        {"[\"a\"]", LARDER_E_FORMAT, 0, 0, false},
        {"[null]", LARDER_E_FORMAT, 0, 0, false},
        {"[1-2]", LARDER_E_FORMAT, 0, 0, false},
        {"[x]", LARDER_E_FORMAT, 0, 0, false},
        {"[0000000000000000000000000000000000000000000000000000000000000000001]", LARDER_E_FORMAT,
         0, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int with = 0; with < 2; with++) {
            double out[4];
            int64_t integers[4];
            uint64_t shape[4];
            size_t n;
            uint32_t ndim;
            bool whole;
            larder__json_value v = {LARDER__JSON_ARRAY, cases[i].text, strlen(cases[i].text)};
            int rc = larder__json_numbers(&v, out, with ? integers : NULL, 4, &n, shape, &ndim, 4,
                                          &whole);
            if (rc != cases[i].code ||
                (rc == 0 && (n != cases[i].n || ndim != cases[i].ndim || whole != cases[i].whole)))
                fail_msg("%s: %d", cases[i].text, rc);
            v.type = LARDER__JSON_OBJECT;
            assert_int_equal(
                larder__json_numbers(&v, out, integers, 4, &n, shape, &ndim, 4, &whole),
                LARDER_E_FORMAT);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths),
        cmocka_unit_test(texts),
        cmocka_unit_test(numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
