/* The order in which `exact` keeps dimensions: the widest come first, and nothing else shows. */
#include "check.h"

#include "base/hash.h"
#include "base/state.h"
#include "signal/graph_index.h"

#include <stdlib.h>

enum { N = 3000, DIM = 128, BATCH = 100, CLASSES = 5 };

typedef struct feed {
    float x[BATCH * DIM], turned[BATCH * DIM];
    uint32_t ids[BATCH], classes[BATCH];
    larder_rng rng;
    uint32_t wide; /* the first of 16 dimensions in which rows differ more */
} feed;

static float centre(uint32_t class, uint32_t k) {
    return (float)(larder__mix64(class * 1000 + k) % 100) / 50;
}

/* `turned` is the same with dimensions in the opposite order. */
static larder_engine_rows next(feed *f, bool turned) {
    bool taken[N] = {false};
    for (uint32_t i = 0; i < BATCH && !turned; i++) {
        do
            f->ids[i] = larder_rng_below(&f->rng, N);
        while (taken[f->ids[i]]);
        taken[f->ids[i]] = true;
        f->classes[i] = f->ids[i] % CLASSES;
        for (uint32_t k = 0; k < DIM; k++) {
            bool wide = k >= f->wide && k < f->wide + 16;
            float off = (float)larder_rng_unit(&f->rng) - 0.5f;
            f->x[i * DIM + k] = (wide ? 4 : 0.2f) * (off + centre(f->classes[i], k));
            f->turned[i * DIM + DIM - 1 - k] = f->x[i * DIM + k];
        }
    }
    return (larder_engine_rows){
        .n = BATCH, .ids = f->ids, .classes = f->classes, .x = turned ? f->turned : f->x};
}

static void *open_exact(void) {
    void *st = calloc(1, larder__engine_exact.plugin.state_size);
    larder_engine_conf conf = {.n = N, .dim = DIM, .threads = 1};
    check_ok(larder__engine_exact.open(st, &conf, NULL));
    return st;
}

static void close_exact(void *st) {
    larder__engine_exact.close(st);
    free(st);
}

static double both_count(void *a, void *b, const larder_engine_rows *in,
                         const larder_engine_rows *turned) {
    larder_engine_count one[BATCH], two[BATCH];
    double found = 0;
    check_ok(larder__engine_exact.update(a, in));
    check_ok(larder__engine_exact.update(b, turned));
    check_ok(larder__engine_exact.count(a, in, 5, one));
    check_ok(larder__engine_exact.count(b, turned, 5, two));
    for (size_t i = 0; i < BATCH; i++) {
        assert_true(one[i].same == two[i].same && one[i].other == two[i].other);
        found += (double)one[i].same;
    }
    uint64_t near[50], also[50];
    size_t n = larder__engine_exact.nearest(a, in, 3, 5, near, 50);
    assert_int_equal(larder__engine_exact.nearest(b, turned, 3, 5, also, 50), n);
    assert_memory_equal(near, also, n * sizeof *near);
    return found;
}

static void counts_do_not_depend_on_it(void **state) {
    (void)state;
    feed f = {.wide = 100};
    larder_rng_seed(&f.rng, 4, 4);
    void *a = open_exact(), *b = open_exact();
    double found = 0;
    for (int round = 0; round < 150; round++) {
        if (round == 70)
            f.wide = 30; /* what they differ in changes */
        larder_engine_rows in = next(&f, false), turned = next(&f, true);
        found += both_count(a, b, &in, &turned);
    }
    assert_true(found > 1000);
    close_exact(a);
    close_exact(b);
}

static bool widest_first(const larder__graph_index *s, uint32_t wide) {
    uint32_t inside = 0;
    for (uint32_t k = 0; k < s->whole.head * 4; k++)
        inside += s->order.at[k] >= wide && s->order.at[k] < wide + 16;
    return inside == 16;
}

static void the_widest_come_first(void **state) {
    (void)state;
    feed f = {.wide = 100};
    larder_rng_seed(&f.rng, 5, 5);
    larder__graph_index s;
    larder__graph_conf conf = {.n = N, .dim = DIM, .threads = 1};
    check_ok(larder__graph_index_open(&s, &conf, false));
    for (int round = 0; round < 300; round++) {
        larder_engine_rows in = next(&f, false);
        check_ok(larder__graph_index_enter(&s, &in));
        if (round == 0)
            assert_false(widest_first(&s, 100));
        if (round == 60) {
            assert_true(widest_first(&s, 100));
            f.wide = 8;
        }
    }
    assert_true(widest_first(&s, 8));
    larder__graph_index_close(&s);
}

static void it_is_saved(void **state) {
    (void)state;
    feed f = {.wide = 64};
    larder_rng_seed(&f.rng, 6, 6);
    void *a = open_exact();
    for (int round = 0; round < 60; round++) {
        larder_engine_rows in = next(&f, false);
        check_ok(larder__engine_exact.update(a, &in));
        if (round % 7)
            continue;
        larder_writer w = {0}, again = {0};
        larder__engine_exact.save(a, &w);
        void *b = open_exact();
        larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
        check_ok(larder__engine_exact.load(b, &r));
        in = next(&f, false);
        both_count(a, b, &in, &in);
        w.size = 0;
        larder__engine_exact.save(a, &w);
        larder__engine_exact.save(b, &again);
        assert_int_equal(w.size, again.size);
        assert_memory_equal(w.bytes, again.bytes, w.size);
        close_exact(a);
        a = b;
        larder__writer_free(&w);
        larder__writer_free(&again);
    }
    close_exact(a);
}

static void a_wrong_one_is_refused(void **state) {
    (void)state;
    larder__graph_order o;
    check_ok(larder__graph_order_open(&o, DIM, N));
    for (int what = 0; what < 4; what++) {
        larder_writer w = {0};
        larder__graph_order_save(&o, &w);
        uint16_t *at = (uint16_t *)(void *)w.bytes;
        double *sums = (double *)(void *)(w.bytes + DIM * sizeof *at);
        if (what == 0)
            at[3] = DIM;
        if (what == 1)
            at[3] = at[4];
        if (what == 2)
            sums[2] = 1.0 / 0.0;
        larder_reader r = {.at = w.bytes, .end = w.bytes + w.size - (what == 3)};
        assert_true(larder__graph_order_load(&o, &r) < 0);
        larder__graph_order_close(&o);
        check_ok(larder__graph_order_open(&o, DIM, N));
        larder__writer_free(&w);
    }
    larder__graph_order_close(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_do_not_depend_on_it),
        cmocka_unit_test(the_widest_come_first),
        cmocka_unit_test(it_is_saved),
        cmocka_unit_test(a_wrong_one_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
