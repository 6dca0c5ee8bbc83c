/* Decision values that rows of floats cannot tell: free support vectors of a one-class model lie on
 * its border, and a vote hangs on the sign; values of data that nobody scaled are sums of terms far
 * larger than they are. Those are computed again in doubles, as LIBSVM adds them up. */
#ifndef LARDER_SVM_NEAR_BORDER_H
#define LARDER_SVM_NEAR_BORDER_H

#include "svm/model.h"

typedef struct larder__border {
    const larder_svm_model *model;
    const larder__kernel *kernel;
    double *spread;   /* a decision function each: the root of its squared coefficients' sum */
    double most_norm; /* of the support vectors, squared, as the engine lays them out */
} larder__border;

int larder__border_open(larder__border *, const larder_svm_model *, const larder__kernel *,
                        const larder__panel *vectors);
void larder__border_close(larder__border *);
/* `value` of decision function v at this row of the data, or a better one where its sign or its
 * digits are in doubt. `norm`: the row's squared length, as the engine lays it out. */
double larder__border_settle(const larder__border *, size_t v, const larder_svm_data *, size_t row,
                             double norm, double value);

#endif
