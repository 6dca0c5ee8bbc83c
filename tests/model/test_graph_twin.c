/* The signal `graph` against float64 brute force: counts, scores, hubs, the radius it steers, on
 * made-up clusters and on embeddings of a real training. */
#include "base/npy.h"
#include "check.h"
#include "clusters.h"
#include "graph_kit.h"
#include "signal/graph_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BATCH = 128 };

typedef struct world {
    clusters data;
    graph_twin twin;
    uint64_t n;
    larder_rng rng;
    bool turned; /* dimensions in reverse order: all directions are others */
    uint64_t ids[BATCH];
    int64_t labels[BATCH];
    float *x;
    larder_report rep;
} world;

static void world_open(world *w, uint64_t n, uint32_t dim, uint32_t classes, double spread) {
    *w = (world){.n = n};
    assert_true(clusters_open(&w->data, dim, classes, spread));
    graph_twin_open(&w->twin, n, dim, true);
    w->x = malloc((size_t)BATCH * dim * sizeof *w->x);
    assert_non_null(w->x);
    larder_rng_seed(&w->rng, n, dim);
}

static void world_close(world *w) {
    clusters_close(&w->data);
    graph_twin_close(&w->twin);
    free(w->x);
}

/* A batch of ids from `first` on, or of random ones. */
static const larder_report *batch(world *w, int64_t first, uint64_t moved) {
    size_t n = first >= 0 && w->n - (uint64_t)first < BATCH ? w->n - (uint64_t)first : BATCH;
    for (size_t i = 0; i < n; i++) {
        w->ids[i] = first < 0 ? larder_rng_below(&w->rng, (uint32_t)w->n) : (uint64_t)first + i;
        w->labels[i] = clusters_class(&w->data, w->ids[i]);
        float *x = w->x + i * w->data.dim;
        clusters_sample(&w->data, w->ids[i], moved, x);
        for (uint32_t k = 0; w->turned && k < w->data.dim / 2; k++) {
            float value = x[k];
            x[k] = x[w->data.dim - 1 - k], x[w->data.dim - 1 - k] = value;
        }
    }
    w->rep = (larder_report){.n = n,
                             .dim = w->data.dim,
                             .ids = w->ids,
                             .labels = w->labels,
                             .embeddings = w->x,
                             .accuracy = NAN};
    graph_twin_update(&w->twin, &w->rep);
    return &w->rep;
}

static void fill(world *w, graph_kit *k) {
    for (uint64_t at = 0; at < w->n; at += BATCH)
        graph_kit_tell(k, batch(w, (int64_t)at, 0));
}

typedef struct sums {
    double error, truth, score;
    size_t rows;
} sums;

/* Scores of a batch that was just told against the twin's. */
static sums compare(world *w, const graph_kit *k, double radius, double cap) {
    sums s = {0};
    for (size_t i = 0; i < w->rep.n; i++) {
        double same, other;
        graph_twin_count(&w->twin, w->ids[i], radius, &same, &other);
        s.score += fabs((double)k->scores[w->ids[i]] - graph_twin_score(same, other, cap));
        s.truth += same + other;
        s.rows++;
    }
    s.score /= (double)s.rows;
    return s;
}

static void scores_fit(const char *spec, uint32_t dim, double most) {
    world w;
    graph_kit k;
    world_open(&w, 3000, dim, 7, 0.3);
    graph_kit_open(&k, 3000, spec);
    fill(&w, &k);
    for (int round = 0; round < 20; round++)
        graph_kit_tell(&k, batch(&w, -1, (uint64_t)round + 1));
    for (int round = 0; round < 2; round++) {
        double radius = graph_kit_figure(&k, "graph_radius"); /* before it moves on */
        graph_kit_tell(&k, batch(&w, -1, 100 + (uint64_t)round));
        sums s = compare(&w, &k, radius, 500);
        if (s.score > most || s.truth < 20 * (double)s.rows)
            fail_msg("%s: scores are off by %g of at most %g; %g neighbours", spec, s.score, most,
                     s.truth / (double)s.rows);
    }
    graph_kit_close(&k);
    world_close(&w);
}

static void exact_fits(void **state) {
    (void)state;
    scores_fit("engine=exact,degree=60", 64, 0.004);
    scores_fit("engine=exact,degree=60", 130, 0.004); /* no multiple of anything */
    scores_fit("degree=150,threads=3", 3, 0.004);     /* few dimensions, coarse codes */
}

static void strata_fits(void **state) {
    (void)state;
    scores_fit("engine=strata,degree=60", 128, 0.01); /* all rows */
    scores_fit("engine=strata,degree=60,tune=project=96/budget=2000", 256,
               0.05);                                                           /* a part of them */
    scores_fit("engine=strata,degree=60,tune=project=64/learn=200", 256, 0.02); /* in frames */
}

/* When the embeddings turn, frames are learnt anew and scores fit again. */
static void strata_follows(void **state) {
    (void)state;
    world w;
    graph_kit k;
    world_open(&w, 3000, 256, 4, 0.3);
    graph_kit_open(&k, 3000, "engine=strata,degree=60,tune=project=64/learn=150");
    fill(&w, &k);
    w.turned = true;
    for (int epoch = 0; epoch < 4; epoch++)
        fill(&w, &k);
    for (int round = 0; round < 2; round++) {
        double radius = graph_kit_figure(&k, "graph_radius");
        graph_kit_tell(&k, batch(&w, -1, 0));
        sums s = compare(&w, &k, radius, 500);
        if (s.score > 0.02 || s.truth < 20 * (double)s.rows)
            fail_msg("scores are off by %g; %g neighbours", s.score, s.truth / (double)s.rows);
    }
    graph_kit_close(&k);
    world_close(&w);
}

static void hnsw_fits(void **state) {
    (void)state;
    if (!larder__plugin_named(LARDER_SORT_ENGINE, "hnsw")) /* a plug-in from outside */
        skip();
    scores_fit("engine=hnsw,degree=60", 64, 0.01);
    scores_fit("engine=hnswpq,degree=60,tune=pq=32", 64, 0.2);
}

/* Counts themselves, by the engine: the mean error stays under one in a hundred. */
static void counts_of_exact(void **state) {
    (void)state;
    enum { N = 6000, DIM = 256 };
    world w;
    world_open(&w, N, DIM, 5, 0.4);
    void *st = calloc(1, larder__engine_exact.plugin.state_size);
    larder_engine_conf conf = {.n = N, .dim = DIM, .threads = 1};
    check_ok(larder__engine_exact.open(st, &conf, NULL));
    double error = 0, truth = 0;
    for (uint64_t at = 0; at < N; at += BATCH) {
        const larder_report *rep = batch(&w, (int64_t)at, 0);
        uint32_t ids[BATCH], classes[BATCH];
        float x[BATCH * DIM];
        for (size_t i = 0; i < rep->n; i++) {
            ids[i] = (uint32_t)rep->ids[i], classes[i] = (uint32_t)rep->labels[i];
            for (size_t k = 0; k < DIM; k++)
                x[i * DIM + k] = (float)w.twin.x[rep->ids[i] * DIM + k];
        }
        larder_engine_rows rows = {.n = rep->n, .ids = ids, .classes = classes, .x = x};
        larder_engine_count counts[BATCH];
        check_ok(larder__engine_exact.update(st, &rows));
        if (at + BATCH < N)
            continue;
        check_ok(larder__engine_exact.count(st, &rows, 0.6, counts));
        for (size_t i = 0; i < rep->n; i++) {
            double same, other;
            graph_twin_count(&w.twin, rep->ids[i], 0.6, &same, &other);
            error += fabs(same - (double)counts[i].same) + fabs(other - (double)counts[i].other);
            truth += same + other;
        }
    }
    assert_true(truth > 1000);
    if (error > 0.01 * truth)
        fail_msg("%g of %g neighbours are wrong", error, truth);
    larder__engine_exact.close(st);
    free(st);
    world_close(&w);
}

/* On a line: neighbours can be told by hand, and Eq. 4 with the cap. */
static void golden_on_a_line(void **state) {
    (void)state;
    graph_kit k;
    graph_kit_open(&k, 40, "radius=1.5,normalise=0,cap=4,hubs=2");
    assert_true(fabs(graph_kit_figure(&k, "graph_radius") - 1.5) < 1e-6);
    uint64_t ids[30];
    int64_t labels[30];
    float x[30];
    for (int i = 0; i < 30; i++) /* 0..9 of class 0 one apart, 10..19 alternate, 20..29 on a heap */
        ids[i] = (uint64_t)i,
        labels[i] = i < 10   ? 0
                    : i < 20 ? i % 2
                             : 2,
        x[i] = i < 20 ? (float)i : 100;
    larder_report rep = {.n = 30, .dim = 1, .ids = ids, .labels = labels, .embeddings = x};
    graph_kit_tell(&k, &rep);
    const double want[][2] = {{0, 1}, {5, 2}, {9, 2}}; /* id, x_same */
    for (int i = 0; i < 3; i++)
        assert_true(fabs((double)k.scores[(int)want[i][0]] - log(1 / want[i][1] + 1)) < 1e-6);
    assert_true(fabs((double)k.scores[15] - log(1 + 2.0 / 4 + 1)) < 1e-6); /* two strangers */
    assert_true(fabs((double)k.scores[25] - log(1.0 / 4 + 1)) < 1e-6);     /* nine, capped at 4 */
    assert_true(isnan(k.scores[35]));                                      /* never seen */
    assert_int_equal(k.hubs, 2);
    assert_int_equal(k.hub_key[0], 20);
    assert_int_equal(k.hub_count[0], 9);
    graph_kit_close(&k);
}

/* The radius on a real training's embeddings, for every epoch that was kept: neither everybody's
 * neighbours are more than count, nor has everybody a handful. All are told to be of one class, so
 * that the score is ln(1 + 1/neighbours). */
static void epoch_is_readable(const char *folder, const char *file) {
    enum { N = 50000, DIM = 64, STEP = 256 };
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    if (access(path, R_OK) != 0)
        skip();
    larder__npy raw;
    check_ok(larder__npy_read(&raw, path));
    assert_true(raw.rows == N && raw.cols == DIM);
    graph_kit k;
    graph_kit_open(&k, N, "hubs=0");
    larder_rng rng;
    larder_rng_seed(&rng, 1, 1);
    static uint64_t order[N];
    for (uint32_t i = 0; i < N; i++) {
        uint32_t j = larder_rng_below(&rng, i + 1);
        order[i] = order[j], order[j] = i;
    }
    size_t full = 0, few = 0, rows = 0;
    /* Once round, then a tenth of the next epoch to look at. */
    for (size_t at = 0; at < N + N / 10; at += STEP) {
        uint64_t ids[STEP];
        int64_t label[STEP];
        float x[STEP * DIM];
        for (size_t i = 0; i < STEP; i++) {
            ids[i] = order[(at + i) % N];
            label[i] = 0;
            for (size_t c = 0; c < DIM; c++)
                x[i * DIM + c] = larder__npy_float(&raw, ids[i], c);
        }
        larder_report rep = {.n = STEP, .dim = DIM, .ids = ids, .labels = label, .embeddings = x};
        graph_kit_tell(&k, &rep);
        for (size_t i = 0; at >= N && i < STEP; i++, rows++) {
            double neighbours = 1 / (exp((double)k.scores[ids[i]]) - 1);
            few += neighbours < 6.5;
            full += neighbours > 499;
        }
    }
    print_message("%s: radius %.3f; over 500 neighbours: %.0f %%, six or fewer: %.0f %%\n", file,
                  graph_kit_figure(&k, "graph_radius"), 100.0 * (double)full / (double)rows,
                  100.0 * (double)few / (double)rows);
    if (full * 10 > rows * 4 || few * 4 > rows)
        fail_msg("%s: of %zu rows %zu are full, %zu nearly alone; radius %g", file, rows, full, few,
                 graph_kit_figure(&k, "graph_radius"));
    larder__npy_free(&raw);
    graph_kit_close(&k);
}

static void radius_holds_on_a_real_training(void **state) {
    (void)state;
    const char *shared = getenv("LARDER_SHARED");
    char folder[400];
    snprintf(folder, sizeof folder, "%s/traces/cifar10-resnet18",
             shared ? shared : "../shared/data");
    static const char *const files[] = {"emb000.npy", "emb002.npy", "emb005.npy",
                                        "emb011.npy", "emb023.npy", "emb029.npy"};
    for (int i = getenv("LARDER_LONG") ? 0 : 5; i < 6; i++) /* the trained network's at least */
        epoch_is_readable(folder, files[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_on_a_line),
        cmocka_unit_test(counts_of_exact),
        cmocka_unit_test(exact_fits),
        cmocka_unit_test(strata_fits),
        cmocka_unit_test(strata_follows),
        cmocka_unit_test(hnsw_fits),
        cmocka_unit_test(radius_holds_on_a_real_training),
    };
    check_ok(larder__plugins_from_env());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
