/* A loader that is opened while its daemon or its Redis is away: it waits as long as it was told,
 * then goes on without it, says so and finds it later, or ends with a sentence. What is wrong
 * rather than away is an error at once. No test asserts a time: where something must not wait, the
 * wait it was told would be longer than the test may take. */
#include "loader_kit.h"
#include "look_kit.h"
#include "ranks_kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOURCE "mem:?n=300&h=8&w=8&c=3"
#define AN_HOUR "wait=3600s"

typedef struct kind { /* where a cache may lie, and what is asked for there */
    kit_store_kind store;
    const char *more;
} kind;

static int open_at(larder_loader **l, const kit_store *s, const kind *k, const char *options,
                   bool (*still)(void *), void *arg) {
    char cache[256];
    larder_loader_conf c = kit_conf(SOURCE, "minio");
    if (s->kind == KIT_REDIS)
        snprintf(cache, sizeof cache, "redis://127.0.0.1:%u?budget=30%%%s&%s", s->redis.port,
                 k->more, options);
    else
        snprintf(cache, sizeof cache, "unix:%s?budget=30%%%s&%s", s->socket, k->more, options);
    c.cache = cache;
    c.augment = NULL;
    c.still = still;
    c.still_arg = arg;
    return larder_loader_open(l, &c);
}

static const char *attached(const kit_store *s) {
    return s->kind == KIT_REDIS ? "redis_attached" : "daemon_attached";
}

/* An epoch, of which every sample comes once. */
static void take_epoch(larder_loader *l) {
    const larder_batch *b;
    int rc;
    while ((rc = larder_loader_next(l, &b)) == 0)
        check_ok(larder_loader_done(l, b));
    assert_int_equal(rc, LARDER_END_EPOCH);
    assert_int_equal(look_audit(l), 0);
}

static void goes_on(void **state) {
    const kind *k = *state;
    kit_store s;
    larder_loader *l;
    char why[300];
    kit_store_or_skip(k->store);
    kit_store_start(&s, k->store);
    kit_store_kill(&s);
    check_ok(open_at(&l, &s, k, "wait=0s", NULL, NULL));
    check_ok(larder_loader_says(l, LARDER_SAYS_CACHE, 0, why, sizeof why));
    assert_true(why[0]);
    assert_true(kit_stat(l, attached(&s)) == 0);
    take_epoch(l);
    kit_store_again(&s);
    bool found = false; /* by itself, as after a loss */
    for (int i = 0; i < 600 && !found; i++) {
        take_epoch(l);
        found = kit_stat(l, attached(&s)) == 1;
        kit_nap(found ? 0 : 0.1);
    }
    assert_true(found);
    take_epoch(l);
    larder_loader_close(&l);
    kit_store_stop(&s);
}

static void fails_if_asked(void **state) {
    const kind *k = *state;
    kit_store s;
    larder_loader *l;
    kit_store_or_skip(k->store);
    kit_store_start(&s, k->store);
    kit_store_kill(&s);
    assert_int_equal(open_at(&l, &s, k, "wait=0&absent=fail", NULL, NULL), LARDER_E_IO);
    assert_int_equal(open_at(&l, &s, k, "wait=200ms&absent=fail", NULL, NULL), LARDER_E_IO);
    assert_non_null(strstr(larder_errmsg(), "looked for it for 0.2 s"));
    kit_store_stop(&s);
}

typedef struct comes {
    kit_store *store;
    int asked;
} comes;

/* By the thread that waits: a server ends with who started it. */
static bool bring(void *arg) {
    comes *c = arg;
    if (++c->asked == 4)
        kit_store_again(c->store);
    return true;
}

static void comes_meanwhile(void **state) {
    const kind *k = *state;
    kit_store s;
    larder_loader *l;
    char why[300];
    kit_store_or_skip(k->store);
    kit_store_start(&s, k->store);
    kit_store_kill(&s);
    comes c = {&s, 0};
    check_ok(open_at(&l, &s, k, AN_HOUR, bring, &c));
    assert_true(c.asked >= 4);
    assert_true(kit_stat(l, attached(&s)) == 1);
    check_ok(larder_loader_says(l, LARDER_SAYS_CACHE, 0, why, sizeof why));
    assert_string_equal(why, "");
    take_epoch(l);
    larder_loader_close(&l);
    kit_store_stop(&s);
}

static bool give_up(void *arg) { return --*(int *)arg > 0; }

static void given_up(void **state) {
    const kind *k = *state;
    kit_store s;
    larder_loader *l;
    int left = 3;
    kit_store_or_skip(k->store);
    kit_store_start(&s, k->store);
    kit_store_kill(&s);
    assert_int_equal(open_at(&l, &s, k, AN_HOUR, give_up, &left), LARDER_E_CANCELLED);
    assert_int_equal(left, 0);
    kit_store_stop(&s);
}

/* Ranks have to meet. */
static void ranks_cannot(void **state) {
    const kind *k = *state;
    kit_store s;
    larder_loader *l;
    kind job = {k->store, "&job=w"};
    kit_store_or_skip(k->store);
    kit_store_start(&s, k->store);
    kit_store_kill(&s);
    assert_int_equal(open_at(&l, &s, &job, "wait=100ms", NULL, NULL), LARDER_E_IO);
    kit_store_stop(&s);
}

static void refused(const char *cache, const char *says) {
    larder_loader *l;
    larder_loader_conf c = kit_conf(SOURCE, "minio");
    c.cache = cache;
    int rc = larder_loader_open(&l, &c);
    if (rc >= 0 || rc == LARDER_E_IO || !strstr(larder_errmsg(), says))
        fail_msg("%s: %d, %s", cache, rc, rc < 0 ? larder_errmsg() : "opened");
}

static void test_wrong_is_not_away(void **unused) {
    (void)unused;
    char folder[256], cache[400], path[300];
    check_folder(folder);
    refused("unix:/nonexistent/larder.sock?" AN_HOUR, "No such file");
    snprintf(path, sizeof path, "%s/file", folder);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    snprintf(cache, sizeof cache, "unix:%s?" AN_HOUR, path);
    refused(cache, "refused");
    snprintf(cache, sizeof cache, "unix:%s/x?" AN_HOUR, path);
    refused(cache, "Not a directory");
    refused("unix:x?wait=soon", "wait=30s");
    refused("unix:x?absent=maybe", "absent=go-on");
    if (kit_redis_there()) {
        kit_redis r;
        refused("redis://127.0.0.1:1?wait=soon", "wait=30s");
        refused("redis://127.0.0.1:1?absent=maybe", "absent=go-on");
        refused("redis+unix:///nonexistent/redis.sock?" AN_HOUR, "No such file");
        kit_redis_start(&r, "--requirepass", "right", NULL);
        snprintf(cache, sizeof cache, "redis://:wrong@127.0.0.1:%u?" AN_HOUR, r.port);
        refused(cache, "does not accept this password");
        kit_redis_stop(&r);
    }
    check_folder_remove(folder);
}

#define FOR_ALL(test)                                                                              \
    cmocka_unit_test_prestate(test, &daemon_), cmocka_unit_test_prestate(test, &redis),            \
        cmocka_unit_test_prestate(test, &group)

int main(void) {
    static kind daemon_ = {KIT_DAEMON, ""}, redis = {KIT_REDIS, ""},
                group = {KIT_REDIS, "&shared=w"};
    const struct CMUnitTest tests[] = {
        FOR_ALL(goes_on),
        FOR_ALL(fails_if_asked),
        FOR_ALL(comes_meanwhile),
        FOR_ALL(given_up),
        cmocka_unit_test_prestate(ranks_cannot, &daemon_),
        cmocka_unit_test_prestate(ranks_cannot, &redis),
        cmocka_unit_test(test_wrong_is_not_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
