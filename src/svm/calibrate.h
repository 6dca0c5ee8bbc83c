/* Probabilities: a sigmoid over decision values (Platt 1999; Lin, Lin, Weng 2007) and the coupling
 * of pairwise ones (Wu, Lin, Weng 2004, method 2). */
#ifndef LARDER_SVM_CALIBRATE_H
#define LARDER_SVM_CALIBRATE_H

#include <stdbool.h>
#include <stddef.h>

/* P(positive | v) = 1 / (1 + exp(a v + b)), fitted by Newton's method with backtracking. */
void larder__sigmoid_fit(const double *values, const bool *positive, size_t n, double *a,
                         double *b);
double larder__sigmoid(double value, double a, double b);
/* pair: k x k, [i * k + j] = P(i | i or j). Writes k probabilities; work: k x k + k. */
void larder__couple(size_t k, const double *pair, double *out, double *work);

#endif
