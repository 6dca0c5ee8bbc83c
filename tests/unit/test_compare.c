/* Spreads over seeds, groups of runs and comparisons, held against values worked out elsewhere. */
#include "check.h"

#include "base/mem.h"
#include "report/compare_runs.h"
#include "report/html.h"
#include "report/svg.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void near(double got, double want, double within) {
    if (!(fabs(got - want) <= within))
        fail_msg("%.12g, wanted %.12g", got, want);
}

static void student(void **state) {
    (void)state;
    /* One degree of freedom is Cauchy's distribution, two have a closed form, many are normal. */
    for (double t = 0.01; t < 50; t *= 1.7) {
        near(larder__student(t, 1), 1 - 2 / M_PI * atan(t), 1e-12);
        near(larder__student(-t, 2), 1 - t / sqrt(2 + t * t), 1e-12);
        near(larder__student(t, 1e6), erfc(t / sqrt(2)), 1e-5);
    }
    near(larder__student(2.228138852, 10), 0.05, 1e-8); /* the table every book has */
    near(larder__student(4.302652730, 2), 0.05, 1e-8);
    assert_true(isnan(larder__student(NAN, 3)) && isnan(larder__student(1, 0)));
    near(larder__student(0, 7), 1, 0);
}

static void welch(void **state) {
    (void)state;
    const double a[] = {27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1,
                        21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4};
    const double b[] = {27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0,
                        24.8, 20.2, 21.9, 22.1, 22.9, 30.5, 24.0};
    larder__spread x = larder__spread_of(a, 15), y = larder__spread_of(b, 15);
    near(x.mean, 312.3 / 15, 1e-9);
    /* Twice the chance that is found by summing the density: no table needed. */
    double va = x.sd * x.sd / 15, vb = y.sd * y.sd / 15;
    double t = fabs(x.mean - y.mean) / sqrt(va + vb);
    double df = (va + vb) * (va + vb) / (va * va / 14 + vb * vb / 14), sum = 0, step = 1e-4;
    double front = exp(lgamma((df + 1) / 2) - lgamma(df / 2)) / sqrt(df * M_PI);
    for (double at = step / 2; at < t; at += step)
        sum += step * front * pow(1 + at * at / df, -(df + 1) / 2);
    near(larder__welch(&x, &y), 1 - 2 * sum, 1e-6);
    near(larder__welch(&x, &x), 1, 1e-12);
    larder__spread one = larder__spread_of(a, 1), none = larder__spread_of(a, 0);
    assert_true(isnan(one.sd) && isnan(none.mean) && isnan(larder__welch(&one, &y)));
    const double still[] = {3, NAN, 3, 3}, other[] = {4, 4};
    larder__spread s = larder__spread_of(still, 4), o = larder__spread_of(other, 2);
    assert_int_equal(s.n, 3);
    near(larder__welch(&s, &s), 1, 0);
    near(larder__welch(&s, &o), 0, 0);
}

static void holm(void **state) {
    (void)state;
    double p[] = {0.01, NAN, 0.04, 0.03, 0.005};
    larder__holm(p, 5); /* sorted: 0.005 x 4, 0.01 x 3, 0.03 x 2, then no less than the last */
    near(p[4], 0.02, 1e-15);
    near(p[0], 0.03, 1e-15);
    near(p[3], 0.06, 1e-15);
    near(p[2], 0.06, 1e-15);
    assert_true(isnan(p[1]));
    double large[] = {0.9, 0.8};
    larder__holm(large, 2);
    near(large[0], 1, 0);
}

/* ---- runs ------------------------------------------------------------------------------------ */

enum { SEEDS = 4, EPOCHS = 2 };

static void make_run(larder__run *r, const char *recipe, uint64_t seed, double accuracy) {
    *r =
        (larder__run){.meta = {.samples = 1000, .batch = 10, .epochs_asked = EPOCHS, .seed = seed}};
    strcpy(r->meta.recipe, recipe);
    strcpy(r->meta.name, recipe);
    strcpy(r->meta.status, "done");
    strcpy(r->meta.machine, "<b>any</b>");
    r->epochs = larder__calloc(EPOCHS, sizeof *r->epochs);
    r->count = EPOCHS;
    for (int e = 0; e < EPOCHS; e++) {
        r->epochs[e] = larder__epoch_blank();
        r->epochs[e].epoch = (uint64_t)e;
        r->epochs[e].accuracy = accuracy;
        r->epochs[e].seconds = 2 + (double)seed;
        r->epochs[e].served = 1000;
        r->epochs[e].storage_bytes = strcmp(recipe, "minio") == 0 ? 800000 : 100000;
        r->epochs[e].wait_mean = 0.001 * (double)seed;
    }
}

static void make_runs(larder__run runs[2 * SEEDS], double apart) {
    for (uint64_t s = 0; s < SEEDS; s++) {
        make_run(&runs[2 * s], "minio", s, 0.9 + 0.001 * (double)s);
        make_run(&runs[2 * s + 1], "rotate", s, 0.9 + apart + 0.001 * (double)s);
    }
}

static void free_runs(larder__run runs[2 * SEEDS]) {
    for (int i = 0; i < 2 * SEEDS; i++)
        larder__run_free(&runs[i]);
}

static const larder__figure_pair *figure(const larder__comparison *c, const char *name) {
    for (size_t i = 0; i < c->figure_count; i++)
        if (strcmp(c->figures[i].metric->name, name) == 0)
            return &c->figures[i];
    fail_msg("no figure %s", name);
    return NULL;
}

static char *caught(int (*write)(FILE *, const void *), const void *what) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    check_ok(write(f, what));
    fclose(f);
    return text;
}
static int as_text(FILE *f, const void *c) { return larder__compare_text(f, c); }
static int as_object(FILE *f, const void *c) { return larder__compare_json(f, c); }

/* What is printed of it; a full disk is said. */
static void printed(const larder__comparison *c, bool told) {
    char *text = caught(as_text, c);
    assert_true((strstr(text, "Welch's t test") != NULL) == told);
    assert_true((strstr(text, "nothing can be told") != NULL) == !told);
    assert_true((strstr(text, " differs\n") != NULL) == told);
    assert_true((strstr(text, " runs, seeds:") != NULL)); /* the second has several */
    free(text);
    int (*const ways[])(FILE *, const void *) = {as_text, as_object};
    for (int i = 0; i < 2; i++) {
        FILE *f = fopen("/dev/full", "w");
        assert_non_null(f);
        setvbuf(f, NULL, _IONBF, 0);
        assert_int_equal(ways[i](f, c), LARDER_E_IO);
        fclose(f);
    }
}

static void groups_and_verdicts(void **state) {
    (void)state;
    larder__run runs[2 * SEEDS];
    for (int far = 0; far < 2; far++) {
        larder__seed_groups g;
        larder__comparison c;
        make_runs(runs, far ? 0.05 : 0.0002);
        check_ok(larder__groups_make(&g, runs, 2 * SEEDS));
        assert_true(g.several);
        assert_int_equal(g.count, 2);
        assert_int_equal(g.at[0].count, SEEDS);
        assert_string_equal(g.at[1].mean.meta.name, "rotate");
        near(g.at[0].mean.epochs[1].accuracy, 0.9015, 1e-12);
        assert_int_equal(g.at[0].mean.epochs[1].storage_bytes, 800000);
        larder__compare(&c, &g.at[0], &g.at[1]);
        assert_true(c.told);
        assert_int_equal(c.setting_count, 1);
        assert_string_equal(c.settings[0].name, "recipe");
        assert_int_equal(figure(&c, "accuracy")->beyond, far);
        assert_true(figure(&c, "storage_megabytes")->beyond);
        assert_false(figure(&c, "seconds")->beyond);
        printed(&c, true);
        larder__seed_group single = g.at[0];
        single.count = 1;
        larder__compare(&c, &single, &g.at[1]);
        assert_false(c.told);
        for (size_t i = 0; i < c.figure_count; i++)
            assert_false(c.figures[i].beyond);
        printed(&c, false);
        larder__groups_free(&g);
        free_runs(runs);
    }
}

/* Whatever two jobs were not given alike is told; what may differ between them is not. */
static void settings(void **state) {
    (void)state;
    larder__run runs[2];
    const larder__run *first = &runs[0], *second = &runs[1];
    size_t fields = 0;
    larder__comparison c;
    for (int i = 0; i < 2; i++) {
        make_run(&runs[i], "lru", 1, 0.9);
#define set_text(field) strcpy(runs[i].meta.field, i ? "one" : "")
#define set_u64(field) (runs[i].meta.field = 10 + (uint64_t)i)
#define set_f64(field) (runs[i].meta.field = 0.5 + i)
#define XX(kind, field) set_##kind(field), fields++;
        LARDER__META_FIELDS(XX)
#undef XX
    }
    larder__seed_group a = {.runs = &first, .count = 1, .mean = runs[0]},
                       b = {.runs = &second, .count = 1, .mean = runs[1]};
    larder__compare(&c, &a, &b);
    assert_int_equal(c.setting_count, fields / 2 - 3); /* name, seed and verdict */
    char *text = caught(as_text, &c);
    for (size_t i = 0; i < c.setting_count; i++) {
        assert_string_not_equal(c.settings[i].a, c.settings[i].b);
        assert_non_null(strstr(text, c.settings[i].name));
    }
    assert_non_null(strstr(text, "(none)  |  one"));
    free(text);
    runs[1].meta = runs[0].meta;
    larder__compare(&c, &a, &b);
    assert_int_equal(c.setting_count, 0);
    assert_true(c.same_seeds);
    larder__run_free(&runs[0]);
    larder__run_free(&runs[1]);
}

static int as_html(FILE *f, const void *r) { return larder__report_html(f, "a <b>", r, 2 * SEEDS); }
static int as_md(FILE *f, const void *r) { return larder__report_md(f, "title", r, 2 * SEEDS); }
static int as_json(FILE *f, const void *r) { return larder__report_json(f, r, 2 * SEEDS); }

static void reports(void **state) {
    (void)state;
    larder__run runs[2 * SEEDS];
    make_runs(runs, 0.01);
    strcpy(runs[0].meta.name, "a|b");
    char *html = caught(as_html, runs);
    assert_null(strstr(html, "<b>"));
    assert_null(strstr(html, "src="));
    assert_non_null(strstr(html, "up and to the left is better"));
    assert_non_null(strstr(html, "90.15 ± 0.13"));
    assert_non_null(strstr(html, "&lt;b&gt;any&lt;/b&gt;"));
    char *md = caught(as_md, runs);
    assert_non_null(strstr(md, "| a\\|b |"));
    assert_non_null(strstr(md, "91.15 ± 0.13"));
    char *json = caught(as_json, runs);
    int ends = 0;
    for (size_t i = 0; json[i]; i++)
        ends += json[i] == '\n';
    assert_int_equal(ends, 2); /* a line a group */
    assert_non_null(strstr(json, "\"seeds\": [0, 1, 2, 3]"));
    free(html);
    free(md);
    free(json);
    free_runs(runs);
}

static void without_memory(void **state) {
    (void)state;
    larder__run runs[2 * SEEDS];
    make_runs(runs, 0.01);
    FILE *sink = fopen("/dev/null", "w");
    assert_non_null(sink);
    for (uint64_t n = 1;; n++) {
        larder__mem_fail_at(n, 0);
        int rc = as_html(sink, runs);
        int failed = larder__mem_failed();
        larder__mem_fail_at(0, 0);
        assert_int_equal(rc, failed ? LARDER_E_NOMEM : 0);
        if (!failed)
            break;
    }
    fclose(sink);
    free_runs(runs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(student),  cmocka_unit_test(welch),
        cmocka_unit_test(holm),     cmocka_unit_test(groups_and_verdicts),
        cmocka_unit_test(reports),  cmocka_unit_test(without_memory),
        cmocka_unit_test(settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
