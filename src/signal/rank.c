/* SHADE's importance (Eq. 6): how many samples of its batch a sample's loss exceeds, on a
 * logarithmic scale. score = ln(#{k : loss_i > loss_k} + b0); ties are equal.
 *
 * A short batch holds fewer to exceed, so its counts are scaled to the nominal batch: the parameter
 * `batch`, or the largest seen so far. Rows without a loss say nothing and do not count. Where an
 * id stands in a batch more than once, its last row counts. */
#include "base/grow.h"
#include "base/mem.h"
#include "signal/cross_entropy.h"

#include <math.h>
#include <stdlib.h>

typedef struct row {
    float loss;
    uint32_t at; /* row of the report */
} row;

typedef struct rank {
    double b0;
    uint64_t given, nominal; /* batch size to scale to; given 0: the largest seen */
    row *rows;               /* room for `room` of them */
    size_t room;             /* batches have one size, so this grows once */
} rank;

static const larder_param params[] = {
    {"b0", "float", "10", "added to the count, so that the easiest sample is drawn too", 1.001,
     1e9},
    {"batch", "int", "0", "batch size that counts are scaled to; 0: the largest seen", 0, 16777216},
    {0}};

static int init(void *st, uint64_t n, const larder_args *args) {
    (void)n;
    rank *r = st;
    r->b0 = larder_args_number(args, "b0");
    r->given = (uint64_t)larder_args_number(args, "batch");
    r->nominal = r->given;
    return 0;
}

static void fini(void *st) { larder__free(((rank *)st)->rows); }

static int by_loss(const void *a, const void *b) {
    const row *x = a, *y = b;
    return x->loss != y->loss ? (x->loss > y->loss) - (x->loss < y->loss)
                              : (x->at > y->at) - (x->at < y->at);
}

static void observe(void *st, const larder_report *rep, float *scores) {
    rank *r = st;
    if (rep->n > UINT32_MAX || larder__room(&r->rows, &r->room, rep->n, sizeof *r->rows) < 0)
        return; /* out of memory: as if nothing had been reported */
    size_t n = 0;
    for (size_t i = 0; i < rep->n; i++) {
        float loss = larder__report_loss(rep, i);
        if (!isnan(loss))
            r->rows[n++] = (row){loss, (uint32_t)i};
    }
    if (r->given == 0 && n > r->nominal)
        r->nominal = n;
    if (n)
        qsort(r->rows, n, sizeof *r->rows, by_loss);
    double scale = n > 1 ? (double)(r->nominal - 1) / (double)(n - 1) : 1;
    for (size_t i = 0, below = 0; i < n; i++) {
        if (i && r->rows[i].loss > r->rows[i - 1].loss)
            below = i;
        scores[rep->ids[r->rows[i].at]] = (float)log((double)below * scale + r->b0);
    }
}

static void save(const void *st, larder_writer *w) {
    larder_write_u64(w, ((const rank *)st)->nominal);
}

static int load(void *st, larder_reader *r) {
    rank *k = st;
    k->nominal = larder_read_u64(r);
    if (k->nominal > 1u << 24 || (k->given && k->nominal != k->given))
        return larder_read_reject(r, "its batches were of another size");
    return larder_read_status(r);
}

const larder_signal larder__signal_rank = {
    .plugin = {.name = "rank",
               .summary = "how many of its batch a sample's loss exceeds, as a logarithm (SHADE)",
               .params = params,
               .state_size = sizeof(rank)},
    .init = init,
    .fini = fini,
    .observe = observe,
    .save = save,
    .load = load,
};
