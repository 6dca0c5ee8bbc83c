/* PNG: every colour type and depth reads as 8-bit RGB; broken files give sentences. */
#include "check.h"
#include "pictures.h"

#include "stage/codec.h"
#include "stage/pipeline.h"

#include <larder/plugin.h>
#include <stdio.h>
#include <stdlib.h>

static void every_form_reads_as_rgb(void **state) {
    (void)state;
    static const int forms[][2] = {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}, {2, 8}, {2, 16}, {3, 1},
                                   {3, 2}, {3, 4}, {3, 8}, {4, 8}, {4, 16}, {6, 8}, {6, 16}};
    enum { W = 37, H = 23, X = 5, Y = 4 }; /* the part taken starts at 5, 4 */
    for (size_t i = 0; i < 2 * sizeof forms / sizeof *forms; i++) {
        int type = forms[i / 2][0], depth = forms[i / 2][1];
        size_t size;
        unsigned char *bytes = check_png(W, H, type, depth, i % 2, &size);
        if (!bytes)
            skip();
        uint8_t out[27 * 15 * 3];
        check_ok(check_decode(bytes, size, "centercrop:h=15,w=27", out));
        for (uint32_t y = 0; y < 15; y++)
            for (uint32_t x = 0; x < 27; x++) {
                uint8_t want[3];
                check_png_pixel(x + X, y + Y, type, depth, want);
                if (memcmp(want, out + (y * 27 + x) * 3, 3) != 0)
                    fail_msg("type %d depth %d interlaced %zu differs at %u,%u", type, depth, i % 2,
                             x, y);
            }
        free(bytes);
    }
}

static void truncated_anywhere_is_an_error(void **state) {
    (void)state;
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        size_t size;
        unsigned char *bytes = check_png(31, 29, 2, 8, interlaced, &size);
        if (!bytes)
            skip();
        uint8_t out[31 * 29 * 3];
        for (size_t n = 0; n + 12 + 16 < size; n += 7) { /* but for the end chunk and checksums */
            unsigned char *cut = malloc(n ? n : 1);
            assert_non_null(cut);
            memcpy(cut, bytes, n);
            assert_int_equal(check_decode(cut, n, "centercrop:h=29,w=31", out), LARDER_E_FORMAT);
            free(cut);
        }
        free(bytes);
    }
}

static void broken_checksum_is_an_error(void **state) {
    (void)state;
    size_t size;
    unsigned char *bytes = check_png(31, 29, 2, 8, false, &size);
    if (!bytes)
        skip();
    uint8_t out[31 * 29 * 3];
    bytes[29] ^= 1; /* of the header chunk */
    assert_int_equal(check_decode(bytes, size, "centercrop:h=29,w=31", out), LARDER_E_FORMAT);
    assert_non_null(strstr(larder_errmsg(), "png: damaged"));
    bytes[29] ^= 1;
    bytes[60] ^= 16; /* inside the pixels */
    assert_int_equal(check_decode(bytes, size, "centercrop:h=29,w=31", out), LARDER_E_FORMAT);
    free(bytes);
}

static void flipped_bits_do_no_harm(void **state) {
    (void)state;
    larder_rng rng;
    larder_rng_seed(&rng, 5, 0);
    for (int i = 0; i < 600; i++) {
        size_t size;
        unsigned char *bytes = check_png(19, 17, i % 2 ? 3 : 6, 8, i % 3 == 0, &size);
        if (!bytes)
            skip();
        for (int k = 0; k < 2; k++)
            bytes[8 + larder_rng_below(&rng, (uint32_t)size - 8)] ^=
                (unsigned char)(1u << larder_rng_below(&rng, 8));
        uint8_t out[8 * 8 * 3];
        check_decode(bytes, size, "rrc:size=8", out);
        free(bytes);
    }
}

static void giant_dimensions_are_refused(void **state) {
    (void)state;
    /* Signature and header of 2^31-1 x 2^31-1 pixels, with the right checksum. */
    static const unsigned char huge[] =
        "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff"
        "\x08\x02\0\0\0\x9b\xab\x9c\x31\0\0\0\0IDAT";
    uint8_t out[8 * 8 * 3];
#if LARDER_HAVE_SPNG
    int rc = check_decode(huge, sizeof huge - 1, "rrc:size=8", out);
    assert_int_equal(rc, LARDER_E_RANGE);
    size_t size;
    unsigned char *line = check_png(1u << 20, 1, 0, 8, false, &size);
    check_ok(check_decode(line, size, "rrc:size=8", out)); /* long, but within the limit */
    free(line);
    assert_int_equal(larder__codec_limit("png", 1u << 20, 65), LARDER_E_RANGE);
    assert_int_equal(larder__codec_limit("png", 1u << 20, 64), 0);
    assert_int_equal(larder__codec_limit("png", UINT64_MAX, UINT64_MAX), LARDER_E_RANGE);
    assert_int_equal(larder__codec_limit("png", 0, 1), LARDER_E_FORMAT);
#else
    assert_int_equal(check_decode(huge, sizeof huge - 1, "rrc:size=8", out), LARDER_E_UNSUPPORTED);
    assert_non_null(strstr(larder_errmsg(), "libspng-dev"));
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_reads_as_rgb),
        cmocka_unit_test(truncated_anywhere_is_an_error),
        cmocka_unit_test(broken_checksum_is_an_error),
        cmocka_unit_test(flipped_bits_do_no_harm),
        cmocka_unit_test(giant_dimensions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
