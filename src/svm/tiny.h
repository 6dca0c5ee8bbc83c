/* Problems of few variables whose kernel values lie at hand in doubles: pairs of small classes, of
 * which there may be hundreds. Steps of two and nothing else, on the stack: what the solver opens
 * would cost more than the solution. */
#ifndef LARDER_SVM_TINY_H
#define LARDER_SVM_TINY_H

#include "svm/solver.h"

enum { LARDER__TINY = 320 };

/* Tries. True: solved, `out` is set. False: nothing here suits or a few steps were not enough, and
 * the solver goes on from q->beta; out->iterations are the steps taken. */
bool larder__tiny_solve(larder__qp *, const larder__kernel *, const larder__solver_conf *,
                        larder__solved *out);

#endif
