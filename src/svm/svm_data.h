/* Labelled sparse rows in memory, as LIBSVM text has them. */
#ifndef LARDER_SVM_SVM_DATA_H
#define LARDER_SVM_SVM_DATA_H

#include <larder/svm.h>

struct larder_svm_data {
    size_t rows;
    uint32_t features; /* highest index */
    uint64_t *start;   /* rows + 1: where a row's pairs begin */
    uint32_t *index;   /* ascending within a row, from 1 (0 with LARDER_SVM_INDEX_ZERO) */
    double *value;
    double *label;        /* one a row; the first of a list, NAN of an empty list */
    double *weight;       /* one a row; NULL: all are 1 */
    uint64_t *list_start; /* rows + 1 with LARDER_SVM_MULTI_LABEL, else NULL */
    double *list;         /* all labels of a row */
    size_t row_room;      /* what the arrays hold */
    uint64_t pair_room, list_room;
};

bool larder__svm_data_has(const larder_svm_data *, size_t row, double label); /* in its list */

/* LIBSVM text that lies in memory; `name` is for sentences. */
int larder__svm_parse(larder_svm_data **out, const void *bytes, size_t size, const char *name,
                      unsigned flags);
/* One without rows; `lists`: of labels. */
int larder__svm_data_new(larder_svm_data **out, bool lists);
/* Room for one more row or pair. */
int larder__svm_data_grow(larder_svm_data *, size_t rows, uint64_t pairs, uint64_t labels);
/* The pairs on the rest of a line, from place *pairs on, which moves behind them. `first`: the
 * lowest index allowed. */
struct larder__line;
int larder__svm_data_pairs(larder_svm_data *, struct larder__line *, uint32_t first,
                           uint64_t *pairs);
/* The rows given by `pick`, in that order. */
int larder__svm_data_pick(larder_svm_data **out, const larder_svm_data *, const uint32_t *pick,
                          size_t n);

#endif
