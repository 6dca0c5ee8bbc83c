/* The signal `graph`: what a batch of 256 costs with each engine, and how far its counts and scores
 * are from the truth. Figures are CPU time of one core unless threads are named.
 *
 *     build/bench_graph [speed | kernels | strata [N [CLASSES [DIMS...]]] | growth | all]
 *
 * speed: 50,000 x 512, exact against hnswlib (update + search of 500) in the same run, rounds of
 * the two alternate. strata: large N, against exact. growth: N = 10,000, 100,000, 1,000,000.
 *
 * hnswlib is the plug-in of examples/hnsw: make -C examples/hnsw LARDER_CFLAGS=-I../../include, and
 * LARDER_PLUGINS=examples/hnsw/hnsw.so. "strata 1000000" then has it beside strata at 1 M x 512. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/spec.h"
#include "clusters.h"
#include "measure.h"
#include "plugins.h"
#include "signal/graph_batch.h"
#include "signal/graph_kernel.h"
#include "signal/graph_radius.h"

#include <stdio.h>
#include <string.h>

enum { BATCH = 256 };

typedef struct bench {
    clusters data;
    uint64_t n, batches;
    larder__graph_batch batch;
    larder__graph_radius radius;
    uint64_t ids[BATCH];
    int64_t labels[BATCH];
    float *x;
    larder_rng rng;
} bench;

typedef struct rig {
    const larder_engine *e;
    void *st;
    double update, count; /* CPU seconds of the last batch */
} rig;

static void die(const char *what) {
    fprintf(stderr, "bench_graph: %s: %s\n", what, larder_errmsg());
    exit(1);
}

static void bench_open(bench *b, uint64_t n, uint32_t dim, uint32_t classes) {
    *b = (bench){.n = n};
    b->x = malloc((size_t)BATCH * dim * sizeof *b->x);
    if (!clusters_open(&b->data, dim, classes, 0.5) || !b->x)
        die("no memory");
    larder_rng_seed(&b->rng, 5, 5);
    larder__graph_radius_auto(&b->radius, 150);
}

static void bench_close(bench *b) {
    clusters_close(&b->data);
    larder__graph_batch_free(&b->batch);
    free(b->x);
}

static void rig_open(rig *i, const bench *b, const char *engine, const char *tune,
                     uint32_t threads) {
    larder_args args;
    *i = (rig){.e = larder__engine_find(engine)};
    larder_engine_conf conf = {.n = b->n, .dim = b->data.dim, .threads = threads, .seed = 1};
    if (!i->e || larder__args_parse(&args, "engine", &i->e->plugin, tune, '/', NULL) < 0)
        die(engine);
    i->st = calloc(1, i->e->plugin.state_size);
    if (!i->st || i->e->open(i->st, &conf, &args) < 0)
        die(engine);
    larder__args_free(&args);
}

static void rig_close(rig *i) {
    if (i->st)
        i->e->close(i->st);
    free(i->st);
    i->st = NULL;
}

/* Ids first..first+count-1, or a random batch when count is 0. */
static void make_batch(bench *b, uint64_t first, size_t count, uint64_t moved) {
    size_t n = count ? count : BATCH;
    for (size_t i = 0; i < n; i++) {
        b->ids[i] = count ? first + i : larder_rng_below(&b->rng, (uint32_t)b->n);
        b->labels[i] = clusters_class(&b->data, b->ids[i]);
        clusters_sample(&b->data, b->ids[i], moved, b->x + i * b->data.dim);
    }
    larder_report rep = {
        .n = n, .dim = b->data.dim, .ids = b->ids, .labels = b->labels, .embeddings = b->x};
    if (larder__graph_batch_fill(&b->batch, &rep, b->n, true) < 0)
        die("batch");
}

/* The first samples once, in shuffled order as far as classes go: ids run through all classes. */
static void fill(bench *b, rig *const *to, size_t indices, uint64_t count) {
    for (uint64_t at = 0; at < count; at += BATCH) {
        make_batch(b, at, b->n - at < BATCH ? b->n - at : BATCH, 0);
        for (size_t k = 0; k < indices; k++)
            if (to[k]->e->update(to[k]->st, &b->batch.rows) < 0)
                die("update");
    }
}

static void score(bench *b, rig *i, double radius, larder_engine_count *out) {
    double at = larder__cpu_seconds();
    if (i->e->update(i->st, &b->batch.rows) != 0)
        die("update");
    double mid = larder__cpu_seconds();
    if (i->e->count(i->st, &b->batch.rows, radius, out) != 0)
        die("count");
    i->update = mid - at;
    i->count = larder__cpu_seconds() - mid;
}

/* Steers a radius on this engine's own counts, as the signal does. */
static double settle(bench *b, rig *i, int batches) {
    larder__graph_radius r;
    larder__graph_radius_auto(&r, 150);
    float pairs[LARDER__GRAPH_PAIRS];
    larder_rng before = b->rng;
    larder_rng_seed(&b->rng, 9, 9);
    for (int k = 0; k < batches; k++) {
        make_batch(b, 0, 0, 0);
        larder__graph_radius_guess(&r, &b->batch.rows, b->data.dim, b->n, pairs);
        score(b, i, r.radius, b->batch.counts);
        for (size_t q = 0; q < b->batch.rows.n; q++)
            b->batch.totals[q] = b->batch.counts[q].same + b->batch.counts[q].other;
        larder__graph_radius_steer(&r, b->batch.totals, b->batch.rows.n, b->n);
    }
    b->rng = before;
    return r.radius;
}

/* ---- accuracy -------------------------------------------------------------------------------- */

static double score_of(larder_engine_count c) {
    double total = (double)c.same + (double)c.other, s = total > 500 ? 500 / total : 1;
    return log(1 / fmax(1, (double)c.same * s) + (double)c.other * s / 500 + 1);
}

static int by_double(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Ranks with ties at their mean. */
static void ranks(const double *v, size_t n, double *out) {
    double *sorted = malloc(n * sizeof *sorted);
    memcpy(sorted, v, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_double);
    for (size_t i = 0; i < n; i++) {
        size_t lo = 0, hi = n;
        while (lo < hi) {
            size_t mid = (lo + hi) / 2;
            if (sorted[mid] < v[i])
                lo = mid + 1;
            else
                hi = mid;
        }
        size_t end = lo;
        while (end < n && sorted[end] <= v[i])
            end++;
        out[i] = (double)(lo + end - 1) / 2;
    }
    free(sorted);
}

static double correlation(const double *x, const double *y, size_t n) {
    double mx = 0, my = 0, xx = 0, yy = 0, xy = 0;
    for (size_t i = 0; i < n; i++)
        mx += x[i] / (double)n, my += y[i] / (double)n;
    for (size_t i = 0; i < n; i++) {
        xx += (x[i] - mx) * (x[i] - mx);
        yy += (y[i] - my) * (y[i] - my);
        xy += (x[i] - mx) * (y[i] - my);
    }
    return xy / sqrt(xx * yy);
}

typedef struct errors {
    double mae, rank;
    double other; /* mean of the true x_other / 500, for scale */
} errors;

static errors compare(const double *truth, const double *got, size_t n) {
    errors e = {0};
    double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    ranks(truth, n, a);
    ranks(got, n, b);
    e.rank = correlation(a, b, n);
    for (size_t i = 0; i < n; i++)
        e.mae += fabs(truth[i] - got[i]) / (double)n;
    free(a);
    free(b);
    return e;
}

/* Counts of the batch against float64, every row made again from its id. */
static void check_exact(bench *b, const larder_engine_count *got, double radius) {
    size_t n = b->batch.rows.n < 64 ? b->batch.rows.n : 64;
    uint32_t dim = b->data.dim;
    float *x = malloc(dim * sizeof *x);
    double total[64] = {0}, error = 0, relative = 0, counts[64];
    for (uint64_t id = 0; id < b->n; id++) {
        clusters_sample(&b->data, id, 0, x);
        double square = 0;
        for (uint32_t k = 0; k < dim; k++)
            square += (double)x[k] * (double)x[k];
        for (size_t q = 0; q < n; q++) {
            const float *y = b->batch.x + q * dim;
            double dot = 0, own = 0;
            for (uint32_t k = 0; k < dim; k++)
                dot += (double)x[k] * (double)y[k], own += (double)y[k] * (double)y[k];
            double d2 = 1 + own - 2 * dot / sqrt(square);
            total[q] += b->batch.ids[q] != id && d2 < radius * radius;
        }
    }
    for (size_t q = 0; q < n; q++) {
        double e = fabs(total[q] - (double)got[q].same - (double)got[q].other);
        error += e / (double)n;
        relative += e / fmax(1, total[q]) / (double)n;
        counts[q] = total[q];
    }
    qsort(counts, n, sizeof *counts, by_double);
    double mean = 0;
    for (size_t q = 0; q < n; q++)
        mean += counts[q] / (double)n;
    printf(
        "exact against float64: mean count error %.2f of %.0f (%.2f %%), mean of relative errors "
        "%.2f %%\n  counts at 5/25/50/75/95 %%: %.0f %.0f %.0f %.0f %.0f\n",
        error, mean, 100 * error / mean, 100 * relative, counts[n * 5 / 100], counts[n / 4],
        counts[n / 2], counts[n * 3 / 4], counts[n * 95 / 100]);
    free(x);
}

/* ---- the runs -------------------------------------------------------------------------------- */

static double score_error(const larder_engine_count *got, const larder_engine_count *want,
                          size_t n) {
    double sum = 0;
    for (size_t q = 0; q < n; q++)
        sum += fabs(score_of(got[q]) - score_of(want[q])) / (double)n;
    return sum;
}

static void speed(uint64_t n, uint32_t dim, int rounds, bool peers) {
    bench b;
    bench_open(&b, n, dim, 10);
    rig exact, two, hnsw = {0}, pq = {0};
    rig_open(&exact, &b, "exact", "", 1);
    rig_open(&two, &b, "exact", "", 2);
    rig *all[] = {&exact, &two, &hnsw, &pq};
    if (peers) {
        rig_open(&hnsw, &b, "hnsw", "", 1);
        rig_open(&pq, &b, "hnswpq", "", 1);
    }
    fill(&b, all, peers ? 4 : 2, n);
    double radius = settle(&b, &exact, 40);
    double t[3][64], wall[64], hn_update[64];
    larder_engine_count counts[BATCH], slow[BATCH];
    make_batch(&b, 0, 0, 0);
    score(&b, &exact, radius, counts);
    check_exact(&b, counts, radius);
    double mae[3] = {0};
    for (int r = 0; r < rounds; r++) {
        make_batch(&b, 0, 0, (uint64_t)r + 1);
        score(&b, &exact, radius, counts);
        t[0][r] = exact.update + exact.count;
        double at = larder__now();
        score(&b, &two, radius, slow);
        wall[r] = larder__now() - at;
        if (!peers)
            continue;
        for (int k = 1; k < 3; k++) {
            score(&b, all[k + 1], radius, slow);
            t[k][r] = all[k + 1]->update + all[k + 1]->count;
            mae[k] += score_error(slow, counts, b.batch.rows.n) / rounds;
        }
        hn_update[r] = hnsw.update;
    }
    double ours = measure_median(t[0], (size_t)rounds);
    printf("%llu x %u, batch of 256, radius %.3f, kernel %s\n", (unsigned long long)n, dim, radius,
           larder__graph_kernel_best()->name);
    printf("  exact    %8.1f ms [%.1f..%.1f] CPU (update %.2f), %.1f GMAC/s, %6.1f MB; two "
           "threads: %.1f ms wall\n",
           ours * 1e3, t[0][0] * 1e3, t[0][rounds - 1] * 1e3, exact.update * 1e3,
           256e-9 * (double)n * dim / ours, (double)exact.e->bytes(exact.st) / 1e6,
           measure_median(wall, (size_t)rounds) * 1e3);
    for (int k = 1; peers && k < 3; k++) {
        double peer = measure_median(t[k], (size_t)rounds);
        printf(
            "  %-8s %8.1f ms [%.1f..%.1f] CPU, %6.1f MB, recall %.3f, scores off by %.4f: exact is "
            "%.1f times faster\n",
            all[k + 1]->e->plugin.name, peer * 1e3, t[k][0] * 1e3, t[k][rounds - 1] * 1e3,
            (double)all[k + 1]->e->bytes(all[k + 1]->st) / 1e6,
            all[k + 1]->e->recall(all[k + 1]->st), mae[k], peer / ours);
    }
    if (peers)
        printf("  hnsw: update alone %.1f ms\n", measure_median(hn_update, (size_t)rounds) * 1e3);
    for (size_t k = 0; k < 4; k++)
        rig_close(all[k]);
    bench_close(&b);
}

/* Scores with exact's radius, with the radius of its own, and with one true count. */
enum { GIVEN, OWN, TRUE_SAME, TRUE_OTHER, KINDS };

typedef struct setting {
    const char *engine;
    char tune[32];
} setting;

/* Scores of some settings of engines against exact: with exact's radius, and each with its own. */
static void strata(uint64_t n, uint32_t classes, const setting *settings, size_t count,
                   int rounds) {
    bench b;
    bench_open(&b, n, 512, classes);
    rig exact, tried[8];
    rig_open(&exact, &b, "exact", "", 1);
    rig *all[9] = {&exact};
    for (size_t k = 0; k < count; k++) {
        rig_open(&tried[k], &b, settings[k].engine, settings[k].tune, 1);
        all[k + 1] = &tried[k];
    }
    fill(&b, all, count + 1, n);
    /* Samples that came before their class had a frame come again, as in training they do. */
    fill(&b, all + 1, count, n * 3 / 8);
    double radius = settle(&b, &exact, n > 300000 ? 12 : 40), own[8], times[8][16], exact_time = 0;
    for (size_t k = 0; k < count; k++)
        own[k] = settle(&b, &tried[k], 30);
    size_t total = 0, room = (size_t)rounds * BATCH;
    double *truth = malloc(room * sizeof *truth), *found[8][KINDS], others = 0;
    for (size_t k = 0; k < count * KINDS; k++)
        found[k / KINDS][k % KINDS] = malloc(room * sizeof(double));
    for (int r = 0; r < rounds; r++) {
        larder_engine_count true_counts[BATCH], counts[BATCH];
        make_batch(&b, 0, 0, (uint64_t)r + 1);
        size_t rows = b.batch.rows.n;
        score(&b, &exact, radius, true_counts);
        exact_time += exact.count / rounds;
        for (size_t q = 0; q < rows; q++) {
            truth[total + q] = score_of(true_counts[q]);
            others += (double)true_counts[q].other / (double)rows / rounds;
        }
        for (size_t k = 0; k < count; k++) {
            score(&b, &tried[k], radius, counts);
            times[k][r] = tried[k].update + tried[k].count;
            for (size_t q = 0; q < rows; q++) {
                larder_engine_count c = counts[q], t = true_counts[q];
                found[k][GIVEN][total + q] = score_of(c);
                found[k][TRUE_SAME][total + q] = score_of((larder_engine_count){t.same, c.other});
                found[k][TRUE_OTHER][total + q] = score_of((larder_engine_count){c.same, t.other});
            }
            score(&b, &tried[k], own[k], counts);
            for (size_t q = 0; q < rows; q++)
                found[k][OWN][total + q] = score_of(counts[q]);
        }
        total += rows;
    }
    printf("%llu x 512, %u classes, radius %.3f; exact: %.0f ms CPU, %.0f bytes a sample; "
           "mean x_other %.1f\n",
           (unsigned long long)n, classes, radius, exact_time * 1e3,
           (double)exact.e->bytes(exact.st) / (double)n, others);
    printf("  engine               ms CPU [min..max]     bytes/sample | exact's radius: MAE  rank "
           "| own "
           "radius: MAE  rank | rank if all were wrong but x_same, x_other\n");
    for (size_t k = 0; k < count; k++) {
        errors e[KINDS];
        for (int kind = 0; kind < KINDS; kind++)
            e[kind] = compare(truth, found[k][kind], total);
        double median = measure_median(times[k], (size_t)rounds);
        printf(
            "  %-6s %-12s  %6.1f [%.1f..%.1f]  %8.1f        |        %.4f %.3f |      %.4f %.3f | "
            "%.3f %.3f\n",
            settings[k].engine, settings[k].tune, median * 1e3, times[k][0] * 1e3,
            times[k][rounds - 1] * 1e3, (double)tried[k].e->bytes(tried[k].st) / (double)n,
            e[GIVEN].mae, e[GIVEN].rank, e[OWN].mae, e[OWN].rank, e[TRUE_SAME].rank,
            e[TRUE_OTHER].rank);
        for (int kind = 0; kind < KINDS; kind++)
            free(found[k][kind]);
    }
    free(truth);
    for (size_t k = 0; k <= count; k++)
        rig_close(all[k]);
    bench_close(&b);
}

static void growth(void) {
    printf("update + score of a batch of 256, ms CPU, 512 dimensions, 100 classes\n"
           "        N      exact     strata    auto takes\n");
    for (uint64_t n = 10000; n <= 1000000; n *= 10) {
        bench b;
        bench_open(&b, n, 512, 100);
        rig exact, few;
        rig_open(&exact, &b, "exact", "", 1);
        rig_open(&few, &b, "strata", "project=80", 1);
        rig *all[] = {&exact, &few};
        fill(&b, all, 2, n);
        fill(&b, &all[1], 1, n * 3 / 8);
        double radius = settle(&b, &few, 20), t[2][5];
        larder_engine_count counts[BATCH];
        for (int r = 0; r < 5; r++) {
            make_batch(&b, 0, 0, (uint64_t)r + 1);
            for (int k = 0; k < 2; k++) {
                score(&b, all[k], radius, counts);
                t[k][r] = all[k]->update + all[k]->count;
            }
        }
        printf("%9llu %10.1f %10.1f    %s\n", (unsigned long long)n, measure_median(t[0], 5) * 1e3,
               measure_median(t[1], 5) * 1e3, larder__graph_engine_auto(n, 512)->plugin.name);
        rig_close(&exact);
        rig_close(&few);
        bench_close(&b);
    }
}

static void kernels(void) {
    static const char *const names[] = {"vnni", "avx2", "plain"};
    static const uint32_t dims[] = {128, 512, 2048};
    enum { CHUNKS = 64 };
    for (int k = 0; k < 3; k++) {
        const larder__graph_kernel *kernel = larder__graph_kernel_named(names[k]);
        for (int d = 0; kernel && d < 3; d++) {
            uint32_t groups = dims[d] / 4;
            size_t bytes = (size_t)CHUNKS * 64 * dims[d], packed = kernel->packed_bytes(dims[d]);
            uint8_t *codes = aligned_alloc(64, bytes), *queries = aligned_alloc(64, 6 * packed);
            int32_t consts[64] __attribute__((aligned(64))) = {0}, bounds[6] = {0};
            memset(codes, 7, bytes);
            memset(queries, 3, 6 * packed);
            const void *q[6];
            for (int i = 0; i < 6; i++)
                q[i] = queries + (size_t)i * packed;
            uint32_t counts[6] = {0};
            double start = larder__cpu_seconds(), spent = 0, macs = 0;
            for (; spent < 0.1; spent = larder__cpu_seconds() - start)
                for (int c = 0; c < CHUNKS; c++, macs += 6.0 * 64 * dims[d])
                    kernel->count(codes + (size_t)c * 64 * dims[d], consts, groups, q, bounds,
                                  counts);
            printf("kernel %-6s %5u dims: %6.1f GMAC/s\n", names[k], dims[d], macs / spent / 1e9);
            free(codes);
            free(queries);
        }
    }
}

static bool has_peers(void) { /* examples/hnsw, by LARDER_PLUGINS */
    return larder__plugins_from_env() == 0 && larder__plugin_named(LARDER_SORT_ENGINE, "hnsw");
}

/* Codes as long as the command line says, or around what they are unless told: 80 dimensions, 64
 * where classes are small. Beside them the peers, with searches of about the same time and as they
 * are. */
static void strata_of(uint64_t n, uint32_t classes, int argc, char **argv) {
    static const unsigned long dims[2][4] = {{64, 80, 96, 128}, {48, 64, 80, 96}};
    setting s[8];
    size_t count = 0;
    for (int i = 0; i < (argc > 0 ? argc : 4) && count < 6; i++) {
        s[count].engine = "strata";
        snprintf(s[count++].tune, sizeof s->tune, "project=%lu",
                 argc > 0 ? strtoul(argv[i], NULL, 10) : dims[n / classes < 4096][i]);
    }
    if (has_peers()) {
        s[count++] = (setting){"hnsw", "k=150/ef=150"};
        s[count++] = (setting){"hnsw", ""};
    }
    strata(n, classes, s, count, 5);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "all";
    bool all = strcmp(what, "all") == 0;
    if (all || strcmp(what, "kernels") == 0)
        kernels();
    if (all || strcmp(what, "speed") == 0)
        speed(50000, 512, 9, has_peers());
    if (strcmp(what, "exact") == 0)
        speed(argc > 2 ? strtoull(argv[2], NULL, 10) : 50000, 512, 9, false);
    if (all || strcmp(what, "growth") == 0)
        growth();
    uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 1280000;
    uint32_t classes = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
    if (all || strcmp(what, "strata") == 0) {
        strata_of(n, classes ? classes : 10, argc - 4, argv + 4);
        if (argc <= 3)
            strata_of(n, 1000, 0, NULL);
    }
    return 0;
}
