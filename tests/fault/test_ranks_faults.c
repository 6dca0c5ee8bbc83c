/* Ranks that decide together when something goes wrong: a rank is killed or ends early, ranks
 * differ, Redis or the daemon that they share goes away for a moment or for good. Each ends with a
 * sentence, or goes on with the same samples; nothing hangs. */
#include "loader_kit.h"
#include "ranks_kit.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOURCE "mem:?n=600&h=8&w=8&c=3"
enum { MOST = 600 };

static unsigned patience = 60; /* seconds; less where a test waits for it to end */

static int try_rank(larder_loader **out, const kit_store *s, const char *recipe, uint32_t rank,
                    uint32_t world, uint64_t seed) {
    char cache[192];
    larder_loader_conf c = kit_conf(SOURCE, recipe);
    c.cache = kit_store_cache(s, cache, sizeof cache, "30%", "faults", patience);
    c.batch = 10;
    c.epochs = 4;
    c.rank = rank;
    c.world = world;
    c.seed = seed;
    return larder_loader_open(out, &c);
}

static larder_loader *open_rank(const kit_store *s, const char *recipe, uint32_t rank,
                                uint64_t seed) {
    larder_loader *l = NULL;
    check_ok(try_rank(&l, s, recipe, rank, 2, seed));
    return l;
}

typedef struct rank {
    larder_loader *l;
    uint64_t digests[MOST];
    size_t count, most; /* batches to take */
    int rc;             /* how it ended */
    char why[512];
    uint32_t nap_us;
    bool gated;
} rank;

enum { GATE = 20 }; /* batches after which ranks wait for what is to happen to them */
static _Atomic int arrived, opened;

static void *run_rank(void *arg) {
    rank *r = arg;
    while (r->count < r->most) {
        const larder_batch *b;
        if (r->gated && r->count == GATE) {
            r->gated = false;
            atomic_fetch_add(&arrived, 1);
            while (!atomic_load(&opened))
                kit_nap(0.005);
        }
        r->rc = larder_loader_next(r->l, &b);
        if (r->rc == LARDER_END_EPOCH)
            continue;
        if (r->rc)
            break;
        float loss[16];
        for (size_t i = 0; i < b->n; i++)
            loss[i] = kit_loss(b->served[i], b->epoch);
        r->digests[r->count++] = kit_digest(b);
        larder_feedback fb = {.size = sizeof fb, .loss = loss};
        check_ok(larder_loader_report(r->l, b, &fb));
        check_ok(larder_loader_done(r->l, b));
        if (r->nap_us)
            usleep(r->nap_us);
    }
    snprintf(r->why, sizeof r->why, "%s", r->rc < 0 ? larder_errmsg() : "");
    return NULL;
}

static void killed(void **kind) {
    kit_store server;
    kit_store_or_skip(*(kit_store_kind *)*kind);
    kit_store_start(&server, *(kit_store_kind *)*kind);
    patience = server.kind == KIT_REDIS ? 6 : 60;
    pid_t child = fork();
    if (child == 0) {
        static rank other;
        other.most = MOST;
        other.nap_us = 20000;
        other.l = open_rank(&server, "shade", 1, 7);
        run_rank(&other);
        _exit(0);
    }
    static rank r;
    r = (rank){.l = open_rank(&server, "shade", 0, 7), .most = 12};
    run_rank(&r);
    assert_int_equal(r.count, 12);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    r.most = MOST;
    run_rank(&r);
    assert_int_equal(r.rc, LARDER_E_STATE);
    /* A closed connection is noticed at once, silence after a while. */
    assert_non_null(strstr(r.why, server.kind == KIT_REDIS ? "rank 1 of 2 has given no sign of life"
                                                           : "rank 1 of 2 is gone"));
    patience = 60;
    larder_loader_close(&r.l);
    kit_store_stop(&server);
}

static void ends_early(void **kind) {
    kit_store server;
    static rank r[2];
    pthread_t other;
    kit_store_or_skip(*(kit_store_kind *)*kind);
    kit_store_start(&server, *(kit_store_kind *)*kind);
    for (uint32_t k = 0; k < 2; k++)
        r[k] = (rank){.l = open_rank(&server, "shade", k, 7), .most = k ? 20 : MOST};
    pthread_create(&other, NULL, run_rank, &r[0]);
    run_rank(&r[1]);
    larder_loader_close(&r[1].l);
    pthread_join(other, NULL);
    assert_int_equal(r[0].rc, LARDER_E_STATE);
    if (!strstr(r[0].why, "rank 1 of 2 has ended"))
        fail_msg("%s", r[0].why);
    larder_loader_close(&r[0].l);
    kit_store_stop(&server);
}

/* Another seed: found out before anybody trains on it for long. */
static void differ(void **kind) {
    kit_store server;
    static rank r[2];
    pthread_t other;
    kit_store_or_skip(*(kit_store_kind *)*kind);
    kit_store_start(&server, *(kit_store_kind *)*kind);
    for (uint32_t k = 0; k < 2; k++)
        r[k] = (rank){.l = open_rank(&server, "shade", k, 7 + k), .most = MOST};
    pthread_create(&other, NULL, run_rank, &r[0]);
    run_rank(&r[1]);
    pthread_join(other, NULL);
    for (uint32_t k = 0; k < 2; k++) {
        assert_int_equal(r[k].rc, LARDER_E_STATE);
        assert_non_null(strstr(r[k].why, "had decided something else"));
        larder_loader_close(&r[k].l);
    }
    kit_store_stop(&server);
}

typedef struct trouble {
    kit_store *server;
    bool back;
} trouble;

/* By the thread that lives longest: a server ends with who started it. */
static void make_trouble(const trouble *t) {
    while (atomic_load(&arrived) < 2)
        kit_nap(0.005);
    kit_store_kill(t->server);
    atomic_store(&opened, 1);
    kit_nap(0.3);
    if (t->back)
        kit_store_again(t->server);
}

static void run_both(rank r[2], const kit_store *server, const char *recipe, const trouble *t) {
    pthread_t threads[2];
    atomic_store(&arrived, 0);
    atomic_store(&opened, 0);
    for (uint32_t k = 0; k < 2; k++)
        r[k] = (rank){.l = open_rank(server, recipe, k, 7), .most = MOST, .gated = t};
    for (uint32_t k = 0; k < 2; k++)
        pthread_create(&threads[k], NULL, run_rank, &r[k]);
    if (t)
        make_trouble(t);
    for (uint32_t k = 0; k < 2; k++)
        pthread_join(threads[k], NULL);
}

/* What both would serve if nothing happened. */
static void run_calm(rank calm[2], const kit_store *server) {
    run_both(calm, server, "shade:repeat=3", NULL);
    for (uint32_t k = 0; k < 2; k++)
        larder_loader_close(&calm[k].l);
}

static void same_as(rank r[2], const rank calm[2]) {
    for (uint32_t k = 0; k < 2; k++) {
        if (r[k].rc < 0)
            fail_msg("rank %u: %s", k, r[k].why);
        assert_int_equal(r[k].count, calm[k].count);
        assert_memory_equal(r[k].digests, calm[k].digests, r[k].count * sizeof *r[k].digests);
        larder_loader_close(&r[k].l);
    }
}

/* Comes back empty: what ranks had said is said again, values are read from storage. */
static void store_again(void **kind) {
    kit_store server;
    static rank calm[2], r[2];
    kit_store_or_skip(*(kit_store_kind *)*kind);
    kit_store_start(&server, *(kit_store_kind *)*kind);
    run_calm(calm, &server);
    run_both(r, &server, "shade:repeat=3", &(trouble){&server, true});
    same_as(r, calm);
    kit_store_stop(&server);
}

/* What they say lies on another node from now on: the one that had it says so, or is dead. */
static void store_moves(void **kind) {
    kit_store server;
    static rank calm[2], r[2];
    kit_store_or_skip(*(kit_store_kind *)*kind);
    kit_store_start(&server, *(kit_store_kind *)*kind);
    run_calm(calm, &server);
    for (int time = 0; time < 2; time++) {
        run_both(r, &server, "shade:repeat=3", &(trouble){&server, false});
        same_as(r, calm);
    }
    kit_store_stop(&server);
}

/* What ranks have said is evicted, deleted or cut while others wait for it, and so is where they
 * meet: it is said again, and nobody takes what is damaged for a word. */
static void words_lost(void **kind) {
    static const char *const what[] = {"redis.call('DEL',k)", "redis.call('SET',k,'?')",
                                       "redis.call('DEL',k) redis.call('RPUSH',k,'x')"};
    kit_store server;
    static rank calm[2], r[2];
    pthread_t threads[2];
    kit_store_or_skip(*(kit_store_kind *)*kind);
    kit_store_start(&server, *(kit_store_kind *)*kind);
    run_calm(calm, &server);
    for (uint32_t k = 0; k < 2; k++)
        r[k] = (rank){.l = open_rank(&server, "shade:repeat=3", k, 7), .most = MOST};
    for (uint32_t k = 0; k < 2; k++)
        pthread_create(&threads[k], NULL, run_rank, &r[k]);
    for (int i = 0; i < 24; i++) {
        char command[300], out[200];
        snprintf(command, sizeof command,
                 "eval \"local n=0 for _,k in ipairs(redis.call('KEYS','larder:*:{*')) do %s n=n+1 "
                 "end return n\" 0",
                 what[i % 3]);
        kit_redis_cli(&server.redis, command, out, sizeof out);
        assert_null(strstr(out, "ERR"));
        kit_nap(i < 8 ? 0.02 : 0.2);
    }
    for (uint32_t k = 0; k < 2; k++)
        pthread_join(threads[k], NULL);
    same_as(r, calm);
    kit_store_stop(&server);
}

/* For good: who has to hear the others ends with a sentence, who has not trains on. */
static void store_gone(void **kind) {
    static const char *const recipes[] = {"shade", "minio"};
    for (int i = 0; i < 2; i++) {
        kit_store server;
        static rank r[2];
        kit_store_or_skip(*(kit_store_kind *)*kind);
        patience = 10;
        kit_store_start(&server, *(kit_store_kind *)*kind);
        run_both(r, &server, recipes[i], &(trouble){&server, false});
        patience = 60;
        for (uint32_t k = 0; k < 2; k++) {
            if (i)
                assert_int_equal(r[k].rc, LARDER_END);
            else {
                assert_int_equal(r[k].rc, LARDER_E_IO);
                assert_non_null(strstr(r[k].why, "cannot hear each other"));
            }
            larder_loader_close(&r[k].l);
        }
        kit_store_stop(&server);
    }
}

/* Nobody waits for a rank that is not there when the loader is closed. */
static void closed_while_waiting(void **kind) {
    kit_store server;
    static rank r;
    kit_store_or_skip(*(kit_store_kind *)*kind);
    kit_store_start(&server, *(kit_store_kind *)*kind);
    r = (rank){.l = open_rank(&server, "shade", 0, 7), .most = 3};
    run_rank(&r);
    assert_int_equal(r.count, 3);
    larder_loader_close(&r.l);
    kit_store_stop(&server);
}

/* ---- the daemon alone ------------------------------------------------------------------------ */

/* Told when it opens, not when it waits. */
static void other_worlds(void **kind) {
    kit_store server;
    larder_loader *first, *other = NULL;
    kit_store_start(&server, *(kit_store_kind *)*kind);
    first = open_rank(&server, "shade", 0, 7);
    assert_int_equal(try_rank(&other, &server, "shade", 1, 3, 7), LARDER_E_STATE);
    assert_non_null(strstr(larder_errmsg(), "rank 1 counts 3 ranks"));
    assert_null(other);
    larder_loader_close(&first);
    assert_true(kit_store_emptied(&server));
    check_ok(try_rank(&other, &server, "shade", 1, 3, 7));
    larder_loader_close(&other);
    kit_store_stop(&server);
}

/* What is left of an earlier run, and holds its seat, is not taken for a rank of this one. */
static void after_a_dead_run(void **kind) {
    kit_store server;
    static rank old, r[2];
    pthread_t threads[2];
    kit_store_start(&server, *(kit_store_kind *)*kind);
    old = (rank){.l = open_rank(&server, "shade", 0, 7), .most = 1};
    larder_loader *gone = open_rank(&server, "shade", 1, 7);
    larder_loader_close(&gone);
    for (uint32_t k = 0; k < 2; k++)
        r[k] = (rank){.l = open_rank(&server, "shade", k, 7), .most = MOST};
    for (uint32_t k = 0; k < 2; k++)
        pthread_create(&threads[k], NULL, run_rank, &r[k]);
    for (uint32_t k = 0; k < 2; k++) {
        pthread_join(threads[k], NULL);
        if (r[k].rc != LARDER_END)
            fail_msg("rank %u: %s", k, r[k].why);
        larder_loader_close(&r[k].l);
    }
    larder_loader_close(&old.l);
    assert_true(kit_store_emptied(&server));
    kit_store_stop(&server);
}

/* It is there and says nothing: as good as gone. */
static void daemon_stuck(void **kind) {
    kit_store server;
    static rank r;
    kit_store_start(&server, *(kit_store_kind *)*kind);
    patience = 2;
    r = (rank){.l = open_rank(&server, "minio", 0, 7), .most = 20};
    patience = 60;
    run_rank(&r);
    assert_int_equal(r.count, 20);
    kill(server.pid, SIGSTOP);
    r.most = MOST;
    run_rank(&r);
    kill(server.pid, SIGCONT);
    assert_int_equal(r.rc, LARDER_END);
    assert_true(kit_stat(r.l, "daemon_lost") >= 1);
    larder_loader_close(&r.l);
    kit_store_stop(&server);
}

/* More than the daemon has is refused with a sentence; what is there is taken where no size is
 * named. */
static void sizes(void **kind) {
    kit_store server;
    char cache[160];
    larder_loader *l = NULL;
    larder_loader_conf c = kit_conf(SOURCE, "minio:split=0/100/0");
    kit_store_start(&server, *(kit_store_kind *)*kind);
    snprintf(cache, sizeof cache, "unix:%s?job=a&budget=1GiB", server.socket);
    c.cache = cache;
    assert_int_equal(larder_loader_open(&l, &c), LARDER_E_FULL);
    assert_non_null(strstr(larder_errmsg(), "start it with a larger --cache"));
    c = kit_conf(SOURCE, "minio");
    snprintf(cache, sizeof cache, "unix:%s?job=a", server.socket);
    c.cache = cache;
    check_ok(larder_loader_open(&l, &c));
    larder_loader_close(&l);
    static const char *const wrong[] = {"job=a/b", "job=", "patience=0s", "jobs=1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(cache, sizeof cache, "unix:%s?%s", server.socket, wrong[i]);
        assert_int_equal(larder_loader_open(&l, &c), LARDER_E_ARGS);
    }
    c.cache = "tcp://127.0.0.1:1?job=a";
    assert_int_equal(larder_loader_open(&l, &c), LARDER_E_ARGS);
    assert_non_null(strstr(larder_errmsg(), "through Redis"));
    c.cache = "unix:/nonexistent/larder?job=a";
    assert_true(larder_loader_open(&l, &c) < 0);
    assert_non_null(strstr(larder_errmsg(), "is larder serve running there?"));
    kit_store_stop(&server);
}

#define FOR_BOTH(test)                                                                             \
    cmocka_unit_test_prestate(test, &daemon), cmocka_unit_test_prestate(test, &redis)

int main(void) {
    static kit_store_kind redis = KIT_REDIS, cluster = KIT_CLUSTER, daemon = KIT_DAEMON;
    const struct CMUnitTest tests[] = {
        FOR_BOTH(killed),
        FOR_BOTH(ends_early),
        FOR_BOTH(differ),
        FOR_BOTH(store_again),
        cmocka_unit_test_prestate(store_moves, &cluster),
        cmocka_unit_test_prestate(words_lost, &redis),
        FOR_BOTH(store_gone),
        FOR_BOTH(closed_while_waiting),
        cmocka_unit_test_prestate(other_worlds, &daemon),
        cmocka_unit_test_prestate(after_a_dead_run, &daemon),
        cmocka_unit_test_prestate(daemon_stuck, &daemon),
        cmocka_unit_test_prestate(sizes, &daemon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
