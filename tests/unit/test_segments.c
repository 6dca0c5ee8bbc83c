/* Which segments lie under a rectangle, against a search block by block; parts as bytes. */
#include "check.h"

#include "base/segments.h"

#include <stdlib.h>

/* Does this segment hold any block under the rectangle? */
static bool wanted(const larder__grid *g, const larder_rect *r, uint32_t segment) {
    uint32_t across = larder__grid_across(g), all = across * larder__grid_down(g);
    for (uint32_t m = segment * g->step; m < (segment + 1) * g->step && m < all; m++) {
        uint32_t x = m % across * g->mcu_w, y = m / across * g->mcu_h;
        if (x < r->x1 && x + g->mcu_w > r->x0 && y < r->y1 && y + g->mcu_h > r->y0)
            return true;
    }
    return false;
}

static larder__grid random_grid(larder_rng *rng) {
    static const uint8_t sides[] = {8, 16, 32};
    larder__grid g = {.w = (uint16_t)(1 + larder_rng_below(rng, 300)),
                      .h = (uint16_t)(1 + larder_rng_below(rng, 300)),
                      .step = (uint16_t)(1 + larder_rng_below(rng, 12)),
                      .mcu_w = sides[larder_rng_below(rng, 3)],
                      .mcu_h = sides[larder_rng_below(rng, 3)]};
    return g;
}

static larder_rect random_rect(larder_rng *rng, const larder__grid *g) {
    larder_rect r = {.x0 = larder_rng_below(rng, g->w), .y0 = larder_rng_below(rng, g->h)};
    r.x1 = r.x0 + 1 + larder_rng_below(rng, g->w - r.x0);
    r.y1 = r.y0 + 1 + larder_rng_below(rng, g->h - r.y0);
    r.shrink = 1;
    return r;
}

static void test_runs_against_search(void **state) {
    (void)state;
    larder_rng rng;
    larder_rng_seed(&rng, 1, 1);
    for (int round = 0; round < 3000; round++) {
        larder__grid g = random_grid(&rng);
        larder_rect r = random_rect(&rng, &g);
        uint32_t n = larder__grid_segments(&g);
        uint32_t gap = larder_rng_below(&rng, 3) ? 0 : larder_rng_below(&rng, 500);
        uint16_t *lengths = calloc(n, sizeof *lengths);
        larder__segment_run *runs = calloc(larder__grid_down(&g), sizeof *runs);
        bool *in = calloc(n, sizeof *in);
        assert_true(lengths && runs && in);
        for (uint32_t i = 0; i < n; i++)
            lengths[i] = (uint16_t)(2 + larder_rng_below(&rng, 200));
        uint32_t count = larder__grid_runs(&g, &r, lengths, gap, runs);
        assert_in_range(count, 1, larder__grid_down(&g));
        for (uint32_t k = 0; k < count; k++) {
            if (k)
                assert_true(runs[k].first > runs[k - 1].first + runs[k - 1].count);
            for (uint32_t s = runs[k].first; s < runs[k].first + runs[k].count; s++) {
                assert_true(s < n);
                in[s] = true;
            }
        }
        for (uint32_t s = 0; s < n; s++) {
            if (wanted(&g, &r, s))
                assert_true(in[s]);
            else if (gap == 0)
                assert_false(in[s]);
        }
        free(lengths);
        free(runs);
        free(in);
    }
}

static void test_widen(void **state) {
    (void)state;
    larder__grid g = {.w = 100, .h = 50, .step = 1, .mcu_w = 16, .mcu_h = 8};
    larder_rect r = larder__grid_widen(&g, (larder_rect){1, 10, 99, 20, 1}, 2);
    assert_int_equal(r.x0, 0);
    assert_int_equal(r.x1, 100);
    assert_int_equal(r.y0, 10); /* blocks of 8 rows: colour is not subsampled there */
    assert_int_equal(r.y1, 20);
}

static void test_part_bytes(void **state) {
    (void)state;
    larder__segment part = {.magic = LARDER__PART_MAGIC,
                            .grid = {.w = 64, .h = 16, .step = 2, .mcu_w = 16, .mcu_h = 16},
                            .runs = 1,
                            .head = 3};
    uint16_t lengths[2] = {5, 7};
    larder__segment_run run = {1, 1};
    uint32_t data_at;
    unsigned char bytes[128] = {0};
    uint32_t size = larder__part_size(&part, &run, lengths, &data_at);
    assert_int_equal(size, sizeof part + sizeof run + 4 + 3 + 7);
    assert_int_equal(larder__part_begin(bytes, &part, &run, lengths) + 3, data_at);
    larder__part_view v;
    check_ok(larder__part_parse(&v, bytes, size));
    assert_int_equal(v.segments, 2);
    assert_int_equal(larder__part_length(&v, 1), 7);
    assert_int_equal(larder__part_run(&v, 0).first, 1);
    assert_int_equal(v.data_size, 7);
    for (uint32_t cut = 0; cut < size; cut++) /* no shorter bytes pass for it */
        assert_int_equal(larder__part_parse(&v, bytes, cut), LARDER_E_FORMAT);
    assert_int_equal(larder__part_parse(&v, bytes, size + 1), LARDER_E_FORMAT);
    larder__segment wrong = part;
    wrong.grid.mcu_w = 12;
    memcpy(bytes, &wrong, sizeof wrong);
    assert_int_equal(larder__part_parse(&v, bytes, size), LARDER_E_FORMAT);
    wrong = part;
    wrong.runs = UINT32_MAX;
    memcpy(bytes, &wrong, sizeof wrong);
    assert_int_equal(larder__part_parse(&v, bytes, size), LARDER_E_FORMAT);
    run = (larder__segment_run){1, 2}; /* past the end */
    larder__part_begin(bytes, &part, &run, lengths);
    assert_int_equal(larder__part_parse(&v, bytes, size), LARDER_E_FORMAT);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs_against_search),
                                       cmocka_unit_test(test_widen),
                                       cmocka_unit_test(test_part_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
