/* A loader under a daemon is saved in the middle of an epoch and restored, under the same daemon,
 * a fresh one, or none at all: every epoch still serves every sample once. */
#include "loader_kit.h"
#include "look_kit.h"

#include "unix/server.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 203, EPOCHS = 3 };

typedef struct service {
    char folder[32], path[64], cache[96];
    larder__server *server;
    pthread_t thread;
} service;

static void *serve(void *server) {
    larder__server_run(server);
    return NULL;
}

static void start(service *s) {
    larder__server_conf conf = {.socket = s->path, .mode = 0600, .cache = 8 << 20, .clients = 8};
    check_ok(larder__server_open(&s->server, &conf));
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s->server), 0);
}

static void stop(service *s) {
    larder__server_stop(s->server);
    pthread_join(s->thread, NULL);
    larder__server_close(&s->server);
}

static void open_service(service *s, const char *split) {
    *s = (service){0};
    snprintf(s->folder, sizeof s->folder, "/tmp/larder-back-XXXXXX");
    assert_non_null(mkdtemp(s->folder));
    snprintf(s->path, sizeof s->path, "%s/s", s->folder);
    snprintf(s->cache, sizeof s->cache, "unix:%s?budget=30%%%s", s->path, split);
    start(s);
}

static larder_loader *open_loader(const service *s, uint64_t seed) {
    larder_loader_conf c = kit_conf("mem:?n=203&h=8&w=8&c=3", "seneca");
    larder_loader *l = NULL;
    c.cache = s->cache;
    c.epochs = EPOCHS;
    c.seed = seed;
    check_ok(larder_loader_open(&l, &c));
    return l;
}

/* Takes up to `most` batches and notes what they served; false: the run is over. */
static bool take(larder_loader *l, size_t most, uint8_t times[EPOCHS][N]) {
    for (size_t i = 0; i < most;) {
        const larder_batch *b;
        int rc = larder_loader_next(l, &b);
        if (rc == LARDER_END)
            return false;
        if (rc == LARDER_END_EPOCH)
            continue;
        check_ok(rc);
        for (size_t k = 0; k < b->n; k++)
            times[b->epoch][b->served[k]]++;
        check_ok(larder_loader_done(l, b));
        i++;
    }
    return true;
}

/* `change`: 0 nothing, 1 a fresh daemon, 2 none (what is saved goes on straight from storage until
 * one is there). A second job keeps the cache moving. */
static void break_once(const char *split, size_t before, int change) {
    service s;
    static uint8_t times[EPOCHS][N], others[EPOCHS][N];
    void *bytes;
    size_t size;
    memset(times, 0, sizeof times);
    memset(others, 0, sizeof others);
    open_service(&s, split);
    larder_loader *l = open_loader(&s, 1), *other = open_loader(&s, 2);
    take(other, 5, others);
    assert_true(take(l, before, times));
    check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
    larder_loader_close(&l);
    take(other, 5, others);
    if (change) {
        stop(&s);
        start(&s);
    }
    l = open_loader(&s, 1);
    check_ok(larder_loader_restore(l, LARDER_STATE, bytes, size));
    larder_free(bytes);
    if (change == 2)
        stop(&s);
    assert_false(take(l, 1000, times));
    assert_false(take(other, 1000, others));
    for (size_t e = 0; e < EPOCHS; e++)
        for (size_t id = 0; id < N; id++)
            if (times[e][id] != 1 || others[e][id] != 1)
                fail_msg(
                    "%s, broken after %zu, change %d: sample %zu came %u and %u times in epoch "
                    "%zu",
                    split, before, change, id, times[e][id], others[e][id], e);
    assert_int_equal(look_audit(l), 0);
    larder_loader_close(&l);
    larder_loader_close(&other);
    if (change != 2)
        stop(&s);
    assert_int_equal(rmdir(s.folder), 0);
}

static void test_every_break(void **st) {
    (void)st;
    static const char *const splits[] = {"", ":20/40/40"};
    for (size_t i = 0; i < 2; i++)
        for (int change = 0; change < 3; change++)
            for (size_t before = 0; before < 3 * 13; before += 5)
                break_once(splits[i], before, change);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_break)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
