/* The pipeline as a whole: what it refuses at open, wrong samples, chance, memory. */
#include "check.h"
#include "pictures.h"

#include "base/mem.h"
#include "stage/pipeline.h"
#include "stage/scratch.h"

#include <stdlib.h>
#include <string.h>

static const larder_shape none = {0, 0, 0}, cifar = {32, 32, 3};

static int open_only(const char *spec, larder_shape raw, larder_dtype dtype) {
    larder__pipeline *p = NULL;
    larder__pipeline_conf conf = {.spec = spec, .raw = raw, .dtype = dtype};
    int rc = larder__pipeline_open(&p, &conf);
    assert_true((rc == 0) == (p != NULL));
    larder__pipeline_close(&p);
    return rc;
}

static void wrong_specs_are_told_apart(void **state) {
    (void)state;
    static const struct {
        const char *spec, *says;
    } cases[] = {
        {"rrc:size=224||flip", "joined by one |"},
        {"rrc:size=224|", "joined by one |"},
        {"|flip", "joined by one |"},
        {"  |  ", "joined by one |"},
        {"rrx:size=224", "did you mean rrc?"},
        {"rrc:siz=224", "has no parameter \"siz\""},
        {"rrc:size=0", "say either size=N"},
        {"rrc:size=-4", "not within"},
        {"rrc:size=1.5", "whole number"},
        {"rrc:size=nan", "not a number"},
        {"flip:p=2", "not within"},
        {"", "add a stage that fixes it"},
        {NULL, "rrc:size=224"},
        {"flip", "add a stage that fixes it"},
        {"resize:size=256", "add a stage that fixes it"},
        {"crop:size=32,pad=4,mode=reflect|rrc:size=8|pad:by=99,mode=reflect", "mirrors more than"},
        {"normalize:preset=imagenet|rrc:size=8", "before normalize"},
        {"rrc:size=8|normalize:mean=1/2,std=1/2", "2 means"},
        {"centercrop:size=16384", "the limit is"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(open_only(cases[i].spec, none, LARDER_F32) < 0);
        if (!strstr(larder_errmsg(), cases[i].says))
            fail_msg("%s: %s", cases[i].spec ? cases[i].spec : "NULL", larder_errmsg());
    }
    assert_int_equal(open_only("rrc:size=8|normalize:preset=imagenet", none, LARDER_U8),
                     LARDER_E_ARGS);
    assert_int_equal(open_only("crop:size=41,pad=4", cifar, LARDER_U8), LARDER_E_RANGE);
    check_ok(open_only("crop:size=40,pad=4", cifar, LARDER_U8));
    check_ok(open_only(" rrc:size=8 | flip ", none, LARDER_U8));
    check_ok(open_only("resize:size=256|rrc:size=224", none, LARDER_U8));
    check_ok(
        open_only("crop:size=32,pad=4|resize:h=8,w=8|pad:by=1|pad:by=2,fill=1", none, LARDER_U8));
    assert_int_equal(open_only("", (larder_shape){4, 4, 5}, LARDER_U8), LARDER_E_UNSUPPORTED);
    assert_int_equal(open_only("", (larder_shape){1 << 20, 1 << 20, 1}, LARDER_U8), LARDER_E_RANGE);
    assert_int_equal(open_only("", (larder_shape){4, 0, 1}, LARDER_U8), LARDER_E_FORMAT);
    char many[400] = "flip";
    for (int i = 0; i < 16; i++)
        strcat(many, "|flip");
    assert_int_equal(open_only(many, cifar, LARDER_U8), LARDER_E_ARGS);
}

static void other_formats_are_named(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        const char *says;
    } cases[] = {{"", 0, "empty"},
                 {"\x1f\x8b\x08", 3, "gzip"},
                 {"\0\0\0\x0cjP  \r\n", 10, "JPEG 2000"},
                 {"<!DOCTYPE html>", 15, "HTML"},
                 {"404 not found", 13, "plain text"},
                 {"\1\2\3", 3, "unknown"},
                 {"\xff", 1, "unknown"},
                 {"\0\0\0\x1c"
                  "ftypavif",
                  12, "AVIF"}};
    larder__pipeline *p = NULL;
    larder__scratch *s = NULL;
    larder__pipeline_conf conf = {.spec = "rrc:size=8"};
    uint8_t out[8 * 8 * 3];
    check_ok(larder__pipeline_open(&p, &conf));
    check_ok(larder__scratch_open(&s));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char *copy = malloc(cases[i].n + 1);
        assert_non_null(copy);
        memcpy(copy, cases[i].bytes, cases[i].n);
        copy = realloc(copy, cases[i].n ? cases[i].n : 1);
        assert_int_equal(larder__pipeline_run(p, s, copy, cases[i].n, 0, out), LARDER_E_FORMAT);
        if (!strstr(larder_errmsg(), cases[i].says))
            fail_msg("%s, not %s", larder_errmsg(), cases[i].says);
        free(copy);
    }
    larder__scratch_close(&s);
    larder__pipeline_close(&p);
}

static void run_raw(const char *spec, larder_shape raw, larder_layout from, larder_dtype dtype,
                    larder_layout to, const uint8_t *in, uint64_t seed, void *out) {
    larder__pipeline *p = NULL;
    larder__scratch *s = NULL;
    larder__pipeline_conf conf = {
        .spec = spec, .raw = raw, .raw_layout = from, .dtype = dtype, .layout = to};
    check_ok(larder__pipeline_open(&p, &conf));
    check_ok(larder__scratch_open(&s));
    check_ok(larder__pipeline_run(p, s, in, (size_t)raw.h * raw.w * raw.c, seed, out));
    larder__scratch_close(&s);
    larder__pipeline_close(&p);
}

static void layouts_say_the_same(void **state) {
    (void)state;
    uint8_t planes[3072], packed[3072], a[3072], b[3072];
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < 1024; i++)
            planes[c * 1024 + i] = packed[i * 3 + c] = (uint8_t)(i * 7 + c * 50 + i / 9);
    static const char *const specs[] = {"", "crop:size=32,pad=4|flip", "rrc:size=20|flip",
                                        "resize:h=9,w=40", "centercrop:size=50"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (uint64_t seed = 0; seed < 20; seed++) {
            uint8_t big[4][50 * 50 * 3];
            larder_shape raw = cifar;
            for (unsigned k = 0; k < 4; k++) {
                larder_layout from = k & 1 ? LARDER_NHWC : LARDER_NCHW;
                memset(big[k], 0, sizeof big[k]);
                run_raw(specs[i], raw, from, LARDER_U8, k & 2 ? LARDER_NHWC : LARDER_NCHW,
                        from == LARDER_NHWC ? packed : planes, seed, big[k]);
            }
            assert_memory_equal(big[0], big[1], sizeof big[0]);
            assert_memory_equal(big[2], big[3], sizeof big[0]);
        }
    run_raw("", cifar, LARDER_NCHW, LARDER_U8, LARDER_NCHW, planes, 0, a);
    run_raw("", cifar, LARDER_NCHW, LARDER_U8, LARDER_NHWC, planes, 0, b);
    assert_memory_equal(a, planes, sizeof a); /* no stage: nothing changes */
    assert_memory_equal(b, packed, sizeof b);
}

static void chance_comes_from_the_seed_alone(void **state) {
    (void)state;
    uint8_t in[3072], a[3072], b[3072];
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (uint8_t)(i * i / 7);
    larder__pipeline *p = NULL;
    larder__scratch *s = NULL, *other = NULL;
    larder__pipeline_conf conf = {.spec = "rrc:size=32|flip", .raw = cifar, .dtype = LARDER_U8};
    check_ok(larder__pipeline_open(&p, &conf));
    check_ok(larder__scratch_open(&s));
    check_ok(larder__scratch_open(&other));
    int differ = 0;
    for (uint64_t seed = 0; seed < 50; seed++) {
        check_ok(larder__pipeline_run(p, s, in, sizeof in, seed, a));
        check_ok(larder__pipeline_run(p, other, in, sizeof in, seed + 1, b));
        differ += memcmp(a, b, sizeof a) != 0;
        check_ok(larder__pipeline_run(p, other, in, sizeof in, seed, b));
        assert_memory_equal(a, b, sizeof a);
    }
    assert_true(differ > 45);
    assert_int_equal(larder__pipeline_run(p, s, in, sizeof in - 1, 0, a), LARDER_E_FORMAT);
    assert_non_null(strstr(larder_errmsg(), "3071 bytes"));
    larder__scratch_close(&s);
    larder__scratch_close(&other);
    larder__pipeline_close(&p);
}

/* Opens, runs and closes with the n-th allocation failing; true once none failed. */
static bool survive(uint64_t n, const char *spec, larder_shape raw, const void *bytes, size_t size,
                    uint8_t *out) {
    larder__pipeline *p = NULL;
    larder__scratch *s = NULL;
    larder__pipeline_conf conf = {.spec = spec, .raw = raw, .dtype = LARDER_U8};
    larder__mem_fail_at(n, 0);
    int rc = larder__pipeline_open(&p, &conf);
    if (rc == 0)
        rc = larder__scratch_open(&s);
    if (rc == 0)
        rc = larder__pipeline_run(p, s, bytes, size, 1, out);
    bool failed = larder__mem_failed();
    larder__mem_fail_at(0, 0);
    if (failed)
        assert_int_equal(rc, LARDER_E_NOMEM);
    else
        check_ok(rc);
    if (failed && p && s) /* and afterwards it works again */
        check_ok(larder__pipeline_run(p, s, bytes, size, 1, out));
    larder__scratch_close(&s);
    larder__pipeline_close(&p);
    return !failed;
}

/* What evaluation and the like see: random stages do the middle of what they may. */
static void without_chance(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"crop:size=32,pad=4|flip", ""},
                                           {"crop:size=20", "centercrop:size=20"},
                                           {"flip:p=1", ""},
                                           {"rrc:size=16|flip", "resize:size=16"}};
    static uint8_t raw[32 * 32 * 3];
    static float a[32 * 32 * 3], b[32 * 32 * 3];
    for (size_t i = 0; i < sizeof raw; i++)
        raw[i] = (uint8_t)(i * 7 + i / 96);
    for (size_t k = 0; k < 4; k++) {
        float *out[2] = {a, b};
        size_t bytes = 0;
        for (int side = 0; side < 2; side++) {
            larder__pipeline *p = NULL;
            larder__scratch *scratch = NULL;
            larder__pipeline_conf conf = {
                .spec = pairs[k][side], .raw = cifar, .dtype = LARDER_F32};
            check_ok(larder__pipeline_open(&p, &conf));
            check_ok(larder__scratch_open(&scratch));
            check_ok(larder__pipeline_run(p, scratch, raw, sizeof raw, side ? 5 : LARDER__NO_CHANCE,
                                          out[side]));
            bytes = larder__pipeline_bytes(p);
            larder__scratch_close(&scratch);
            larder__pipeline_close(&p);
        }
        assert_memory_equal(a, b, bytes);
    }
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    uint8_t raw[3072] = {0}, out[16 * 16 * 3];
    uint64_t n = 1;
    while (!survive(n, "rrc:size=16|flip", cifar, raw, sizeof raw, out))
        n++;
    assert_true(n > 6);
    size_t size;
    unsigned char *bytes =
        check_jpeg(&(check_jpeg_conf){40, 30, 3, 2, 2, false, 0, 1, false}, &size);
    for (n = 1; bytes && !survive(n, "rrc:size=16", none, bytes, size, out);)
        n++;
    free(bytes);
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        bytes = check_png(40, 30, 2, 8, interlaced, &size);
        for (n = 1; bytes && !survive(n, "rrc:size=16", none, bytes, size, out);)
            n++;
        free(bytes);
    }
}

static void a_giant_sample_does_not_stay(void **state) {
    (void)state;
    larder__scratch *s = NULL;
    check_ok(larder__scratch_open(&s));
    assert_non_null(larder__scratch_take(s, LARDER__BLOCK_DECODED, (size_t)100 << 20));
    assert_non_null(larder__scratch_take(s, LARDER__BLOCK_LINE, 1000));
    larder__scratch_trim(s);
    assert_int_equal(s->cap[LARDER__BLOCK_DECODED], 0);
    assert_true(s->cap[LARDER__BLOCK_LINE] >= 1000);
    larder__scratch_close(&s);
    larder__scratch_close(&s);
    larder__pipeline *p = NULL;
    larder__pipeline_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_specs_are_told_apart),
        cmocka_unit_test(other_formats_are_named),
        cmocka_unit_test(layouts_say_the_same),
        cmocka_unit_test(chance_comes_from_the_seed_alone),
        cmocka_unit_test(without_chance),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_giant_sample_does_not_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
