/* Each stage by itself: parameters, what it makes of a size, and sentences for wrong ones. */
#include "check.h"

#include "base/mem.h"
#include "base/spec.h"
#include "plugins.h"
#include "stage/stage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct opened {
    const larder_stage *stage;
    void *state;
} opened;

static int stage_open(opened *o, const char *name, const char *text) {
    larder_args args;
    o->state = NULL;
    o->stage = larder__stage_find(name);
    assert_non_null(o->stage);
    int rc = larder__args_parse(&args, "stage", &o->stage->plugin, text, ',', NULL);
    if (rc < 0)
        return rc;
    o->state = calloc(1, o->stage->plugin.state_size);
    rc = o->stage->init(o->state, &args);
    larder__args_free(&args);
    return rc;
}

static int place(const char *name, const char *text, uint64_t seed, larder_view *v) {
    opened o;
    larder_rng rng;
    larder_rng_seed(&rng, seed, 0);
    check_ok(stage_open(&o, name, text));
    int rc = o.stage->place(o.state, v, &rng);
    free(o.state);
    return rc;
}

static void every_stage_has_one_job_and_help(void **state) {
    (void)state;
    for (size_t i = 0; larder__stages[i]; i++) {
        const larder_stage *s = larder__stages[i];
        assert_int_equal(!!s->place + !!s->pixels + !!s->tone + !!s->canvas + !!s->late + !!s->mix,
                         1);
        assert_non_null(s->init);
        assert_true(strlen(s->plugin.summary) > 5 && s->plugin.state_size > 0);
        for (const larder_param *p = s->plugin.params; p && p->name; p++)
            assert_true(p->initial && p->help && p->help[0]);
        assert_ptr_equal(larder__stage_find(s->plugin.name), s);
    }
    assert_null(larder__stage_find("resise"));
    assert_non_null(strstr(larder_errmsg(), "did you mean resize?"));
}

static void resize_counts_as_torchvision(void **state) {
    (void)state;
    static const int64_t cases[][4] = {/* w, h, and the result for size=256 */
                                       {500, 375, 341, 256}, {375, 500, 256, 341},
                                       {300, 300, 256, 256}, {100, 1000, 256, 2560},
                                       {1, 7, 256, 1792},    {511, 333, 392, 256}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        larder_view v;
        larder__view_start(&v, cases[i][0], cases[i][1]);
        check_ok(place("resize", "size=256", 0, &v));
        assert_int_equal(v.w, cases[i][2]);
        assert_int_equal(v.h, cases[i][3]);
    }
    opened o;
    assert_int_equal(stage_open(&o, "resize", ""), LARDER_E_ARGS);
    free(o.state);
    assert_int_equal(stage_open(&o, "resize", "size=4,h=3,w=3"), LARDER_E_ARGS);
    free(o.state);
    assert_int_equal(stage_open(&o, "resize", "h=3"), LARDER_E_ARGS);
    free(o.state);
    assert_int_equal(stage_open(&o, "resize", "size=99999"), LARDER_E_RANGE);
}

static void centercrop_rounds_half_to_even(void **state) {
    (void)state;
    static const int64_t cases[][3] = {/* have, want, start */
                                       {10, 4, 3},  {11, 4, 4}, {13, 4, 4}, {9, 4, 2},
                                       {4, 10, -3}, {4, 9, -2}, {5, 5, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        larder_view v;
        char text[32];
        snprintf(text, sizeof text, "size=%d", (int)cases[i][1]);
        larder__view_start(&v, cases[i][0], cases[i][0]);
        check_ok(place("centercrop", text, 0, &v));
        assert_int_equal(v.win_x, cases[i][2]);
        assert_int_equal(v.win_y, cases[i][2]);
    }
}

static void crop_refuses_small_pictures(void **state) {
    (void)state;
    larder_view v;
    larder__view_start(&v, 20, 20);
    assert_int_equal(place("crop", "size=32,pad=4", 0, &v), LARDER_E_RANGE);
    assert_non_null(strstr(larder_errmsg(), "20 x 20"));
    for (uint64_t seed = 0; seed < 200; seed++) {
        larder__view_start(&v, 24, 32);
        check_ok(place("crop", "size=32,pad=4", seed, &v));
        assert_int_equal(v.win_x, -4); /* no room to move */
        assert_true(v.win_y >= -4 && v.win_y <= 4);
    }
}

static void rrc_stays_inside_and_falls_back(void **state) {
    (void)state;
    larder_view v;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        int64_t w = 1 + (int64_t)(seed * 37 % 300), h = 1 + (int64_t)(seed * 91 % 200);
        larder__view_start(&v, w, h);
        check_ok(place("rrc", "size=8", seed, &v));
        assert_true(v.w == 8 && v.h == 8 && v.box_w >= 1 && v.box_h >= 1);
        assert_true(v.box_x >= 0 && v.box_y >= 0 && v.box_x + v.box_w <= w &&
                    v.box_y + v.box_h <= h);
    }
    larder__view_start(&v, 1000, 10); /* nothing of a tenth of this area fits: the middle */
    check_ok(place("rrc", "size=8,scale=0.5/1", 3, &v));
    assert_true(v.box_h == 10 && v.box_w == 13 && v.box_x == 493 && v.box_y == 0);
    larder__view_start(&v, 10, 1000);
    check_ok(place("rrc", "size=8,scale=0.5/1", 3, &v));
    assert_true(v.box_w == 10 && v.box_h == 13 && v.box_y == 493 && v.box_x == 0);
    opened o;
    static const char *const wrong[] = {
        "size=8,scale=0/1",   "size=8,scale=0.5",     "size=8,scale=1/0.5", "size=8,ratio=a/b",
        "size=8,ratio=1/2/3", "size=8,scale=0.1/1.5", "size=8,ratio=1/"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(stage_open(&o, "rrc", wrong[i]), LARDER_E_ARGS);
        free(o.state);
    }
}

static void normalize_takes_presets_and_lists(void **state) {
    (void)state;
    opened o;
    larder_tone t = {.channels = 3, .scale = {1.0 / 255, 1.0 / 255, 1.0 / 255}};
    check_ok(stage_open(&o, "normalize", "mean=0.5/0.25/0.125,std=0.5/0.25/0.2"));
    check_ok(o.stage->tone(o.state, &t, NULL));
    assert_true(fabs(t.scale[1] * 255 + t.bias[1] - 3) < 1e-12); /* (1 - 0.25) / 0.25 */
    assert_true(fabs(t.bias[0] + 1) < 1e-12);
    t.channels = 1;
    assert_int_equal(o.stage->tone(o.state, &t, NULL), LARDER_E_ARGS);
    free(o.state);
    t = (larder_tone){.channels = 3, .scale = {1, 1, 1}};
    check_ok(stage_open(&o, "normalize", "preset=mnist")); /* one number serves all channels */
    check_ok(o.stage->tone(o.state, &t, NULL));
    assert_true(fabs(t.scale[2] - 1 / 0.3081) < 1e-12);
    free(o.state);
    static const char *const wrong[] = {"",
                                        "mean=1",
                                        "mean=1/2,std=1",
                                        "mean=1,std=0",
                                        "preset=mnist,mean=1",
                                        "mean=1/2/3/4/5,std=1/1/1/1/1",
                                        "preset=nothing",
                                        "mean=x,std=1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(stage_open(&o, "normalize", wrong[i]), LARDER_E_ARGS);
        free(o.state);
    }
}

static void flip_follows_its_probability(void **state) {
    (void)state;
    int flips = 0;
    for (uint64_t seed = 0; seed < 4000; seed++) {
        larder_view v;
        larder__view_start(&v, 4, 4);
        check_ok(place("flip", "p=0.25", seed, &v));
        flips += v.flipped;
        larder__view_start(&v, 4, 4);
        check_ok(place("flip", "p=0", seed, &v));
        assert_false(v.flipped);
        check_ok(place("flip", "p=1", seed, &v));
        assert_true(v.flipped);
    }
    assert_true(abs(flips - 1000) < 5 * 28); /* five standard deviations */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stage_has_one_job_and_help),
        cmocka_unit_test(resize_counts_as_torchvision),
        cmocka_unit_test(centercrop_rounds_half_to_even),
        cmocka_unit_test(crop_refuses_small_pictures),
        cmocka_unit_test(rrc_stays_inside_and_falls_back),
        cmocka_unit_test(normalize_takes_presets_and_lists),
        cmocka_unit_test(flip_follows_its_probability),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
