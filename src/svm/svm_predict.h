/* Decision values and what follows from them. */
#ifndef LARDER_SVM_SVM_PREDICT_H
#define LARDER_SVM_SVM_PREDICT_H

#include "svm/gram.h"
#include "svm/model.h"
#include "svm/team.h"

/* out: n x values, of these rows (NULL: all of the data), on the device where there is one. */
struct larder__svm_device;
int larder__svm_decide(const larder_svm_model *, const larder_svm_data *, const uint32_t *rows,
                       size_t n, struct larder__svm_device *, larder__team *, double *out);
/* The same from values that lie at hand, for data whose rows have a place in them; where the task
 * has classes, of values no more than the sign is made sure of. */
typedef struct larder__decided_by {
    const larder__gram *gram;
    const uint32_t *place; /* a row of the data each */
    const float *norm;     /* a place each */
} larder__decided_by;
int larder__svm_decide_by(const larder_svm_model *, const larder__kernel *, const larder_svm_data *,
                          const uint32_t *rows, size_t n, const larder__decided_by *,
                          larder__team *, double *out);
/* The same as the first for a linear or precomputed kernel by weights, where these take no more
 * room than vectors and rows. */
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
