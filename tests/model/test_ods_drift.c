/* Many jobs of nearly one pace, as processes with a fixed step time are: each starts at any time
 * and is late now and then, so that they are never in step. What they read together stays near what
 * jobs in step would. */
#include "jobs_kit.h"

#include <stdlib.h>

typedef struct drift {
    uint32_t jobs, spread; /* batches within which they start */
    double late;           /* share of the turns that a job misses */
    double cached;
} drift;

static double reads_of(const drift *d, uint64_t seed) {
    enum { N = 3200, BATCH = 32, STEPS = N / BATCH };
    jobs_kit k;
    larder_rng rng;
    uint32_t start[JOBS_MOST] = {0};
    larder_rng_seed(&rng, seed, d->jobs);
    jobs_open(&k, N, d->cached, "100/0/0", seed, (uint64_t)N * d->jobs * 40);
    for (uint32_t j = 1; j < d->jobs; j++)
        start[j] = larder_rng_below(&rng, d->spread + 1);
    for (uint32_t t = 0; t < STEPS * 7; t++) {
        if (t == STEPS * 3)
            jobs_reads(&k);
        for (uint32_t j = 0; j < d->jobs; j++) {
            if (start[j] == t)
                jobs_join(&k, j, BATCH, 100 + j);
            if (start[j] <= t && larder_rng_unit(&rng) >= d->late)
                jobs_step(&k, j);
        }
    }
    double reads = jobs_reads(&k);
    jobs_close(&k);
    return reads;
}

static void drifting_jobs_share(void **state) {
    (void)state;
    int seeds = getenv("LARDER_LONG") ? 5 : 1;
    for (uint32_t jobs = 4; jobs <= 12; jobs += 4)
        for (uint32_t spread = 0; spread <= 100; spread += 100)
            for (int late = 0; late < 2; late++) {
                drift d = {.jobs = jobs, .spread = spread, .late = late * 0.2, .cached = 0.2};
                double got = 0, bound = (1 - d.cached) / jobs;
                for (int seed = 1; seed <= seeds; seed++)
                    got += reads_of(&d, (uint64_t)seed) / seeds;
                print_message("%u jobs that start within %u batches, late %g of the time: %.4f "
                              "reads a sample, %+.1f %% of the bound in step\n",
                              jobs, spread, d.late, got, 100 * (got / bound - 1));
                assert_true(got < (jobs <= 8 ? 1.15 : 1.2) * bound);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(drifting_jobs_share)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
