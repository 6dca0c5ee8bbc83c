/* Shrunk samples: pictures as small JPEGs. What size the stages can use, how far pixels move, who
 * stays as he is, and the same bytes every time. */
#include "check.h"

#include "pictures.h"
#include "stage/codec.h"
#include "stage/pipeline.h"
#include "stage/scratch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 64, ROW = SIDE * SIDE * 3 };
#define RRC "rrc:size=64|flip"

typedef struct mill {
    larder__pipeline *p;
    larder__scratch *s;
} mill;

static mill open_mill(larder__pipeline_conf conf) {
    mill m;
    conf.dtype = LARDER_U8;
    conf.layout = LARDER_NHWC;
    check_ok(larder__pipeline_open(&m.p, &conf));
    check_ok(larder__scratch_open(&m.s));
    return m;
}

static void close_mill(mill *m) {
    larder__pipeline_close(&m->p);
    larder__scratch_close(&m->s);
}

static larder_buf *buf_of(const void *bytes, size_t size) {
    larder_buf *b = larder_buf_new(size);
    assert_non_null(b);
    memcpy(larder_buf_data(b), bytes, size);
    return b;
}

/* NULL: this build has no JPEG. */
static larder_buf *jpeg_of(uint32_t w, uint32_t h, int channels, uint32_t seed) {
    size_t size;
    check_jpeg_conf conf = {
        .w = w, .h = h, .channels = channels, .h_samp = 1, .v_samp = 1, .seed = seed};
    unsigned char *bytes = check_jpeg(&conf, &size);
    larder_buf *b = bytes ? buf_of(bytes, size) : NULL;
    free(bytes);
    return b;
}

static larder_buf *shrink(mill *m, larder_buf *b, uint32_t side, uint32_t quality) {
    larder_buf *out = NULL;
    check_ok(larder__pipeline_shrink(m->p, m->s, b, &(larder__shrink){side, quality}, &out));
    return out;
}

static void size_of(mill *m, larder_buf *small, uint32_t *w, uint32_t *h) {
    enum { HEAD = 8 }; /* the size it had */
    check_ok(larder__codec_jpeg.head(m->s, (const uint8_t *)larder_buf_data(small) + HEAD,
                                     larder_buf_size(small) - HEAD, w, h));
}

static double mean_error(const uint8_t *a, const uint8_t *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += abs(a[i] - b[i]);
    return sum / (double)n;
}

#define need_jpeg(b)                                                                               \
    if (!(b)) {                                                                                    \
        print_message("skipped: this build has no JPEG\n");                                        \
        skip();                                                                                    \
    }

/* ---- how large ------------------------------------------------------------------------------- */

static void stages_tell_the_size_they_use(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        uint32_t side;
    } all[] = {{"rrc:size=224|flip", 320},
               {"rrc:size=32", 46},
               {"resize:size=256|centercrop:size=224", 256},
               {"resize:size=256|crop:size=224|flip", 256},
               {"resize:h=224,w=224", 224},
               {"resize:h=100,w=200", 200},
               /* They have use for all there is. */
               {"centercrop:size=224", 0},
               {"crop:size=32,pad=4|flip", 0},
               {"crop:size=300|resize:size=224|centercrop:size=224", 0},
               {"centercrop:size=300|rrc:size=224", 0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        mill m = open_mill((larder__pipeline_conf){.spec = all[i].spec});
        assert_int_equal(larder__pipeline_side(m.p), all[i].side);
        close_mill(&m);
    }
}

static void the_shorter_side_is_as_asked(void **state) {
    (void)state;
    static const uint32_t sizes[][2] = {{300, 200}, {200, 300}, {257, 1000}, {129, 128}};
    mill m = open_mill((larder__pipeline_conf){.spec = RRC});
    for (size_t i = 0; i < 4; i++) {
        uint32_t w, h, from_w = sizes[i][0], from_h = sizes[i][1];
        larder_buf *b = jpeg_of(from_w, from_h, 3, 1);
        need_jpeg(b);
        larder_buf *small = shrink(&m, b, 64, 90);
        assert_non_null(small);
        assert_true(larder_buf_size(small) * 10 <= larder_buf_size(b) * 9);
        size_of(&m, small, &w, &h);
        assert_int_equal(w < h ? w : h, 64);
        assert_int_equal(w < h ? h : w,
                         from_w < from_h ? 64 * from_h / from_w : 64 * from_w / from_h);
        larder_buf_unref(&small);
        small = shrink(&m, b, 5000, 20); /* never larger than it was */
        assert_non_null(small);
        size_of(&m, small, &w, &h);
        assert_true(w == from_w && h == from_h);
        larder_buf_unref(&small);
        larder_buf_unref(&b);
    }
    close_mill(&m);
}

/* ---- how far pixels move --------------------------------------------------------------------- */

static double error_of(mill *m, larder_buf *full, larder_buf *small, uint64_t seed) {
    static uint8_t a[ROW], b[ROW];
    check_ok(
        larder__pipeline_run(m->p, m->s, larder_buf_data(full), larder_buf_size(full), seed, a));
    check_ok(larder__pipeline_run_shrunk(m->p, m->s, larder_buf_data(small), larder_buf_size(small),
                                         seed, b));
    return mean_error(a, b, ROW);
}

/* The obvious way: resize the whole picture, and look at those pixels. What is left between the two
 * is the JPEG's own loss: grey ones, as colours are kept at half the size. */
static void it_is_the_picture_resized(void **state) {
    (void)state;
    static uint8_t plain[ROW], found[ROW];
    mill m = open_mill((larder__pipeline_conf){.spec = "resize:h=64,w=64"});
    for (uint32_t i = 0; i < 8; i++) {
        larder_buf *b = jpeg_of(100 + 90 * i, 100 + 90 * i, 1, i); /* decoded smaller from 256 on */
        need_jpeg(b);
        check_ok(check_decode(larder_buf_data(b), larder_buf_size(b), "resize:h=64,w=64", plain));
        static const struct {
            uint32_t quality;
            double most;
        } all[] = {{100, 0.2}, {95, 2}, {75, 6}, {30, 10}};
        double last = 0;
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
            larder_buf *small = shrink(&m, b, 64, all[k].quality);
            check_ok(larder__pipeline_run_shrunk(m.p, m.s, larder_buf_data(small),
                                                 larder_buf_size(small), 1, found));
            double error = mean_error(plain, found, ROW);
            assert_true(error < all[k].most && error > last);
            last = error;
            larder_buf_unref(&small);
        }
        larder_buf_unref(&b);
    }
    close_mill(&m);
}

/* Parts of it: fine noise goes where a small part is enlarged, and no part is another one, which
 * would be 40 levels away and more. */
static void rows_of_both_show_the_same(void **state) {
    (void)state;
    mill m = open_mill((larder__pipeline_conf){.spec = RRC});
    for (uint32_t i = 0; i < 12; i++) {
        larder_buf *b = jpeg_of(180 + i * 17, 300 - i * 11, i % 3 ? 3 : 1, i);
        need_jpeg(b);
        larder_buf *small = shrink(&m, b, 74, 95);
        for (uint64_t seed = 0; seed < 20; seed++) {
            double error = error_of(&m, b, small, seed);
            assert_true(error > 0 && error < 25);
        }
        larder_buf_unref(&small);
        larder_buf_unref(&b);
    }
    close_mill(&m);
}

/* Raw samples have no head that says their size: one channel or three, in either layout. Windows
 * stay where they are, whatever the picture was shrunk to. */
static void raw_pixels_are_shrunk_too(void **state) {
    (void)state;
    enum { W = 48, H = 40, C = 3, ALL = W * H * C };
    static const char *const specs[] = {"", "crop:size=32,pad=6|flip"};
    for (uint32_t k = 0; k < 16; k++) {
        static uint8_t raw[ALL], a[ALL], b[ALL];
        uint32_t c = k & 1 ? 3 : 1, side = k & 4 ? 24 : 0;
        bool nhwc = k & 2;
        mill m = open_mill((larder__pipeline_conf){.spec = specs[k >> 3],
                                                   .raw = {H, W, c},
                                                   .raw_layout = nhwc ? LARDER_NHWC : LARDER_NCHW});
        for (uint32_t i = 0; i < W * H * c; i++) {
            uint32_t x = nhwc ? i / c % W : i % W, y = nhwc ? i / c / W : i / W % H;
            raw[i] = (uint8_t)(2 * x + 2 * y + 20 * (nhwc ? i % c : i / (W * H)));
        }
        larder_buf *full = buf_of(raw, W * H * c), *small = NULL;
        int rc = larder__pipeline_shrink(m.p, m.s, full, &(larder__shrink){side, 90}, &small);
        if (rc == LARDER_E_UNSUPPORTED)
            skip();
        assert_int_equal(rc, 0);
        assert_non_null(small);
        for (uint64_t seed = 0; seed < 10; seed++) {
            check_ok(larder__pipeline_run(m.p, m.s, raw, W * H * c, seed, a));
            check_ok(larder__pipeline_run_shrunk(m.p, m.s, larder_buf_data(small),
                                                 larder_buf_size(small), seed, b));
            assert_true(mean_error(a, b, larder__pipeline_bytes(m.p)) < 3);
        }
        larder_buf_unref(&small);
        larder_buf_unref(&full);
        close_mill(&m);
    }
}

/* ---- who stays as he is ---------------------------------------------------------------------- */

static void what_is_small_already_stays(void **state) {
    (void)state;
    mill m = open_mill((larder__pipeline_conf){.spec = RRC});
    larder_buf *b = jpeg_of(60, 50, 3, 3);
    need_jpeg(b);
    assert_null(shrink(&m, b, 74, 100));
    larder_buf *once = shrink(&m, b, 74, 30);
    assert_non_null(once);
    larder_buf_unref(&once);
    larder_buf_unref(&b);
    close_mill(&m);
}

static void damaged_ones_are_errors(void **state) {
    (void)state;
    mill m = open_mill((larder__pipeline_conf){.spec = RRC});
    larder_buf *b = jpeg_of(200, 160, 3, 5), *out = NULL;
    need_jpeg(b);
    const larder__shrink to = {74, 90};
    for (size_t size = 1; size < larder_buf_size(b) - 2; size += 1 + size / 3) {
        larder_buf *cut = buf_of(larder_buf_data(b), size);
        assert_true(larder__pipeline_shrink(m.p, m.s, cut, &to, &out) < 0 && !out);
        larder_buf_unref(&cut);
    }
    larder_buf *again = shrink(&m, b, 74, 90); /* nothing of it is left behind */
    assert_non_null(again);
    larder_buf_unref(&again);
    larder_buf_unref(&b);
    close_mill(&m);
}

/* ---- the same every time --------------------------------------------------------------------- */

/* Shrunk pictures bring no code tables along: those of the picture before must not be taken for
 * theirs, nor anything else that a thread did before. */
static void bytes_and_rows_do_not_follow_what_came_before(void **state) {
    (void)state;
    static uint8_t first[ROW], later[ROW];
    size_t size;
    mill m = open_mill((larder__pipeline_conf){.spec = RRC}), fresh = m;
    check_ok(larder__scratch_open(&fresh.s));
    larder_buf *b = jpeg_of(300, 220, 3, 7);
    need_jpeg(b);
    check_jpeg_conf conf = {.w = 90, .h = 80, .channels = 3, .h_samp = 2, .v_samp = 2, .seed = 8};
    conf.progressive = true; /* with tables of its own */
    unsigned char *other = check_jpeg(&conf, &size);
    larder_buf *small = shrink(&fresh, b, 74, 90);
    check_ok(larder__pipeline_run_shrunk(fresh.p, fresh.s, larder_buf_data(small),
                                         larder_buf_size(small), 3, first));
    for (int i = 0; i < 3; i++) {
        check_ok(larder__pipeline_run(m.p, m.s, other, size, 4, later));
        larder_buf *again = shrink(&m, b, 74, 90);
        assert_int_equal(larder_buf_size(again), larder_buf_size(small));
        assert_memory_equal(larder_buf_data(again), larder_buf_data(small), larder_buf_size(small));
        check_ok(larder__pipeline_run(m.p, m.s, other, size, 4, later));
        check_ok(larder__pipeline_run_shrunk(m.p, m.s, larder_buf_data(again),
                                             larder_buf_size(again), 3, later));
        assert_memory_equal(first, later, ROW);
        larder_buf_unref(&again);
    }
    larder_buf_unref(&small);
    larder_buf_unref(&b);
    free(other);
    larder__scratch_close(&fresh.s);
    close_mill(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_tell_the_size_they_use),
        cmocka_unit_test(the_shorter_side_is_as_asked),
        cmocka_unit_test(it_is_the_picture_resized),
        cmocka_unit_test(rows_of_both_show_the_same),
        cmocka_unit_test(raw_pixels_are_shrunk_too),
        cmocka_unit_test(what_is_small_already_stays),
        cmocka_unit_test(damaged_ones_are_errors),
        cmocka_unit_test(bytes_and_rows_do_not_follow_what_came_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
