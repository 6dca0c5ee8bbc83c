/* Weighted draws, CPU time of one core: N draws with replacement (table built each time). Weights
 * u*u + 0.01.
 * Usage: bench_weighted [rounds [n...]]; bench_weighted.sh sets it beside torch.multinomial.
 * "time" lines are for that script: what, n, milliseconds. */
#include "base/clock.h"
#include "measure.h"
#include "sample/alias.h"

#include <stdio.h>
#include <string.h>

enum { MOST_ROUNDS = 64 };

typedef struct bench {
    uint64_t n;
    float *weights;
    uint32_t *out;
    larder__alias alias; /* memory is kept from epoch to epoch, as samplers do */
    larder_rng rng;
    uint64_t check; /* so that nothing is optimised away */
} bench;

static int with_replacement(bench *b) {
    int rc = larder__alias_build(&b->alias, b->weights);
    if (rc == 0)
        larder__alias_draw(&b->alias, &b->rng, b->out, b->n);
    return rc;
}

static int reading(bench *b) { /* the floor: the weights read once, the ids written once */
    double sum = 0;
    for (uint64_t i = 0; i < b->n; i++) {
        sum += (double)b->weights[i];
        b->out[i] = (uint32_t)i;
    }
    b->check += (uint64_t)sum;
    return 0;
}

/* CPU milliseconds, median over the rounds. */
static double timed(bench *b, int rounds, int (*what)(bench *), double *best) {
    double ms[MOST_ROUNDS];
    for (int r = 0; r < rounds; r++) {
        double start = larder__cpu_seconds();
        if (what(b) < 0)
            return -1;
        ms[r] = (larder__cpu_seconds() - start) * 1e3;
        b->check += b->out[b->n / 2];
    }
    double median = measure_median(ms, (size_t)rounds);
    *best = ms[0];
    return median;
}

/* What no table of N entries gets below: N ids at random, one look at each. */
static int random_access(bench *b) {
    enum { AHEAD = 32 };
    uint64_t sum = 0;
    for (uint64_t i = 0; i < b->n; i++) {
        uint32_t id = larder_rng_below(&b->rng, (uint32_t)b->n);
        __builtin_prefetch(&b->weights[id]);
        b->out[i] = id;
        if (i >= AHEAD)
            sum += b->weights[b->out[i - AHEAD]] > 0.5f;
    }
    b->check += sum;
    return 0;
}

static int run(uint64_t n, int rounds) {
    bench b = {.n = n, .weights = malloc(n * 4), .out = malloc(n * 4)};
    int rc = b.weights && b.out ? 0 : -1;
    if (rc == 0)
        rc = larder__alias_open(&b.alias, n);
    larder_rng_seed(&b.rng, 1, n);
    for (uint64_t i = 0; rc == 0 && i < n; i++) {
        double u = larder_rng_unit(&b.rng);
        b.weights[i] = (float)(u * u + 0.01);
    }
    const struct {
        const char *name;
        int (*what)(bench *);
    } kinds[] = {
        {"reading", reading}, {"random", random_access}, {"replacement", with_replacement}};
    for (size_t k = 0; rc == 0 && k < sizeof kinds / sizeof *kinds; k++) {
        double best = 0, median = timed(&b, rounds, kinds[k].what, &best);
        if (median < 0)
            rc = -1;
        else
            printf("time %-12s %9llu %9.3f ms (best %.3f)\n", kinds[k].name, (unsigned long long)n,
                   median, best);
    }
    if (rc < 0)
        fprintf(stderr, "bench_weighted: %s\n", larder_errmsg());
    larder__alias_close(&b.alias);
    free(b.weights);
    free(b.out);
    return rc;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 7, rc = 0;
    if (rounds < 1 || rounds > MOST_ROUNDS)
        return 2;
    if (argc <= 2) {
        const uint64_t sizes[] = {50000, 1281167, 10000000};
        for (int i = 0; rc == 0 && i < 3; i++)
            rc = run(sizes[i], rounds);
    }
    for (int i = 2; rc == 0 && i < argc; i++)
        rc = run(strtoull(argv[i], NULL, 10), rounds);
    return rc < 0;
}
