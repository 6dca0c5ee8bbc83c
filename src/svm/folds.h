/* Rows dealt to folds, each class evenly, and what a model trained on the others says about them.
 */
#ifndef LARDER_SVM_FOLDS_H
#define LARDER_SVM_FOLDS_H

#include "svm/svm_train.h"

typedef struct larder__folds {
    size_t n, folds;
    uint32_t *row;     /* of the data, shuffled; fold f is row[start[f] .. start[f + 1]) */
    uint32_t *place;   /* where each stood in the list given */
    uint32_t *fold_of; /* by that place */
    size_t *start;
} larder__folds;

/* `rows`: NULL for all. `by_class`: labels are classes and are dealt evenly. */
int larder__folds_open(larder__folds *, const larder_svm_data *, const uint32_t *rows, size_t n,
                       size_t folds, bool by_class, uint64_t seed);
/* As they are given, a number below `folds` each row of the data. */
int larder__folds_given(larder__folds *, const uint32_t *fold_of, size_t n, size_t folds);
void larder__folds_close(larder__folds *);
/* All rows but those of a fold, into `out` (room for n). Returns how many. */
size_t larder__folds_others(const larder__folds *, size_t fold, uint32_t *out);

#endif
