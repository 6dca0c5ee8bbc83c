#include "svm/folds.h"

#include "base/err.h"
#include "base/mem.h"

#include <larder/plugin.h>
#include <stdlib.h>
#include <string.h>

typedef struct card {
    double label;
    uint32_t row, place;
    uint32_t chance;
} card;

static int by_label(const void *a, const void *b) {
    const card *x = a, *y = b;
    if (x->label != y->label)
        return x->label < y->label ? -1 : 1;
    if (x->chance != y->chance)
        return x->chance < y->chance ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* Cards sorted by class, in random order within one, are dealt round the table: every fold gets its
 * share of each class, to within one row. */
static void deal(larder__folds *f, const card *cards) {
    size_t at = 0;
    for (size_t fold = 0; fold < f->folds; fold++) {
        f->start[fold] = at;
        for (size_t i = fold; i < f->n; i += f->folds, at++)
            f->row[at] = cards[i].row, f->place[at] = cards[i].place,
            f->fold_of[cards[i].place] = (uint32_t)fold;
    }
    f->start[f->folds] = at;
}

int larder__folds_open(larder__folds *f, const larder_svm_data *d, const uint32_t *rows, size_t n,
                       size_t folds, bool by_class, uint64_t seed) {
    *f = (larder__folds){.n = n, .folds = folds < n ? folds : n};
    card *cards = larder__malloc((n + 1) * sizeof *cards);
    f->row = larder__malloc((n + 1) * sizeof *f->row);
    f->place = larder__malloc((n + 1) * sizeof *f->place);
    f->fold_of = larder__malloc((n + 1) * sizeof *f->fold_of);
    f->start = larder__malloc((f->folds + 1) * sizeof *f->start);
    if (!cards || !f->row || !f->place || !f->fold_of || !f->start) {
        larder__free(cards);
        larder__folds_close(f);
        return larder__fail(LARDER_E_NOMEM, "no memory for folds of %zu rows", n);
    }
    larder_rng rng;
    larder_rng_seed(&rng, seed, 0);
    for (size_t i = 0; i < n; i++) {
        uint32_t row = rows ? rows[i] : (uint32_t)i;
        cards[i] =
            (card){by_class ? d->label[row] : 0, row, (uint32_t)i, (uint32_t)larder_rng_next(&rng)};
    }
    qsort(cards, n, sizeof *cards, by_label);
    deal(f, cards);
    larder__free(cards);
    return 0;
}

int larder__folds_given(larder__folds *f, const uint32_t *fold_of, size_t n, size_t folds) {
    *f = (larder__folds){.n = n, .folds = folds};
    f->row = larder__malloc((n + 1) * sizeof *f->row);
    f->place = larder__malloc((n + 1) * sizeof *f->place);
    f->fold_of = larder__malloc((n + 1) * sizeof *f->fold_of);
    f->start = larder__calloc(folds + 2, sizeof *f->start);
    int rc = f->row && f->place && f->fold_of && f->start
                 ? 0
                 : larder__fail(LARDER_E_NOMEM, "no memory for folds of %zu rows", n);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (fold_of[i] >= folds)
            rc = larder__fail(LARDER_E_ARGS, "row %zu is of fold %u, of %zu", i, fold_of[i], folds);
        else
            f->start[fold_of[i] + 2]++;
    }
    for (size_t c = 0; rc == 0 && c < folds; c++) {
        if (f->start[c + 2] == 0 || f->start[c + 2] == n)
            rc = larder__fail(LARDER_E_ARGS, "fold %zu has %zu of %zu rows", c, f->start[c + 2], n);
        f->start[c + 2] += f->start[c + 1];
    }
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        size_t at = f->start[fold_of[i] + 1]++;
        f->row[at] = f->place[at] = i;
        f->fold_of[i] = fold_of[i];
    }
    if (rc < 0)
        larder__folds_close(f);
    return rc;
}

void larder__folds_close(larder__folds *f) {
    larder__free(f->row);
    larder__free(f->place);
    larder__free(f->fold_of);
    larder__free(f->start);
    *f = (larder__folds){0};
}

/* In the order of the list given, so that a class's first row stays first. */
static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

size_t larder__folds_others(const larder__folds *f, size_t fold, uint32_t *out) {
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++)
        if (i < f->start[fold] || i >= f->start[fold + 1])
            out[n++] = f->row[i];
    qsort(out, n, sizeof *out, by_number);
    return n;
}
