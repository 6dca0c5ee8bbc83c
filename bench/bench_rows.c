/* What the row cache costs besides the kernel values: a recorded sequence (or an imagined one) goes
 * through larder__row_cache with real buffers that nobody fills. CPU nanoseconds a row asked for,
 * median and best of five. The peer is the policy-free floor: the same buffers taken from the pool
 * and given back, nothing decided. Rows leave and are scored as the recording says, so that hits
 * are those of `larder sim --access`; an imagined sequence has imagined distances.
 *
 *     build/bench_rows [FILE.rows [ROWS OF THE CACHE]] */
#include "base/clock.h"
#include "measure.h"
#include "svm/access.h"
#include "svm/row_cache.h"
#include "svm/row_pool.h"

#include <larder/plugin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 5 };

/* Two thirds of the rows come from a third of the data that drifts, as adult's do. */
static void imagine(larder__accesses *a) {
    enum { ROWS = 20000, ROUNDS = 150, Q = 512 };
    larder_rng rng;
    larder_rng_seed(&rng, 1, 1);
    a->rows = ROWS;
    a->rounds = ROUNDS;
    a->count = (uint64_t)ROUNDS * Q;
    a->ids = calloc(a->count, sizeof *a->ids);
    a->round = calloc(ROUNDS, sizeof *a->round);
    uint32_t *seen = calloc(ROWS, sizeof *seen);
    for (uint32_t r = 0; r < ROUNDS; r++) {
        a->round[r].begin = (uint64_t)r * Q;
        a->round[r].end = a->round[r].begin + Q;
        for (uint64_t i = a->round[r].begin; i < a->round[r].end;) {
            uint32_t third = larder_rng_below(&rng, ROWS / 3) + r * 40;
            uint32_t id = larder_rng_below(&rng, 3) ? third % ROWS : larder_rng_below(&rng, ROWS);
            if (seen[id] != r + 1) {
                seen[id] = r + 1;
                a->ids[i++] = id;
            }
        }
    }
    free(seen);
}

static void stop(const char *what) {
    fprintf(stderr, "bench_rows: %s: %s\n", what, larder_errmsg());
    exit(1);
}

static uint64_t longest(const larder__accesses *a) {
    uint64_t most = 0;
    for (uint64_t r = 0; r < a->rounds; r++)
        most =
            a->round[r].end - a->round[r].begin > most ? a->round[r].end - a->round[r].begin : most;
    return most;
}

static void let_go(larder_buf **rows, size_t n) {
    for (size_t i = 0; i < n; i++)
        larder_buf_unref(&rows[i]);
}

typedef struct desk {  /* what a solver has at hand */
    larder_buf **rows; /* by row */
    larder_buf **mine;
    bool *missing;
    float *dist; /* by row */
    float *left_dist;
    uint32_t *left;
} desk;

static desk open_desk(const larder__accesses *a) {
    uint64_t most = longest(a) + a->left.count;
    desk d = {calloc(a->rows, sizeof *d.rows),   calloc(most, sizeof *d.mine),
              calloc(most, sizeof *d.missing),   calloc(a->rows, sizeof *d.dist),
              calloc(most, sizeof *d.left_dist), calloc(most, sizeof *d.left)};
    if (!d.rows || !d.mine || !d.missing || !d.dist || !d.left_dist || !d.left)
        stop("memory");
    return d;
}

static void close_desk(desk *d, uint64_t rows) {
    let_go(d->rows, rows);
    free(d->rows), free(d->mine), free(d->missing), free(d->dist), free(d->left_dist);
    free(d->left);
}

/* Who leaves before round r, and how far everybody is: as recorded, or those of two rounds ago. */
static size_t leavers(const larder__accesses *a, desk *d, uint64_t r) {
    const larder__access_round *now = &a->round[r];
    size_t n = (size_t)(now->left_end - now->left_begin);
    for (uint64_t i = now->scored_begin; i < now->scored_end; i++)
        d->dist[a->scored.ids[i]] = a->scored.dist[i];
    for (size_t i = 0; i < n; i++) {
        d->left[i] = a->left.ids[now->left_begin + i];
        d->left_dist[i] = a->left.dist[now->left_begin + i];
    }
    if (a->left.count || r < 2)
        return n;
    const larder__access_round *then = &a->round[r - 2];
    n = (size_t)(then->end - then->begin);
    for (uint64_t k = 0; k < a->rows; k++)
        d->dist[k] = (float)((k * 2654435761u + r * 40503u) % 1000);
    for (size_t i = 0; i < n; i++) {
        d->left[i] = a->ids[then->begin + i];
        d->left_dist[i] = d->dist[d->left[i]];
    }
    return n;
}

/* CPU seconds of all rounds, less those for reading distances from the recording. */
static double run(const larder__accesses *a, larder__row_cache *c, larder__row_pool *pool) {
    desk d = open_desk(a);
    double spent = 0;
    for (uint64_t r = 0; r < a->rounds; r++) {
        const uint32_t *ids = a->ids + a->round[r].begin;
        size_t n = (size_t)(a->round[r].end - a->round[r].begin), leaving = leavers(a, &d, r);
        double from = larder__seconds_of(CLOCK_PROCESS_CPUTIME_ID);
        if (c && larder__row_cache_listens(c))
            larder__row_cache_scores(c, d.dist);
        if (c)
            larder__row_cache_leave(c, d.left, d.left_dist, leaving);
        for (size_t i = 0; i < leaving; i++)
            larder_buf_unref(&d.rows[d.left[i]]);
        if (c && larder__row_cache_take(c, ids, n, d.mine, d.missing) < 0)
            stop("take");
        for (size_t i = 0; !c && i < n; i++)
            if (!(d.mine[i] = larder__row_pool_take(pool)))
                stop("pool");
        if (c)
            larder__row_cache_filled(c);
        spent += larder__seconds_of(CLOCK_PROCESS_CPUTIME_ID) - from;
        for (size_t i = 0; i < n; i++) {
            larder_buf_unref(&d.rows[ids[i]]); /* imagined rows may come again before they leave */
            d.rows[ids[i]] = d.mine[i];
        }
    }
    close_desk(&d, a->rows);
    return spent;
}

static void bench(const larder__accesses *a, const char *policy, uint64_t entries) {
    double ns[REPEATS];
    larder__row_cache_figures f = {0};
    for (int i = 0; i < REPEATS; i++) {
        larder__row_cache_conf conf = {
            .policy = policy, .rows = a->rows, .budget = entries * a->rows * sizeof(float)};
        larder__row_cache *c = NULL;
        larder__row_pool *pool = NULL;
        if (policy ? larder__row_cache_open(&c, &conf) < 0
                   : larder__row_pool_open(&pool, (uint32_t)(a->rows * sizeof(float))) < 0)
            stop("open");
        ns[i] = 1e9 * run(a, c, pool) / (double)a->count;
        if (c)
            larder__row_cache_read(c, &f);
        larder__row_cache_close(&c);
        larder__row_pool_close(&pool);
    }
    double median = measure_median(ns, REPEATS); /* sorted now */
    printf("%-14s %8.0f %8.0f %9.2f%%\n", policy ? policy : "(nothing)", median, ns[0],
           f.asked ? 100 * (double)f.hits / (double)f.asked : 0);
    fflush(stdout);
}

int main(int argc, char **argv) {
    static const char *const policies[] = {NULL,  "lru",  "lfu",          "lat",
                                           "efu", "hcst", "hcst:guard=1", "kkt"};
    larder__accesses a = {0};
    if (argc < 2)
        imagine(&a);
    else if (larder__accesses_read(&a, argv[1]) < 0)
        stop("open");
    uint64_t entries = argc > 2 ? strtoull(argv[2], NULL, 10) : a.rows / 5;
    printf("CPU ns a row asked for (median, best of %d): %llu rows of %llu values, %llu fit\n"
           "%-14s %8s %8s %10s\n",
           REPEATS, (unsigned long long)a.count, (unsigned long long)a.rows,
           (unsigned long long)entries, "policy", "median", "best", "hits");
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        bench(&a, policies[i], entries);
    return 0;
}
