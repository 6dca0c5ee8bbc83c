/* What a sample costs before anybody reads it: bytes of memory as asked for, by data sets of two
 * sizes. Tables of a cache count whole here, though their pages are had only when they are used. */
#include "check.h"
#include "tar_many.h"

#include "base/mem.h"
#include "source/source.h"

#include <string.h>

enum { FEW = 2, MANY = 22 }; /* shards */

static int set_up(void **state) {
    static char folder[256];
    char kept[300];
    check_folder(folder);
    snprintf(kept, sizeof kept, "%s/kept", folder);
    setenv("LARDER_CACHE_DIR", kept, 1);
    check_ok(tar_many(folder, 0, MANY));
    *state = folder;
    return 0;
}

static int tear_down(void **state) {
    check_folder_remove(*state);
    return 0;
}

static const char *shards(const char *folder, int n, char out[400]) {
    snprintf(out, 400, "tar:%s/s-{000000..%06d}.tar", folder, n - 1);
    return out;
}

/* Bytes that are held once it is open. */
static uint64_t source_bytes(const char *uri, uint64_t n) {
    larder__purse purse = {.most = UINT64_MAX}, *before = larder__mem_charge(&purse);
    larder__data *d;
    check_ok(larder__data_open(&d, uri));
    uint64_t held = purse.used;
    larder__mem_charge(before);
    assert_int_equal(larder__data_about(d)->count, n);
    larder__data_close(&d);
    return held;
}

static void test_source(void **state) {
    char few[400], many[400], name[64];
    uint64_t less = source_bytes(shards(*state, FEW, few), FEW * (uint64_t)TAR_MANY_SHARD);
    uint64_t more = source_bytes(shards(*state, MANY, many), MANY * (uint64_t)TAR_MANY_SHARD);
    double each = ((double)more - (double)less) / ((MANY - FEW) * (double)TAR_MANY_SHARD);
    if (each > 0.1) /* a thousand bytes a shard */
        fail_msg("%.2f bytes of memory a sample of tar shards", each);
    larder__data *d; /* which are there all the same */
    larder_sample s;
    uint64_t last = MANY * (uint64_t)TAR_MANY_SHARD - 1;
    check_ok(larder__data_open(&d, many));
    assert_int_equal(larder__data_about(d)->bytes, (last + 1) * TAR_MANY_BYTES);
    assert_int_equal(larder__data_about(d)->classes, TAR_MANY_CLASSES);
    for (uint64_t id = 0; id <= last; id += 7919) {
        char want[64];
        snprintf(want, sizeof want, "s-%06llu.tar:%09llu.jpg",
                 (unsigned long long)(id / TAR_MANY_SHARD), (unsigned long long)id);
        check_ok(larder__data_name(d, id, name, sizeof name));
        check_ok(larder__data_stat(d, id, &s));
        assert_string_equal(name, want);
        assert_int_equal(s.bytes, TAR_MANY_BYTES);
        assert_int_equal(s.label, id % TAR_MANY_CLASSES);
    }
    larder__data_close(&d);
}

static uint64_t loader_bytes(const char *uri, const char *recipe) {
    larder_loader_conf c = {.size = sizeof c,
                            .source = uri,
                            .recipe = recipe,
                            .cache = "20%",
                            .threads = 1,
                            .order_only = true};
    larder__purse purse = {.most = UINT64_MAX}, *before = larder__mem_charge(&purse);
    larder_loader *l;
    check_ok(larder_loader_open(&l, &c));
    uint64_t held = purse.used;
    larder__mem_charge(before);
    larder_loader_close(&l);
    return held;
}

/* A cache's tables, an order and a ledger; nothing of the source. */
static void test_loader(void **state) {
    static const struct {
        const char *recipe;
        double most;
    } rows[] = {{"minio", 21}, {"lru", 28}, {"rotate", 52}};
    char few[400], many[400];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double each[2];
        each[0] = ((double)loader_bytes("mem:?n=1000000", rows[i].recipe) -
                   (double)loader_bytes("mem:?n=100000", rows[i].recipe)) /
                  9e5;
        each[1] = ((double)loader_bytes(shards(*state, MANY, many), rows[i].recipe) -
                   (double)loader_bytes(shards(*state, FEW, few), rows[i].recipe)) /
                  ((MANY - FEW) * (double)TAR_MANY_SHARD);
        if (each[0] > rows[i].most || each[1] > each[0] + 0.5)
            fail_msg("%s: %.2f and %.2f bytes of memory a sample", rows[i].recipe, each[0],
                     each[1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_source),
                                       cmocka_unit_test(test_loader)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
