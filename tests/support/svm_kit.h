/* Made data for tests of the solver, and models compared. */
#ifndef LARDER_TEST_SVM_KIT_H
#define LARDER_TEST_SVM_KIT_H

#include "check.h"
#include "svm/model.h"

#include <larder/plugin.h>

/* Clouds seed it; tests may go on drawing from it. */
extern larder_rng svm_rng;

/* Clouds of points, a class each, so far apart; label 0.. or, with classes = 0, a target. */
larder_svm_data *svm_clouds_apart(size_t rows, size_t dim, int classes, uint64_t seed,
                                  double apart);
larder_svm_data *svm_clouds(size_t rows, size_t dim, int classes, uint64_t seed);
/* LIBSVM's defaults, one thread. */
larder_svm_conf svm_conf(larder_svm_task, double c, double gamma);
bool svm_same_model(const larder_svm_model *, const larder_svm_model *); /* to the bit */
double svm_largest_difference(const larder_svm_model *, const larder_svm_model *,
                              const larder_svm_data *); /* of decision values */

#endif
