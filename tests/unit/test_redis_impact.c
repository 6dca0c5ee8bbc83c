/* ImpACT on several nodes: the ranks of one job over one cache in Redis. Each evaluates samples of
 * its own (S is disjoint), no sample is cached twice, and what any of them has cached is found
 * there by the others before storage is asked. */
#include "loader_kit.h"
#include "redis_kit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOURCE "mem:?n=600&h=8&w=8&c=3"
enum { N = 600, RANKS = 2, BATCH = 16 };

typedef struct rank { /* seen by the parent */
    uint32_t evaluated[N], served[N];
    uint64_t found, hits, reads, joined, unshared, resident;
} rank;

static int evaluate(void *arg, const larder_batch *b, float *loss) {
    rank *to = arg;
    for (size_t i = 0; i < b->n; i++) {
        to->evaluated[b->served[i]]++;
        loss[i] = kit_loss(b->served[i], b->epoch + 1000);
    }
    return 0;
}

static uint64_t figure(larder_loader *l, const char *name) {
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++)
        if (strcmp(v.name, name) == 0)
            return (uint64_t)v.value;
    must(false);
    return 0;
}

static void work(const char *cache, uint32_t number, uint64_t seed, uint64_t epochs, rank *to) {
    larder_loader_conf c = kit_conf(SOURCE, "impact:warm_max=3");
    larder_loader *l;
    const larder_batch *b;
    float losses[BATCH];
    int rc;
    c.cache = cache;
    c.rank = number;
    c.seed = seed;
    c.world = RANKS;
    c.epochs = epochs;
    must(larder_loader_open(&l, &c) == 0);
    must(larder_loader_evaluator(l, evaluate, to) == 0);
    to->found = figure(l, "cache_resident");
    while ((rc = larder_loader_next(l, &b)) >= 0 && rc != LARDER_END) {
        for (size_t i = 0; rc == 0 && i < b->n; i++) {
            losses[i] = kit_loss(b->served[i], b->epoch);
            to->served[b->served[i]] += b->epoch == 0;
        }
        if (rc == 0) {
            must(larder_loader_report(
                     l, b, &(larder_feedback){.size = sizeof(larder_feedback), .loss = losses}) ==
                 0);
            must(larder_loader_done(l, b) == 0);
        }
    }
    must(rc == LARDER_END);
    larder_figures f = {.size = sizeof f};
    for (uint64_t e = 0; e < epochs; e++) {
        must(larder_loader_figures(l, e, &f) == 0);
        to->hits += f.hits;
    }
    to->reads = figure(l, "storage_reads");
    to->resident = figure(l, "cache_resident");
    to->joined = figure(l, "group_joined");
    to->unshared = figure(l, "group_unshared");
    larder_loader_close(&l);
}

static void run(const char *cache, uint64_t seed, uint64_t epochs, rank *ranks) {
    pid_t pids[RANKS];
    memset(ranks, 0, RANKS * sizeof *ranks);
    for (uint32_t k = 0; k < RANKS; k++) {
        pids[k] = fork();
        assert_true(pids[k] >= 0);
        if (pids[k] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            work(cache, k, seed, epochs, &ranks[k]);
            _exit(0);
        }
    }
    for (int k = 0; k < RANKS; k++) {
        int status = 0;
        assert_int_equal(waitpid(pids[k], &status, 0), pids[k]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

/* Values in Redis by sample: "larder:3:DATASET:g-NAME:FORM:ID:MAKING". */
static uint64_t cached(const kit_redis *r, uint32_t times[N]) {
    static char out[200000];
    uint64_t all = 0;
    memset(times, 0, N * sizeof *times);
    kit_redis_cli(r, "--scan --pattern 'larder:3:*:g-imp:0:*'", out, sizeof out);
    for (const char *line = out; line && *line; line = strchr(line, '\n')) {
        const char *id = strstr(line += *line == '\n', ":g-imp:0:");
        if (!id)
            continue;
        unsigned long n = strtoul(id + 9, NULL, 10);
        assert_true(n < N);
        times[n]++;
        all++;
    }
    return all;
}

static void test_ranks(void **unused) {
    (void)unused;
    kit_redis r;
    char cache[160];
    static uint32_t times[N];
    kit_redis_or_skip();
    rank *ranks = mmap(NULL, RANKS * sizeof *ranks, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(ranks != MAP_FAILED);
    kit_redis_start(&r, NULL);
    snprintf(cache, sizeof cache, "redis://127.0.0.1:%u?budget=30%%&shared=imp&timeout=30s",
             r.port);
    run(cache, 7, 8, ranks);
    uint64_t looked[RANKS] = {0};
    for (int i = 0; i < N; i++) {
        assert_int_equal((ranks[0].served[i] > 0) + (ranks[1].served[i] > 0), 1); /* pools */
        assert_true(!ranks[0].evaluated[i] || !ranks[1].evaluated[i]);            /* S */
        for (int k = 0; k < RANKS; k++) {
            looked[k] += ranks[k].evaluated[i] > 0;
            assert_true(!ranks[k].evaluated[i] || ranks[k].served[i]);
        }
    }
    assert_true(looked[0] > 0 && looked[1] > 0);
    /* What was evicted before it was written is there for some seconds, for those who wait for it.
     * Only a job that lost the others' talk leaves anything else. */
    bool together = ranks[0].joined + ranks[1].joined == 2;
    uint64_t stray = together ? 0 : N / 10;
    uint64_t there = cached(&r, times), twice = 0;
    for (int i = 0; i < 60 && there > 3 * N / 10; i++) {
        kit_nap(0.2);
        there = cached(&r, times);
    }
    for (int i = 0; i < N; i++)
        twice += times[i] > 1;
    if (there <= N / 10 || there > 3 * N / 10 + stray || twice > stray)
        fail_msg("%d samples lie in Redis, of a budget for %d; %d of them twice", (int)there,
                 3 * N / 10, (int)twice);
    assert_true(ranks[0].resident <= 3 * N / 10 && ranks[1].resident <= 3 * N / 10);

    /* Of another seed, ranks share the samples out in another way: each wants what the other one
     * of the first run had. */
    run(cache, 8, 1, ranks);
    uint64_t hits = ranks[0].hits + ranks[1].hits, reads = ranks[0].reads + ranks[1].reads;
    uint64_t found = ranks[0].found < ranks[1].found ? ranks[0].found : ranks[1].found;
    assert_true(found > 0);
    if (ranks[0].joined + ranks[1].joined == 2 && ranks[0].unshared + ranks[1].unshared == 0) {
        assert_int_equal(hits + reads, N);
        assert_true(hits >= found * 9 / 10); /* some were not written when the first run ended */
    }
    munmap(ranks, RANKS * sizeof *ranks);
    kit_redis_stop(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
