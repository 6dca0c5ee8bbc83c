/* SHADE's Eq. 6: golden values, ties, short batches, logits, and nothing for ids not in the batch.
 */
#include "base/mem.h"
#include "base/spec.h"
#include "base/state.h"
#include "check.h"
#include "plugins.h"

#include <math.h>

enum { N = 200 };

typedef struct rig {
    const larder_signal *s;
    void *st;
    float scores[N];
} rig;

static void rig_open(rig *g, const char *spec) {
    g->s = larder__signal_find("rank");
    g->st = larder__calloc(1, g->s->plugin.state_size);
    larder_args args;
    check_ok(larder__args_parse(&args, "signal", &g->s->plugin, spec, ',', NULL));
    check_ok(g->s->init(g->st, N, &args));
    larder__args_free(&args);
    for (int i = 0; i < N; i++)
        g->scores[i] = NAN;
}

static void rig_close(rig *g) {
    g->s->fini(g->st);
    larder__free(g->st);
}

static void tell(rig *g, const uint64_t *ids, const float *loss, size_t n) {
    larder_report r = {.n = n, .ids = ids, .loss = loss, .accuracy = NAN};
    g->s->observe(g->st, &r, g->scores);
}

static void near(double got, double want) { assert_true(fabs(got - want) < 5e-4); }

static void golden_of_64(void **state) {
    (void)state;
    rig g;
    rig_open(&g, "");
    uint64_t ids[64];
    float loss[64];
    for (uint64_t i = 0; i < 64; i++) {
        ids[i] = 100 + i * 5 % 64; /* not in the order of the rows */
        loss[i] = 0.5f + 0.01f * (float)(i * 37 % 64);
    }
    tell(&g, ids, loss, 64);
    double low = 1e9, high = 0;
    for (int i = 0; i < 64; i++) {
        near(g.scores[ids[i]], log((double)(i * 37 % 64) + 10));
        low = fmin(low, (double)g.scores[ids[i]]);
        high = fmax(high, (double)g.scores[ids[i]]);
    }
    near(low, 2.303);
    near(high, 4.290);
    for (int i = 0; i < 100; i++) /* ids that were not served keep what they had */
        assert_true(isnan(g.scores[i]));
    rig_close(&g);
}

/* Against the definition, with ties and rows that say nothing. */
static void fits_the_definition(void **state) {
    (void)state;
    larder_rng rng;
    larder_rng_seed(&rng, 1, 1);
    for (int round = 0; round < 200; round++) {
        rig g;
        rig_open(&g, "b0=3");
        size_t n = 2 + larder_rng_below(&rng, 60), good = 0;
        uint64_t ids[64];
        float loss[64];
        for (size_t i = 0; i < n; i++) {
            ids[i] = i * 3;
            loss[i] = larder_rng_below(&rng, 9) ? (float)larder_rng_below(&rng, 12) : NAN;
            good += (size_t)!isnan(loss[i]);
        }
        tell(&g, ids, loss, n);
        for (size_t i = 0; i < n; i++) {
            int above = 0;
            for (size_t k = 0; k < n; k++)
                above += loss[i] > loss[k];
            if (isnan(loss[i]) || good == 0)
                assert_true(isnan(g.scores[ids[i]]));
            else
                near(g.scores[ids[i]], log(above + 3.0));
        }
        rig_close(&g);
    }
}

/* The hardest of a short last batch scores as the hardest of a full one. */
static void short_batches_compare(void **state) {
    (void)state;
    const uint64_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const float loss[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    rig g;
    rig_open(&g, "");
    tell(&g, ids, loss, 9);
    tell(&g, (const uint64_t[]){21, 22, 23}, (const float[]){5, 1, 3}, 3);
    near(g.scores[21], g.scores[9]);
    near(g.scores[22], g.scores[1]);
    near(g.scores[23], g.scores[5]);
    tell(&g, (const uint64_t[]){30}, (const float[]){5}, 1); /* alone: it exceeds nobody */
    near(g.scores[30], log(10));
    rig_close(&g);
    rig_open(&g, "batch=17"); /* nominal size given: the first batch may be the short one */
    tell(&g, ids, loss, 9);
    near(g.scores[9], log(16 + 10));
    rig_close(&g);
}

static void logits_do_as_well(void **state) {
    (void)state;
    rig g;
    rig_open(&g, "");
    const uint64_t ids[] = {4, 5, 6};
    const int64_t labels[] = {0, 1, 9};
    const float logits[] = {1000, -1000, 1000, -1000, 1, 2};
    larder_report r = {.n = 3, .classes = 2, .ids = ids, .labels = labels, .logits = logits};
    g.s->observe(g.st, &r, g.scores);
    near(g.scores[4], log(10));
    near(g.scores[5], log(11));
    assert_true(isnan(g.scores[6])); /* a label that is no class says nothing */
    rig_close(&g);
}

static void the_nominal_size_is_saved(void **state) {
    (void)state;
    const uint64_t ids[] = {1, 2, 3, 4};
    const float loss[] = {1, 2, 3, 4};
    rig g, h;
    rig_open(&g, "");
    rig_open(&h, "");
    tell(&g, ids, loss, 4);
    larder_writer w = {0};
    g.s->save(g.st, &w);
    larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
    check_ok(h.s->load(h.st, &r));
    tell(&h, ids, loss, 2);
    near(h.scores[2], log(3 + 10));
    larder_reader cut = {.at = w.bytes, .end = w.bytes + 3};
    assert_int_equal(h.s->load(h.st, &cut), LARDER_E_FORMAT);
    larder__writer_free(&w);
    rig_close(&g);
    rig_close(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_of_64),
        cmocka_unit_test(fits_the_definition),
        cmocka_unit_test(short_batches_compare),
        cmocka_unit_test(logits_do_as_well),
        cmocka_unit_test(the_nominal_size_is_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
