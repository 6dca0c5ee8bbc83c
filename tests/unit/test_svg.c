/* Charts are well-formed XML whatever the names and numbers are. */
#include "check.h"

#include "report/svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *drawn(const larder__chart *c) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    check_ok(larder__chart_write(f, c));
    assert_int_equal(fclose(f), 0);
    return text;
}

/* Tags balance, attributes are quoted, no bare '<' or '&'. Enough of XML for what we write. */
static void check_well_formed(const char *s) {
    char open[32][16];
    size_t depth = 0, roots = 0;
    while (*s) {
        if (*s == '&') {
            size_t n = strcspn(s, ";");
            assert_true(n > 1 && n < 7 && s[n] == ';');
        }
        if (*s++ != '<')
            continue;
        bool closing = *s == '/';
        s += closing;
        char name[16];
        size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz");
        assert_in_range(n, 1, 15);
        memcpy(name, s, n);
        name[n] = '\0';
        bool quoted = false;
        for (s += n; *s && (quoted || *s != '>'); s++) {
            assert_int_not_equal(*s, '<');
            quoted ^= *s == '"';
        }
        assert_int_equal(*s, '>');
        if (closing) {
            assert_true(depth > 0);
            assert_string_equal(open[--depth], name);
        } else if (s[-1] != '/') {
            assert_true(depth < 32);
            roots += depth == 0;
            memcpy(open[depth++], name, sizeof name);
        }
    }
    assert_int_equal(depth, 0);
    assert_int_equal(roots, 1);
}

static size_t occurrences(const char *text, const char *what) {
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

static void check_numbers(const char *text) {
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
}

static void test_lines(void **state) {
    (void)state;
    double x[] = {1, 2, 3, 4}, y[] = {10, NAN, 30, 40}, z[] = {1, 2, 3, INFINITY};
    larder__series s[] = {{.name = "lru", .n = 4, .x = x, .y = y},
                          {.name = "minio", .n = 4, .x = x, .y = z}};
    larder__chart c = {.title = "t", .x_label = "epoch", .y_label = "y", .series = s, .count = 2};
    char *text = drawn(&c);
    check_well_formed(text);
    check_numbers(text);
    assert_int_equal(occurrences(text, "<circle"), 3 + 1); /* three points, one in the legend */
    assert_int_equal(occurrences(text, "M"), 2 + 1);       /* the gap lifts the pen once */
    assert_non_null(strstr(text, ">4</text>"));            /* epochs are whole */
    assert_null(strstr(text, ">1.5</text>"));
    free(text);
}

static void test_bars(void **state) {
    (void)state;
    double hits[] = {0, 20}, misses[] = {100, 80};
    const char *bars[] = {"none", "minio"};
    larder__series s[] = {{.name = "hits", .n = 2, .y = hits},
                          {.name = "misses", .n = 2, .y = misses}};
    larder__chart c = {.kind = LARDER__CHART_BARS,
                       .series = s,
                       .count = 2,
                       .bars = bars,
                       .unit = "%",
                       .y_to = 100};
    char *text = drawn(&c);
    check_well_formed(text);
    assert_non_null(strstr(text, ">80%</text>"));
    assert_non_null(strstr(text, ">minio</text>"));
    assert_int_equal(occurrences(text, "<rect"), 1 + 3 + 2); /* ground, bars, legend */
    free(text);
}

static void test_hostile_text(void **state) {
    (void)state;
    double one[] = {5};
    larder__series s[] = {
        {.name = "</svg><script>alert('x')</script>&\"\x01", .n = 1, .x = one, .y = one}};
    larder__chart c = {.title = "<a href=\"x\">", .series = s, .count = 1};
    char *text = drawn(&c);
    check_well_formed(text);
    assert_null(strstr(text, "<script"));
    assert_null(strchr(text, '\x01'));
    free(text);
}

static void test_edges(void **state) {
    (void)state;
    double same[] = {7, 7}, huge[] = {1e300, -1e300}, none[] = {NAN, NAN}, zero[] = {0, 0};
    double *all[] = {same, huge, none, zero};
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 4; k++) {
            larder__series s = {.name = "s", .n = 2, .x = all[i], .y = all[k]};
            larder__chart c = {.series = &s, .count = 1};
            char *text = drawn(&c);
            check_well_formed(text);
            check_numbers(text);
            free(text);
            c.kind = LARDER__CHART_BARS;
            text = drawn(&c);
            check_well_formed(text);
            check_numbers(text);
            free(text);
        }
    larder__chart empty = {.title = "nothing"};
    char *text = drawn(&empty);
    check_well_formed(text);
    assert_non_null(strstr(text, "nothing measured"));
    free(text);
}

static void test_full_disk(void **state) {
    (void)state;
    FILE *f = fopen("/dev/full", "w");
    if (!f)
        skip();
    setvbuf(f, NULL, _IONBF, 0);
    larder__chart c = {.title = "t"};
    assert_int_equal(larder__chart_write(f, &c), LARDER_E_IO);
    fclose(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),        cmocka_unit_test(test_bars),
        cmocka_unit_test(test_hostile_text), cmocka_unit_test(test_edges),
        cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
