/* What belongs to a picture moves with it: masks, points and boxes against each other and against a
 * picture that goes the same way. */
#include "check.h"
#include "pictures.h"

#include "stage/pipeline.h"

#include <math.h>
#include <stdlib.h>

enum { W = 40, H = 28 };

typedef struct bench {
    larder__pipeline *p;
    larder__scratch *s;
    uint8_t *out;
    larder_shape shape;
} bench;

static void bench_open(bench *b, const char *spec) {
    larder__pipeline_conf conf = {.spec = spec, .dtype = LARDER_F32};
    check_ok(larder__pipeline_open(&b->p, &conf));
    check_ok(larder__scratch_open(&b->s));
    b->shape = larder__pipeline_shape(b->p);
    b->out = malloc((size_t)b->shape.h * b->shape.w);
    assert_non_null(b->out);
}

static void bench_close(bench *b) {
    free(b->out);
    larder__scratch_close(&b->s);
    larder__pipeline_close(&b->p);
}

static const char *const specs[] = {
    "rrc:size=20|flip|vflip",
    "resize:h=50,w=31|crop:size=24,pad=3,fill=7",
    "centercrop:size=60|flip",
};

/* The number in a mask, as check_png makes it. */
static uint8_t number_at(int64_t x, int64_t y, int depth) {
    uint32_t n = (uint32_t)(x * 2057 + y * 771 + x * y * 3);
    return (uint8_t)(n & ((1u << depth) - 1));
}

/* Of three moved points the way is known, and with it where each pixel of the result comes from:
 * that pixel's number must be there. Points on the edge between two pixels are left out. */
static size_t check_one(bench *b, uint64_t seed, int depth, const char *spec) {
    double at[6] = {0, 0, W, 0, 0, H};
    check_ok(larder__pipeline_move(b->p, W, H, seed, at, 3));
    double ax = (at[2] - at[0]) / W, ay = (at[3] - at[1]) / W;
    double bx = (at[4] - at[0]) / H, by = (at[5] - at[1]) / H, det = ax * by - bx * ay;
    size_t checked = 0;
    assert_true(fabs(det) > 1e-9);
    for (uint32_t y = 0; y < b->shape.h; y++)
        for (uint32_t x = 0; x < b->shape.w; x++) {
            double dx = x + 0.5 - at[0], dy = y + 0.5 - at[1];
            double from_x = (dx * by - dy * bx) / det, from_y = (dy * ax - dx * ay) / det;
            double off = fmin(fabs(from_x - nearbyint(from_x)), fabs(from_y - nearbyint(from_y)));
            if (off < 1e-3)
                continue;
            bool inside = from_x > 0 && from_y > 0 && from_x < W && from_y < H;
            uint8_t want =
                inside ? number_at((int64_t)floor(from_x), (int64_t)floor(from_y), depth) : 0;
            uint8_t got = b->out[y * b->shape.w + x];
            if (got != want)
                fail_msg("%s seed %llu, %d bits: %u at %u, %u, not %u", spec,
                         (unsigned long long)seed, depth, got, x, y, want);
            checked++;
        }
    return checked;
}

static void masks_go_where_points_go(void **state) {
    (void)state;
    static const struct {
        int depth;
        bool interlaced;
    } masks[] = {{8, false}, {4, false}, {1, true}};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (size_t m = 0; m < 3; m++) {
            bench b;
            size_t size, checked = 0;
            unsigned char *png = check_png(W, H, 3, masks[m].depth, masks[m].interlaced, &size);
            if (!png)
                skip();
            bench_open(&b, specs[i]);
            for (uint64_t seed = 0; seed < 12; seed++) {
                check_ok(larder__pipeline_run_mask(b.p, b.s, png, size, 0, 0, seed, b.out));
                checked += check_one(&b, seed, masks[m].depth, specs[i]);
            }
            assert_true(checked > 1000);
            free(png);
            bench_close(&b);
        }
}

/* A mask of half the size belongs to the same picture: it is drawn for as the picture is. */
static void masks_of_another_size(void **state) {
    (void)state;
    bench b;
    size_t size;
    unsigned char *png = check_png(W, H, 3, 8, false, &size);
    if (!png)
        skip();
    bench_open(&b, "rrc:size=20");
    for (uint64_t seed = 0; seed < 8; seed++) {
        double at[4] = {0, 0, 2 * W, 2 * H};
        check_ok(larder__pipeline_run_mask(b.p, b.s, png, size, 2 * W, 2 * H, seed, b.out));
        check_ok(larder__pipeline_move(b.p, 2 * W, 2 * H, seed, at, 2));
        double x = (10.5 - at[0]) / (at[2] - at[0]) * W, y = (10.5 - at[1]) / (at[3] - at[1]) * H;
        if (fabs(x - nearbyint(x)) > 1e-3 && fabs(y - nearbyint(y)) > 1e-3)
            assert_int_equal(b.out[10 * 20 + 10], number_at((int64_t)x, (int64_t)y, 8));
    }
    assert_int_equal(larder__pipeline_run_mask(b.p, b.s, "no mask", 7, 0, 0, 1, b.out),
                     LARDER_E_FORMAT);
    free(png);
    bench_close(&b);
}

static void boxes_are_moved_and_cut(void **state) {
    (void)state;
    larder__pipeline *p = NULL;
    larder__pipeline_conf conf = {.spec = "resize:h=20,w=40|centercrop:size=20|flip:p=1|vflip:p=1"};
    check_ok(larder__pipeline_open(&p, &conf));
    float boxes[] = {10, 10, 30, 40, 0, 0, 5, 5}; /* of a picture of 80 x 40 */
    check_ok(larder__pipeline_boxes(p, 80, 40, 3, boxes, 2));
    /* to 5, 5, 15, 20; less 10: -5, 5, 5, 20; mirrored both ways and cut */
    const float want[] = {15, 0, 20, 15, 20, 17.5f, 20, 20};
    for (size_t i = 0; i < 8; i++)
        assert_true(fabsf(boxes[i] - want[i]) < 1e-4f);
    larder__pipeline_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_go_where_points_go),
        cmocka_unit_test(masks_of_another_size),
        cmocka_unit_test(boxes_are_moved_and_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
