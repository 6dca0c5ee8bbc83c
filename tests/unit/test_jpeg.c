/* JPEG: a part decodes to the same pixels as the whole, and broken files give sentences. */
#include "check.h"
#include "pictures.h"

#include "stage/codec.h"
#include "stage/pipeline.h"
#include "stage/scratch.h"

#include <dirent.h>
#include <larder/plugin.h>
#include <stdio.h>
#include <stdlib.h>

static const larder__codec *const jpeg = &larder__codec_jpeg;

/* The whole picture at 1/d, packed, 4 bytes a pixel. */
static uint8_t *whole(larder__scratch *s, const uint8_t *bytes, size_t size, uint32_t d,
                      uint32_t *w, uint32_t *h) {
    larder__picture p;
    check_ok(jpeg->head(s, bytes, size, w, h));
    *w = (*w + d - 1) / d;
    *h = (*h + d - 1) / d;
    check_ok(jpeg->pixels(s, bytes, size, d, (larder__rect){0, 0, *w, *h}, &p));
    assert_int_equal(p.is.x0, 0);
    assert_int_equal(p.is.x1, *w);
    uint8_t *out = malloc((size_t)*w * *h * 4);
    assert_non_null(out);
    for (uint32_t y = 0; y < *h; y++)
        memcpy(out + (size_t)y * *w * 4, p.at + (ptrdiff_t)y * p.row, (size_t)*w * 4);
    return out;
}

static void same_part(const uint8_t *all, uint32_t w, const larder__picture *p, larder__rect r,
                      const char *what) {
    for (int64_t y = r.y0; y < r.y1; y++)
        for (int64_t x = r.x0; x < r.x1; x++)
            for (int c = 0; c < 3; c++) {
                int want = all[((size_t)y * w + (size_t)x) * 4 + (size_t)c];
                int got = p->at[(y - p->is.y0) * p->row + (x - p->is.x0) * p->pixel + c];
                if (want != got)
                    fail_msg("%s: %lld,%lld..%lld,%lld differs at %lld,%lld: %d, not %d", what,
                             (long long)r.x0, (long long)r.y0, (long long)r.x1, (long long)r.y1,
                             (long long)x, (long long)y, got, want);
            }
}

static void check_parts(const uint8_t *bytes, size_t size, uint32_t d, int tries,
                        const char *what) {
    larder__scratch *s = NULL;
    larder_rng rng;
    uint32_t w, h;
    check_ok(larder__scratch_open(&s));
    uint8_t *all = whole(s, bytes, size, d, &w, &h);
    larder_rng_seed(&rng, w * 31 + h, d);
    for (int i = 0; i < tries; i++) {
        larder__picture p;
        uint32_t fw, fh;
        larder__rect r;
        r.x0 = larder_rng_below(&rng, w);
        r.x1 = r.x0 + 1 + larder_rng_below(&rng, (uint32_t)(w - r.x0));
        r.y0 = larder_rng_below(&rng, h);
        r.y1 = r.y0 + 1 + larder_rng_below(&rng, (uint32_t)(h - r.y0));
        check_ok(jpeg->head(s, bytes, size, &fw, &fh));
        check_ok(jpeg->pixels(s, bytes, size, d, r, &p));
        assert_true(p.is.x0 <= r.x0 && p.is.x1 >= r.x1 && p.is.y0 <= r.y0 && p.is.y1 >= r.y1);
        same_part(all, w, &p, r, what);
    }
    free(all);
    larder__scratch_close(&s);
}

static void parts_equal_the_whole(void **state) {
    (void)state;
    static const int samps[][2] = {{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}};
    static const uint32_t sides[][2] = {{1, 1},   {7, 5},    {16, 16},  {17, 33},
                                        {64, 48}, {131, 97}, {250, 181}};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        for (size_t k = 0; k < sizeof samps / sizeof *samps; k++)
            for (int form = 0; form < 4; form++) {
                check_jpeg_conf conf = {sides[i][0],       sides[i][1], form == 3 ? 1 : 3,
                                        samps[k][0],       samps[k][1], form == 1,
                                        form == 2 ? 3 : 0, (uint32_t)i, false};
                size_t size;
                unsigned char *bytes = check_jpeg(&conf, &size);
                if (!bytes)
                    skip();
                char what[64];
                for (uint32_t d = 1; d <= 8; d *= 2) {
                    snprintf(what, sizeof what, "%u x %u, %dx%d, form %d, 1/%u", conf.w, conf.h,
                             conf.h_samp, conf.v_samp, form, d);
                    check_parts(bytes, size, d, 12, what);
                }
                free(bytes);
            }
}

/* Every JPEG inside a tar; the archive is read for its own sake by the sources' tests. */
static void each_in_tar(const char *path, int tries) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char head[512];
    while (fread(head, 1, 512, f) == 512 && head[0]) {
        size_t size = strtoul(head + 124, NULL, 8), n = strnlen(head, 100);
        unsigned char *bytes = malloc(size + 1);
        assert_non_null(bytes);
        assert_int_equal(fread(bytes, 1, size, f), size);
        fseek(f, (long)(511 - (size + 511) % 512), SEEK_CUR);
        if (n > 4 && memcmp(head + n - 4, ".jpg", 4) == 0) {
            check_parts(bytes, size, 1, tries, head);
            check_parts(bytes, size, 2, tries, head);
        }
        free(bytes);
    }
    fclose(f);
}

static void parts_of_photographs(void **state) {
    (void)state;
    char path[512];
#if LARDER_HAVE_JPEG
    if (!check_shared("jpeg/imagenet-sample-0000.tar", path))
        skip();
    each_in_tar(path, 10);
    if (check_shared("jpeg/flowers102-0000.tar", path))
        each_in_tar(path, 3);
#else
    (void)path, (void)each_in_tar;
    skip();
#endif
}

static void truncated_anywhere_is_an_error(void **state) {
    (void)state;
    for (int progressive = 0; progressive < 2; progressive++) {
        check_jpeg_conf conf = {90, 70, 3, 2, 2, progressive, 0, 3, false};
        size_t size;
        unsigned char *bytes = check_jpeg(&conf, &size);
        if (!bytes)
            skip();
        uint8_t out[90 * 70 * 3];
        check_ok(check_decode(bytes, size, "centercrop:h=70,w=90", out));
        /* Without the two bytes of the end marker nothing is missing. */
        for (size_t n = 0; n < size - 2; n += 13) {
            unsigned char *cut = malloc(n ? n : 1); /* of exactly this size: ASan watches the end */
            assert_non_null(cut);
            memcpy(cut, bytes, n);
            assert_int_equal(check_decode(cut, n, "centercrop:h=70,w=90", out), LARDER_E_FORMAT);
            if (n > 700)
                assert_non_null(strstr(larder_errmsg(), "jpeg: "));
            free(cut);
        }
        free(bytes);
    }
}

static void flipped_bits_do_no_harm(void **state) {
    (void)state;
    check_jpeg_conf conf = {61, 47, 3, 2, 2, false, 4, 9, false};
    size_t size;
    unsigned char *bytes = check_jpeg(&conf, &size);
    if (!bytes)
        skip();
    larder_rng rng;
    larder_rng_seed(&rng, 11, 0);
    uint8_t out[32 * 32 * 3];
    int failed = 0;
    for (int i = 0; i < 1500; i++) {
        unsigned char *bad = malloc(size);
        assert_non_null(bad);
        memcpy(bad, bytes, size);
        for (int k = 0; k < 3; k++)
            bad[3 + larder_rng_below(&rng, (uint32_t)size - 3)] ^=
                (unsigned char)(1u << larder_rng_below(&rng, 8));
        failed += check_decode(bad, size, "rrc:size=32", out) < 0;
        free(bad);
    }
    assert_true(failed > 100);
    free(bytes);
}

static void giant_dimensions_are_refused(void **state) {
    (void)state;
    check_jpeg_conf conf = {40, 30, 3, 1, 1, false, 0, 1, false};
    size_t size, at = 2;
    unsigned char *bytes = check_jpeg(&conf, &size);
    if (!bytes)
        skip();
    while (bytes[at + 1] != 0xc0) /* to the frame header, segment by segment */
        at += 2 + (size_t)(bytes[at + 2] << 8 | bytes[at + 3]);
    memset(bytes + at + 5, 0xf0, 4); /* height and width */
    uint8_t out[32 * 32 * 3];
    assert_int_equal(check_decode(bytes, size, "rrc:size=32", out), LARDER_E_RANGE);
    assert_non_null(strstr(larder_errmsg(), "61680 x 61680"));
    memset(bytes + at + 5, 0, 4);
    assert_true(check_decode(bytes, size, "rrc:size=32", out) < 0);
    free(bytes);
}

static void grey_and_ink_become_rgb(void **state) {
    (void)state;
    for (int channels = 1; channels <= 4; channels += 3) {
        check_jpeg_conf conf = {33, 21, channels, 1, 1, false, 0, 5, false};
        size_t size;
        unsigned char *bytes = check_jpeg(&conf, &size);
        if (!bytes)
            skip();
        uint8_t out[33 * 21 * 3];
        check_ok(check_decode(bytes, size, "centercrop:h=21,w=33", out));
        for (size_t i = 0; channels == 1 && i < sizeof out; i += 3)
            assert_true(out[i] == out[i + 1] && out[i] == out[i + 2]);
        free(bytes);
    }
}

static void one_scratch_serves_good_after_bad(void **state) {
    (void)state;
    check_jpeg_conf conf = {50, 40, 3, 2, 2, false, 0, 2, false};
    size_t size;
    unsigned char *bytes = check_jpeg(&conf, &size);
    if (!bytes)
        skip();
    larder__pipeline *p = NULL;
    larder__scratch *s = NULL;
    larder__pipeline_conf pc = {.spec = "resize:h=20,w=20", .dtype = LARDER_U8};
    uint8_t first[1200], again[1200];
    check_ok(larder__pipeline_open(&p, &pc));
    check_ok(larder__scratch_open(&s));
    check_ok(larder__pipeline_run(p, s, bytes, size, 1, first));
    for (size_t n = 10; n < size; n += size / 7) {
        assert_true(larder__pipeline_run(p, s, bytes, n, 1, again) < 0);
        check_ok(larder__pipeline_run(p, s, bytes, size, 1, again));
        assert_memory_equal(first, again, sizeof first);
    }
    larder__scratch_close(&s);
    larder__pipeline_close(&p);
    free(bytes);
}

/* Rows may be read 64 bytes past their end, those at the end of a block that is just large enough
 * too. */
static void the_last_row_has_room_behind_it(void **state) {
    (void)state;
    larder__scratch *s = NULL;
    check_ok(larder__scratch_open(&s));
    for (uint32_t h = 1; h < 40; h++) {
        check_jpeg_conf c = {16, h, 3, 1, 1, false, 0, h, false};
        larder__picture p;
        uint32_t w, rows;
        size_t size;
        unsigned char *bytes = check_jpeg(&c, &size);
        if (!bytes)
            skip();
        check_ok(jpeg->head(s, bytes, size, &w, &rows));
        check_ok(jpeg->pixels(s, bytes, size, 1, (larder__rect){0, 0, w, rows}, &p));
        const uint8_t *end =
            (uint8_t *)s->block[LARDER__BLOCK_DECODED] + s->cap[LARDER__BLOCK_DECODED];
        assert_true(p.at + (ptrdiff_t)rows * p.row + 64 <= end);
        free(bytes);
    }
    larder__scratch_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_equal_the_whole),
        cmocka_unit_test(parts_of_photographs),
        cmocka_unit_test(truncated_anywhere_is_an_error),
        cmocka_unit_test(flipped_bits_do_no_harm),
        cmocka_unit_test(giant_dimensions_are_refused),
        cmocka_unit_test(grey_and_ink_become_rgb),
        cmocka_unit_test(one_scratch_serves_good_after_bad),
        cmocka_unit_test(the_last_row_has_room_behind_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
