/* Jobs that share a cache in Redis, each a process of its own, as on several machines: every sample
 * once an epoch and with its own pixels, nothing read twice that need not be, whatever becomes of
 * jobs and of Redis meanwhile. */
#include "group_kit.h"
#include "loader_kit.h"
#include "redis_kit.h"
#include "shared/machine.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

static void test_recipes(void **unused) {
    (void)unused;
    static const char *const recipes[] = {"minio",        "seneca", "lru",   "shade",
                                          "rotate:h=0.3", "icache", "spider"};
    kit_redis r;
    char cache[128];
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        kit_progress *p = kit_progress_new();
        pid_t pids[3];
        bool exact = i < 3;
        snprintf(cache, sizeof cache, "redis://127.0.0.1:%u?budget=25%%&shared=g%zu&timeout=20s",
                 r.port, i);
        for (uint64_t j = 0; j < 3; j++)
            pids[j] = kit_start(cache, recipes[i], j + 1, 3, &p[j], exact);
        for (int j = 0; j < 3; j++)
            kit_ended_well(pids[j]);
        uint64_t reads = 0, served = 0, stood_in = 0, excused = 0;
        for (int j = 0; j < 3; j++) {
            stood_in += p[j].stood_in;
            reads += p[j].reads;
            served += p[j].served;
            excused += p[j].waited + p[j].unshared; /* in vain, where others are slow */
            assert_true(p[j].joined >= 1); /* a slow one may have been expelled, and joined again */
            assert_true(p[j].resident <= KIT_GROUP_N / 4);
        }
        if (getenv("LARDER_VERBOSE"))
            for (int j = 0; j < 3; j++)
                fprintf(stderr,
                        "%s job %d: %d reads of %d, waited %d, stuck %d, alone %d, renewed %d, "
                        "stood %d\n",
                        recipes[i], j, (int)p[j].reads, (int)p[j].served, (int)p[j].waited,
                        (int)p[j].stuck, (int)p[j].unshared, (int)p[j].renewed, (int)p[j].stood_in);
        if (exact)
            assert_int_equal(served, 3 * 3 * KIT_GROUP_N);
        assert_true(stood_in > 0 || strcmp(recipes[i], "spider") != 0);
        /* A quarter is there; what seneca shares is read about once for all three. */
        assert_true(reads < served * (i == 1 ? 6 : 9) / 10 + excused || strstr(recipes[i], "lru"));
        munmap(p, KIT_MOST_JOBS * sizeof *p);
        kit_redis_number(&r, "flushall");
    }
    kit_redis_stop(&r);
}

/* A job that is killed: its promises and what it was to see are nobody's any more. */
static void test_killed_jobs(void **unused) {
    (void)unused;
    kit_redis r;
    char cache[128], out[160];
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    snprintf(cache, sizeof cache, "redis://127.0.0.1:%u?budget=25%%&shared=k&timeout=20s", r.port);
    kit_progress *p = kit_progress_new();
    pid_t stays = kit_start(cache, "seneca", 1, 8, &p[0], true);
    kit_wait_batches(&p[0], 1); /* the member with the lowest number saves: not one of the dying */
    for (int j = 1; j < 4; j++) {
        pid_t dies = kit_start(cache, "seneca", (uint64_t)j + 10, 50, &p[j], true);
        kit_wait_batches(&p[j], 20);
        kill(dies, SIGKILL);
        waitpid(dies, NULL, 0);
    }
    kit_ended_well(stays);
    /* Those who were killed are expelled when their lease is over. */
    pid_t next = kit_start(cache, "seneca", 77, 2, &p[5], true);
    kit_ended_well(next);
    /* There were enough records for a snapshot, and it was begun from. */
    char command[200];
    snprintf(command, sizeof command, "hget '%s' snapat",
             kit_redis_cli(&r, "keys '*:state.3'", out, sizeof out));
    assert_true(kit_redis_number(&r, command) > 0);
    munmap(p, KIT_MOST_JOBS * sizeof *p);
    kit_redis_stop(&r);
}

static void test_redis_comes_and_goes(void **unused) {
    (void)unused;
    kit_redis r;
    char cache[128];
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    snprintf(cache, sizeof cache, "redis://127.0.0.1:%u?budget=25%%&shared=c&timeout=300ms",
             r.port);
    kit_progress *p = kit_progress_new();
    pid_t pids[2];
    for (uint64_t j = 0; j < 2; j++)
        pids[j] = kit_start(cache, "seneca", j + 1, 100000, &p[j], true);
    for (int round = 0; round < 2; round++) {
        kit_wait_batches(&p[0], p[0].batches + 60);
        uint64_t joined = p[0].joined;
        kit_redis_kill(&r);
        kit_wait_batches(&p[0], p[0].batches + 40);
        kit_redis_again(&r); /* empty */
        kit_wait_joined(&p[0], joined + 1);
    }
    for (int j = 0; j < 2; j++)
        p[j].leave = true;
    for (int j = 0; j < 2; j++)
        kit_ended_well(pids[j]);
    assert_true(p[0].joined >= 3 && p[0].unshared > 0);
    munmap(p, KIT_MOST_JOBS * sizeof *p);
    kit_redis_stop(&r);
}

static void test_cluster(void **unused) {
    (void)unused;
    kit_cluster k;
    char cache[128];
    kit_redis_or_skip();
    kit_cluster_start(&k);
    snprintf(cache, sizeof cache, "redis-cluster://127.0.0.1:%u?budget=25%%&shared=c&timeout=500ms",
             k.nodes[0].port);
    kit_progress *p = kit_progress_new();
    pid_t pids[2];
    for (uint64_t j = 0; j < 2; j++)
        pids[j] = kit_start(cache, "seneca", j + 1, 10, &p[j], true);
    kit_wait_batches(&p[0], 100);
    kit_cluster_patience(&k, 1);
    kit_redis_kill(&k.nodes[1]); /* maybe the one with the journal */
    kit_redis_kill(&k.nodes[2]);
    for (int j = 0; j < 2; j++)
        kit_ended_well(pids[j]);
    munmap(p, KIT_MOST_JOBS * sizeof *p);
    kit_cluster_stop(&k);
}

static void test_others_are_refused(void **unused) {
    (void)unused;
    kit_redis r;
    char cache[128];
    larder_loader *l, *m = NULL;
    kit_redis_or_skip();
    kit_redis_start(&r, NULL);
    snprintf(cache, sizeof cache, "redis://127.0.0.1:%u?budget=25%%&shared=x&timeout=20s", r.port);
    larder_loader_conf c = kit_conf(KIT_GROUP_SOURCE, "minio");
    c.cache = cache;
    check_ok(larder_loader_open(&l, &c));
    c.recipe = "lru";
    assert_true(larder_loader_open(&m, &c) < 0);
    assert_non_null(strstr(larder_errmsg(), "minio"));
    larder_loader_close(&l);
    kit_redis_stop(&r);
}

/* ---- replicas agree, also those that begin from a snapshot ----------------------------------- */

static uint32_t size_of(void *unused, uint64_t id) {
    (void)unused;
    return 100 + (uint32_t)(id * 7919 % 300);
}

typedef struct twin {
    larder__machine *m;
    larder_slot *table;
} twin;

static void twin_open(twin *t, const larder__agreement *a) {
    t->table = malloc(a->keys * sizeof *t->table);
    larder__machine_conf conf = {.about = a, .size_of = size_of, .slot_of = t->table};
    check_ok(larder__machine_open(&t->m, &conf));
}

static void twin_close(twin *t) {
    larder__machine_close(&t->m);
    free(t->table);
}

static void same_outcome(const larder__outcome *a, const larder__outcome *b) {
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->fetched, b->fetched);
    assert_int_equal(a->left_count, b->left_count);
    for (size_t i = 0; i < a->rows + a->fetched; i++)
        assert_memory_equal(&a->tickets[i], &b->tickets[i], sizeof a->tickets[i]);
    for (size_t i = 0; i < a->left_count; i++)
        assert_true(a->left[i].key == b->left[i].key && a->left[i].mark == b->left[i].mark);
}

static void feed_both(twin *a, twin *b, uint32_t job, const larder__op *o) {
    larder__outcome x, y;
    check_ok(larder__machine_apply(a->m, job, o, &x));
    check_ok(larder__machine_apply(b->m, job, o, &y));
    same_outcome(&x, &y);
}

static void feed_batch(twin *a, twin *b, bool exchange, uint32_t job, larder_rng *rng, uint64_t *at,
                       uint64_t n) {
    larder__row rows[10];
    for (int i = 0; i < 10; i++) {
        rows[i] = (larder__row){.score = (float)larder_rng_below(rng, 100) / 10,
                                .group = LARDER_NO_GROUP};
        rows[i].key = exchange ? (uint32_t)((*at)++ % n) : larder_rng_below(rng, (uint32_t)n);
        rows[i].size = exchange ? 0 : size_of(NULL, rows[i].key);
    }
    feed_both(a, b, job,
              &(larder__op){.type = exchange ? LARDER__OP_EXCHANGE : LARDER__OP_CLAIM,
                            .number = {exchange ? 16 : 0},
                            .n = 10,
                            .rows = rows});
}

static void feed_scores(twin *a, twin *b, uint32_t job, larder_rng *rng) {
    uint64_t ids[20];
    float scores[20];
    for (int i = 0; i < 20; i++) {
        scores[i] = (float)larder_rng_below(rng, 1000) / 100;
        ids[i] = larder_rng_below(rng, 300);
    }
    feed_both(a, b, job,
              &(larder__op){.type = LARDER__OP_SCORES, .n = 20, .ids = ids, .scores = scores});
}

static void test_replicas_agree(void **unused) {
    (void)unused;
    static const char *const policies[] = {"lru", "minio", "ods", "app"};
    for (size_t k = 0; k < 4; k++) {
        larder__agreement a = {.keys = 300, .budget = 15000, .seed = 5, .share = {1}};
        snprintf(a.policy, sizeof a.policy, "%s", policies[k]);
        twin first, other;
        larder_rng rng;
        uint64_t at[3] = {0};
        larder_rng_seed(&rng, k, 1);
        twin_open(&first, &a);
        twin_open(&other, &a);
        for (int step = 0; step < 600; step++) {
            uint32_t job = (uint32_t)step % 3;
            if (step < 3) {
                feed_both(&first, &other, job, &(larder__op){.type = LARDER__OP_JOIN});
            } else if (step % 50 == 49) {
                feed_both(&first, &other, job, &(larder__op){.type = LARDER__OP_LEAVE});
                feed_both(&first, &other, job,
                          &(larder__op){.type = LARDER__OP_JOIN, .number = {1}});
                at[job] = 0;
            } else if (k == 2 && at[job] && at[job] % 300 == 0) {
                feed_both(&first, &other, job,
                          &(larder__op){.type = LARDER__OP_EPOCH, .number = {at[job] / 300}});
                feed_batch(&first, &other, true, job, &rng, &at[job], 300);
            } else if (step % 7 == 6) {
                feed_scores(&first, &other, job, &rng);
            } else
                feed_batch(&first, &other, k == 2, job, &rng, &at[job], 300);
            if (step % 40 == 20) { /* the other one begins again, from a snapshot */
                larder_writer s = {0};
                larder__machine_save(first.m, &s);
                check_ok(s.code);
                twin_close(&other);
                twin_open(&other, &a);
                larder_reader in = {.at = s.bytes, .end = s.bytes + s.size};
                check_ok(larder__machine_load(other.m, &in));
                free(s.bytes);
            }
        }
        assert_memory_equal(first.table, other.table, 300 * sizeof *first.table);
        twin_close(&first);
        twin_close(&other);
    }
}

/* Stand-ins are of the class that was asked for, whatever samples somebody says are alike; and
 * whoever begins from a snapshot says the same of picks, touches, rests and relations too. */
static uint64_t feed_classes(twin *a, twin *b, uint32_t job, larder_rng *rng) {
    enum { CLASSES = 3 };
    larder__row rows[10];
    larder__outcome x, y;
    uint64_t stood_in = 0;
    for (int i = 0; i < 10; i++) {
        uint32_t key = larder_rng_below(rng, 300);
        rows[i] = (larder__row){
            .key = key, .size = size_of(NULL, key), .group = key % CLASSES, .score = NAN};
    }
    larder__op o = {.type = LARDER__OP_CLAIM, .n = 10, .rows = rows};
    check_ok(larder__machine_apply(a->m, job, &o, &x));
    check_ok(larder__machine_apply(b->m, job, &o, &y));
    same_outcome(&x, &y);
    for (size_t i = 0; i < x.rows; i++) {
        assert_int_equal(x.tickets[i].key % CLASSES, rows[i].key % CLASSES);
        stood_in += x.tickets[i].kind == LARDER_SUBSTITUTE;
        assert_true(x.tickets[i].key == rows[i].key || x.tickets[i].kind == LARDER_SUBSTITUTE);
    }
    return stood_in;
}

static void feed_word(twin *a, twin *b, uint32_t job, larder_rng *rng) {
    uint64_t ids[40], key = larder_rng_below(rng, 300);
    larder__touch touched[4];
    for (size_t i = 0; i < 40; i++) /* of all classes */
        ids[i] = (key + 1 + larder_rng_below(rng, 298)) % 300;
    for (size_t i = 0; i < 4; i++)
        touched[i] = (larder__touch){larder_rng_below(rng, 300), 0, NAN};
    const larder__op words[] = {
        {.type = LARDER__OP_RELATE, .number = {key}, .n = 40, .ids = ids},
        {.type = LARDER__OP_PICKS, .number = {7, larder_rng_next(rng)}},
        {.type = LARDER__OP_FETCH, .number = {9}},
        {.type = LARDER__OP_TOUCH, .n = 4, .touched = touched},
        {.type = LARDER__OP_REST, .number = {larder_rng_below(rng, 2)}},
        {.type = LARDER__OP_STREAM, .number = {0, larder_rng_below(rng, 3), key}},
        {.type = LARDER__OP_ACCURACY, .value = {0.5}},
        {.type = LARDER__OP_EPOCH, .number = {larder_rng_below(rng, 5)}}};
    feed_both(a, b, job, &words[larder_rng_below(rng, sizeof words / sizeof *words)]);
}

static void again_from_snapshot(const twin *first, twin *other, const larder__agreement *a) {
    larder_writer s = {0}, t = {0};
    larder__machine_save(first->m, &s);
    check_ok(s.code);
    twin_close(other);
    twin_open(other, a);
    larder_reader in = {.at = s.bytes, .end = s.bytes + s.size};
    check_ok(larder__machine_load(other->m, &in));
    assert_true(in.at == in.end);
    larder__machine_save(other->m, &t);
    assert_int_equal(s.size, t.size);
    assert_memory_equal(s.bytes, t.bytes, s.size);
    free(s.bytes);
    free(t.bytes);
}

static void test_classes(void **unused) {
    (void)unused;
    static const char *const policies[] = {"spider:ratio=0.5", "hilo", "rotate", "sieve"};
    for (size_t k = 0; k < 4; k++) {
        larder__agreement a = {.keys = 300, .budget = 15000, .seed = 5, .share = {1}};
        snprintf(a.policy, sizeof a.policy, "%s", policies[k]);
        twin first, other;
        larder_rng rng;
        uint64_t stood_in = 0;
        larder_rng_seed(&rng, k, 2);
        twin_open(&first, &a);
        twin_open(&other, &a);
        for (uint32_t step = 0; step < 3000; step++) {
            uint32_t job = step % 3;
            if (step < 3)
                feed_both(&first, &other, job, &(larder__op){.type = LARDER__OP_JOIN});
            else if (step % 5 == 1)
                feed_scores(&first, &other, job, &rng);
            else if (step % 2)
                feed_word(&first, &other, job, &rng);
            else
                stood_in += feed_classes(&first, &other, job, &rng);
            if (step % 100 == 50)
                again_from_snapshot(&first, &other, &a);
        }
        assert_true(k || stood_in > 100);
        twin_close(&first);
        twin_close(&other);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replicas_agree), cmocka_unit_test(test_classes),
        cmocka_unit_test(test_recipes),        cmocka_unit_test(test_others_are_refused),
        cmocka_unit_test(test_killed_jobs),    cmocka_unit_test(test_redis_comes_and_goes),
        cmocka_unit_test(test_cluster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
