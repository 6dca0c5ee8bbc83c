/* The golden figures of SHADE's sampler with perfect knowledge: ranks spread evenly over the batch,
 * the best share of the samples cached and kept. And what pads does beyond them. */
#include "base/mem.h"
#include "base/spec.h"
#include "base/state.h"
#include "check.h"
#include "loader/figures/ledger.h"
#include "plugins.h"

#include <math.h>
#include <stdlib.h>

enum { N = 50000, B = 64 };

typedef struct rig {
    const larder_sampler *q;
    larder_draw_env env;
    float *scores;
    void *st;
    uint64_t cached; /* ids from here on are resident */
} rig;

static bool resident(const void *arg, uint64_t id) { return id >= ((const rig *)arg)->cached; }

/* Ids in the order of their importance. */
static void rig_open(rig *g, const char *spec, double share, uint32_t rank, uint32_t world) {
    *g = (rig){.q = larder__sampler_find("pads"), .cached = (uint64_t)((1 - share) * N)};
    g->scores = malloc(N * sizeof *g->scores);
    for (int i = 0; i < N; i++)
        g->scores[i] = (float)log((double)i / N * B + 10);
    g->env = (larder_draw_env){.n = N,
                               .seed = 3,
                               .batch = B,
                               .rank = rank,
                               .world = world,
                               .scores = g->scores,
                               .resident = resident,
                               .resident_arg = g};
    g->st = larder__calloc(1, g->q->plugin.state_size);
    larder_args args;
    check_ok(larder__args_parse(&args, "sampler", &g->q->plugin, spec, ',', NULL));
    check_ok(g->q->init(g->st, &g->env, &args));
    larder__args_free(&args);
}

static void rig_close(rig *g) {
    g->q->fini(g->st);
    larder__free(g->st);
    free(g->scores);
}

typedef struct result {
    double hits, touched, weight; /* shares, and the mean weight */
    double mean_id;               /* weighted: N/2 when the weights undo the bias */
    double in_front;              /* share of hits in the first half of the epoch */
    double ess;                   /* as the ledger has it, of what was drawn */
    uint32_t times[N];
} result;

static void run(rig *g, uint64_t epoch, result *r) {
    *r = (result){0};
    larder_pick picks[B];
    larder__ledger *book;
    uint8_t kinds[B] = {0}, forms[B] = {0};
    uint32_t bytes[B] = {0};
    check_ok(larder__ledger_open(&book, N, 1));
    check_ok(larder__ledger_weigh(book));
    check_ok(larder__ledger_begin(book, epoch, N, true));
    uint64_t drawn = 0, half = g->q->length(g->st) / 2;
    check_ok(g->q->epoch(g->st, epoch));
    for (size_t n; (n = g->q->draw(g->st, picks, B)) > 0; drawn += n) {
        uint64_t ids[B];
        float weights[B];
        for (size_t i = 0; i < n; i++) {
            ids[i] = picks[i].id;
            weights[i] = picks[i].weight;
            r->hits += resident(g, picks[i].id);
            r->in_front += drawn + i < half && resident(g, picks[i].id);
            r->touched += r->times[picks[i].id]++ == 0;
            r->weight += (double)picks[i].weight;
            r->mean_id += (double)picks[i].weight * (double)picks[i].id;
        }
        larder__ledger_record(book, ids, kinds, forms, bytes, weights, n);
    }
    r->ess = larder__ledger_ess(book);
    larder__ledger_close(&book);
    r->mean_id /= r->weight;
    r->in_front /= (double)half;
    r->hits /= (double)drawn;
    r->weight /= (double)drawn;
    r->touched /= N;
}

static result out; /* large */

static void check_golden(const char *spec, double share, double hits, double touched) {
    rig g;
    rig_open(&g, spec, share, 0, 1);
    run(&g, 1, &out);
    if (fabs(out.hits - hits) > 0.01 || fabs(out.touched - touched) > 0.01)
        fail_msg("pads:%s, cache %g: hits %.4f, touched %.4f", spec, share, out.hits, out.touched);
    assert_true(out.weight == 1);
    rig_close(&g);
}

static void golden_figures(void **state) {
    (void)state;
    check_golden("repeat=3", 0.2, 0.701, 0.387);
    check_golden("repeat=3", 0.1, 0.354, 0.528);
    check_golden("repeat=1", 0.2, 0.234, 0.628);
    check_golden("repeat=3", 0.5, 1.0, 0.34);
}

static void equal_scores_touch_63_percent(void **state) {
    (void)state;
    rig g;
    rig_open(&g, "repeat=1", 0.2, 0, 1);
    for (int kind = 0; kind < 3; kind++) {
        for (int i = 0; i < N; i++) /* alike, unknown, or worth nothing */
            g.scores[i] = kind == 0 ? 2 : kind == 1 ? NAN : 0;
        run(&g, 1 + (uint64_t)kind, &out);
        assert_true(fabs(out.touched - 0.6321) < 0.006);
        assert_true(fabs(out.ess - 0.5) < 0.01); /* counts are Poisson: 1/(1 + 1) */
    }
    g.env.scores = NULL; /* no signal */
    run(&g, 5, &out);
    assert_true(fabs(out.touched - 0.6321) < 0.006);
    run(&g, 0, &out); /* the first epoch sees everything */
    assert_true(out.touched == 1 && out.ess == 1);
    rig_close(&g);
}

/* Ids that were never scored come as often as the best. */
static void unknown_counts_as_the_highest(void **state) {
    (void)state;
    rig g;
    rig_open(&g, "repeat=1", 0, 0, 1);
    for (int i = 0; i < N; i++)
        g.scores[i] = i < N / 2 ? NAN : i < N * 3 / 4 ? 4 : 1;
    run(&g, 1, &out);
    double part[4] = {0};
    for (int i = 0; i < N; i++)
        part[i / (N / 4)] += (double)out.times[i] / N;
    assert_true(fabs(part[0] + part[1] - 8.0 / 13) < 0.01);
    assert_true(fabs(part[2] - 4.0 / 13) < 0.01);
    assert_true(fabs(part[3] - 1.0 / 13) < 0.01);
    rig_close(&g);
}

/* Repeats stop once the mean of the last three changes is not above zero. */
static void relaxes_when_accuracy_stalls(void **state) {
    (void)state;
    rig g;
    rig_open(&g, "", 0.2, 0, 1);
    static const struct {
        double accuracy;
        bool repeats;
    } steps[] = {{0.5, true},  {0.6, true},  {0.55, true},  {0.49, false},
                 {0.61, true}, {0.57, true}, {0.49, false}, {0.49, false}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        g.q->accuracy(g.st, steps[i].accuracy);
        run(&g, 1 + i, &out);
        assert_true(fabs(out.hits - (steps[i].repeats ? 0.701 : 0.234)) < 0.012);
    }
    rig_close(&g);
}

/* 1/(N q) undoes the bias of draws and repeats: the weighted mean over the served ids is that of
 * all. */
static void weights_undo_the_bias(void **state) {
    (void)state;
    rig g;
    rig_open(&g, "correct=0", 0.2, 0, 1);
    run(&g, 1, &out);
    assert_true(out.mean_id > 0.6 * N); /* residents lie at the end */
    double plain = out.ess;
    rig_close(&g);
    rig_open(&g, "correct=1", 0.2, 0, 1);
    run(&g, 1, &out);
    assert_true(fabs(out.mean_id / N - 0.5) < 0.01);
    assert_true(fabs(out.weight - 1) < 1e-4);
    assert_true(out.ess > 0 && out.ess < 1 && plain < 0.5);
    rig_close(&g);
}

static void residents_come_first_if_asked(void **state) {
    (void)state;
    rig g;
    rig_open(&g, "", 0.2, 0, 1);
    run(&g, 1, &out);
    assert_true(fabs(out.in_front - out.hits) < 0.02); /* spread evenly */
    rig_close(&g);
    rig_open(&g, "hits_first=1", 0.2, 0, 1);
    run(&g, 1, &out);
    assert_true(out.in_front == 1);
    rig_close(&g);
}

/* Ranks that know the same share one list: together they serve what one process would. */
static void ranks_share_one_list(void **state) {
    (void)state;
    static result one, sum;
    rig g;
    rig_open(&g, "", 0.2, 0, 1);
    run(&g, 2, &one);
    rig_close(&g);
    for (uint32_t rank = 0; rank < 4; rank++) {
        rig_open(&g, "", 0.2, rank, 4);
        run(&g, 2, &out);
        rig_close(&g);
        for (int i = 0; i < N; i++)
            sum.times[i] += out.times[i];
    }
    assert_memory_equal(sum.times, one.times, sizeof one.times);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_figures),
        cmocka_unit_test(equal_scores_touch_63_percent),
        cmocka_unit_test(unknown_counts_as_the_highest),
        cmocka_unit_test(relaxes_when_accuracy_stalls),
        cmocka_unit_test(weights_undo_the_bias),
        cmocka_unit_test(residents_come_first_if_asked),
        cmocka_unit_test(ranks_share_one_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
