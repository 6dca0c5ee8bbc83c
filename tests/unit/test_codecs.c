/* Files of every picture format (those of the fuzz targets), cut off and with bits turned over: a
 * negative code and a sentence, or some picture; never more, and the same each time. */
#include "check.h"
#include "pictures.h"

#include "base/file.h"
#include "base/mem.h"
#include "stage/codec.h"
#include "stage/pipeline.h"

#include <larder/plugin.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static const larder__codec *const codecs[] = {&larder__codec_bmp, &larder__codec_pnm,
                                              &larder__codec_webp, &larder__codec_tiff,
                                              &larder__codec_gif};
enum { CODECS = sizeof codecs / sizeof *codecs, W = 19, H = 13 };

typedef void (*try_file)(const larder__codec *, const char *name, unsigned char *, size_t);

/* Every file that is a picture: W x H pixels. */
static void each_file(try_file try) {
    for (size_t i = 0; i < CODECS; i++) {
        char folder[100], path[400];
        snprintf(folder, sizeof folder, "tests/fuzz/corpus/%s", codecs[i]->name);
        DIR *d = opendir(folder);
        assert_non_null(d);
        int tried = 0;
        for (struct dirent *e; (e = readdir(d));) {
            unsigned char *bytes = NULL;
            size_t size;
            uint8_t out[W * H * 3];
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
            if (e->d_name[0] == '.')
                continue;
            check_ok(larder__file_read(path, 1 << 20, &bytes, &size));
            assert_true(codecs[i]->mine(bytes, size));
            int rc = check_decode(bytes, size, "centercrop:h=13,w=19", out);
            bool bomb = strstr(path, "bomb") || strstr(path, "tile");
            if (rc != LARDER_E_UNSUPPORTED && rc != (bomb ? LARDER_E_RANGE : 0))
                fail_msg("%s: %d, %s", path, rc, larder_errmsg());
            if (rc == 0)
                try(codecs[i], path, bytes, size);
            tried += rc == 0;
            larder__free(bytes);
        }
        closedir(d);
        if (codecs[i]->pixels && !tried)
            fail_msg("no %s to try", codecs[i]->name);
    }
}

/* In memory of its own, so that a sanitizer sees a byte too many. */
static int decode_copy(const unsigned char *bytes, size_t size, uint8_t *out) {
    unsigned char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    int rc = check_decode(copy, size, "centercrop:h=13,w=19", out);
    free(copy);
    return rc;
}

static void cut(const larder__codec *c, const char *path, unsigned char *bytes, size_t size) {
    uint8_t whole[W * H * 3], out[W * H * 3];
    check_ok(decode_copy(bytes, size, whole));
    for (size_t n = 0; n < size; n += 3) {
        int rc = decode_copy(bytes, n, out);
        if (rc < 0 && rc != LARDER_E_FORMAT && rc != LARDER_E_UNSUPPORTED)
            fail_msg("%s, %zu of %zu bytes: %d, %s", path, n, size, rc, larder_errmsg());
        if (rc == 0 && memcmp(out, whole, sizeof out) != 0 && c != &larder__codec_tiff)
            fail_msg("%s: another picture with %zu of %zu bytes", path, n, size);
        if (rc == 0 && n < size / 2 && strstr(path, "colours") == NULL)
            fail_msg("%s: a picture with %zu of %zu bytes", path, n, size);
    }
}

static void cut_anywhere(void **state) {
    (void)state;
    each_file(cut);
}

static void turn_bits(const larder__codec *c, const char *path, unsigned char *bytes, size_t size) {
    (void)c, (void)path;
    larder_rng rng;
    larder_rng_seed(&rng, 7, size);
    for (int i = 0; i < 100; i++) {
        uint8_t out[W * H * 3];
        size_t at = larder_rng_below(&rng, (uint32_t)(i % 2 && size > 64 ? 64 : size));
        unsigned char bit = (unsigned char)(1u << larder_rng_below(&rng, 8));
        bytes[at] ^= bit;
        if (decode_copy(bytes, size, out) < 0)
            assert_true(larder_errmsg()[0]);
        bytes[at] ^= bit;
    }
}

static void turned_bits_do_no_harm(void **state) {
    (void)state;
    each_file(turn_bits);
}

/* What a build lacks has a package's name. */
static void missing_libraries(void **state) {
    (void)state;
    for (size_t i = 0; i < CODECS; i++) {
        uint32_t w, h;
        if (codecs[i]->pixels)
            continue;
        assert_int_equal(codecs[i]->head(NULL, NULL, 0, &w, &h), LARDER_E_UNSUPPORTED);
        assert_non_null(strstr(larder_errmsg(), "apt install lib"));
    }
    assert_int_equal(larder__codec_missing("X", "libx", "libx-dev"), LARDER_E_UNSUPPORTED);
    assert_string_equal(larder_errmsg(), "this build decodes no X: libx was missing (apt install "
                                         "libx-dev, then build again)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(turned_bits_do_no_harm),
        cmocka_unit_test(missing_libraries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
