/* A cluster whose slots move, or whose nodes are replaced, while nobody asks for values there:
 * groups, ranks and whoever reads later find where things lie now all the same. And a server that
 * takes no deletions is not asked without a pause, and what nobody owns goes although the look for
 * it was cut off. */
#include "base/mem.h"
#include "base/versions.h"
#include "base/world.h"
#include "check.h"
#include "redis/journal.h"
#include "redis/redis_relay.h"
#include "redis_kit.h"
#include "shared/cache_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAST = 16383, TRIES = 12000 }; /* TRIES: a twentieth of a second each, for what hangs */

/* Two masters, the first of which has all slots up to one. */
typedef struct cluster {
    kit_redis nodes[2];
    char ids[2][64];
    larder__cache_text cache;
} cluster;

static void until(const kit_redis *r, const char *command, const char *says) {
    char out[8192];
    for (int i = 0; i < TRIES; i++) {
        if (strstr(kit_redis_cli(r, command, out, sizeof out), says))
            return;
        kit_nap(0.05);
    }
    fail_msg("%s says: %s", command, out);
}

static void tell(const kit_redis *r, const char *command) {
    char out[400];
    assert_string_equal(kit_redis_cli(r, command, out, sizeof out), "OK");
}

static void slots(const kit_redis *r, const char *what, int from, int to) {
    char command[100];
    snprintf(command, sizeof command, "cluster %s %d %d", what, from, to);
    tell(r, command);
}

static void start(cluster *c, int last, const char *more) {
    char command[200];
    for (int i = 0; i < 2; i++) {
        kit_redis_start(&c->nodes[i], "--cluster-enabled", "yes", "--cluster-require-full-coverage",
                        "no", NULL);
        kit_redis_cli(&c->nodes[i], "cluster myid", c->ids[i], sizeof c->ids[i]);
    }
    slots(&c->nodes[0], "addslotsrange", 0, last);
    if (last < LAST)
        slots(&c->nodes[1], "addslotsrange", last + 1, LAST);
    snprintf(command, sizeof command, "cluster meet 127.0.0.1 %u", c->nodes[1].port);
    tell(&c->nodes[0], command);
    for (int i = 0; i < 2; i++) { /* and each has heard what the other has */
        until(&c->nodes[i], "cluster info", "cluster_state:ok");
        until(&c->nodes[i], "cluster info", "cluster_slots_assigned:16384");
        until(&c->nodes[i], "cluster info", "cluster_known_nodes:2");
    }
    snprintf(command, sizeof command, "redis-cluster://127.0.0.1:%u,127.0.0.1:%u?timeout=20s%s",
             c->nodes[0].port, c->nodes[1].port, more);
    check_ok(larder__cache_text_parse(&c->cache, command, ""));
}

static void stop(cluster *c) {
    for (int i = 0; i < 2; i++)
        kit_redis_stop(&c->nodes[i]);
}

/* The slot of the keys that fit goes from the first to the second, without them. */
static void move(const cluster *c, const char *keys) {
    char command[400], out[8192];
    snprintf(command, sizeof command, "keys '%s'", keys);
    kit_redis_cli(&c->nodes[0], command, out, sizeof out);
    out[strcspn(out, "\n")] = '\0';
    assert_true(out[0] != '\0');
    snprintf(command, sizeof command, "cluster keyslot '%.300s'", out);
    long slot = kit_redis_number(&c->nodes[0], command);
    tell(&c->nodes[0], "flushall");
    for (int i = 1; i >= 0; i--) {
        snprintf(command, sizeof command, "cluster setslot %ld node %s", slot, c->ids[1]);
        tell(&c->nodes[i], command);
    }
}

/* The first is gone for good, and the second has all that it had. */
static void replace(cluster *c, int last) {
    char command[100];
    kit_redis_kill(&c->nodes[0]);
    snprintf(command, sizeof command, "cluster forget %s", c->ids[0]);
    tell(&c->nodes[1], command);
    slots(&c->nodes[1], "addslotsrange", 0, last);
}

/* ---- a group --------------------------------------------------------------------------------- */

static int join(larder__journal *j) {
    larder_writer mine = {0};
    larder__membership joined;
    larder_write_u32(&mine, 7);
    unsigned char nothing[16] = {0};
    larder_writer word = {.bytes = nothing, .size = sizeof nothing};
    int rc = larder__journal_join(j, &word, &mine, 1, &joined);
    larder__writer_free(&mine);
    return rc;
}

/* Who trains alone meanwhile asks for nothing that could tell it. */
static void journal_trial(int last, bool gone) {
    cluster c;
    larder__redis_values *far;
    larder__journal *journal;
    larder__history h;
    kit_redis_or_skip();
    start(&c, last, "&shared=g");
    larder__redis_values_conf conf = {.redis = &c.cache.redis, .identity = 5, .owner = "g-g"};
    check_ok(larder__redis_values_open(&far, &conf));
    check_ok(larder__journal_open(&journal, far, "g", 5, 60, 1000));
    check_ok(join(journal));
    if (gone)
        replace(&c, last);
    else
        move(&c, "*:state.3");
    assert_true(larder__journal_step(journal, NULL, 0, &h) < 0);
    int rc = -1;
    for (int i = 0; rc < 0 && i < TRIES; i++)
        if ((rc = join(journal)) < 0)
            kit_nap(0.05);
    check_ok(rc);
    check_ok(larder__journal_step(journal, NULL, 0, &h));
    larder__journal_close(&journal);
    larder__redis_values_close(&far);
    stop(&c);
}

static void test_slot_moves(void **unused) {
    (void)unused;
    journal_trial(LAST, false);
}

static void test_node_is_replaced(void **unused) {
    (void)unused;
    journal_trial(LAST - 1, true);
}

/* By one that had no slots, and so was not known but by the address. */
static void test_all_nodes_are_replaced(void **unused) {
    (void)unused;
    journal_trial(LAST, true);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static void hear(larder__relay *r[2], uint64_t number) {
    larder__relayed out[2] = {{0}, {.size = 1}};
    check_ok(larder__relay_post(r[1], 'x', number, "word", 4));
    check_ok(larder__relay_gather(r[0], 'x', number, 600, out));
    assert_int_equal(out[1].size, 4);
    larder__free(out[1].bytes);
}

static void test_ranks(void **unused) {
    (void)unused;
    cluster c;
    larder__relay *r[2];
    kit_redis_or_skip();
    start(&c, LAST, "&job=r&patience=60s");
    for (uint32_t k = 0; k < 2; k++) {
        const larder__redis_relay_conf conf = {
            .redis = &c.cache.redis, .fingerprint = 1, .identity = 2, .rank = k, .world = 2};
        check_ok(larder__redis_relay_open(&r[k], &conf));
    }
    hear(r, 1);
    move(&c, "*:alive:0");
    hear(r, 2);
    for (int k = 0; k < 2; k++)
        larder__relay_close(&r[k]);
    stop(&c);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void wrote(void *arg, bool stored) { *(_Atomic int *)arg = stored ? 1 : -1; }

static bool write_one(larder__redis_values *far, uint64_t id) {
    _Atomic int done = 0;
    larder_buf *b = larder_buf_new(8);
    memset(larder_buf_data(b), 0, 8);
    larder__redis_values_put(far, &(larder__value){.id = id, .mark = 1, .size = 8}, b, 0, wrote,
                             &done);
    while (!done)
        kit_nap(0.001);
    larder_buf_unref(&b);
    return done > 0;
}

static bool write_all(larder__redis_values *far) {
    bool all = true;
    for (uint64_t id = 0; id < 16; id++) /* in slots of either half */
        all &= write_one(far, id);
    return all;
}

/* A node is lost, its slots are nobody's for a while, and then the other's. */
static void test_slots_of_nobody(void **unused) {
    (void)unused;
    cluster c;
    larder__redis_values *far;
    char command[100];
    kit_redis_or_skip();
    start(&c, LAST / 2, "&budget=1MiB");
    larder__redis_values_conf conf = {.redis = &c.cache.redis, .identity = 5, .owner = "o"};
    check_ok(larder__redis_values_open(&far, &conf));
    assert_true(write_all(far));
    kit_redis_kill(&c.nodes[0]);
    snprintf(command, sizeof command, "cluster forget %s", c.ids[0]);
    tell(&c.nodes[1], command);
    assert_false(write_all(far));
    for (int i = 0; larder__redis_values_away(far) && i < TRIES; i++)
        kit_nap(0.05); /* until it has heard that they are nobody's */
    slots(&c.nodes[1], "addslotsrange", 0, LAST / 2);
    bool all = false;
    for (int i = 0; !all && i < TRIES; i++)
        if (!(all = write_all(far)))
            kit_nap(0.05);
    assert_true(all);
    larder__redis_values_close(&far);
    stop(&c);
}

/* Each time it is asked it says no, and that is all it has to do meanwhile. */
static void test_takes_no_deletions(void **unused) {
    (void)unused;
    kit_redis r;
    larder__cache_text cache;
    larder__redis_values *far;
    char text[200], out[16384];
    const char *no;
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    snprintf(text, sizeof text, "redis://127.0.0.1:%u?budget=1MiB&timeout=20s", r.port);
    check_ok(larder__cache_text_parse(&cache, text, ""));
    larder__redis_values_conf conf = {.redis = &cache.redis, .identity = 5, .owner = "o"};
    check_ok(larder__redis_values_open(&far, &conf));
    assert_true(write_one(far, 1));
    assert_int_equal(kit_redis_number(&r, "dbsize"), 1);
    tell(&r, "config set min-replicas-to-write 1");
    double begun = larder__world_now();
    larder__redis_values_drop(far, &(larder__value){.id = 1, .mark = 1});
    until(&r, "info commandstats", "cmdstat_unlink");
    kit_nap(0.5);
    no = strstr(kit_redis_cli(&r, "info commandstats", out, sizeof out), "cmdstat_unlink");
    no = strstr(no, "rejected_calls=");
    double most = larder__world_now() - begun + 2;
    assert_true((double)strtol(no + strlen("rejected_calls="), NULL, 10) <= most);
    tell(&r, "config set min-replicas-to-write 0");
    for (int i = 0; kit_redis_number(&r, "dbsize") && i < TRIES; i++)
        kit_nap(0.05);
    assert_int_equal(kit_redis_number(&r, "dbsize"), 0);
    larder__redis_values_close(&far);
    kit_redis_stop(&r);
}

/* ---- what nobody owns ------------------------------------------------------------------------ */

/* The look for it is cut off half-way, and begins anew. */
static void test_sweep_is_cut_off(void **unused) {
    (void)unused;
    enum { LEFT = 40000 };
    kit_redis r;
    kit_proxy p;
    larder__cache_text cache;
    larder__redis_values *far;
    char text[300], out[1000];
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    kit_proxy_start(&p, r.port);
    snprintf(text, sizeof text, "redis://127.0.0.1:%u?budget=1MiB&timeout=2s", p.port);
    check_ok(larder__cache_text_parse(&cache, text, ""));
    snprintf(
        text, sizeof text,
        "eval \"for i=1,%d do redis.call('SET','larder:%u:%016x:gone:0:'..i..':1','x') end\" 0",
        LEFT, larder__speaks.value, 5);
    kit_redis_cli(&r, text, out, sizeof out);
    assert_int_equal(kit_redis_number(&r, "dbsize"), LEFT);
    larder__redis_values_conf conf = {
        .redis = &cache.redis, .identity = 5, .owner = "o", .lease = true};
    check_ok(larder__redis_values_open(&far, &conf));
    while (kit_redis_number(&r, "dbsize") >= LEFT)
        kit_nap(0.001);
    p.mode = KIT_CUT;
    for (int i = 0; !larder__redis_values_away(far) && i < TRIES; i++) {
        if (kit_redis_number(&r, "dbsize") <= 1) /* it was done before it was cut off */
            break;
        kit_nap(0.05);
    }
    p.mode = KIT_PASS;
    for (int i = 0; kit_redis_number(&r, "dbsize") > 1 && i < TRIES; i++)
        kit_nap(0.05);
    assert_int_equal(kit_redis_number(&r, "dbsize"), 1); /* our lease */
    larder__redis_values_close(&far);
    kit_proxy_stop(&p);
    kit_redis_stop(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slot_moves),
        cmocka_unit_test(test_node_is_replaced),
        cmocka_unit_test(test_all_nodes_are_replaced),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_slots_of_nobody),
        cmocka_unit_test(test_takes_no_deletions),
        cmocka_unit_test(test_sweep_is_cut_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
