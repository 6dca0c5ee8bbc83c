#include "signal/graph_batch.h"

#include "base/clones.h"
#include "base/err.h"
#include "base/mem.h"
#include "signal/graph_store.h"

#include <math.h>
#include <stdlib.h>

void larder__graph_batch_free(larder__graph_batch *b) {
    larder__free(b->ids);
    larder__free(b->classes);
    larder__free(b->x);
    larder__free(b->counts);
    larder__free(b->totals);
    larder__free(b->order);
    *b = (larder__graph_batch){.bad = b->bad};
}

static int make_room(larder__graph_batch *b, size_t n, size_t dim) {
    if (n <= b->room)
        return 0;
    larder__graph_batch_free(b);
    size_t all = n + LARDER__GRAPH_SPARE;
    b->ids = larder__malloc(all * sizeof *b->ids);
    b->classes = larder__malloc(all * sizeof *b->classes);
    b->x = larder__malloc(all * dim * sizeof *b->x);
    b->counts = larder__malloc(all * sizeof *b->counts);
    b->totals = larder__malloc(all * sizeof *b->totals);
    b->order = larder__malloc(n * sizeof *b->order);
    if (!b->ids || !b->classes || !b->x || !b->counts || !b->totals || !b->order) {
        larder__graph_batch_free(b);
        return larder__fail(LARDER_E_NOMEM, "graph: no memory for a batch of %zu", n);
    }
    b->room = n;
    return 0;
}

static int by_number(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Eight sums side by side: quick, and in the same order on every machine. */
LARDER__CLONES
static double square_length(const float *x, size_t dim) {
    double sums[8] = {0};
    size_t i = 0;
    for (; i + 8 <= dim; i += 8)
        for (int k = 0; k < 8; k++)
            sums[k] += (double)x[i + (size_t)k] * (double)x[i + (size_t)k];
    for (; i < dim; i++)
        sums[i % 8] += (double)x[i] * (double)x[i];
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
           ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/* Labels as numbers from 0; those that are none share the first. */
static uint32_t class_of(int64_t label) {
    return label >= 0 && label < LARDER__CLASSES_MAX - 1 ? (uint32_t)label + 1 : 0;
}

static void add_row(larder__graph_batch *b, const larder_report *rep, size_t row, bool normalise) {
    const float *from = rep->embeddings + row * rep->dim;
    double square = square_length(from, rep->dim);
    if (!(square < 1e30)) { /* not a number, or nothing that codes could hold */
        b->bad++;
        return;
    }
    /* One that is all but zero has no direction, and 1 over its length might be no float. */
    float scale = normalise && square > 1e-60 ? (float)(1 / sqrt(square)) : 1;
    float *to = b->x + b->rows.n * rep->dim;
    for (size_t k = 0; k < rep->dim; k++)
        to[k] = from[k] * scale;
    b->ids[b->rows.n] = (uint32_t)rep->ids[row];
    b->classes[b->rows.n++] = class_of(rep->labels ? rep->labels[row] : -1);
}

int larder__graph_batch_fill(larder__graph_batch *b, const larder_report *rep, uint64_t n,
                             bool normalise) {
    b->rows.n = 0;
    int rc = rep->n > UINT32_MAX ? LARDER_E_RANGE : make_room(b, rep->n, rep->dim);
    if (rc < 0)
        return rc;
    size_t count = 0;
    for (size_t i = 0; i < rep->n; i++)
        if (rep->ids[i] < n)
            b->order[count++] = rep->ids[i] << 32 | i;
        else
            b->bad++;
    qsort(b->order, count, sizeof *b->order, by_number);
    b->rows =
        (larder_engine_rows){.epoch = rep->epoch, .ids = b->ids, .classes = b->classes, .x = b->x};
    for (size_t i = 0; i < count; i++)
        if (i + 1 == count || b->order[i] >> 32 != b->order[i + 1] >> 32)
            add_row(b, rep, b->order[i] & UINT32_MAX, normalise);
    return 0;
}
