/* Crop before read against its slow twin: the whole original decoded, then cropped and resized.
 * Every pixel must be the same, for thousands of random crops of made-up pictures and photographs,
 * with and without shrinking decoders, and of what other tools find in the shards. */
#include "pack_kit.h"

#include "base/clones.h"
#include "base/mem.h"
#include "source/source.h"
#include "stage/pipeline.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct bench { /* two pipelines side by side */
    larder__pipeline *part, *whole;
    larder__scratch *scratch;
    uint8_t *got, *want;
    size_t bytes;
} bench;

static void bench_open(bench *b, const char *spec) {
    larder__pipeline_conf conf = {.spec = spec, .dtype = LARDER_U8, .layout = LARDER_NHWC};
    check_ok(larder__pipeline_open(&b->part, &conf));
    conf.whole = true;
    check_ok(larder__pipeline_open(&b->whole, &conf));
    check_ok(larder__scratch_open(&b->scratch));
    b->bytes = larder__pipeline_bytes(b->part);
    b->got = malloc(b->bytes);
    b->want = malloc(b->bytes);
    assert_true(b->got && b->want);
}

static void bench_close(bench *b) {
    larder__pipeline_close(&b->part);
    larder__pipeline_close(&b->whole);
    larder__scratch_close(&b->scratch);
    free(b->got);
    free(b->want);
}

/* One row: the twin reads the original, ours what the rectangle needs of the packed one. */
static bool same_pixels(bench *b, larder__data *plain, larder__data *packed, uint64_t id,
                        uint64_t seed, const char *spec) {
    uint32_t w, h;
    larder_rect rect;
    larder_read original = {0}, part = {0};
    check_ok(larder__data_extent(packed, id, &w, &h));
    if (w == 0)
        return false;
    check_ok(larder__data_read(plain, &id, 1, &original));
    int rc = larder__pipeline_run(b->whole, b->scratch, larder_buf_data(original.buf),
                                  larder_buf_size(original.buf), seed, b->want);
    if (rc == 0) {
        check_ok(larder__pipeline_reach(b->part, w, h, seed, &rect));
        uint32_t told;
        check_ok(larder__data_part_bytes(packed, id, &rect, &told));
        check_ok(larder__data_read_parts(packed, &id, &rect, 1, &part));
        if (part.code < 0)
            fail_msg("%s", part.why);
        assert_int_equal(larder_buf_size(part.buf), told);
        int run = larder__pipeline_run(b->part, b->scratch, larder_buf_data(part.buf),
                                       larder_buf_size(part.buf), seed, b->got);
        if (run < 0)
            fail_msg("sample %llu, seed %llu, %s: %s", (unsigned long long)id,
                     (unsigned long long)seed, spec, larder_errmsg());
        for (size_t i = 0; i < b->bytes; i++)
            if (b->got[i] != b->want[i])
                fail_msg("sample %llu (%u x %u), seed %llu, %s, rect %u..%u by %u..%u / %u: byte "
                         "%zu is %u, not %u",
                         (unsigned long long)id, w, h, (unsigned long long)seed, spec, rect.x0,
                         rect.x1, rect.y0, rect.y1, rect.shrink, i, b->got[i], b->want[i]);
    }
    larder_buf_unref(&original.buf);
    larder_buf_unref(&part.buf);
    return rc == 0;
}

static uint64_t compare(const char *plain_uri, const char *packed_uri, const char *spec,
                        uint64_t rounds) {
    larder__data *plain = NULL, *packed = NULL;
    bench b = {0};
    check_ok(larder__data_open(&plain, plain_uri));
    check_ok(larder__data_open(&packed, packed_uri));
    bench_open(&b, spec);
    uint64_t n = larder__data_about(packed)->count, done = 0;
    assert_int_equal(n, larder__data_about(plain)->count);
    for (uint64_t round = 0; round < rounds; round++)
        for (uint64_t id = 0; id < n; id++)
            done += same_pixels(&b, plain, packed, id, round * 7919 + id, spec);
    bench_close(&b);
    larder__data_close(&plain);
    larder__data_close(&packed);
    return done;
}

static void pack(const char *source, const char *folder, uint32_t restart) {
    larder__pack_conf conf = kit_pack_conf(source, folder);
    larder__pack_result result;
    conf.how.restart = restart;
    check_ok(larder__pack_run(&conf, &result));
}

/* Under a sanitizer decoding takes twenty times as long, and finds what it can find at once. */
static uint64_t rounds_of(uint64_t n) {
#if LARDER__SANITIZED
    return n > 1;
#endif
    return getenv("LARDER_LONG") ? n * 4 : n / 2;
}

static void test_made_up(void **state) {
    (void)state;
    static const char *const specs[] = {
        "rrc:size=24|flip",    "rrc:size=9,scale=0.5/1|flip",
        "rrc:size=64,gap=0",   "resize:h=40,w=30|centercrop:size=28",
        "crop:size=40,pad=40", "rrc:size=5,gap=1"};
    char plain[256], uri[300];
    check_folder(plain);
    if (kit_pictures(plain) == 0)
        skip();
    for (uint32_t restart = 0; restart < 8; restart += 1 + restart) { /* 0, 1, 3, 7 */
        char packed[256];
        check_folder(packed);
        snprintf(uri, sizeof uri, "dir:%s", plain);
        pack(uri, packed, restart);
        uint64_t done = 0;
        for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
            done += compare(uri, packed, specs[i], rounds_of(4));
        assert_true(done > 38 * rounds_of(4));
        check_folder_remove(packed);
    }
    check_folder_remove(plain);
}

static void test_photographs(void **state) {
    (void)state;
    char where[512], uri[600], packed[256];
    if (!check_shared("jpeg", where)) {
        print_message("no photographs in ../shared: skipped\n");
        skip();
    }
    check_folder(packed);
    snprintf(uri, sizeof uri, "tar:%s/*.tar?index=off", where);
    larder__pack_conf conf = kit_pack_conf(uri, packed);
    larder__pack_result result;
    conf.shard_bytes = 4 << 20;
    conf.how.verify = true;
    check_ok(larder__pack_run(&conf, &result));
    assert_true(result.shards > 1);
    assert_true(compare(uri, packed, "rrc:size=224|flip", rounds_of(4)) >= 225 * rounds_of(4));
    assert_true(compare(uri, packed, "rrc:size=48|flip", rounds_of(2)) >= 225 * rounds_of(2));
    check_folder_remove(packed);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_made_up),
                                       cmocka_unit_test(test_photographs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
