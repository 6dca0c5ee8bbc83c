/* A loader whose cache lies in Redis does what one with an embedded cache does: the same samples,
 * pixels and figures, whatever the recipe, the split, the tiers and the number of threads. */
#include "loader_kit.h"
#include "look_kit.h"
#include "redis_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SOURCE "mem:?n=700&h=8&w=8&c=3"
enum { MOST = 400 };

typedef struct outcome {
    uint64_t digests[MOST];
    size_t count;
    larder_figures figures[3];
    double gone, damaged, asked;
} outcome;

static void run(outcome *out, const char *recipe, const char *cache, uint32_t threads) {
    larder_loader_conf c = kit_conf(SOURCE, recipe);
    larder_loader *l;
    c.cache = cache;
    c.epochs = 3;
    c.threads = threads;
    *out = (outcome){0};
    check_ok(larder_loader_open(&l, &c));
    out->count = kit_run(l, out->digests, MOST);
    for (uint64_t e = 0; e < 3; e++)
        check_ok(look_figures(l, e, &out->figures[e]));
    if (strstr(cache, "redis")) {
        out->gone = kit_stat(l, "redis_gone") + kit_stat(l, "redis_unanswered");
        out->damaged = kit_stat(l, "redis_damaged");
        out->asked = kit_stat(l, "redis_asked");
    }
    larder_loader_close(&l);
}

/* Decisions are those of one cache; which tier had it is said besides. */
static void same(const outcome *a, const outcome *b, const char *what) {
    if (a->count != b->count || memcmp(a->digests, b->digests, a->count * sizeof *a->digests) != 0)
        fail_msg("%s: other samples or pixels", what);
    for (int e = 0; e < 3; e++)
        if (memcmp(&a->figures[e], &b->figures[e], offsetof(larder_figures, front_hits)) != 0)
            fail_msg(
                "%s: other figures in epoch %d: %llu hits and %llu misses, not %llu and %llu", what,
                e, (unsigned long long)b->figures[e].hits, (unsigned long long)b->figures[e].misses,
                (unsigned long long)a->figures[e].hits, (unsigned long long)a->figures[e].misses);
}

static double asked; /* of Redis by all runs; what is still being written is served from here */

static void compare(const char *recipe, const char *embedded, const char *redis) {
    static outcome a, b;
    run(&a, recipe, embedded, 2);
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        run(&b, recipe, redis, threads);
        same(&a, &b, recipe);
        assert_true(b.gone == 0 && b.damaged == 0);
        asked += b.asked;
    }
}

static void test_as_embedded(void **unused) {
    (void)unused;
    static const char *const recipes[] = {"lru",   "minio",  "rotate:h=0.5",
                                          "shade", "seneca", "icache"};
    kit_redis r;
    char cache[100];
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    snprintf(cache, sizeof cache, "redis://127.0.0.1:%u?budget=30%%&timeout=30s", r.port);
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        compare(recipes[i], "30%", cache);
    snprintf(cache, sizeof cache, "redis://127.0.0.1:%u?budget=90%%:40/30/30&timeout=30s", r.port);
    compare("lru", "90%:40/30/30", cache);
    compare("seneca", "90%:40/30/30", cache);
    snprintf(cache, sizeof cache, "10%%+redis://127.0.0.1:%u?budget=20%%&timeout=30s", r.port);
    compare("lru", "30%", cache);
    snprintf(cache, sizeof cache,
             "10%%+redis://127.0.0.1:%u?budget=30%%&tier=inclusive&timeout=30s", r.port);
    compare("lru", "30%", cache);
    compare("minio", "30%", cache);
    assert_true(asked > 100);
    assert_int_equal(kit_redis_number(&r, "dbsize"), 0); /* and nothing is left behind */
    kit_redis_stop(&r);
}

static void test_sockets_and_passwords(void **unused) {
    (void)unused;
    static outcome a, b;
    kit_redis r;
    char cache[400], socket[300], out[200];
    larder_loader_conf c = kit_conf(SOURCE, "lru");
    larder_loader *l = NULL;
    kit_redis_or_skip();
    snprintf(socket, sizeof socket, "/tmp/larder-redis-%d.sock", (int)getpid());
    kit_redis_start(&r, "--unixsocket", socket, "--requirepass", "pst:@/?x", NULL);
    run(&a, "lru", "30%", 2);
    snprintf(cache, sizeof cache, "redis+unix://:pst%%3a%%40%%2f%%3fx@%s?budget=30%%&timeout=30s",
             socket);
    run(&b, "lru", cache, 2);
    same(&a, &b, "a socket");
    snprintf(cache, sizeof cache, "redis://127.0.0.1:%u?budget=30%%&timeout=30s", r.port);
    c.cache = cache;
    assert_true(larder_loader_open(&l, &c) < 0);
    assert_non_null(strstr(larder_errmsg(), "password"));
    setenv("LARDER_REDIS_PASSWORD", "hunter2", 1);
    assert_true(larder_loader_open(&l, &c) < 0);
    assert_null(strstr(larder_errmsg(), "hunter2"));
    setenv("LARDER_REDIS_PASSWORD", "pst:@/?x", 1);
    run(&b, "lru", cache, 2);
    same(&a, &b, "a password from the environment");
    unsetenv("LARDER_REDIS_PASSWORD");
    kit_redis_cli(&r, "-a 'pst:@/?x' acl setuser ann on '>sesame' '~larder:*' +@all", out,
                  sizeof out);
    snprintf(cache, sizeof cache, "redis://ann:sesame@127.0.0.1:%u?budget=30%%&timeout=30s",
             r.port);
    run(&b, "lru", cache, 2);
    same(&a, &b, "a user");
    snprintf(cache, sizeof cache, "redis://ann:hunter2@127.0.0.1:%u?budget=30%%", r.port);
    assert_true(larder_loader_open(&l, &c) < 0);
    assert_non_null(strstr(larder_errmsg(), "ann"));
    assert_null(strstr(larder_errmsg(), "hunter2"));
    kit_redis_stop(&r);
    snprintf(cache, sizeof cache, "redis://127.0.0.1:%u?budget=30%%&wait=0&absent=fail", r.port);
    assert_true(larder_loader_open(&l, &c) < 0); /* nobody there */
    assert_non_null(strstr(larder_errmsg(), "127.0.0.1"));
}

/* So many keys lie there, leases among them, once all is written and deleted that is on its way. */
static void comes_to(const kit_redis *r, long keys) {
    for (int i = 0; i < 1200 && kit_redis_number(r, "dbsize") != keys; i++)
        kit_nap(0.05);
    assert_int_equal(kit_redis_number(r, "dbsize"), keys);
}

/* What Redis holds never exceeds the budget, two data sets never mix, and what a killed job left is
 * deleted by the next one of its data set, and only that. */
static void test_budget_and_owners(void **unused) {
    (void)unused;
    kit_redis r;
    char cache[100], out[200];
    uint64_t digests[40];
    larder_loader *l, *other;
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    snprintf(cache, sizeof cache, "redis://127.0.0.1:%u?budget=10%%&timeout=30s", r.port);
    larder_loader_conf c = kit_conf(SOURCE, "lru"), d = kit_conf(SOURCE "&seed=5", "lru");
    c.cache = d.cache = cache;
    check_ok(larder_loader_open(&l, &c));
    check_ok(larder_loader_open(&other, &d));
    kit_run(l, digests, 40);
    kit_run(other, digests, 40);
    assert_int_equal(kit_stat(l, "cache_resident"), 70);
    kit_redis_cli(&r, "keys 'larder:3:*:lease'", out, sizeof out);
    char *cut = strstr(out, ":lease");
    assert_non_null(cut);
    comes_to(&r, 70 + 70 + 2);
    larder_loader_close(&other);
    comes_to(&r, 70 + 1);

    char left[100], command[200], foreign[] = "larder:3:00000000deadbeef:abcdef:0:1:1";
    kit_redis_cli(&r, "keys 'larder:3:*:lease'", out, sizeof out);
    snprintf(left, sizeof left, "%.25s:0123456789abcdef:0:1:1", out);
    snprintf(command, sizeof command, "set %s x", left);
    kit_redis_cli(&r, command, out, sizeof out);
    snprintf(command, sizeof command, "set %s x", foreign);
    kit_redis_cli(&r, command, out, sizeof out);
    check_ok(larder_loader_open(&other, &c));
    snprintf(command, sizeof command, "exists %s", left);
    for (int i = 0; i < 1200 && kit_redis_number(&r, command); i++)
        kit_nap(0.05);
    assert_int_equal(kit_redis_number(&r, command), 0);
    snprintf(command, sizeof command, "exists %s", foreign);
    assert_int_equal(kit_redis_number(&r, command), 1);
    comes_to(&r, 70 + 2 + 1); /* the last one is the foreign one */
    larder_loader_close(&other);
    larder_loader_close(&l);
    assert_int_equal(kit_redis_number(&r, "dbsize"), 1);
    kit_redis_stop(&r);
}

/* Two tiers: each within its budget, also as Redis counts it; which of them a sample lies in does
 * not depend on threads, nor on what was written when. */
static void test_tiers(void **unused) {
    (void)unused;
    static const char *const recipes[] = {"lru", "minio", "shade"};
    kit_redis r;
    char cache[120];
    uint64_t digests[MOST];
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    for (int k = 0; k < 6; k++) {
        bool inclusive = k % 2;
        larder_figures first[3] = {0}, f;
        snprintf(cache, sizeof cache, "10%%+redis://127.0.0.1:%u?budget=20%%&tier=%s&timeout=30s",
                 r.port, inclusive ? "inclusive" : "exclusive");
        for (uint32_t threads = 1; threads <= 4; threads += 3) {
            larder_loader_conf c = kit_conf(SOURCE, recipes[k / 2]);
            larder_loader *l;
            c.cache = cache;
            c.epochs = 3;
            c.threads = threads;
            check_ok(larder_loader_open(&l, &c));
            kit_run(l, digests, MOST);
            uint64_t front = 0, hits = 0;
            for (uint64_t e = 0; e < 3; e++) {
                check_ok(look_figures(l, e, &f));
                front += f.front_hits;
                hits += f.hits + f.substitutes;
                f.requests = 0; /* measured */
                if (threads == 1)
                    first[e] = f;
                assert_memory_equal(&f, &first[e], sizeof f);
            }
            assert_true(front > 0 && front < hits);
            assert_int_equal(kit_stat(l, "front_hits"), front);
            assert_int_equal(kit_stat(l, "far_hits"), hits - front);
            assert_true(kit_stat(l, "front_bytes") <= 70 * 192);
            assert_true(kit_stat(l, "far_bytes") <= 140 * 192);
            comes_to(&r, 140 + 1);
            larder_loader_close(&l);
        }
    }
    kit_redis_stop(&r);
}

static void save_and_restore(const char *cache) {
    static uint64_t whole[MOST], rest[MOST];
    larder_loader *l;
    larder_loader_conf c = kit_conf(SOURCE, "shade");
    c.cache = cache;
    c.epochs = 3;
    check_ok(larder_loader_open(&l, &c));
    size_t all = kit_run(l, whole, MOST);
    larder_loader_close(&l);
    for (size_t at = 3; at < all; at += 29) {
        void *state;
        size_t size;
        check_ok(larder_loader_open(&l, &c));
        kit_run(l, rest, at);
        check_ok(larder_loader_save(l, LARDER_STATE, &state, &size));
        larder_loader_close(&l);
        check_ok(larder_loader_open(&l, &c));
        check_ok(larder_loader_restore(l, LARDER_STATE, state, size));
        assert_int_equal(at + kit_run(l, rest + at, MOST - at), all);
        assert_memory_equal(whole, rest, all * sizeof *whole);
        larder_loader_close(&l);
        larder_free(state);
    }
}

static void test_save_and_restore(void **unused) {
    (void)unused;
    kit_redis r;
    char cache[120];
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    snprintf(cache, sizeof cache, "redis://127.0.0.1:%u?budget=30%%&timeout=30s", r.port);
    save_and_restore(cache);
    snprintf(cache, sizeof cache,
             "10%%+redis://127.0.0.1:%u?budget=20%%&tier=inclusive&timeout=30s", r.port);
    save_and_restore(cache);
    kit_redis_stop(&r);
}

static void test_cluster(void **unused) {
    (void)unused;
    kit_cluster k;
    char cache[200];
    kit_redis_or_skip();
    kit_cluster_start(&k);
    snprintf(cache, sizeof cache,
             "redis-cluster://127.0.0.1:1,127.0.0.1:%u?budget=30%%&timeout=30s", k.nodes[1].port);
    compare("minio", "30%", cache);
    compare("seneca", "30%", cache);
    for (int i = 0; i < 3; i++)
        assert_int_equal(kit_redis_number(&k.nodes[i], "dbsize"), 0);
    /* A replica may be a moment behind: then a value is read from storage, and is the same. */
    static outcome a, b;
    strcat(cache, "&replicas=1");
    run(&a, "minio", "30%", 2);
    run(&b, "minio", cache, 2);
    assert_memory_equal(a.digests, b.digests, a.count * sizeof *a.digests);
    kit_cluster_stop(&k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_embedded),       cmocka_unit_test(test_sockets_and_passwords),
        cmocka_unit_test(test_budget_and_owners), cmocka_unit_test(test_tiers),
        cmocka_unit_test(test_save_and_restore),  cmocka_unit_test(test_cluster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
