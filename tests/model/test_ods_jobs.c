/* Jobs that share a cache ruled by ods: every one of them sees every id once an epoch and no
 * augmented entry twice, whoever comes, goes, sleeps or dies; storage is read as little as the
 * bounds say; the order is random. With LARDER_LONG=1 all of it runs longer. */
#include "jobs_kit.h"

#include "cache/ods_core.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_long(void) { return getenv("LARDER_LONG") != NULL; }

/* ---- reads per sample served ----------------------------------------------------------------- */

/* What jobs in step cannot go below: (1 - c)/J, where augmented entries do not count. */
static double bound_of(const jobs_kit *k, double cached, uint32_t jobs) {
    return (1 - cached * (1 - k->share[LARDER_AUGMENTED])) / jobs;
}

static const char *const splits[] = {"100/0/0", "0/100/0", "58/42/0", "0/0/100", "30/30/40"};
enum { SPLITS = sizeof splits / sizeof *splits };

static void in_step_reads_meet_the_bounds(void **state) {
    (void)state;
    uint64_t n = is_long() ? 20000 : 3000, batch = n / 50;
    for (size_t s = 0; s < SPLITS; s++)
        for (uint32_t jobs = 1; jobs <= 4; jobs++)
            for (int percent = 20; percent <= 60; percent += 20) {
                jobs_kit k;
                jobs_open(&k, n, percent / 100.0, splits[s], jobs, n * jobs * 20);
                for (uint32_t j = 0; j < jobs; j++)
                    jobs_join(&k, j, batch, 100 + j);
                jobs_in_step(&k, jobs, 0); /* the first epoch is cold */
                assert_true(jobs_reads(&k) < 1.1 / jobs);
                jobs_in_step(&k, jobs, 4);
                double bound = bound_of(&k, percent / 100.0, jobs), reads = jobs_reads(&k);
                print_message("in step, %s, %u jobs, %d%%: %.4f reads a sample, bound %.4f\n",
                              splits[s], jobs, percent, reads, bound);
                assert_true(reads >= 0.999 * bound);
                assert_true(reads <= 1.1 * bound);
                jobs_close(&k);
            }
}

/* Started anywhere in the first epoch of the first one, with batches of their own. */
static void other_starts_cost_little_more(void **state) {
    (void)state;
    uint64_t n = is_long() ? 12000 : 2000;
    int runs = is_long() ? 20 : 3;
    for (size_t s = 0; s < SPLITS; s += 3)
        for (uint32_t jobs = 2; jobs <= 4; jobs++)
            for (int percent = 20; percent <= 60; percent += 20) {
                double sum = 0, worst = 0, bound = 0;
                for (int run = 0; run < runs; run++) {
                    jobs_kit k;
                    larder_rng rng;
                    larder_rng_seed(&rng, (uint64_t)run, jobs);
                    jobs_open(&k, n, percent / 100.0, splits[s], (uint64_t)run, n * jobs * 30);
                    uint32_t start[4] = {0};
                    for (uint32_t j = 1; j < jobs; j++)
                        start[j] = larder_rng_below(&rng, 60);
                    for (uint32_t t = 0; t < 60 * 8; t++) {
                        if (t == 60 * 3)
                            jobs_reads(&k);
                        for (uint32_t j = 0; j < jobs; j++) {
                            if (start[j] == t)
                                jobs_join(&k, j, n / 60 - j, 100 + j);
                            if (start[j] <= t)
                                jobs_step(&k, j);
                        }
                    }
                    bound = bound_of(&k, percent / 100.0, jobs);
                    double reads = jobs_reads(&k);
                    sum += reads / runs;
                    worst = reads > worst ? reads : worst;
                    jobs_close(&k);
                }
                print_message("other starts, %s, %u jobs, %d%%: %.4f reads a sample on average, "
                              "%.4f at worst, bound in step %.4f\n",
                              splits[s], jobs, percent, sum, worst, bound);
                assert_true(worst < 1.25 * bound);
            }
}

/* One job at half the pace of another: it still shares most of what is read. */
static void a_slow_job_shares_too(void **state) {
    (void)state;
    enum { SLOW_N = 2000 };
    jobs_kit k;
    jobs_open(&k, SLOW_N, 0.2, "100/0/0", 1, SLOW_N * 80);
    jobs_join(&k, 0, 20, 1);
    jobs_join(&k, 1, 20, 2);
    for (int t = 0; t < 1600; t++) {
        if (t == 400)
            jobs_reads(&k);
        jobs_step(&k, 0);
        if (t % 2)
            jobs_step(&k, 1);
    }
    double reads = jobs_reads(&k);
    print_message("one at half the pace, 20%%: %.4f reads a sample; alone 0.8\n", reads);
    assert_true(reads < 0.7);
    jobs_close(&k);
}

/* ---- once an epoch, whatever happens --------------------------------------------------------- */

static void maybe_change(jobs_kit *k, larder_rng *rng, size_t which) {
    kit_job *j = &k->jobs[which];
    uint32_t dice = larder_rng_below(rng, 200);
    if (!j->there) {
        if (dice < 20)
            jobs_join(k, which, 1 + larder_rng_below(rng, 40), larder_rng_next(rng));
    } else if (dice == 0)
        jobs_leave(k, which);
    else if (dice == 1 && !j->rests)
        jobs_kill(k, which);
    else if (dice < 6)
        jobs_rest(k, which, !j->rests);
}

typedef struct wish {
    uint32_t job;
    uint64_t ids[3];
} wish;

static int want(void *ods, void *arg) {
    wish *w = arg;
    uint64_t served[3];
    larder_rng rng;
    larder_rng_seed(&rng, 1, 1);
    return larder__ods_batch(ods, w->job, &rng, w->ids, 3, served);
}

/* The kit checks each batch and each finished epoch. */
static void nothing_comes_twice_or_never(void **state) {
    (void)state;
    int rounds = is_long() ? 200 : 24;
    uint64_t epochs = 0, total = 0;
    for (int round = 0; round < rounds; round++) {
        larder_rng rng;
        larder_rng_seed(&rng, (uint64_t)round, 17);
        uint32_t most = 1 + (uint32_t)round % 8;
        uint64_t n = 20 + larder_rng_below(&rng, 300);
        jobs_kit k;
        jobs_open(&k, n, larder_rng_unit(&rng), splits[(size_t)round % SPLITS], (uint64_t)round,
                  3000000);
        jobs_join(&k, 0, 16, 5);
        for (int t = 0; t < 1500; t++) {
            size_t which = larder_rng_below(&rng, most);
            maybe_change(&k, &rng, which);
            if (k.jobs[which].there && !k.jobs[which].rests)
                epochs += jobs_step(&k, which);
        }
        total += k.served;
        jobs_close(&k);
    }
    print_message("%d epochs, %d samples served, each once an epoch\n", (int)epochs, (int)total);
    assert_true(epochs > (is_long() ? 2000 : 300));
}

static int join(void *ods, void *number) { return larder__ods_join(ods, number); }

static void wrong_wishes_change_nothing(void **state) {
    (void)state;
    jobs_kit k;
    jobs_open(&k, 40, 0.5, "100/0/0", 1, 10000);
    jobs_join(&k, 0, 10, 1);
    jobs_step(&k, 0);
    uint64_t seen = k.jobs[0].order[0], fresh = 0, served[3];
    while (k.jobs[0].times[fresh])
        fresh++;
    wish wrong[] = {{0, {seen, fresh, 39}}, {0, {40, 1, 2}}, {7, {1, 2, 3}}};
    wish twice = {0, {fresh, fresh, fresh}};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(larder__cache_change(k.cache, want, &wrong[i]),
                         wrong[i].job ? LARDER_E_STATE : LARDER_E_ARGS);
    assert_int_equal(larder__cache_change(k.cache, want, &twice), LARDER_E_ARGS);
    larder__cache_exchange(k.cache, 0, wrong[0].ids, 3, served); /* gives what is wanted */
    assert_memory_equal(served, wrong[0].ids, sizeof served);
    while (!jobs_step(&k, 0))
        continue;
    jobs_close(&k);
}

static void too_many_jobs_are_refused(void **state) {
    (void)state;
    jobs_kit k;
    uint32_t number = 0;
    jobs_open(&k, 50, 0.5, "50/0/50", 1, 100000);
    for (size_t j = 0; j < JOBS_MOST; j++)
        jobs_join(&k, j, 5, j);
    for (int j = JOBS_MOST; j < LARDER__ODS_JOBS; j++)
        check_ok(larder__cache_change(k.cache, join, &number));
    assert_int_equal(larder__cache_change(k.cache, join, &number), LARDER_E_FULL);
    for (int t = 0; t < 30; t++)
        for (size_t j = 0; j < JOBS_MOST; j++)
            jobs_step(&k, j);
    jobs_close(&k);
}

/* ---- is the order random? -------------------------------------------------------------------- */

/* Chi-square statistic of counts that should all be alike, in standard deviations from what chance
 * gives: about normal for many degrees of freedom. */
static double strangeness(const uint32_t *counts, size_t n, double expected, double freedom) {
    double chi = 0;
    for (size_t i = 0; i < n; i++)
        chi += (counts[i] - expected) * (counts[i] - expected) / expected;
    return (chi - freedom) / sqrt(2 * freedom);
}

enum { CHI_N = 100, BINS = 10, WARM = 3 };

static void check_order(uint32_t jobs, const char *split, int runs) {
    static uint32_t place[CHI_N * BINS], step[CHI_N];
    memset(place, 0, sizeof place);
    memset(step, 0, sizeof step);
    for (int run = 0; run < runs; run++) {
        jobs_kit k;
        jobs_open(&k, CHI_N, 0.3, split, (uint64_t)run, CHI_N * jobs * 20);
        for (uint32_t j = 0; j < jobs; j++)
            jobs_join(&k, j, 5 + j % 2, (uint64_t)run * 10 + j);
        jobs_in_step(&k, jobs, WARM);
        const uint64_t *order = k.jobs[0].order;
        for (uint64_t i = 0; i < CHI_N; i++) {
            place[order[i] * BINS + i * BINS / CHI_N]++;
            if (i)
                step[(order[i] + CHI_N - order[i - 1]) % CHI_N]++;
        }
        jobs_close(&k);
    }
    assert_int_equal(step[0], 0);
    double by_place =
        strangeness(place, CHI_N * BINS, (double)runs / BINS, (CHI_N - 1) * (BINS - 1));
    double by_step = strangeness(step + 1, CHI_N - 1, (double)runs, CHI_N - 2);
    print_message("order, %u jobs, %s: places %+.2f, steps %+.2f standard deviations\n", jobs,
                  split, by_place, by_step);
    assert_true(fabs(by_place) < 4);
    assert_true(fabs(by_step) < 4);
}

/* Where an id comes in its epoch, and what comes after it: over independent runs, in an epoch in
 * which the cache has long been full. */
static void the_order_is_random(void **state) {
    (void)state;
    int runs = is_long() ? 4000 : 500;
    for (size_t s = 0; s < SPLITS; s += s ? 1 : 3) {
        check_order(1, splits[s], runs);
        check_order(3, splits[s], runs);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_step_reads_meet_the_bounds),
        cmocka_unit_test(other_starts_cost_little_more),
        cmocka_unit_test(a_slow_job_shares_too),
        cmocka_unit_test(nothing_comes_twice_or_never),
        cmocka_unit_test(wrong_wishes_change_nothing),
        cmocka_unit_test(too_many_jobs_are_refused),
        cmocka_unit_test(the_order_is_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
