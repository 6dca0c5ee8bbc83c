/* Huffman decoding of larder's own against the library's: any part of sound pictures has the same
 * pixels, and nothing is handed back as out of order. */
#include "check.h"
#include "pictures.h"

#include <larder/plugin.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#if LARDER_HAVE_JPEG

#include <jpeglib.h>

#include "stage/jpeg_entropy.h"

typedef struct decoder {
    larder__entropy entropy; /* first: client_data leads to it */
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr err;
} decoder;

static void given_up(larder__entropy *e) {
    (void)e;
    fail_msg("a sound picture was taken for a broken one");
}

static decoder *decoder_open(void) {
    decoder *j = calloc(1, sizeof *j);
    assert_non_null(j);
    j->entropy.fault = given_up;
    j->d.err = jpeg_std_error(&j->err);
    jpeg_create_decompress(&j->d);
    j->d.client_data = j;
    return j;
}

static void decoder_close(decoder *j) {
    jpeg_destroy_decompress(&j->d);
    free(j);
}

/* Columns x .. x+w-1 or some more, rows y .. y+h-1; *taken: whether larder's decoder did it. */
static uint8_t *part(decoder *j, const uint8_t *bytes, size_t size, const JDIMENSION at[4],
                     bool ours, bool *taken, size_t *n) {
    jpeg_mem_src(&j->d, bytes, (unsigned long)size);
    jpeg_read_header(&j->d, TRUE);
    jpeg_start_decompress(&j->d);
    *taken = ours && larder__entropy_take(&j->entropy, &j->d);
    JDIMENSION x = at[0], w = at[2];
    if (w < j->d.output_width)
        jpeg_crop_scanline(&j->d, &x, &w);
    size_t row = (size_t)w * (size_t)j->d.output_components;
    uint8_t *out = malloc(*n = row * at[3]);
    assert_non_null(out);
    jpeg_skip_scanlines(&j->d, at[1]);
    for (JDIMENSION y = 0; y < at[3];) {
        JSAMPROW to = out + y * row;
        y += jpeg_read_scanlines(&j->d, &to, 1);
    }
    jpeg_abort_decompress(&j->d);
    return out;
}

static int compare_parts(const uint8_t *bytes, size_t size, uint32_t w, uint32_t h, int tries) {
    decoder *j = decoder_open(), *library = decoder_open();
    larder_rng rng;
    int by_us = 0;
    larder_rng_seed(&rng, w * 7 + h, size);
    for (int i = 0; i < tries; i++) {
        JDIMENSION at[4] = {0, 0, w, h};
        bool taken, no;
        size_t n, m;
        if (i > 0) {
            at[0] = larder_rng_below(&rng, w);
            at[1] = larder_rng_below(&rng, h);
            at[2] = 1 + larder_rng_below(&rng, w - at[0]);
            at[3] = 1 + larder_rng_below(&rng, h - at[1]);
        }
        uint8_t *mine = part(j, bytes, size, at, true, &taken, &n);
        uint8_t *theirs = part(library, bytes, size, at, false, &no, &m);
        assert_int_equal(n, m);
        assert_memory_equal(mine, theirs, n);
        by_us += taken;
        free(mine);
        free(theirs);
    }
    decoder_close(j);
    decoder_close(library);
    return by_us;
}

static jmp_buf gave_up;

static void give_up(larder__entropy *e) {
    (void)e;
    longjmp(gave_up, 1);
}

/* The library accepts a table that has no code at all; whoever looks one up must not go on for
 * ever. */
static void no_code_is_a_fault(void **state) {
    (void)state;
    check_jpeg_conf conf = {40, 40, 3, 1, 1, false, 0, 1, false};
    size_t size;
    unsigned char *bytes = check_jpeg(&conf, &size);
    if (!bytes)
        skip();
    for (int rows = 0; rows < 2; rows++) { /* to be read, and to be leaped over */
        decoder *j = decoder_open();
        j->entropy.fault = give_up;
        jpeg_mem_src(&j->d, bytes, (unsigned long)size);
        jpeg_read_header(&j->d, TRUE);
        for (int i = 0; i < 2; i++)
            memset(j->d.ac_huff_tbl_ptrs[i], 0, sizeof *j->d.ac_huff_tbl_ptrs[i]);
        jpeg_start_decompress(&j->d);
        bool taken = larder__entropy_take(&j->entropy, &j->d);
        uint8_t row[40 * 3];
        JSAMPROW to = row;
        if (taken && setjmp(gave_up) == 0) {
            if (rows)
                jpeg_skip_scanlines(&j->d, 32);
            jpeg_read_scanlines(&j->d, &to, 1);
            fail_msg("decoded without a code");
        }
        decoder_close(j);
    }
    free(bytes);
}

static void made_pictures(void **state) {
    (void)state;
    static const int samps[][2] = {{1, 1}, {2, 1}, {2, 2}, {1, 2}};
    static const uint32_t sides[][2] = {{1, 1}, {17, 33}, {131, 97}, {640, 200}};
    int by_us = 0;
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        for (size_t k = 0; k < sizeof samps / sizeof *samps; k++)
            for (int form = 0; form < 3; form++) {
                check_jpeg_conf conf = {sides[i][0],       sides[i][1], form == 2 ? 1 : 3,
                                        samps[k][0],       samps[k][1], false,
                                        form == 1 ? 3 : 0, (uint32_t)k, false};
                size_t size;
                unsigned char *bytes = check_jpeg(&conf, &size);
                if (!bytes)
                    skip();
                by_us += compare_parts(bytes, size, conf.w, conf.h, 20);
                free(bytes);
            }
    if (by_us == 0)
        skip(); /* a library whose inside is not known */
    assert_int_equal(by_us, 4 * 4 * 3 * 20);
}

/* Codes of 16 bits, values of 10 and runs of 16, and blocks full to the last coefficient: noise. */
static unsigned char *noise(uint32_t side, int quality, boolean optimise, unsigned long *size) {
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr err;
    unsigned char *bytes = NULL;
    uint8_t row[3 * 256];
    larder_rng rng;
    larder_rng_seed(&rng, side, (uint64_t)quality);
    c.err = jpeg_std_error(&err);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &bytes, size);
    c.image_width = c.image_height = side;
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, quality, TRUE);
    c.optimize_coding = optimise;
    jpeg_start_compress(&c, TRUE);
    for (uint32_t y = 0; y < side; y++) {
        for (uint32_t x = 0; x < side * 3; x++) /* some parts flat, some wild */
            row[x] = y / 32 % 3 == 0 ? 128 : (uint8_t)(larder_rng_below(&rng, 2) * 255);
        JSAMPROW at = row;
        jpeg_write_scanlines(&c, &at, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    return bytes;
}

static void wild_pictures(void **state) {
    (void)state;
    for (int quality = 1; quality <= 100; quality += 33)
        for (int optimise = 0; optimise < 2; optimise++) {
            unsigned long size = 0;
            unsigned char *bytes = noise(203, quality, optimise, &size);
            assert_non_null(bytes);
            compare_parts(bytes, size, 203, 203, 12);
            free(bytes);
        }
}

#else

static void made_pictures(void **state) {
    (void)state;
    skip();
}
static void wild_pictures(void **state) {
    (void)state;
    skip();
}
static void no_code_is_a_fault(void **state) {
    (void)state;
    skip();
}

#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_pictures),
        cmocka_unit_test(wild_pictures),
        cmocka_unit_test(no_code_is_a_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
