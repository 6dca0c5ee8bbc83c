/* Names in charts stand inside the frame, over nothing that is taken and over no other name, for
 * any points; and where there is room all of them have a place. */
#include "check.h"

#include "report/placer.h"

#include <larder/plugin.h>

static const larder__box frame = {0, 0, 600, 300};

static void nothing_overlaps(void **state) {
    (void)state;
    larder_rng rng;
    size_t without = 0, all = 0;
    for (uint64_t seed = 0; seed < 400; seed++) {
        larder__placer p = {.frame = frame};
        larder__box points[40], names[40];
        bool placed[40];
        larder_rng_seed(&rng, seed, 0);
        size_t n = 2 + larder_rng_below(&rng, 30);
        for (size_t i = 0; i < n; i++) {
            /* In heaps as well: points of recipes that do the same lie on one another. */
            bool heap = seed % 2 && i > 0 && larder_rng_below(&rng, 2);
            double x = 20 + 560 * larder_rng_unit(&rng), y = 20 + 260 * larder_rng_unit(&rng);
            points[i] = heap ? points[i - 1] : (larder__box){x - 5, y - 5, x + 5, y + 5};
            larder__placer_take(&p, points[i]);
        }
        for (size_t i = 0; i < n; i++) {
            double x = (points[i].x0 + points[i].x1) / 2, y = (points[i].y0 + points[i].y1) / 2;
            placed[i] =
                larder__placer_find(&p, x, y, 30 + 60 * larder_rng_unit(&rng), 12, &names[i]);
            all++, without += !placed[i];
        }
        for (size_t i = 0; i < n; i++) {
            if (!placed[i])
                continue;
            assert_true(names[i].x0 >= frame.x0 && names[i].x1 <= frame.x1);
            assert_true(names[i].y0 >= frame.y0 && names[i].y1 <= frame.y1);
            for (size_t k = 0; k < n; k++) {
                assert_false(larder__box_overlaps(names[i], points[k]));
                assert_false(k != i && placed[k] && larder__box_overlaps(names[i], names[k]));
            }
        }
    }
    assert_true(without * 20 < all); /* nearly all have a place */
}

static void near_and_none(void **state) {
    (void)state;
    larder__placer p = {.frame = frame};
    larder__box b;
    assert_true(larder__placer_find(&p, 300, 150, 50, 12, &b));
    assert_true(b.x0 == 308 && b.y1 == 150); /* above and to the right, as before */
    assert_true(larder__placer_find(&p, 595, 150, 50, 12, &b) && b.x1 < 595);
    larder__placer full = {.frame = {0, 0, 10, 10}};
    assert_false(larder__placer_find(&full, 5, 5, 50, 12, &b));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_overlaps),
                                       cmocka_unit_test(near_and_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
