/* Clients of several versions of larder on one daemon and one Redis: those that have a version in
 * common speak that one, others are refused with what to do, and in Redis each keeps to itself. */
#include "base/state.h"
#include "base/versions.h"
#include "check.h"
#include "loader_kit.h"
#include "ranks_kit.h"
#include "unix/connection.h"
#include "unix/frame.h"
#include "unix/message.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { N = 64 };

static void speak(uint32_t wire, uint32_t oldest, uint32_t value) {
    larder__speaks = (larder__spoken){wire, oldest, value};
}
static void speak_as_today(void) {
    speak(LARDER__WIRE_VERSION, LARDER__WIRE_OLDEST, LARDER__VALUE_VERSION);
}

/* One epoch; the code, and how many came from the cache. */
static int epoch(const char *cache, size_t *hits) {
    larder_loader_conf c = kit_conf("mem:?n=64&h=8&w=8&c=3", "minio");
    larder_loader *l = NULL;
    const larder_batch *b;
    c.cache = cache;
    c.epochs = 1;
    *hits = 0;
    int rc = larder_loader_open(&l, &c);
    size_t rows = 0;
    while (rc == 0 && (rc = larder_loader_next(l, &b)) >= 0 && rc != LARDER_END) {
        if (rc == LARDER_END_EPOCH) {
            rc = 0;
            continue;
        }
        for (size_t i = 0; i < b->n; i++, rows++)
            *hits += b->kind[i] == LARDER_HIT;
        rc = larder_loader_done(l, b);
    }
    if (rc == LARDER_END) {
        assert_int_equal(rows, N);
        rc = 0;
    }
    larder_loader_close(&l);
    return rc;
}

static void on_a_daemon(void **st) {
    (void)st;
    kit_store store;
    char cache[400];
    size_t hits;
    kit_store_start(&store, KIT_DAEMON);
    snprintf(cache, sizeof cache, "unix:%s?budget=100%%", store.socket);
    check_ok(epoch(cache, &hits));
    assert_int_equal(hits, 0);
    speak(LARDER__WIRE_VERSION + 1, LARDER__WIRE_VERSION, LARDER__VALUE_VERSION); /* the next */
    check_ok(epoch(cache, &hits));
    assert_int_equal(hits, N);
    static const struct {
        uint32_t wire, oldest;
        const char *says;
    } apart[] = {{LARDER__WIRE_OLDEST - 1, LARDER__WIRE_OLDEST - 1, "an older larder"},
                 {LARDER__WIRE_VERSION + 3, LARDER__WIRE_VERSION + 1, "a newer larder"}};
    for (size_t i = 0; i < 2; i++) {
        speak(apart[i].wire, apart[i].oldest, LARDER__VALUE_VERSION);
        assert_int_equal(epoch(cache, &hits), LARDER_E_UNSUPPORTED);
        assert_non_null(strstr(larder_errmsg(), apart[i].says));
        assert_non_null(strstr(larder_errmsg(), "use one larder for the daemon and its jobs"));
    }
    speak_as_today();
    check_ok(epoch(cache, &hits)); /* and nobody was harmed */
    assert_int_equal(hits, N);
    kit_store_stop(&store);
}

/* What a later version says behind what this one knows is not looked at. */
static void a_longer_greeting(void **st) {
    (void)st;
    larder_writer w = {0};
    larder__hello h = {.magic = LARDER__WIRE_MAGIC,
                       .version = LARDER__WIRE_VERSION + 1,
                       .oldest = LARDER__WIRE_VERSION,
                       .about = {.keys = 10, .share = {1}, .policy = "lru"},
                       .name = "later"},
                  read;
    larder__hello_write(&h, &w);
    for (int i = 0; i < 5; i++)
        larder_write_u64(&w, UINT64_MAX);
    larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
    check_ok(larder__hello_read(&read, &r));
    assert_int_equal(read.version, LARDER__WIRE_VERSION);
    assert_string_equal(read.name, "later");
    larder__writer_free(&w);
    check_ok(larder__spoken_check(LARDER__WIRE_VERSION));
    assert_int_equal(larder__spoken_check(LARDER__WIRE_VERSION + 1), LARDER_E_UNSUPPORTED);
    assert_int_equal(larder__spoken_check(LARDER__WIRE_OLDEST - 1), LARDER_E_UNSUPPORTED);
}

/* Values and journals of another version have other names. */
static void on_redis(void **st) {
    (void)st;
    kit_store store;
    char cache[400];
    size_t hits;
    static const char *const how[] = {"", "&shared=group"};
    kit_store_or_skip(KIT_REDIS);
    kit_store_start(&store, KIT_REDIS);
    for (size_t i = 0; i < 2; i++) {
        snprintf(cache, sizeof cache, "redis://127.0.0.1:%u?budget=100%%&timeout=30s%s",
                 store.redis.port, how[i]);
        check_ok(epoch(cache, &hits));
        assert_int_equal(hits, 0);
        if (i == 1) { /* a group goes on where it was: what one job made the next finds */
            check_ok(epoch(cache, &hits));
            assert_int_equal(hits, N);
        }
        speak(LARDER__WIRE_VERSION, LARDER__WIRE_OLDEST, LARDER__VALUE_VERSION + 1);
        check_ok(epoch(cache, &hits));
        assert_int_equal(hits, 0);
        speak_as_today();
    }
    check_ok(epoch(cache, &hits));
    assert_int_equal(hits, N);
    kit_store_stop(&store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_a_daemon),
        cmocka_unit_test(a_longer_greeting),
        cmocka_unit_test(on_redis),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
