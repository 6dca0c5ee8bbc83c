/* Programs and libraries of different versions: a caller whose structs are shorter is served as if
 * it had not said the rest, and nothing is written behind them; one whose structs are longer may
 * not ask for what is not known, and gets zeros there. */
#include "loader_kit.h"

#include "base/sized.h"
#include "svm/svm_data.h"

#include <larder/plan.h>
#include <larder/svm.h>
#include <stdlib.h>
#include <string.h>

#define SOURCE "mem:?n=203&h=8&w=8&c=3"
enum { GUARD = 0xee, MOST = 1 << 15 };

typedef struct call { /* one call with one struct that it reads or fills in */
    const char *what;
    size_t whole; /* sizeof the struct */
    int (*run)(struct call *, void *given);
    bool fills_in;
    larder_loader *l;
    const larder_svm_data *rows;
    const larder_svm_model *model;
} call;

static int open_conf(call *c, void *given) {
    (void)c;
    larder_loader *l = NULL;
    larder_loader_conf *conf = given;
    conf->source = SOURCE;
    int rc = larder_loader_open(&l, conf);
    larder_loader_close(&l);
    return rc;
}

static int report(call *c, void *fb) {
    const larder_batch *b;
    int rc = larder_loader_next(c->l, &b);
    if (rc == LARDER_END_EPOCH)
        rc = larder_loader_next(c->l, &b);
    check_ok(rc);
    assert_int_equal(b->size, sizeof *b);
    rc = larder_loader_report(c->l, b, fb);
    check_ok(larder_loader_done(c->l, b));
    return rc;
}

static int report_named(call *c, void *batch) {
    larder_feedback fb = {.size = sizeof fb, .rows = LARDER_ROWS_ALL};
    return larder_loader_report(c->l, batch, &fb);
}

static int about(call *c, void *out) { return larder_loader_about(c->l, out); }
static int figures(call *c, void *out) { return larder_loader_figures(c->l, 0, out); }
static int stat_value(call *c, void *out) { return larder_loader_stat(c->l, 0, out); }
static int bad(call *c, void *out) { return larder_loader_bad(c->l, 0, out); }

static int item(call *c, void *out) {
    larder_item *it = out;
    int rc = larder_loader_item(c->l, 7, LARDER_DECODED, it);
    if (rc == 0)
        larder_buf_unref(&it->buf);
    return rc;
}

static int defaults(call *c, void *out) {
    (void)c;
    return larder_svm_defaults(out);
}

static int train(call *c, void *conf) {
    larder_svm_model *m = NULL;
    int rc = larder_svm_train(&m, c->rows, conf, NULL);
    larder_svm_model_close(&m);
    return rc;
}

static int copy(call *c, void *matrix) {
    (void)c;
    larder_svm_data *d = NULL;
    return larder_svm_copy(&d, matrix);
}

static int search(call *c, void *grid) {
    larder_svm_conf conf = {.size = sizeof conf};
    check_ok(larder_svm_defaults(&conf));
    return larder_svm_search(c->rows, &conf, grid, NULL);
}

static int assemble(call *c, void *parts) {
    (void)c;
    larder_svm_model *m = NULL;
    return larder_svm_assemble(&m, parts);
}

static int plan(call *c, void *rates) {
    (void)c;
    larder_plan p = {.size = sizeof p};
    return larder_plan_make(&p, rates, LARDER_PLAN_SHARED);
}

static int train_stats(call *c, void *stats) {
    larder_svm_model *m = NULL;
    larder_svm_conf conf = {.size = sizeof conf};
    check_ok(larder_svm_defaults(&conf));
    int rc = larder_svm_train(&m, c->rows, &conf, stats);
    larder_svm_model_close(&m);
    return rc;
}

static int take_apart(call *c, void *parts) { return larder_svm_disassemble(c->model, parts); }

static int make_plan(call *c, void *plan) {
    (void)c;
    larder_rates r = {.size = sizeof r,
                      .t_gpu = 1000,
                      .t_da = 500,
                      .t_a = 2000,
                      .b_storage = 1e8,
                      .s_cache = 1e9,
                      .s_data = 1e5,
                      .m = 5,
                      .n_total = 1e5};
    return larder_plan_make(plan, &r, LARDER_PLAN_SHARED);
}

/* `size` bytes of the struct, all 0 but its size, with a guard behind. */
static unsigned char *make(size_t size) {
    unsigned char *at = malloc(MOST);
    assert_non_null(at);
    memset(at, GUARD, MOST);
    memset(at, 0, size);
    memcpy(at, &size, sizeof size);
    return at;
}

static void untouched(const call *c, const unsigned char *at, size_t size) {
    size_t now;
    memcpy(&now, at, sizeof now);
    assert_int_equal(now, size);
    for (size_t i = size; i < MOST; i++)
        if (at[i] != GUARD)
            fail_msg("%s of %zu bytes: byte %zu behind it was written", c->what, size, i - size);
}

/* An older caller, whose struct ends anywhere behind the first field that says something. */
static void older(call *c, size_t least) {
    for (size_t size = least; size <= c->whole; size += 4) {
        unsigned char *at = make(size);
        check_ok(c->run(c, at));
        untouched(c, at, size);
        free(at);
    }
}

static void refused(call *c) {
    unsigned char *at = make(c->whole + 24);
    at[c->whole + 23] = 1;
    assert_int_equal(c->run(c, at), LARDER_E_UNSUPPORTED);
    assert_non_null(strstr(larder_errmsg(), c->what));
    assert_non_null(strstr(larder_errmsg(), "a newer library"));
    free(at);
}

static void newer(call *c) {
    size_t size = c->whole + 24;
    unsigned char *at = make(size);
    if (c->fills_in)
        memset(at + c->whole, GUARD, 24);
    check_ok(c->run(c, at));
    untouched(c, at, size);
    for (size_t i = c->whole; i < size; i++)
        assert_int_equal(at[i], 0);
    if (!c->fills_in)
        refused(c);
    free(at);
}

static void no_size(call *c) {
    static const size_t wrong[] = {0, 7, (size_t)1 << 17, (size_t)GUARD << 56};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        unsigned char *at = make(c->whole);
        memcpy(at, &wrong[i], sizeof *wrong);
        assert_int_equal(c->run(c, at), LARDER_E_ARGS);
        assert_non_null(strstr(larder_errmsg(), c->what));
        free(at);
    }
}

static void all_ways(call c, size_t least) {
    older(&c, least);
    newer(&c);
    no_size(&c);
}

#define IN(type, f)                                                                                \
    { .what = #type, .whole = sizeof(type), .run = f }
#define OUT(type, f)                                                                               \
    { .what = #type, .whole = sizeof(type), .run = f, .fills_in = true }
#define UP_TO(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

static void loader_structs(void **state) {
    (void)state;
    larder_loader *l = NULL;
    larder_loader_conf conf = kit_conf("mem:?n=203&h=8&w=8&c=3&bad=5", "lru");
    const larder_batch *b;
    conf.on_bad = LARDER_BAD_SKIP;
    check_ok(larder_loader_open(&l, &conf));
    larder_bad one = {.size = sizeof one};
    while (larder_loader_bad(l, 0, &one) < 0) {
        int rc = larder_loader_next(l, &b);
        check_ok(rc);
        if (rc == 0)
            check_ok(larder_loader_done(l, b));
    }
    all_ways((call)IN(larder_loader_conf, open_conf), UP_TO(larder_loader_conf, source));
    call calls[] = {
        IN(larder_feedback, report),  IN(larder_batch, report_named),     OUT(larder_about, about),
        OUT(larder_figures, figures), OUT(larder_stat_value, stat_value), OUT(larder_bad, bad),
        OUT(larder_item, item)};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        calls[i].l = l;
        all_ways(calls[i], calls[i].run == item ? UP_TO(larder_item, buf) : sizeof(size_t));
    }
    larder_loader_close(&l);
}

static void svm_and_plan_structs(void **state) {
    (void)state;
    const double x[] = {0, 1, 2, 3, 10, 11, 12, 13}, y[] = {1, 1, 1, 1, -1, -1, -1, -1};
    larder_svm_matrix m = {.size = sizeof m, .rows = 8, .features = 1, .value = x, .label = y};
    larder_svm_conf conf = {.size = sizeof conf};
    larder_svm_data *rows = NULL;
    larder_svm_model *model = NULL;
    check_ok(larder_svm_copy(&rows, &m));
    check_ok(larder_svm_defaults(&conf));
    check_ok(larder_svm_train(&model, rows, &conf, NULL));
    call calls[] = {OUT(larder_svm_conf, defaults), OUT(larder_svm_stats, train_stats),
                    OUT(larder_svm_parts, take_apart), OUT(larder_plan, make_plan)};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        calls[i].rows = rows;
        calls[i].model = model;
        all_ways(calls[i], sizeof(size_t));
    }
    call asks[] = {IN(larder_svm_conf, train), IN(larder_svm_matrix, copy),
                   IN(larder_svm_grid, search), IN(larder_svm_parts, assemble),
                   IN(larder_rates, plan)};
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        asks[i].rows = rows;
        refused(&asks[i]);
        no_size(&asks[i]);
    }
    larder_svm_model_close(&model);
    larder_svm_data_close(&rows);
}

/* What an older caller did not say is not zero but what it is unless said. */
static void defaults_behind_the_end(void **state) {
    (void)state;
    const double x[] = {0, 1, 2, 3, 10, 11, 12, 13}, y[] = {1, 1, 1, 1, -1, -1, -1, -1};
    larder_svm_matrix m = {.size = sizeof m, .rows = 8, .features = 1, .value = x, .label = y};
    larder_svm_data *rows = NULL;
    larder_svm_model *a = NULL, *b = NULL;
    check_ok(larder_svm_copy(&rows, &m));
    larder_svm_conf whole = {.size = sizeof whole}, part;
    check_ok(larder_svm_defaults(&whole));
    memset(&part, GUARD, sizeof part);
    part.size = offsetof(larder_svm_conf, degree);
    check_ok(larder_svm_defaults(&part));
    check_ok(larder_svm_train(&a, rows, &whole, NULL));
    check_ok(larder_svm_train(&b, rows, &part, NULL));
    double one[8], other[8];
    check_ok(larder_svm_predict(a, rows, NULL, one, NULL));
    check_ok(larder_svm_predict(b, rows, NULL, other, NULL));
    assert_memory_equal(one, other, sizeof one);
    larder_svm_model_close(&a);
    larder_svm_model_close(&b);
    larder_svm_data_close(&rows);
}

/* A newer library's first new field would lie in the padding, which an older caller never set. */
static void no_struct_ends_in_padding(void **state) {
    (void)state;
    assert_int_equal(UP_TO(larder_own_source, interrupt), sizeof(larder_own_source));
    assert_int_equal(UP_TO(larder_own_maker, make), sizeof(larder_own_maker));
    assert_int_equal(UP_TO(larder_loader_conf, decode), sizeof(larder_loader_conf));
    assert_int_equal(UP_TO(larder_batch, mix_weight), sizeof(larder_batch));
    assert_int_equal(UP_TO(larder_feedback, rows), sizeof(larder_feedback));
    assert_int_equal(UP_TO(larder_figures, requests), sizeof(larder_figures));
    assert_int_equal(UP_TO(larder_item, label), sizeof(larder_item));
    assert_int_equal(UP_TO(larder_about, refused), sizeof(larder_about));
    assert_int_equal(UP_TO(larder_bad, why), sizeof(larder_bad));
    assert_int_equal(UP_TO(larder_stat_value, max), sizeof(larder_stat_value));
    assert_int_equal(UP_TO(larder_rates, jobs), sizeof(larder_rates));
    assert_int_equal(UP_TO(larder_plan, runner_up), sizeof(larder_plan));
    assert_int_equal(UP_TO(larder_svm_matrix, flags), sizeof(larder_svm_matrix));
    assert_int_equal(UP_TO(larder_svm_progress, rows_hit), sizeof(larder_svm_progress));
    assert_int_equal(UP_TO(larder_svm_conf, device), sizeof(larder_svm_conf));
    assert_int_equal(UP_TO(larder_svm_stats, start_seconds), sizeof(larder_svm_stats));
    assert_int_equal(UP_TO(larder_svm_grid, labels), sizeof(larder_svm_grid));
    assert_int_equal(UP_TO(larder_svm_parts, iterations), sizeof(larder_svm_parts));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loader_structs),
        cmocka_unit_test(svm_and_plan_structs),
        cmocka_unit_test(defaults_behind_the_end),
        cmocka_unit_test(no_struct_ends_in_padding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
