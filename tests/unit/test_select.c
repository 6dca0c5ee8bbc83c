/* Who is chosen, how often, and how they are tagged. */
#include "base/mem.h"
#include "base/spec.h"
#include "base/state.h"
#include "check.h"
#include "plugins.h"
#include "sample/choose.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 20000 };

typedef struct rig {
    const larder_sampler *q;
    larder_draw_env env;
    float scores[N];
    void *st;
    uint8_t drawn[N]; /* tags of the ids drawn in this epoch */
    uint64_t count;
} rig;

static void rig_open(rig *g, uint64_t n, const char *params, uint32_t rank, uint32_t world) {
    memset(g, 0, sizeof *g);
    g->q = larder__sampler_find("select");
    g->env = (larder_draw_env){
        .n = n, .seed = 5, .batch = 32, .rank = rank, .world = world, .scores = g->scores};
    larder_rng rng;
    larder_rng_seed(&rng, 3, 3);
    for (uint64_t i = 0; i < n; i++)
        g->scores[i] = (float)larder_rng_unit(&rng) - 0.3f; /* a loss may be negative */
    g->st = larder__calloc(1, g->q->plugin.state_size);
    larder_args args;
    check_ok(larder__args_parse(&args, "sampler", &g->q->plugin, params, ',', NULL));
    check_ok(g->q->init(g->st, &g->env, &args));
    larder__args_free(&args);
}

static void rig_close(rig *g) {
    g->q->fini(g->st);
    larder__free(g->st);
}

static void rig_epoch(rig *g, uint64_t e) {
    larder_pick picks[32];
    memset(g->drawn, 0, sizeof g->drawn);
    check_ok(g->q->epoch(g->st, e));
    g->count = 0;
    for (size_t n; (n = g->q->draw(g->st, picks, 32)) > 0; g->count += n)
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(g->drawn[picks[i].id], 0); /* at most once */
            g->drawn[picks[i].id] = (uint8_t)picks[i].tag;
            assert_int_equal(picks[i].tag, g->q->tags(g->st)[picks[i].id]);
        }
    assert_int_equal(g->count, g->q->length(g->st));
}

static uint64_t largest(const rig *g) {
    uint64_t top = 0;
    for (uint64_t i = 1; i < g->env.n; i++)
        top = g->scores[i] > g->scores[top] ? i : top;
    return top;
}

static void test_kept_share(void **st) {
    (void)st;
    static rig g;
    static const char *const params[] = {"", "beta=1", "beta=3"};
    const double betas[] = {0.33, 1, 3};
    for (int k = 0; k < 3; k++) {
        rig_open(&g, N, params[k], 0, 1);
        uint64_t top = largest(&g), kept = 0, tenth = 0;
        for (uint64_t e = 1; e < 30; e++) {
            rig_epoch(&g, e);
            if (e % 3 == 0) {
                assert_int_equal(g.count, N); /* every third trains on all */
                continue;
            }
            kept += g.count;
            assert_int_not_equal(g.drawn[top], 0);
            for (uint64_t i = 0; i < N; i++) /* scores are uniform: the lowest tenth */
                tenth += g.drawn[i] && g.scores[i] < -0.2f;
        }
        double share = (double)kept / (20.0 * N), low = (double)tenth / (20.0 * N / 10);
        assert_true(fabs(share - 1 / (1 + betas[k])) < 0.004);
        assert_true(fabs(low - pow(0.1, betas[k]) / (1 + betas[k])) < 0.02);
        rig_close(&g);
    }
}

/* Horvitz-Thompson: the weighted sum over the kept is on average the plain sum over all. */
static void test_weights_undo_the_choice(void **st) {
    (void)st;
    static rig g;
    static const double exponents[] = {0, 0.5, 1};
    for (int k = 0; k < 3; k++) {
        char params[48];
        snprintf(params, sizeof params, "beta=1,full_every=0,correct=%g", exponents[k]);
        rig_open(&g, N, params, 0, 1);
        double all = 0, kept = 0, weights = 0, count = 0;
        for (uint64_t i = 0; i < N; i++)
            all += (double)g.scores[i] / N;
        for (uint64_t e = 1; e < 20; e++) {
            larder_pick picks[32];
            double sum = 0;
            check_ok(g.q->epoch(g.st, e));
            for (size_t n; (n = g.q->draw(g.st, picks, 32)) > 0;)
                for (size_t i = 0; i < n; i++) {
                    double w = (double)picks[i].weight;
                    sum += w;
                    kept += w * (double)g.scores[picks[i].id];
                    weights += w, count++;
                }
            assert_true(fabs(sum / (double)g.q->length(g.st) - 1) < 1e-4);
        }
        /* Scores are uniform on -0.3 .. 0.7; kept by percentile their mean is 1/6 higher. */
        double bias[] = {1.0 / 6, 0.1, 0};
        assert_true(fabs(kept / weights - all - bias[k]) < 0.01);
        rig_close(&g);
    }
}

static void test_weights_are_saved(void **st) {
    (void)st;
    static rig g, h;
    larder_pick a[32], b[32];
    larder_writer w = {0};
    rig_open(&g, 500, "correct=1", 0, 1);
    rig_open(&h, 500, "correct=1", 0, 1);
    check_ok(g.q->epoch(g.st, 1));
    g.q->draw(g.st, a, 32);
    g.q->save(g.st, &w);
    for (int i = 0; i < 500; i++)
        h.scores[i] = -h.scores[i]; /* they have moved on */
    check_ok(h.q->epoch(h.st, 1));
    larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
    check_ok(h.q->load(h.st, &r));
    for (size_t n; (n = g.q->draw(g.st, a, 32)) > 0;) {
        assert_int_equal(h.q->draw(h.st, b, 32), n);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(a[i].id, b[i].id);
            assert_true(a[i].weight == b[i].weight);
        }
    }
    larder__writer_free(&w);
    rig_close(&g);
    rig_close(&h);
}

/* The released code of the paper leaves the largest loss out. Small sets show it best. */
static void test_largest_is_kept(void **st) {
    (void)st;
    static rig g;
    for (uint64_t n = 1; n < 40; n++) {
        rig_open(&g, n, "beta=20,full_every=0", 0, 1);
        for (uint64_t e = 1; e < 20; e++) {
            rig_epoch(&g, e);
            assert_int_equal(g.drawn[largest(&g)], LARDER_TAG_HIGH);
        }
        rig_close(&g);
    }
}

static void test_unknown_is_kept(void **st) {
    (void)st;
    static rig g;
    rig_open(&g, N, "", 0, 1);
    rig_epoch(&g, 0);
    assert_int_equal(g.count, N);
    for (uint64_t i = 0; i < N; i += 7)
        g.scores[i] = NAN;
    rig_epoch(&g, 1);
    for (uint64_t i = 0; i < N; i += 7)
        assert_int_equal(g.drawn[i], LARDER_TAG_HIGH);
    assert_true(g.count < N);
    for (uint64_t i = 0; i < N; i++)
        g.scores[i] = NAN;
    rig_epoch(&g, 2);
    assert_int_equal(g.count, N);
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(g.drawn[i], LARDER_TAG_HIGH);
    rig_close(&g);
}

static void test_equal_losses(void **st) {
    (void)st;
    static rig g;
    rig_open(&g, N, "", 0, 1);
    for (uint64_t i = 0; i < N; i++)
        g.scores[i] = i % 2 ? 0.0f : 1.0f;
    rig_epoch(&g, 1);
    assert_true(fabs((double)g.count / N - 1 / 1.33) < 0.02); /* nobody's tie changes the share */
    rig_close(&g);
}

static void test_tags(void **st) {
    (void)st;
    static rig g;
    rig_open(&g, N, "", 0, 1);
    for (uint64_t e = 1; e < 4; e++) {
        rig_epoch(&g, e);
        uint64_t high = 0, low = 0, left = 0;
        float least_high = INFINITY, most_low = -INFINITY;
        for (uint64_t i = 0; i < N; i++) {
            uint8_t tag = g.q->tags(g.st)[i];
            high += tag == LARDER_TAG_HIGH;
            low += tag == LARDER_TAG_LOW;
            left += tag == LARDER_TAG_LEFT;
            if (tag == LARDER_TAG_HIGH)
                least_high = fminf(least_high, g.scores[i]);
            if (tag == LARDER_TAG_LOW)
                most_low = fmaxf(most_low, g.scores[i]);
        }
        assert_int_equal(high + low, g.count);
        assert_int_equal(high + low + left, N);
        assert_int_equal(high, (uint64_t)ceil(0.7 * (double)g.count));
        assert_true(most_low < least_high);
    }
    rig_close(&g);
}

static void test_ranks(void **st) {
    (void)st;
    static rig g[3];
    for (uint32_t r = 0; r < 3; r++)
        rig_open(&g[r], 5000, "", r, 3);
    for (uint64_t e = 0; e < 6; e++) {
        uint64_t served = 0;
        for (uint32_t r = 0; r < 3; r++)
            rig_epoch(&g[r], e);
        for (uint64_t i = 0; i < 5000; i++) { /* nobody's twice; tags tell whose it is */
            int times = !!g[0].drawn[i] + !!g[1].drawn[i] + !!g[2].drawn[i], known = 0;
            for (int r = 0; r < 3; r++)
                known += g[r].q->tags(g[r].st)[i] != 0;
            assert_true(times <= 1 && known == 1);
            served += (uint64_t)times;
        }
        assert_int_equal(served, e % 3 ? (uint64_t)(5000 / 1.33) : 5000);
        for (int r = 1; r < 3; r++)
            assert_int_equal((g[r].count + 31) / 32, (g[0].count + 31) / 32);
    }
    for (int r = 0; r < 3; r++)
        rig_close(&g[r]);
}

static void test_sort(void **st) {
    (void)st;
    enum { MANY = 3000 };
    uint64_t a[MANY], b[MANY];
    larder_rng rng;
    larder_rng_seed(&rng, 1, 1);
    for (uint64_t i = 0; i < MANY; i++)
        a[i] = (uint64_t)larder__choose_key((float)larder_rng_below(&rng, 500) - 250) << 32 | i;
    uint64_t *s = larder__choose_sort(a, b, MANY);
    for (int i = 1; i < MANY; i++)
        assert_true(s[i - 1] < s[i]);
    const float rising[] = {-INFINITY, -3, -0.5f, 0, 1e-30f, 2, INFINITY, NAN};
    for (int i = 1; i < 8; i++)
        assert_true(larder__choose_key(rising[i - 1]) < larder__choose_key(rising[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept_share),
        cmocka_unit_test(test_weights_undo_the_choice),
        cmocka_unit_test(test_weights_are_saved),
        cmocka_unit_test(test_largest_is_kept),
        cmocka_unit_test(test_unknown_is_kept),
        cmocka_unit_test(test_equal_losses),
        cmocka_unit_test(test_tags),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_sort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
