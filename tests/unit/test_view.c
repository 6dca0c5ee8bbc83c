/* What geometry stages compose to: which source pixel stands where in the result. */
#include "check.h"

#include "stage/stage.h"

/* The source pixel behind column x, row y of the view; false: a zero. Only without resize. */
static bool behind(const larder_view *v, int64_t x, int64_t y, int64_t *sx, int64_t *sy) {
    int64_t rx = v->win_x + (v->flipped ? v->w - 1 - x : x), ry = v->win_y + y;
    *sx = v->box_x + rx;
    *sy = v->box_y + ry;
    return rx >= v->vis_x0 && rx < v->vis_x1 && ry >= v->vis_y0 && ry < v->vis_y1;
}

static void crops_add_up(void **state) {
    (void)state;
    larder_view v;
    int64_t x, y;
    larder__view_start(&v, 100, 50);
    check_ok(larder_view_crop(&v, 10, 5, 40, 30));
    check_ok(larder_view_crop(&v, 3, 2, 20, 20));
    assert_true(v.w == 20 && v.h == 20);
    assert_true(behind(&v, 0, 0, &x, &y) && x == 13 && y == 7);
    assert_true(behind(&v, 19, 19, &x, &y) && x == 32 && y == 26);
}

static void what_was_cut_stays_away(void **state) {
    (void)state;
    larder_view v;
    int64_t x, y;
    larder__view_start(&v, 100, 50);
    check_ok(larder_view_crop(&v, 10, 10, 20, 20));
    check_ok(larder_view_crop(&v, -5, -5, 30, 30)); /* padding, although pixels were there once */
    assert_false(behind(&v, 4, 10, &x, &y));
    assert_true(behind(&v, 5, 5, &x, &y) && x == 10 && y == 10);
    assert_false(behind(&v, 25, 10, &x, &y));
    assert_true(behind(&v, 24, 24, &x, &y) && x == 29 && y == 29);
}

static void a_crop_after_a_flip_sees_it_flipped(void **state) {
    (void)state;
    larder_view v;
    int64_t x, y;
    larder__view_start(&v, 100, 50);
    v.flipped = true;
    check_ok(larder_view_crop(&v, 10, 0, 30, 50)); /* columns 10..39 of the mirror: 60..89 */
    assert_true(behind(&v, 0, 0, &x, &y) && x == 89);
    assert_true(behind(&v, 29, 0, &x, &y) && x == 60);
}

static void resize_comes_once_and_not_over_padding(void **state) {
    (void)state;
    larder_view v;
    larder__view_start(&v, 100, 50);
    check_ok(larder_view_crop(&v, 20, 10, 30, 20));
    check_ok(larder_view_resize(&v, 60, 40, 2));
    assert_true(v.box_x == 20 && v.box_y == 10 && v.box_w == 30 && v.box_h == 20);
    assert_true(v.w == 60 && v.h == 40 && v.vis_x1 == 60 && v.win_x == 0);
    assert_int_equal(larder_view_resize(&v, 10, 10, 2), LARDER_E_ARGS);
    larder__view_start(&v, 100, 50);
    check_ok(larder_view_crop(&v, -1, 0, 100, 50));
    assert_int_equal(larder_view_resize(&v, 10, 10, 2), LARDER_E_ARGS);
    larder__view_start(&v, 100, 50);
    assert_int_equal(larder_view_resize(&v, 0, 10, 2), LARDER_E_RANGE);
    assert_int_equal(larder_view_resize(&v, (int64_t)1 << 40, 10, 2), LARDER_E_RANGE);
    assert_int_equal(larder_view_crop(&v, 0, 0, 0, 3), LARDER_E_RANGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crops_add_up),
        cmocka_unit_test(what_was_cut_stays_away),
        cmocka_unit_test(a_crop_after_a_flip_sees_it_flipped),
        cmocka_unit_test(resize_comes_once_and_not_over_padding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
