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
    bool by_sign;     /* there are classes, or an inside */
    bool sign_alone;  /* where there are classes: nobody asks for a value's digits */
} larder__border;

/* A decision function as a sum over runs of support vectors, which stand by class: all of them, or
 * those of the two classes of a pair. */
typedef struct larder__run {
    size_t begin, end;
    const double *coef; /* by vector */
} larder__run;
/* Returns how many there are. */
size_t larder__runs_of(const larder_svm_model *, size_t v, larder__run out[2]);

int larder__border_open(larder__border *, const larder_svm_model *, const larder__kernel *,
                        double most_norm);
void larder__border_close(larder__border *);
/* What rows of floats may be off at this row of the data: so many times the spread of a decision
 * function. `norm`: the row's squared length, as the engine lays it out. */
double larder__border_error(const larder__border *, const larder_svm_data *, size_t row,
                            double norm);
/* Are the sign or the digits of such a value in doubt? Digits are where it may be off by this
 * share, as with kernels of data that nobody scaled; what values stray is an estimate from above,
 * mostly twentyfold. */
static inline bool larder__border_doubts(const larder__border *b, double error, double value) {
    const double no_digits = 0.01;
    double size = value < 0 ? -value : value;
    return (b->by_sign && size < error) ||
           (!(b->by_sign && b->sign_alone) && error > no_digits * (1 + size));
}
double larder__border_exact(const larder__border *, size_t v, const larder_svm_data *, size_t row);
/* `value` of decision function v at this row of the data, or a better one where its sign or its
 * digits are in doubt. Of the border only the model is looked at. */
double larder__border_settle(const larder__border *, size_t v, const larder_svm_data *, size_t row,
                             double error, double value);

#endif
