/* The signal `graph` as a plug-in: what it does with odd reports, with repeats, its threads, its
 * hubs, a saved state bit for bit, and failing allocations. */
#include "base/mem.h"
#include "base/spec.h"
#include "base/state.h"
#include "check.h"
#include "clusters.h"
#include "graph_kit.h"
#include "signal/graph_engine.h"
#include "signal/graph_scale.h"

#include <stdio.h>

enum { N = 700, BATCH = 64, DIM = 48 };

static const char *const specs[] = {
    "engine=exact,degree=20", "engine=strata,degree=20,tune=budget=1024/project=16/learn=40",
    "engine=hnsw,degree=20,tune=k=50/ef=60", "engine=hnswpq,degree=20,tune=k=50/ef=60/pq=8"};

static size_t spec_count(void) { /* those of a plug-in from outside too, if it is there */
    return larder__plugin_named(LARDER_SORT_ENGINE, "hnsw") ? 4 : 2;
}

typedef struct feed {
    clusters data;
    larder_rng rng;
    uint64_t ids[BATCH];
    int64_t labels[BATCH];
    float x[BATCH * DIM];
    larder_report rep;
} feed;

static void feed_open(feed *f) {
    assert_true(clusters_open(&f->data, DIM, 5, 0.3));
    larder_rng_seed(&f->rng, 1, 2);
}

static const larder_report *next(feed *f) {
    for (size_t i = 0; i < BATCH; i++) {
        f->ids[i] = larder_rng_below(&f->rng, N);
        f->labels[i] = clusters_class(&f->data, f->ids[i]);
        clusters_sample(&f->data, f->ids[i], larder_rng_below(&f->rng, 9), f->x + i * DIM);
    }
    f->rep = (larder_report){.n = BATCH,
                             .dim = DIM,
                             .ids = f->ids,
                             .labels = f->labels,
                             .embeddings = f->x,
                             .accuracy = NAN};
    return &f->rep;
}

static void same_scores(const graph_kit *a, const graph_kit *b) {
    assert_memory_equal(a->scores, b->scores, N * sizeof(float));
}

static void odd_reports_say_nothing(void **state) {
    (void)state;
    graph_kit k;
    graph_kit_open(&k, 10, "");
    const uint64_t ids[] = {1, 2, 3, 99};
    const int64_t labels[] = {0, -1, INT64_MAX, INT64_MIN};
    const float x[] = {1, 0, NAN, 0, 1, INFINITY, 1, 1};
    larder_report none = {.n = 4, .ids = ids, .labels = labels};
    graph_kit_tell(&k, &none); /* no embeddings at all */
    larder_report rep = {.n = 4, .dim = 2, .ids = ids, .labels = labels, .embeddings = x};
    graph_kit_tell(&k, &rep);
    for (int i = 0; i < 10; i++) /* one good row: no distance to judge by */
        assert_true(isnan(k.scores[i]));
    assert_int_equal(graph_kit_figure(&k, "graph_bad_rows"), 3);
    assert_int_equal(graph_kit_figure(&k, "graph_rows"), 1);
    const float y[] = {0, 0, 0, 0, 1e20f, 1, 3, 4}; /* a zero vector stays one */
    rep.embeddings = y;
    graph_kit_tell(&k, &rep);
    assert_true(!isnan(k.scores[1]));
    larder_report other = {.n = 4, .dim = 1, .ids = ids, .labels = labels, .embeddings = x};
    graph_kit_tell(&k, &other);
    assert_int_equal(graph_kit_figure(&k, "graph_dropped"), 1);
    graph_kit_close(&k);
    graph_kit_open(&k, 10, "");
    static float wide[2 * 5000];
    larder_report huge = {.n = 2, .dim = 5000, .ids = ids, .labels = labels, .embeddings = wide};
    graph_kit_tell(&k, &huge);
    assert_int_equal(graph_kit_figure(&k, "graph_dropped"), 1);
    graph_kit_close(&k);
}

/* Rows that are all but zero (dead units) are that: no number comes of them that is none, and what
 * is saved after them can be loaded. */
static void rows_without_a_direction(void **state) {
    (void)state;
    graph_kit k, again;
    graph_kit_open(&k, 10, "radius=0.5");
    const uint64_t ids[] = {1, 2, 3, 4};
    const int64_t labels[] = {0, 0, 0, 0};
    const float x[] = {1e-40f, 0, 0, 1e-41f, 1e-20f, 0, 0, 7};
    larder_report rep = {.n = 4, .dim = 2, .ids = ids, .labels = labels, .embeddings = x};
    graph_kit_tell(&k, &rep);
    assert_int_equal(graph_kit_figure(&k, "graph_bad_rows"), 0);
    assert_int_equal(graph_kit_figure(&k, "graph_rows"), 4);
    for (int i = 1; i <= 2; i++) /* the other one alone is near */
        assert_true(fabs((double)k.scores[i] - log(1 / 1.0 + 1)) < 1e-6);
    larder_writer w = {0};
    k.s->save(k.st, &w);
    check_ok(w.code);
    graph_kit_open(&again, 10, "radius=0.5");
    check_ok(graph_kit_restore(&again, w.bytes, w.size));
    larder__writer_free(&w);
    graph_kit_close(&again);
    graph_kit_close(&k);
}

/* A scale that a state makes up, of nothing: every value has a code. */
static void a_scale_of_nothing(void **state) {
    (void)state;
    const float values[] = {0, 1, -1, (float)NAN, (float)INFINITY, (float)-INFINITY, 1e-45f, 3e38f};
    enum { DIMS = sizeof values / sizeof *values };
    const larder__graph_scale scales[] = {{0}, {.low = (float)NAN, .step = 1}, {.step = 1e-30f}};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        uint8_t codes[DIMS];
        int32_t row_const;
        larder__graph_scale_code(&scales[i], values, DIMS, DIMS, codes, &row_const);
        for (int d = 0; d < DIMS; d++)
            assert_true(codes[d] == 0 || codes[d] == 255);
    }
}

/* Of an id that stands in a batch twice the last row counts, and it is not its own neighbour. */
static void repeats_count_once(void **state) {
    (void)state;
    graph_kit k;
    graph_kit_open(&k, 10, "radius=0.7,normalise=0");
    const uint64_t ids[] = {1, 1, 2, 3};
    const int64_t labels[] = {0, 0, 0, 0};
    const float x[] = {50, 1, 1.1f, 1.2f};
    larder_report rep = {.n = 4, .dim = 1, .ids = ids, .labels = labels, .embeddings = x};
    graph_kit_tell(&k, &rep);
    assert_int_equal(graph_kit_figure(&k, "graph_rows"), 3);
    for (int i = 1; i <= 3; i++)
        assert_true(fabs((double)k.scores[i] - log(1 / 2.0 + 1)) < 1e-6);
    assert_int_equal(k.hub_key[0], 1);
    assert_int_equal(k.hub_count[0], 2);
    assert_int_equal(k.hub_first[0], 2); /* nearest first */
    graph_kit_close(&k);
}

static void threads_change_nothing(void **state) {
    (void)state;
    for (int e = 0; e < 2; e++) {
        char many[128];
        snprintf(many, sizeof many, "%s,threads=5", specs[e]);
        graph_kit a, b;
        feed f;
        feed_open(&f);
        graph_kit_open(&a, N, specs[e]);
        graph_kit_open(&b, N, many);
        for (int i = 0; i < 30; i++) {
            const larder_report *rep = next(&f);
            graph_kit_tell(&a, rep);
            graph_kit_tell(&b, rep);
        }
        same_scores(&a, &b);
        graph_kit_close(&a);
        graph_kit_close(&b);
        clusters_close(&f.data);
    }
}

/* Saved at any batch and loaded elsewhere, a run goes on to the same scores and the same bytes. The
 * hnsw engines rebuild their graph, so there only what they hold must be the same. */
static void a_saved_run_goes_on(void **state) {
    (void)state;
    for (size_t e = 0; e < spec_count(); e++)
        for (int at = 0; at < 24; at += 7) {
            graph_kit a, b;
            feed f;
            feed_open(&f);
            graph_kit_open(&a, N, specs[e]);
            graph_kit_open(&b, N, specs[e]);
            for (int i = 0; i < at; i++)
                graph_kit_tell(&a, next(&f));
            larder_writer w = {0}, v = {0};
            a.s->save(a.st, &w);
            check_ok(w.code);
            check_ok(graph_kit_restore(&b, w.bytes, w.size));
            b.s->save(b.st, &v);
            assert_int_equal(v.size, w.size);
            assert_memory_equal(v.bytes, w.bytes, w.size);
            larder__writer_free(&w);
            larder__writer_free(&v);
            memcpy(b.scores, a.scores, N * sizeof(float));
            for (int i = 0; e < 2 && i < 10; i++) {
                const larder_report *rep = next(&f);
                graph_kit_tell(&a, rep);
                graph_kit_tell(&b, rep);
            }
            same_scores(&a, &b);
            graph_kit_close(&a);
            graph_kit_close(&b);
            clusters_close(&f.data);
        }
}

static void a_cut_state_is_refused(void **state) {
    (void)state;
    for (size_t e = 0; e < spec_count(); e++) {
        graph_kit a, b;
        feed f;
        feed_open(&f);
        graph_kit_open(&a, N, specs[e]);
        for (int i = 0; i < 12; i++)
            graph_kit_tell(&a, next(&f));
        larder_writer w = {0};
        a.s->save(a.st, &w);
        for (size_t size = 0; size < w.size; size += w.size / 23 + 1) {
            graph_kit_open(&b, N, specs[e]);
            assert_true(graph_kit_restore(&b, w.bytes, size) < 0);
            graph_kit_tell(&b, next(&f)); /* still of use */
            graph_kit_close(&b);
        }
        graph_kit_open(&b, N, e ? specs[0] : specs[1]); /* another engine's */
        assert_int_equal(graph_kit_restore(&b, w.bytes, w.size), LARDER_E_FORMAT);
        graph_kit_close(&b);
        larder__writer_free(&w);
        graph_kit_close(&a);
        clusters_close(&f.data);
    }
}

/* Whichever allocation fails, the report is lost and counted, and the next one works. */
static void survives_without_memory(void **state) {
    (void)state;
    for (size_t e = 0; e < spec_count(); e++) {
        feed f;
        feed_open(&f);
        for (uint64_t at = 1; at < 60; at++) {
            graph_kit k;
            graph_kit_open(&k, N, specs[e]);
            if (at % 2)
                graph_kit_tell(&k, next(&f));
            const larder_report *rep = next(&f);
            larder__mem_fail_at(at, at % 3 == 0);
            graph_kit_tell(&k, rep);
            int failed = larder__mem_failed();
            larder__mem_fail_at(0, 0);
            if (!failed)
                at = 60;
            for (int i = 0; i < 8; i++)
                graph_kit_tell(&k, next(&f));
            assert_true(!isnan(k.scores[f.ids[0]]));
            graph_kit_close(&k);
        }
        clusters_close(&f.data);
    }
}

static void results_are_checked(void **state) {
    (void)state;
    graph_kit k;
    feed f;
    feed_open(&f);
    graph_kit_open(&k, N, "degree=20");
    size_t size = k.s->result_size(k.st, BATCH);
    unsigned char *good = calloc(1, size), *bad = malloc(size);
    assert_true(good && bad);
    for (int i = 0; i < 5; i++) {
        memset(good, 0, size);
        k.s->prepare(k.st, next(&f), good);
    }
    assert_true(k.s->check(k.st, good, BATCH));
    assert_false(k.s->check(k.st, good, BATCH - 1));
    for (int i = 0; i < 20000; i++) { /* what passes must be safe to apply */
        memcpy(bad, good, size);
        for (int edits = 0; edits < 3; edits++)
            bad[larder_rng_below(&f.rng, (uint32_t)size)] = (unsigned char)larder_rng_next(&f.rng);
        if (k.s->check(k.st, bad, BATCH))
            k.s->apply(k.st, bad, k.scores, NULL, NULL);
    }
    free(good);
    free(bad);
    graph_kit_close(&k);
    clusters_close(&f.data);
}

static void auto_goes_by_cost(void **state) {
    (void)state;
    assert_ptr_equal(larder__graph_engine_auto(1000, 64), &larder__engine_exact);
    assert_ptr_equal(larder__graph_engine_auto(100000000, 512), &larder__engine_strata);
}

static void engines_are_checked_at_once(void **state) {
    (void)state;
    static const struct {
        const char *spec, *says;
    } bad[] = {{"engine=exakt", "did you mean exact?"},
               {"radius=literal", "radius is auto or a distance"},
               {"radius=-1", "radius is auto or a distance"},
               {"tune=budget=2000", "tune needs engine=NAME"},
               {"engine=strata,tune=budgt=2000", "did you mean budget?"},
               {"engine=strata,tune=budget=1", "budget"}};
    const larder_signal *s = larder__signal_find("graph");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        larder_args args;
        check_ok(larder__args_parse(&args, "signal", &s->plugin, bad[i].spec, ',', NULL));
        void *st = calloc(1, s->plugin.state_size);
        assert_true(s->init(st, 10, &args) < 0);
        if (!strstr(larder_errmsg(), bad[i].says))
            fail_msg("%s says: %s", bad[i].spec, larder_errmsg());
        s->fini(st);
        larder__args_free(&args);
        free(st);
    }
}

/* Embeddings that grow a thousandfold, and shrink again: the codes follow. */
static void the_scale_follows(void **state) {
    (void)state;
    graph_kit k;
    graph_twin t;
    feed f;
    feed_open(&f);
    graph_kit_open(&k, N, "engine=exact,degree=20,normalise=0");
    graph_twin_open(&t, N, DIM, false);
    const float factors[] = {1, 3, 1000, 1};
    for (int phase = 0; phase < 4; phase++) {
        double radius = 0, error = 0;
        for (int i = 0; i < 300; i++) {
            const larder_report *rep = next(&f);
            for (size_t j = 0; j < (size_t)BATCH * DIM; j++)
                f.x[j] *= factors[phase];
            graph_twin_update(&t, rep);
            radius = graph_kit_figure(&k, "graph_radius");
            graph_kit_tell(&k, rep);
        }
        for (int i = 0; i < BATCH; i++) {
            double same, other;
            graph_twin_count(&t, f.ids[i], radius, &same, &other);
            error += fabs(graph_twin_score(same, other, 500) - (double)k.scores[f.ids[i]]);
        }
        if (error / BATCH > 0.02)
            fail_msg("times %g: scores are off by %g", (double)factors[phase], error / BATCH);
    }
    graph_kit_close(&k);
    graph_twin_close(&t);
    clusters_close(&f.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odd_reports_say_nothing), cmocka_unit_test(rows_without_a_direction),
        cmocka_unit_test(a_scale_of_nothing),      cmocka_unit_test(repeats_count_once),
        cmocka_unit_test(threads_change_nothing),  cmocka_unit_test(a_saved_run_goes_on),
        cmocka_unit_test(a_cut_state_is_refused),  cmocka_unit_test(survives_without_memory),
        cmocka_unit_test(results_are_checked),     cmocka_unit_test(auto_goes_by_cost),
        cmocka_unit_test(the_scale_follows),       cmocka_unit_test(engines_are_checked_at_once),
    };
    check_ok(larder__plugins_from_env());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
