/* Cross validation inside training: what probabilities are fitted to. */
#ifndef LARDER_SVM_SVM_CROSS_H
#define LARDER_SVM_SVM_CROSS_H

#include "svm/svm_train.h"

/* The sigmoid of the pair of classes that these rows have, by five folds; `positive` is the label
 * whose decision values are above zero. */
int larder__svm_fit_pair(const larder_svm_data *, const uint32_t *rows, size_t n,
                         const larder_svm_conf *, larder__team *, double positive, double *a,
                         double *b);
/* The scale of the Laplace distribution of a regression's errors, by five folds. */
int larder__svm_fit_errors(const larder_svm_data *, const uint32_t *rows, size_t n,
                           const larder_svm_conf *, larder__team *, double *sigma);

#endif
