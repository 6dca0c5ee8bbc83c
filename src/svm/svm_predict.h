/* Decision values and what follows from them. */
#ifndef LARDER_SVM_SVM_PREDICT_H
#define LARDER_SVM_SVM_PREDICT_H

#include "svm/model.h"
#include "svm/team.h"

/* out: n x values, of these rows (NULL: all of the data). */
int larder__svm_decide(const larder_svm_model *, const larder_svm_data *, const uint32_t *rows,
                       size_t n, larder__team *, double *out);
/* The same for a linear or precomputed kernel by weights, where these take no more room than
 * vectors and rows. */
bool larder__linear_fits(const larder_svm_model *, const larder_svm_data *);
int larder__linear_decide(const larder_svm_model *, const larder_svm_data *, const uint32_t *rows,
                          size_t n, larder__team *, double *out);
/* The label from one row's decision values. */
double larder__svm_label(const larder_svm_model *, const double *values);

/* Probabilities of all classes (NULL: not wanted) and the likeliest label, from one row's values.
 */
int larder__svm_probable(const larder_svm_model *, const double *values, double *out,
                         double *label);

#endif
