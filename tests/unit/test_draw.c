/* The deciding half: feedback of batch k acts exactly before batch k + lag is drawn, scores reach
 * policies, and recipes are put together as their text says. */
#include "check.h"

#include "loader/draw/draw.h"

#include "base/state.h"

#include <math.h>
#include <stdio.h>

enum { N = 100, BATCH = 10, LAG = 4 };

static larder__draw *open_draw(const char *recipe) {
    larder__cache_text cache;
    check_ok(larder__cache_text_parse(&cache, "30%", ""));
    larder__draw_conf c = {.recipe = recipe,
                           .cache = &cache,
                           .store = &larder__store_null,
                           .n = N,
                           .payload = N * 8,
                           .size = 8,
                           .batch = BATCH,
                           .seed = 3,
                           .world = 1,
                           .lag = LAG};
    larder__draw *d = NULL;
    check_ok(larder__draw_open(&d, &c));
    return d;
}

static void feedback_acts_after_the_lag(void **state) {
    (void)state;
    larder__draw *d = open_draw("lru:signal=loss");
    larder__planned p;
    check_ok(larder__planned_open(&p, d));
    uint64_t served[64][BATCH];
    for (uint64_t k = 0; k < 40; k++) {
        check_ok(larder__draw_next(d, &p));
        const float *scores = larder__draw_scores(d);
        for (uint64_t old = 0; old < k; old++) { /* the newest word on an id counts */
            bool due = old + LAG <= k;
            for (size_t i = 0; i < BATCH; i++) {
                float score = scores[served[old][i]];
                if (due)
                    assert_true(score >= (float)old); /* this batch's word, or a newer one */
                else
                    assert_false(score == (float)old);
            }
        }
        float loss[BATCH];
        int64_t labels[BATCH] = {0};
        for (size_t i = 0; i < BATCH; i++) {
            served[k][i] = p.tickets[i].key;
            loss[i] = (float)k;
        }
        larder_feedback fb = {.size = sizeof fb, .loss = loss};
        check_ok(larder__feedback_note(larder__draw_feedback(d), p.number, p.epoch, p.n, served[k],
                                       labels, &fb, NULL, NULL));
    }
    larder__planned_close(&p);
    larder__draw_close(&d);
}

static void late_and_early_notes_are_refused(void **state) {
    (void)state;
    larder__draw *d = open_draw("lru:signal=loss");
    larder__planned p;
    check_ok(larder__planned_open(&p, d));
    for (int k = 0; k < 8; k++)
        check_ok(larder__draw_next(d, &p));
    larder__feedback *f = larder__draw_feedback(d);
    float loss[BATCH] = {0};
    int64_t labels[BATCH] = {0};
    larder_feedback fb = {.size = sizeof fb, .loss = loss};
    assert_int_equal(larder__feedback_note(f, 3, 0, BATCH, p.ids, labels, &fb, NULL, NULL),
                     LARDER_E_STATE);
    assert_int_equal(larder__feedback_note(f, 99, 0, BATCH, p.ids, labels, &fb, NULL, NULL),
                     LARDER_E_STATE);
    check_ok(larder__feedback_note(f, 7, 0, BATCH, p.ids, labels, &fb, NULL, NULL));
    assert_int_equal(larder__feedback_note(f, 7, 0, BATCH, p.ids, labels, &fb, NULL, NULL),
                     LARDER_E_STATE);
    larder__planned_close(&p);
    larder__draw_close(&d);
}

static void logits_give_the_stable_cross_entropy(void **state) {
    (void)state;
    larder__draw *d = open_draw("lru:signal=loss");
    larder__planned p;
    check_ok(larder__planned_open(&p, d));
    check_ok(larder__draw_next(d, &p));
    uint64_t ids[3] = {p.ids[0], p.ids[1], p.ids[2]};
    int64_t labels[3] = {1, 0, 7};
    float logits[9] = {1000, 1000, -1000, 3, 1, 0.5f, 1, 1, 1};
    larder_feedback fb = {.size = sizeof fb, .logits = logits, .classes = 3};
    check_ok(
        larder__feedback_note(larder__draw_feedback(d), 0, 0, 3, ids, labels, &fb, NULL, NULL));
    for (int k = 0; k < LAG; k++)
        check_ok(larder__draw_next(d, &p));
    const float *s = larder__draw_scores(d);
    double want = log(exp(3) + exp(1) + exp(0.5)) - 3;
    assert_true(fabs(s[ids[0]] - log(2)) < 1e-6);
    assert_true(fabs(s[ids[1]] - want) < 1e-6);
    assert_true(isnan(s[ids[2]])); /* a label that is no class says nothing */
    larder__planned_close(&p);
    larder__draw_close(&d);
}

/* What nopfs is told about the next use of each id is what then happens, also after a resume. */
static void the_seeded_order_tells_next_uses(void **state) {
    (void)state;
    larder__draw *d = open_draw("nopfs");
    larder__planned p;
    check_ok(larder__planned_open(&p, d));
    uint64_t promised[N], checked = 0;
    for (int i = 0; i < N; i++)
        promised[i] = LARDER_UNKNOWN;
    for (int k = 0; k < 35; k++) {
        if (k == 14) { /* in the middle of an epoch */
            larder_writer w = {0};
            larder__draw_save(d, &w);
            larder__planned_close(&p);
            larder__draw_close(&d);
            d = open_draw("nopfs");
            check_ok(larder__planned_open(&p, d));
            larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
            check_ok(larder__draw_load(d, &r));
            larder__writer_free(&w);
        }
        check_ok(larder__draw_next(d, &p));
        for (size_t i = 0; i < p.n; i++) {
            const larder_access *a = &p.accesses[i];
            if (k >= N / BATCH) {
                assert_int_equal(promised[a->key], a->now);
                checked++;
            }
            promised[a->key] = a->next_use;
        }
    }
    assert_int_equal(checked, 250);
    larder__planned_close(&p);
    larder__draw_close(&d);
}

static void recipes_are_put_together(void **state) {
    (void)state;
    larder__recipe r;
    check_ok(larder__recipe_parse(&r, "quiver:factor=5,policy=lru,signal=loss"));
    assert_string_equal(r.sampler->plugin.name, "quiver");
    assert_string_equal(r.policy->plugin.name, "lru");
    assert_string_equal(r.signal->plugin.name, "loss");
    assert_true(larder_args_number(&r.sampler_args, "factor") == 5);
    larder__recipe_free(&r);
    check_ok(larder__recipe_parse(&r, "fifo"));
    assert_string_equal(r.sampler->plugin.name, "uniform");
    assert_null(r.signal);
    larder__recipe_free(&r);
    static const char *const wrong[] = {"",
                                        ":",
                                        "lru:factor=5",
                                        "quiver:factor",
                                        "quiver:factor=x",
                                        "quiver:factor=0",
                                        "lru:policy=nosuch",
                                        "lru:signal=nosuch",
                                        "lru:sampler=",
                                        "nosuch",
                                        "lru:=1",
                                        "quiver:factor=2,,"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (i != 8 && larder__recipe_parse(&r, wrong[i]) == 0)
            fail_msg("\"%s\" was accepted", wrong[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(feedback_acts_after_the_lag),
        cmocka_unit_test(late_and_early_notes_are_refused),
        cmocka_unit_test(logits_give_the_stable_cross_entropy),
        cmocka_unit_test(the_seeded_order_tells_next_uses),
        cmocka_unit_test(recipes_are_put_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
