/* The loader on packed shards: batches are what they are from the plain pictures, the ledger has
 * the bytes that were read, the simulator says the same, and a run goes on after a save. */
#include "loader_kit.h"
#include "look_kit.h"
#include "pack_kit.h"

#include "sim/sim.h"
#include "source/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CROP "rrc:size=20|flip"
#define MIDDLE "resize:h=36,w=36|centercrop:size=16"

static char plain[256], packed[256], uri[300];
static size_t pictures;

static int set_up(void **state) {
    (void)state;
    check_folder(plain);
    check_folder(packed);
    pictures = kit_pictures(plain);
    snprintf(uri, sizeof uri, "dir:%s", plain);
    larder__pack_conf conf = kit_pack_conf(uri, packed);
    larder__pack_result r;
    conf.how.restart = 2;
    return pictures && larder__pack_run(&conf, &r) < 0 ? -1 : 0;
}

static int tear_down(void **state) {
    (void)state;
    check_folder_remove(plain);
    check_folder_remove(packed);
    return 0;
}

static larder_loader_conf conf_of(const char *source, const char *recipe, const char *augment) {
    larder_loader_conf c = kit_conf(source, recipe);
    c.augment = augment;
    c.batch = 5;
    c.epochs = 4;
    c.cache = "35%";
    return c;
}

static size_t run(const larder_loader_conf *c, uint64_t *digests, size_t max,
                  larder_figures *figures) {
    larder_loader *l = NULL;
    check_ok(larder_loader_open(&l, c));
    size_t n = kit_run(l, digests, max);
    for (uint64_t e = 0; figures && e < c->epochs; e++)
        check_ok(look_figures(l, e, &figures[e]));
    larder_loader_close(&l);
    return n;
}

/* Whatever is read of a picture, and by however many threads: the same batches. The cache holds
 * everything, since whole samples and parts differ in size and some recipes follow the cache. */
static void test_same_batches(void **state) {
    (void)state;
    static const char *const recipes[] = {"minio", "lru", "quiver", "icache"};
    if (!pictures)
        skip();
    for (size_t k = 0; k < sizeof recipes / sizeof *recipes; k++)
        for (int middle = 0; middle < 2; middle++) {
            uint64_t want[64], got[64];
            larder_loader_conf c = conf_of(packed, recipes[k], middle ? MIDDLE : CROP);
            c.cache = "64MiB";
            c.parts = LARDER_PARTS_OFF;
            c.threads = 1;
            size_t n = run(&c, want, 64, NULL);
            c.threads = 3;
            for (int parts = LARDER_PARTS_READ; parts <= LARDER_PARTS_KEEP; parts++) {
                if (parts == LARDER_PARTS_KEEP && strcmp(recipes[k], "icache") == 0)
                    continue; /* serves stand-ins */
                c.parts = (larder_parts)parts;
                assert_int_equal(run(&c, got, 64, NULL), n);
                assert_memory_equal(want, got, n * sizeof *want);
            }
        }
}

/* Without a cache the order follows from the seed alone: pixels equal those of the plain files. */
static void test_same_as_plain(void **state) {
    (void)state;
    if (!pictures)
        skip();
    uint64_t want[64], got[64];
    larder_figures whole[4], part[4];
    larder_loader_conf c = conf_of(uri, "lru", CROP);
    c.cache = "0";
    size_t n = run(&c, want, 64, whole);
    c.source = packed;
    for (uint32_t threads = 1; threads < 4; threads++) {
        c.threads = threads;
        assert_int_equal(run(&c, got, 64, part), n);
        assert_memory_equal(want, got, n * sizeof *want);
    }
    uint64_t all = 0, read = 0;
    for (int e = 0; e < 4; e++) {
        all += whole[e].storage_bytes;
        read += part[e].storage_bytes;
    }
    assert_true(read < all);
}

static void test_ledger_is_simulated(void **state) {
    (void)state;
    static const char *const recipes[] = {"lru", "minio", "random", "fifo", "sieve"};
    if (!pictures)
        skip();
    for (size_t k = 0; k < 5; k++)
        for (int parts = LARDER_PARTS_READ; parts <= LARDER_PARTS_OFF; parts++)
            for (int middle = 0; middle < 2; middle++) {
                larder_figures f[4];
                uint64_t digests[64];
                larder_loader_conf c = conf_of(packed, recipes[k], middle ? MIDDLE : CROP);
                c.parts = (larder_parts)parts;
                run(&c, digests, 64, f);
                larder__sim_conf s = {.recipe = recipes[k],
                                      .cache = c.cache,
                                      .epochs = c.epochs,
                                      .batch = c.batch,
                                      .seed = c.seed,
                                      .size = 1,
                                      .data = packed,
                                      .augment = c.augment,
                                      .parts = c.parts};
                larder__sim_result r;
                check_ok(larder__sim_run(&s, &r));
                assert_int_equal(r.count, 4);
                for (int e = 0; e < 4; e++) {
                    assert_int_equal(r.epochs[e].hits, f[e].hits);
                    assert_int_equal(r.epochs[e].misses, f[e].misses);
                    assert_int_equal(r.epochs[e].storage_bytes, f[e].storage_bytes);
                }
                larder__sim_free(&r);
            }
}

/* A cache of parts serves crops that repeat from memory, and holds less of each sample. */
static void test_keep(void **state) {
    (void)state;
    if (!pictures)
        skip();
    larder_figures whole[4], part[4];
    uint64_t digests[64];
    larder_loader_conf c = conf_of(packed, "minio", "centercrop:size=32");
    c.cache = "30%";
    run(&c, digests, 64, whole);
    c.parts = LARDER_PARTS_KEEP;
    run(&c, digests, 64, part);
    assert_true(part[3].hits > whole[3].hits);
    assert_true(part[0].storage_bytes < whole[0].storage_bytes);
}

/* Saved after any batch, with parts of samples in the cache, the rest comes out the same. */
static void test_goes_on(void **state) {
    (void)state;
    if (!pictures)
        skip();
    for (int parts = LARDER_PARTS_READ; parts <= LARDER_PARTS_KEEP; parts++)
        for (size_t at = 1; at < 12; at += 2) {
            uint64_t want[64], got[64];
            larder_loader_conf c = conf_of(packed, "lru", CROP);
            c.parts = (larder_parts)parts;
            size_t n = run(&c, want, 64, NULL);
            larder_loader *l = NULL;
            void *bytes;
            size_t size;
            check_ok(larder_loader_open(&l, &c));
            size_t first = kit_run(l, got, at);
            check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
            larder_loader_close(&l);
            check_ok(larder_loader_open(&l, &c));
            check_ok(larder_loader_restore(l, LARDER_STATE, bytes, size));
            size_t rest = kit_run(l, got + first, 64 - first);
            larder_loader_close(&l);
            larder_free(bytes);
            assert_int_equal(first + rest, n);
            assert_memory_equal(want, got, n * sizeof *want);
        }
}

static void test_refusals(void **state) {
    (void)state;
    if (!pictures)
        skip();
    larder_loader *l = NULL;
    larder_loader_conf c = conf_of(packed, "icache", CROP);
    c.parts = LARDER_PARTS_KEEP;
    assert_int_equal(larder_loader_open(&l, &c), LARDER_E_ARGS);
    assert_non_null(strstr(larder_errmsg(), "stand-ins"));
    c.parts = (larder_parts)9;
    assert_int_equal(larder_loader_open(&l, &c), LARDER_E_ARGS);
}

/* Slow storage hands on what lies behind it, and charges for the part alone. */
static void test_behind_a_wire(void **state) {
    (void)state;
    if (!pictures)
        skip();
    char slow[400];
    uint64_t want[64], got[64];
    larder_figures a[4], b[4];
    snprintf(slow, sizeof slow, "slow:bandwidth=1GB:pack:%s", packed);
    larder_loader_conf c = conf_of(packed, "minio", CROP);
    size_t n = run(&c, want, 64, a);
    c.source = slow;
    assert_int_equal(run(&c, got, 64, b), n);
    assert_memory_equal(want, got, n * sizeof *want);
    for (int e = 0; e < 4; e++)
        assert_int_equal(a[e].storage_bytes, b[e].storage_bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_batches),
                                       cmocka_unit_test(test_same_as_plain),
                                       cmocka_unit_test(test_ledger_is_simulated),
                                       cmocka_unit_test(test_keep),
                                       cmocka_unit_test(test_goes_on),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_behind_a_wire)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
