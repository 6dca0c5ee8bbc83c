/* A daemon that goes away, or stands still, while a job asks it something. Daemons here are threads
 * of this process; one that stands still is a socket that nobody accepts at. No test asserts a time
 * but that what must not take minutes does not. */
#include "base/clock.h"
#include "check.h"
#include "daemon/server.h"
#include "wire/attach.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { KEYS = 5000, SIZE = 100 };

static char folder[256], path[300];

static int begin(void **st) {
    (void)st;
    check_folder(folder);
    snprintf(path, sizeof path, "%s/s", folder);
    return 0;
}

static int end(void **st) {
    (void)st;
    check_folder_remove(folder);
    return 0;
}

static larder__attach_conf conf_of(uint64_t keys) {
    return (larder__attach_conf){.door = larder__door_at(path),
                                 .hello = {.batch = 10,
                                           .identity = 3,
                                           .keys = keys,
                                           .payload = keys * SIZE,
                                           .share = {1},
                                           .size = SIZE,
                                           .policy = "lru",
                                           .name = "test"}};
}

/* ---- it goes away ---------------------------------------------------------------------------- */

static void *serve(void *server) {
    larder__server_run(server);
    return NULL;
}

static void by_pick(larder__cache *c) {
    larder_rng rng;
    uint64_t key;
    double share;
    larder_rng_seed(&rng, 1, 0);
    assert_false(larder__cache_pick(c, &rng, &key, &share));
}
static void by_stream(larder__cache *c) {
    larder__cache_stream(c, &(larder_stream){.seed = 1}, false);
}
static void by_score(larder__cache *c) {
    larder__cache_score(c, (uint64_t[]){1}, (float[]){0.5f}, 1);
}
static void by_accuracy(larder__cache *c) { larder__cache_accuracy(c, 0.5); }
static void by_epoch(larder__cache *c) { larder__cache_epoch(c, 1); }
static void by_fetch(larder__cache *c) {
    uint64_t keys[4];
    assert_int_equal(larder__cache_fetch(c, keys, 4), 0);
}

static uint64_t count_residents(const larder__cache *c) {
    uint64_t n = 0;
    for (uint64_t k = 0; k < KEYS; k++)
        n += larder__cache_resident(c, k);
    return n;
}

/* Residents are looked up at any time, also when another question than a claim has just found that
 * the daemon and its memory are gone. */
static void residents_stay_readable(void **st) {
    (void)st;
    void (*const ways[])(larder__cache *) = {by_pick,     by_stream, by_score,
                                             by_accuracy, by_epoch,  by_fetch};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        larder__server *server;
        pthread_t thread;
        larder__cache *c;
        larder__ticket t;
        larder_access a = {.key = 7, .size = SIZE, .next_use = LARDER_UNKNOWN, .score = NAN};
        larder__server_conf conf = {.socket = path, .mode = 0600, .cache = 16 << 20, .clients = 8};
        larder__attach_conf attach = conf_of(KEYS);
        char why[300] = "";
        check_ok(larder__server_open(&server, &conf));
        assert_int_equal(pthread_create(&thread, NULL, serve, server), 0);
        check_ok(larder__attach_open(&c, &attach));
        check_ok(larder__cache_claim(c, &a, 1, &t));
        assert_int_equal(t.task, LARDER__MAKE);
        larder__cache_fail(c, &t, LARDER_E_CANCELLED, "");
        assert_int_equal(count_residents(c), 1);
        larder__server_stop(server);
        pthread_join(thread, NULL);
        larder__server_close(&server);
        ways[i](c);
        larder__attach_note(c, why, sizeof why);
        assert_true(why[0]); /* it has found out */
        assert_int_equal(count_residents(c), 0);
        larder__cache_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(residents_stay_readable, begin, end),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
