/* One decision function: a task of LIBSVM's as a quadratic programme over samples, solved, and the
 * solution as coefficients. */
#ifndef LARDER_SVM_TASK_H
#define LARDER_SVM_TASK_H

#include "svm/samples.h"
#include "svm/solver.h"

typedef struct larder__svm_task { /* `n` samples of a panel */
    size_t n;
    const uint32_t *point;
    const double *count; /* rows that a sample stands for, or the sum of their weights */
    const double *y;     /* +1 or -1, or the target */
    double rows;         /* sum of count */
    double c[2];         /* C of y = +1, of y = -1 */
    const double *start; /* coefficients to start from (C-SVC, epsilon-SVR); NULL: zero */
    double *f;           /* NULL, or a point each: K times them, if known; then of the solution */
    bool knows_f;
} larder__svm_task;

typedef struct larder__decision {
    double *coef; /* a sample each: y alpha */
    double *f;    /* the same: K times these, where somebody may go on from there; or NULL */
    bool knows_f;
    double rho;
    double extra; /* nu of C-SVC and epsilon-SVR, C of nu-SVC, epsilon of nu-SVR */
    size_t vectors, bounded;
    bool one_c; /* both sides had the same C */
    larder__solved solved;
} larder__decision;

/* Free out->coef with larder__decision_close. */
int larder__task_solve(larder__decision *out, larder__svm_task *, const larder_svm_conf *,
                       const larder__kernel *, const larder__panel *, const larder__solver_conf *);
/* The decision function that a solution, or the state between two rounds, stands for. */
int larder__decision_take(larder__decision *out, const larder__qp *, const larder__solved *,
                          const larder__svm_task *, const larder_svm_conf *);
void larder__decision_close(larder__decision *);
/* LIBSVM's lines about one decision function. */
void larder__decision_print(const larder__decision *, const larder_svm_conf *);

#endif
