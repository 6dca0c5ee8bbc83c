/* Redis goes wrong in every way it can while a job trains on: the job serves the same samples and
 * pixels as without a cache elsewhere, says what happened once, and uses Redis again when it is
 * back. */
#include "loader_kit.h"
#include "redis_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOURCE "mem:?n=600&h=8&w=8&c=3"
enum { EPOCH = 39, EPOCHS = 7, MOST = EPOCH * EPOCHS + 8 };

typedef struct trial {
    larder_loader *l;
    char cache[256];
    uint64_t got[MOST];
    size_t at;
} trial;

static uint64_t right[MOST];
static size_t right_count;

static larder_loader_conf conf(const char *cache) {
    larder_loader_conf c = kit_conf(SOURCE, "minio");
    c.cache = cache;
    c.epochs = EPOCHS;
    c.threads = 2;
    return c;
}

static int learn_right(void **unused) {
    (void)unused;
    larder_loader *l;
    larder_loader_conf c = conf("0");
    check_ok(larder_loader_open(&l, &c));
    right_count = kit_run(l, right, MOST);
    larder_loader_close(&l);
    return 0;
}

static void begin(trial *t, const char *format, uint16_t port) {
    *t = (trial){0};
    snprintf(t->cache, sizeof t->cache, format, port); // NOLINT(clang-diagnostic-format-nonliteral)
    larder_loader_conf c = conf(t->cache);
    check_ok(larder_loader_open(&t->l, &c));
}

static void some(trial *t, size_t n) { t->at += kit_run(t->l, t->got + t->at, n); }

/* For minutes, if need be: on a busy machine a second may be nothing. */
static void wait_for(trial *t, const char *stat, double value) {
    for (int i = 0; i < 12000 && kit_stat(t->l, stat) < value; i++)
        kit_nap(0.05);
    if (kit_stat(t->l, stat) < value)
        fail_msg("%s never came to %g", stat, value);
}

/* All that is kept after an epoch. */
static void written(trial *t) { wait_for(t, "redis_written", 180); }

/* Where the time-out is short, what a busy machine is too slow for is not written. */
static void some_written(trial *t) {
    for (int i = 0; i < 200 && kit_stat(t->l, "redis_written") < 100; i++)
        kit_nap(0.05);
}

/* The rest of the run; everything was right. */
static void finish(trial *t) {
    some(t, MOST - t->at);
    assert_int_equal(t->at, right_count);
    for (size_t i = 0; i < right_count; i++)
        if (t->got[i] != right[i])
            fail_msg("batch %zu is not what it should be", i);
    larder_loader_close(&t->l);
}

static void note_has(trial *t, const char *word) {
    char why[300];
    check_ok(larder_loader_says(t->l, LARDER_SAYS_CACHE, 0, why, sizeof why));
    if (!strstr(why, word))
        fail_msg("the note says \"%s\", nothing of \"%s\"", why, word);
}

#define HOST "redis://127.0.0.1:%u?budget=30%%"

/* Every key is changed by this script, one value KEYS after the other. */
static void change_all(const kit_redis *r, const char *lua) {
    char command[500], out[200];
    snprintf(command, sizeof command,
             "eval \"for _,k in ipairs(redis.call('keys','larder:*:0:*')) do %s end return 1\" 0",
             lua);
    assert_string_equal(kit_redis_cli(r, command, out, sizeof out), "1");
}

static void test_values_that_changed(void **unused) {
    (void)unused;
    static const char *const ways[] = {
        /* a bit of the bytes, of the head, cut, longer, empty, another type, another's value */
        "redis.call('setrange',k,100,string.char((redis.call('getrange',k,100,100)):byte()~=7 and "
        "7 "
        "or 8))",
        "redis.call('setrange',k,17,'Z')",
        "redis.call('set',k,redis.call('getrange',k,0,150))",
        "redis.call('append',k,'more')",
        "redis.call('set',k,'')",
        "redis.call('set',k,'LRDV')",
        "redis.call('del',k) redis.call('lpush',k,'x')",
        "redis.call('set',k,redis.call('get',redis.call('keys','larder:*:0:*')[1]))",
        "redis.call('set',k,string.rep('x',100000))",
    };
    kit_redis r;
    trial t;
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        begin(&t, HOST "&timeout=30s", r.port);
        some(&t, EPOCH + 3);
        written(&t);
        change_all(&r, ways[i]);
        some(&t, EPOCH);
        double found = kit_stat(t.l, "redis_damaged") + kit_stat(t.l, "redis_unanswered") +
                       kit_stat(t.l, "redis_gone"); /* Redis' word for another type in an MGET */
        if (found < 50)
            fail_msg("way %zu: only %g found", i, found);
        finish(&t);
        kit_redis_number(&r, "flushall");
    }
    kit_redis_stop(&r);
}

static void test_forgets_everything(void **unused) {
    (void)unused;
    kit_redis r;
    trial t;
    larder_figures f = {.size = sizeof f};
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    begin(&t, HOST "&timeout=30s", r.port);
    some(&t, EPOCH);
    written(&t);
    kit_redis_number(&r, "flushall");
    some(&t, EPOCH);
    assert_true(kit_stat(t.l, "redis_gone") >= 100);
    some(&t, 3 * EPOCH); /* and is filled again */
    check_ok(larder_loader_figures(t.l, 4, &f));
    assert_int_equal(f.hits, 180);
    finish(&t);
    kit_redis_stop(&r);
}

static void test_killed_and_back(void **unused) {
    (void)unused;
    kit_redis r;
    trial t;
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    begin(&t, HOST "&timeout=30s", r.port);
    some(&t, EPOCH + 5);
    kit_redis_kill(&r);
    some(&t, EPOCH);
    wait_for(&t, "redis_lost", 1);
    assert_true(kit_stat(t.l, "redis_attached") == 0);
    note_has(&t, "redis 127.0.0.1");
    kit_redis_again(&r); /* empty */
    wait_for(&t, "redis_attached", 1);
    assert_true(kit_stat(t.l, "redis_found") >= 1);
    double asked = kit_stat(t.l, "redis_asked");
    some(&t, 2 * EPOCH);
    assert_true(kit_stat(t.l, "redis_asked") > asked);
    for (int i = 0; i < 12000 && kit_redis_number(&r, "dbsize") <= 50; i++) /* being written */
        kit_nap(0.05);
    assert_true(kit_redis_number(&r, "dbsize") > 50);
    finish(&t);
    kit_redis_stop(&r);
}

static void test_network(void **unused) {
    (void)unused;
    kit_redis r;
    kit_proxy p;
    trial t;
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    kit_proxy_start(&p, r.port);
    for (int mode = KIT_CUT; mode <= KIT_STALL; mode++) {
        begin(&t, HOST "&timeout=200ms", p.port);
        some(&t, EPOCH + 5);
        p.mode = mode;
        some(&t, EPOCH + 7);
        wait_for(&t, "redis_lost", 1);
        p.mode = KIT_PASS;
        wait_for(&t, "redis_attached", 1);
        some(&t, EPOCH);
        finish(&t);
    }
    /* Again and again, in the middle of everything. */
    begin(&t, HOST "&timeout=50ms", p.port);
    for (int i = 0; i < 20; i++) {
        some(&t, 7);
        p.mode = i * 7919 % 3;
        kit_nap(0.02);
    }
    p.mode = KIT_PASS;
    finish(&t);
    kit_proxy_stop(&p);
    kit_redis_stop(&r);
}

static void test_full(void **unused) {
    (void)unused;
    kit_redis r;
    trial t;
    char out[200];
    kit_redis_or_skip();
    kit_redis_start(&r, "--maxmemory-policy", "noeviction", NULL);
    begin(&t, HOST "&timeout=30s", r.port);
    kit_redis_cli(&r, "config set maxmemory 1", out, sizeof out);
    some(&t, 2 * EPOCH);
    wait_for(&t, "redis_refused", 100);
    note_has(&t, "OOM");
    kit_redis_cli(&r, "config set maxmemory 0", out, sizeof out);
    some(&t, 2 * EPOCH);
    wait_for(&t, "redis_written", 100);
    finish(&t);
    /* Redis evicts as it likes. */
    begin(&t, HOST "&timeout=30s", r.port);
    some(&t, EPOCH);
    written(&t);
    kit_redis_cli(&r, "config set maxmemory-policy allkeys-random", out, sizeof out);
    kit_redis_cli(&r, "config set maxmemory 1", out, sizeof out);
    some(&t, EPOCH);
    kit_redis_cli(&r, "config set maxmemory 0", out, sizeof out);
    assert_true(kit_stat(t.l, "redis_gone") > 0);
    finish(&t);
    kit_redis_stop(&r);
}

static void test_read_only(void **unused) {
    (void)unused;
    kit_redis r;
    trial t;
    kit_redis_or_skip();
    kit_redis_start(&r, "--replicaof", "127.0.0.1", "1", "--replica-serve-stale-data", "yes", NULL);
    begin(&t, HOST "&timeout=30s", r.port);
    some(&t, EPOCH);
    wait_for(&t, "redis_refused", 100);
    note_has(&t, "READONLY");
    finish(&t);
    kit_redis_stop(&r);
}

static void test_slow(void **unused) {
    (void)unused;
    kit_redis r;
    trial t;
    char out[100];
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    begin(&t, HOST "&timeout=100ms", r.port);
    some(&t, EPOCH + 5);
    some_written(&t);
    kit_redis_cli(&r, "client pause 1500 all", out, sizeof out);
    some(&t, EPOCH);
    wait_for(&t, "redis_lost", 1);
    wait_for(&t, "redis_attached", 1);
    finish(&t);
    kit_redis_stop(&r);
}

/* Somebody changes the password and throws everybody out; later it is the old one again. */
static void test_password_changed(void **unused) {
    (void)unused;
    kit_redis r;
    trial t;
    char out[200];
    kit_redis_or_skip();
    kit_redis_start(&r, "--requirepass", "first", NULL);
    begin(&t, "redis://:first@127.0.0.1:%u?budget=30%%&timeout=30s", r.port);
    some(&t, EPOCH + 5);
    written(&t);
    kit_redis_cli(&r, "-a first config set requirepass second", out, sizeof out);
    kit_redis_cli(&r, "-a second client kill type normal skipme yes", out, sizeof out);
    some(&t, EPOCH);
    wait_for(&t, "redis_lost", 1);
    for (int i = 0; i < 12000; i++) { /* it has tried again */
        char why[300];
        check_ok(larder_loader_says(t.l, LARDER_SAYS_CACHE, 0, why, sizeof why));
        if (strstr(why, "password"))
            break;
        kit_nap(0.05);
    }
    note_has(&t, "password");
    assert_true(kit_stat(t.l, "redis_attached") == 0);
    kit_redis_cli(&r, "-a second config set requirepass first", out, sizeof out);
    wait_for(&t, "redis_attached", 1);
    some(&t, EPOCH);
    finish(&t);
    kit_redis_stop(&r);
}

static void test_nobody_there(void **unused) {
    (void)unused;
    larder_loader *l = NULL;
    kit_redis_or_skip();
    larder_loader_conf c = conf("redis://no-such-host.invalid?budget=30%");
    assert_true(larder_loader_open(&l, &c) < 0);
    assert_non_null(strstr(larder_errmsg(), "no-such-host.invalid"));
    c = conf("redis-cluster://no-such-host.invalid:1,127.0.0.1:1?budget=30%&wait=0&absent=fail");
    assert_true(larder_loader_open(&l, &c) < 0);
    assert_non_null(strstr(larder_errmsg(), "127.0.0.1"));
}

static void test_loading(void **unused) {
    (void)unused;
    kit_redis r;
    trial t;
    char out[100];
    kit_redis_or_skip();
    kit_redis_start(&r, "--key-load-delay", "3000", "--loading-process-events-interval-bytes",
                    "1024", NULL);
    kit_redis_cli(&r, "debug populate 1000 x 10", out, sizeof out);
    kit_redis_cli(&r,
                  "eval \"for i=1,1000 do redis.call('set','x'..i,string.rep('y',100)) end return "
                  "1\" 0",
                  out, sizeof out);
    kit_redis_cli(&r, "save", out, sizeof out);
    begin(&t, HOST, r.port);
    some(&t, EPOCH + 5);
    kit_redis_kill(&r);
    kit_redis_again(&r); /* takes three seconds to load */
    some(&t, EPOCH);
    trial fresh; /* also one that starts just now */
    begin(&fresh, HOST, r.port);
    some(&fresh, EPOCH);
    wait_for(&t, "redis_attached", 1);
    wait_for(&fresh, "redis_attached", 1);
    some(&t, EPOCH);
    finish(&t);
    finish(&fresh);
    kit_redis_stop(&r);
}

static void test_hostile(void **unused) {
    (void)unused;
    kit_redis_or_skip();
    uint64_t seeds = getenv("LARDER_LONG") ? 100 : 12, let_in = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        kit_hostile h;
        trial t = {0};
        kit_hostile_start(&h, seed);
        snprintf(t.cache, sizeof t.cache, HOST "&timeout=20ms&connections=%d", h.port,
                 (int)(1 + seed % 2));
        larder_loader_conf c = conf(t.cache);
        if (larder_loader_open(&t.l, &c) == 0) {
            finish(&t);
            let_in++;
        }
        kit_hostile_stop(&h);
    }
    assert_true(let_in > 0);
}

/* A replica is told to take over while its master is well: nothing is lost. */
static void test_failover(void **unused) {
    (void)unused;
    kit_cluster k;
    trial t;
    char out[4000];
    kit_redis_or_skip();
    kit_cluster_start(&k);
    begin(&t, "redis-cluster://127.0.0.1:%u?budget=30%%&timeout=30s", k.nodes[0].port);
    some(&t, EPOCH + 5);
    some_written(&t);
    /* An election that comes to nothing is repeated after four times that. */
    kit_cluster_patience(&k, 5);
    for (int i = 0; i < 6; i++) { /* every replica */
        kit_redis_cli(&k.nodes[i], "role", out, sizeof out);
        if (strncmp(out, "slave", 5) != 0)
            continue;
        kit_redis_cli(&k.nodes[i], "cluster failover", out, sizeof out);
        some(&t, EPOCH / 2);
        kit_cluster_take_over(&k, i);
    }
    some(&t, EPOCH);
    wait_for(&t, "redis_attached", 1);
    double asked = kit_stat(t.l, "redis_asked"), not_there = kit_stat(t.l, "redis_unanswered");
    some(&t, EPOCH);
    wait_for(&t, "redis_asked", asked + 100); /* readers are some batches behind, or ahead */
    assert_true(kit_stat(t.l, "redis_unanswered") - not_there < 60);
    finish(&t);
    kit_cluster_stop(&k);
}

static void test_cluster_node(void **unused) {
    (void)unused;
    kit_cluster k;
    trial t;
    kit_redis_or_skip();
    kit_cluster_start(&k);
    begin(&t, "redis-cluster://127.0.0.1:%u?budget=30%%&timeout=30s", k.nodes[0].port);
    some(&t, EPOCH + 5);
    some_written(&t);
    int heir = kit_cluster_heir(&k, 1);
    kit_cluster_patience(&k, 1);
    kit_redis_kill(&k.nodes[1]); /* under load: its replica takes over after a while */
    some(&t, EPOCH);
    wait_for(&t, "redis_lost", 1);
    kit_cluster_wait_master(&k, heir);
    kit_cluster_patience(&k, KIT_CLUSTER_PATIENCE);
    for (int i = 0; i < 6000; i++) {
        char out[2000];
        if (strstr(kit_redis_cli(&k.nodes[0], "cluster info", out, sizeof out), "state:ok"))
            break;
        kit_nap(0.1);
    }
    wait_for(&t, "redis_attached", 1); /* with the new master */
    double gone = kit_stat(t.l, "redis_unanswered");
    some(&t, EPOCH);
    kit_redis_again(&k.nodes[1]); /* as a replica now */
    some(&t, EPOCH);
    assert_true(kit_stat(t.l, "redis_unanswered") <= gone + 60);
    finish(&t);
    kit_cluster_stop(&k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_that_changed),
        cmocka_unit_test(test_forgets_everything),
        cmocka_unit_test(test_killed_and_back),
        cmocka_unit_test(test_network),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_read_only),
        cmocka_unit_test(test_slow),
        cmocka_unit_test(test_password_changed),
        cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_loading),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_cluster_node),
        cmocka_unit_test(test_failover),
    };
    return cmocka_run_group_tests(tests, learn_right, NULL);
}
