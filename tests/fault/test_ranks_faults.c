/* Ranks that decide together when something goes wrong: a rank is killed or ends early, ranks
 * differ, Redis goes away for a moment or for good. Each ends with a sentence, or goes on with the
 * same samples; nothing hangs. */
#include "loader_kit.h"
#include "redis_kit.h"

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

static larder_loader *open_rank(uint16_t port, const char *recipe, uint32_t rank, uint64_t seed) {
    char cache[160];
    larder_loader *l = NULL;
    larder_loader_conf c = kit_conf(SOURCE, recipe);
    snprintf(cache, sizeof cache,
             "redis://127.0.0.1:%u?budget=30%%&timeout=2s&job=faults&patience=%us", port, patience);
    c.cache = cache;
    c.batch = 10;
    c.epochs = 4;
    c.rank = rank;
    c.world = 2;
    c.seed = seed;
    check_ok(larder_loader_open(&l, &c));
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
        larder_feedback fb = {.loss = loss};
        check_ok(larder_loader_report(r->l, b, &fb));
        check_ok(larder_loader_done(r->l, b));
        if (r->nap_us)
            usleep(r->nap_us);
    }
    snprintf(r->why, sizeof r->why, "%s", r->rc < 0 ? larder_errmsg() : "");
    return NULL;
}

static void killed(void **unused) {
    (void)unused;
    kit_redis server;
    kit_redis_or_skip();
    kit_redis_start(&server, NULL);
    patience = 6;
    pid_t child = fork();
    if (child == 0) {
        static rank other;
        other.most = MOST;
        other.nap_us = 20000;
        other.l = open_rank(server.port, "shade", 1, 7);
        run_rank(&other);
        _exit(0);
    }
    static rank r;
    r = (rank){.l = open_rank(server.port, "shade", 0, 7), .most = 12};
    run_rank(&r);
    assert_int_equal(r.count, 12);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    r.most = MOST;
    run_rank(&r);
    assert_int_equal(r.rc, LARDER_E_STATE);
    assert_non_null(strstr(r.why, "rank 1 of 2 has given no sign of life"));
    patience = 60;
    larder_loader_close(&r.l);
    kit_redis_stop(&server);
}

static void ends_early(void **unused) {
    (void)unused;
    kit_redis server;
    static rank r[2];
    pthread_t other;
    kit_redis_or_skip();
    kit_redis_start(&server, NULL);
    for (uint32_t k = 0; k < 2; k++)
        r[k] = (rank){.l = open_rank(server.port, "shade", k, 7), .most = k ? 20 : MOST};
    pthread_create(&other, NULL, run_rank, &r[0]);
    run_rank(&r[1]);
    larder_loader_close(&r[1].l);
    pthread_join(other, NULL);
    assert_int_equal(r[0].rc, LARDER_E_STATE);
    assert_non_null(strstr(r[0].why, "rank 1 of 2 has ended"));
    larder_loader_close(&r[0].l);
    kit_redis_stop(&server);
}

/* Another seed: found out before anybody trains on it for long. */
static void differ(void **unused) {
    (void)unused;
    kit_redis server;
    static rank r[2];
    pthread_t other;
    kit_redis_or_skip();
    kit_redis_start(&server, NULL);
    for (uint32_t k = 0; k < 2; k++)
        r[k] = (rank){.l = open_rank(server.port, "shade", k, 7 + k), .most = MOST};
    pthread_create(&other, NULL, run_rank, &r[0]);
    run_rank(&r[1]);
    pthread_join(other, NULL);
    for (uint32_t k = 0; k < 2; k++) {
        assert_int_equal(r[k].rc, LARDER_E_STATE);
        assert_non_null(strstr(r[k].why, "had decided something else"));
        larder_loader_close(&r[k].l);
    }
    kit_redis_stop(&server);
}

typedef struct trouble {
    kit_redis *server;
    bool back;
} trouble;

/* By the thread that lives longest: a server ends with who started it. */
static void make_trouble(const trouble *t) {
    while (atomic_load(&arrived) < 2)
        kit_nap(0.005);
    kit_redis_kill(t->server);
    atomic_store(&opened, 1);
    kit_nap(0.3);
    if (t->back)
        kit_redis_again(t->server);
}

static void run_both(rank r[2], const kit_redis *server, const char *recipe, const trouble *t) {
    pthread_t threads[2];
    atomic_store(&arrived, 0);
    atomic_store(&opened, 0);
    for (uint32_t k = 0; k < 2; k++)
        r[k] = (rank){.l = open_rank(server->port, recipe, k, 7), .most = MOST, .gated = t};
    for (uint32_t k = 0; k < 2; k++)
        pthread_create(&threads[k], NULL, run_rank, &r[k]);
    if (t)
        make_trouble(t);
    for (uint32_t k = 0; k < 2; k++)
        pthread_join(threads[k], NULL);
}

/* Comes back empty: what ranks had said is said again, values are read from storage. */
static void redis_again(void **unused) {
    (void)unused;
    kit_redis server;
    static rank calm[2], r[2];
    kit_redis_or_skip();
    kit_redis_start(&server, NULL);
    run_both(calm, &server, "shade:repeat=3", NULL);
    for (uint32_t k = 0; k < 2; k++)
        larder_loader_close(&calm[k].l);
    run_both(r, &server, "shade:repeat=3", &(trouble){&server, true});
    for (uint32_t k = 0; k < 2; k++) {
        if (r[k].rc < 0)
            fail_msg("rank %u: %s", k, r[k].why);
        assert_int_equal(r[k].count, calm[k].count);
        assert_memory_equal(r[k].digests, calm[k].digests, r[k].count * sizeof *r[k].digests);
        larder_loader_close(&r[k].l);
    }
    kit_redis_stop(&server);
}

/* For good: who has to hear the others ends with a sentence, who has not trains on. */
static void redis_gone(void **unused) {
    (void)unused;
    static const char *const recipes[] = {"shade", "minio"};
    for (int i = 0; i < 2; i++) {
        kit_redis server;
        static rank r[2];
        kit_redis_or_skip();
        patience = 6;
        kit_redis_start(&server, NULL);
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
        kit_redis_stop(&server);
    }
}

/* Nobody waits for a rank that is not there when the loader is closed. */
static void closed_while_waiting(void **unused) {
    (void)unused;
    kit_redis server;
    static rank r;
    kit_redis_or_skip();
    kit_redis_start(&server, NULL);
    r = (rank){.l = open_rank(server.port, "shade", 0, 7), .most = 3};
    run_rank(&r);
    assert_int_equal(r.count, 3);
    larder_loader_close(&r.l);
    kit_redis_stop(&server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed),     cmocka_unit_test(ends_early),
        cmocka_unit_test(differ),     cmocka_unit_test(redis_again),
        cmocka_unit_test(redis_gone), cmocka_unit_test(closed_while_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
