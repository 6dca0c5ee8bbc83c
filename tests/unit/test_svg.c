/* Charts are well-formed XML whatever the names and numbers are, and have all names. */
#include "check.h"

#include "report/svg.h"

#include <larder/plugin.h>
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

/* Whatever the numbers below a chart are, there are some, and they stand clear of one another. */
static void test_numbers_fit(void **state) {
    (void)state;
    enum { DIGIT = 8 }; /* pixels, as wide as any sign of a number */
    static const char middle[] = "text-anchor=\"middle\">";
    larder_rng rng;
    larder_rng_seed(&rng, 1, 0);
    for (int i = 0; i < 3000; i++) {
        double low = pow(10, larder_rng_unit(&rng) * 12 - 6), y[] = {1, 2};
        double x[] = {low, low * (1 + pow(10, -5 * larder_rng_unit(&rng)))};
        larder__series s = {.name = "s", .n = 2, .x = x, .y = y};
        larder__chart c = {
            .series = &s, .count = 1, .kind = i % 2 ? LARDER__CHART_POINTS : LARDER__CHART_LINES};
        char *text = drawn(&c);
        double before = -INFINITY;
        size_t count = 0;
        for (const char *at = text; (at = strstr(at, middle)); count++) {
            const char *place = at;
            at += sizeof middle - 1;
            while (strncmp(place, " x=\"", 4) != 0)
                place--;
            double centre = strtod(place + 4, NULL), half = DIGIT * (double)strcspn(at, "<") / 2;
            assert_true(centre - half > before);
            before = centre + half;
        }
        assert_true(count >= 1);
        free(text);
    }
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

/* What a tag says of itself, "x" or "y", as a number. */
static double attribute(const char *tag, const char *name) {
    char key[16];
    snprintf(key, sizeof key, " %s=\"", name);
    const char *at = strstr(tag, key);
    assert_true(at && at < strchr(tag, '>'));
    return strtod(at + strlen(key), NULL);
}

/* Every name once, in lines that follow each other, above the plot and not over another; the
 * picture grows by them. */
static void test_many_names(void **state) {
    (void)state;
    enum { MANY = 14 };
    char names[MANY][32];
    double x[] = {1, 2}, y[] = {3, 4}, height = 0;
    larder__series s[MANY];
    for (int count = 1; count <= MANY; count++) {
        for (int i = 0; i < count; i++) {
            snprintf(names[i], sizeof names[i], "rotate:h=0.8,until=0.%d", 10 + i);
            s[i] = (larder__series){.name = names[i], .n = 2, .x = x, .y = y};
        }
        char *text = drawn(&(larder__chart){.series = s, .count = (size_t)count});
        double last_x = 0, last_y = 0, grown = attribute(text, "height");
        check_well_formed(text);
        for (int i = 0; i < count; i++) {
            char shown[40];
            snprintf(shown, sizeof shown, ">rotate:h=0.8,until=0.%d<", 10 + i);
            assert_int_equal(occurrences(text, shown), 1);
            const char *tag = strstr(text, shown);
            while (*tag != '<')
                tag--;
            double at_x = attribute(tag, "x"), at_y = attribute(tag, "y");
            assert_true(at_y > last_y || (at_y == last_y && at_x > last_x + 100));
            assert_true(at_x + 140 < 720 && at_y < grown - 270);
            last_x = at_x, last_y = at_y;
        }
        assert_true(grown >= height);
        height = grown;
        free(text);
    }
    assert_true(height > 400);
}

/* Colours come round after seven: then the line is another. */
static void test_lines_differ(void **state) {
    (void)state;
    enum { MANY = 14 };
    double x[] = {1, 2}, y[] = {3, 4};
    larder__series s[MANY];
    for (int i = 0; i < MANY; i++)
        s[i] = (larder__series){.name = "n", .n = 2, .x = x, .y = y};
    char *text = drawn(&(larder__chart){.series = s, .count = MANY / 2});
    assert_int_equal(occurrences(text, "stroke-dasharray"), 0);
    free(text);
    text = drawn(&(larder__chart){.series = s, .count = MANY});
    assert_int_equal(occurrences(text, "stroke-dasharray"), 2 * MANY / 2); /* and in the legend */
    free(text);
}

/* Nothing is more than all of it: an axis of shares ends at 100. */
static void test_shares(void **state) {
    (void)state;
    double x[] = {1, 2}, y[] = {100, 100};
    larder__series s = {.name = "n", .n = 2, .x = x, .y = y};
    larder__chart c = {.series = &s, .count = 1};
    for (int i = 0; i < 2; i++) {
        char *text = drawn(&c);
        assert_int_equal(strstr(text, ">110</text>") != NULL, i == 0);
        assert_non_null(strstr(text, ">100</text>"));
        free(text);
        c.y_most = 100;
    }
}

/* Too many points for markers: one, at the line's end, and the legend's. */
static void test_dense(void **state) {
    (void)state;
    double x[50], y[50];
    for (int i = 0; i < 50; i++)
        x[i] = y[i] = i;
    y[49] = NAN;
    larder__series s = {.name = "n", .n = 50, .x = x, .y = y};
    char *text = drawn(&(larder__chart){.series = &s, .count = 1});
    assert_int_equal(occurrences(text, "<circle"), 2);
    free(text);
}

/* A name wider than the picture loses its middle, and is whole under the pointer. */
static void test_long_name(void **state) {
    (void)state;
    static const char *const parts[] = {"a", "W", "\xe7\x95\xaa", "\x01"};
    double one[] = {5};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (int kind = LARDER__CHART_LINES; kind <= LARDER__CHART_BARS; kind++) {
            char name[2000] = "first";
            for (int k = 0; k < 200; k++)
                strcat(name, parts[i]);
            strcat(name, "last");
            const char *bars[] = {name};
            larder__series s = {.name = name, .n = 1, .x = one, .y = one};
            char *text = drawn(&(larder__chart){.kind = (larder__chart_kind)kind,
                                                .series = &s,
                                                .count = 1,
                                                .bars = kind == LARDER__CHART_BARS ? bars : NULL});
            check_well_formed(text);
            assert_non_null(strstr(text, "<title>first"));
            const char *cut = strstr(text, "</title>first");
            assert_non_null(cut);
            assert_true(strcspn(cut, "\n") < 500);
            assert_non_null(strstr(cut, "last</text>"));
            assert_non_null(strstr(cut, "\xe2\x80\xa6"));
            free(text);
        }
}

/* Names of bars that do not fit side by side are tilted, and the picture grows by them. */
static void test_bar_names(void **state) {
    (void)state;
    double share[] = {50, 50, 50, 50, 50, 50};
    const char *few[] = {"lru", "minio", "lru", "minio", "lru", "minio"};
    const char *many[] = {"rotate:h=0.8,until=0.1", "rotate:h=0.8,until=0.2",
                          "rotate:h=0.8,until=0.3", "rotate:h=0.8,until=0.4",
                          "rotate:h=0.8,until=0.5", "rotate:h=0.8,until=0.6"};
    larder__series s = {.name = "hits", .n = 6, .y = share};
    larder__chart c = {.kind = LARDER__CHART_BARS, .series = &s, .count = 1, .bars = few};
    char *text = drawn(&c);
    double height = attribute(text, "height");
    assert_int_equal(occurrences(text, "rotate("), 0);
    free(text);
    c.bars = many;
    text = drawn(&c);
    assert_int_equal(occurrences(text, "rotate("), 6);
    assert_true(attribute(text, "height") > height + 50);
    for (int i = 0; i < 6; i++)
        assert_non_null(strstr(text, many[i]));
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
        cmocka_unit_test(test_many_names),   cmocka_unit_test(test_lines_differ),
        cmocka_unit_test(test_dense),        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_long_name),    cmocka_unit_test(test_bar_names),
        cmocka_unit_test(test_hostile_text), cmocka_unit_test(test_edges),
        cmocka_unit_test(test_full_disk),    cmocka_unit_test(test_numbers_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
