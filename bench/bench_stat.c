/* What counting costs: the loader's processor time for a batch of the smallest samples there are,
 * and of that the part that goes into figures and seats, from what one such step costs and how
 * often the loader's own figures say it was done. The peer is the loader itself. */
#include "base/clock.h"
#include "base/stat.h"
#include "loader/figures/stall.h"
#include "measure.h"

#include <larder/larder.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 2000000, RUNS = 5 };

typedef struct costs { /* seconds of one step */
    double add, observe, turn, clock;
} costs;

static double since(double begun, int n) { return (larder__cpu_seconds() - begun) / n; }

static costs measure_steps(void) {
    larder__stats *s = NULL;
    larder__stat counter, histogram;
    larder__seat seat = {.reader = false};
    costs c = {0};
    if (larder__stats_open(&s) < 0 || larder__stat_counter(s, &counter, "a", "", "") < 0 ||
        larder__stat_histogram(s, &histogram, "b", "", "") < 0)
        exit(1);
    double begun = larder__cpu_seconds(), sum = 0;
    for (int i = 0; i < STEPS; i++)
        larder__stat_add(s, counter, 1);
    c.add = since(begun, STEPS);
    begun = larder__cpu_seconds();
    for (int i = 0; i < STEPS; i++)
        larder__stat_observe(s, histogram, 1e-6 * (i % 1000));
    c.observe = since(begun, STEPS);
    larder__seat_take(&seat);
    begun = larder__cpu_seconds();
    for (int i = 0; i < STEPS; i++)
        larder__seat_turn(i % 2 ? LARDER__AT_READ : LARDER__AT_CACHE);
    c.turn = since(begun, STEPS);
    larder__seat_take(NULL);
    begun = larder__cpu_seconds();
    for (int i = 0; i < STEPS; i++)
        sum += larder__now();
    c.clock = since(begun, STEPS) + 0 * sum;
    larder__stats_close(&s);
    return c;
}

typedef struct run {
    double seconds; /* of processors */
    double batches, reads, pieces;
} run;

static run load(void) {
    larder_loader_conf conf = {.size = sizeof conf};
    larder_loader *l = NULL;
    const larder_batch *b;
    larder_stat_value v = {.size = sizeof v};
    run r = {0};
    int rc;
    conf.source = "mem:?n=60000&h=28&w=28&c=1";
    conf.recipe = "minio";
    conf.augment = "normalize:mean=0.5,std=0.5";
    conf.batch = 128;
    conf.epochs = 3;
    conf.threads = 2;
    double begun = larder__cpu_seconds();
    if (larder_loader_open(&l, &conf) < 0)
        exit(1);
    while ((rc = larder_loader_next(l, &b)) >= 0 && rc != LARDER_END)
        if (rc == 0)
            larder_loader_done(l, b);
    r.seconds = larder__cpu_seconds() - begun;
    for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++)
        if (strcmp(v.name, "batches") == 0)
            r.batches = v.value;
        else if (strcmp(v.name, "read_seconds") == 0)
            r.reads = (double)v.count;
        else if (strcmp(v.name, "decode_seconds") == 0)
            r.pieces = (double)v.count;
    larder_loader_close(&l);
    return r;
}

/* A batch: 7 counters, 2 histograms, 7 clocks in next(); 1 turn for drawing it, twice. A read: 2
 * counters, a histogram, 3 turns, 2 clocks. A piece that is prepared: a counter, a histogram, 2
 * turns, 2 clocks, and 2 more for one row in 64: of every other piece. */
int main(void) {
    double share[RUNS], batch[RUNS];
    costs c = {0};
    for (int i = 0; i < RUNS; i++) {
        c = measure_steps();
        run r = load();
        double spent = r.batches * (7 * c.add + 2 * c.observe + 7 * c.clock + 2 * c.turn) +
                       r.reads * (2 * c.add + c.observe + 3 * c.turn + 2 * c.clock) +
                       r.pieces * (c.add + c.observe + 2 * c.turn + 3 * c.clock);
        share[i] = 100 * spent / r.seconds;
        batch[i] = 1e6 * r.seconds / r.batches;
    }
    double middle = measure_median(share, RUNS), each = measure_median(batch, RUNS);
    printf("a counter %.1f ns, a histogram %.1f ns, a turn of a seat %.1f ns, a clock %.1f ns\n",
           1e9 * c.add, 1e9 * c.observe, 1e9 * c.turn, 1e9 * c.clock);
    printf(
        "figures and seats take %.2f %% (%.2f to %.2f) of the loader's %.0f us of processor time "
        "for a batch of 128 samples of 784 bytes\n",
        middle, share[0], share[RUNS - 1], each);
    return 0;
}
