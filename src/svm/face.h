/* Where SMO creeps: with columns of very different scales two variables at a time take millions of
 * steps along a narrow valley. All variables between their bounds at once are a linear system; its
 * solution, as far as the bounds let it go, is one step. */
#ifndef LARDER_SVM_FACE_H
#define LARDER_SVM_FACE_H

#include "svm/smo.h"

typedef struct larder__face { /* memory for working sets of up to `room` variables */
    size_t room;
    uint32_t *free;        /* variables between their bounds; two are eliminated, a group each */
    uint32_t *order;       /* of the others: pivots first */
    uint32_t *base;        /* of each free variable: who balances it */
    double *factor;        /* Cholesky's, a row each */
    double *left;          /* of each: its pivot so far */
    double *slope, *along; /* reduced gradient; direction, a slot each */
    double *solved;
    double work;   /* multiplications of the last call */
    double gained; /* by which it lowered the objective */
} larder__face;

int larder__face_open(larder__face *, size_t room);
void larder__face_close(larder__face *);
/* Lowers the objective over the free variables until it cannot, or the work has had its share.
 * `k`: kernel values of the slots in doubles. Returns the number of steps. */
uint64_t larder__face_descend(larder__face *, larder__smo *, const double *k, size_t stride,
                              double tolerance);

#endif
