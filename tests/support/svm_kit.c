#include "svm_kit.h"

#include "svm/svm_predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

larder_rng svm_rng;

larder_svm_data *svm_clouds_apart(size_t rows, size_t dim, int classes, uint64_t seed,
                                  double apart) {
    larder_rng_seed(&svm_rng, seed, 0);
    double *x = calloc(rows * dim, sizeof *x), *y = calloc(rows, sizeof *y);
    assert_true(x && y);
    for (size_t i = 0; i < rows; i++) {
        uint32_t c = classes ? larder_rng_below(&svm_rng, (uint32_t)classes) : 0;
        double sum = 0;
        for (size_t f = 0; f < dim; f++) {
            x[i * dim + f] = larder_rng_unit(&svm_rng) + (f == c % dim ? apart : 0);
            sum += x[i * dim + f] * (f % 2 ? 1 : -1);
        }
        y[i] = classes ? c : sum + larder_rng_unit(&svm_rng);
    }
    larder_svm_data *d = NULL;
    check_ok(larder_svm_copy(&d, &(larder_svm_matrix){.size = sizeof(larder_svm_matrix),
                                                      .rows = rows,
                                                      .features = dim,
                                                      .value = x,
                                                      .label = y}));
    free(x), free(y);
    return d;
}

larder_svm_data *svm_clouds(size_t rows, size_t dim, int classes, uint64_t seed) {
    return svm_clouds_apart(rows, dim, classes, seed, 0.5);
}

larder_svm_conf svm_conf(larder_svm_task task, double c, double gamma) {
    larder_svm_conf conf = {.size = sizeof conf};
    larder_svm_defaults(&conf);
    conf.task = task, conf.c = c, conf.gamma = gamma, conf.threads = 1;
    return conf;
}

bool svm_same_model(const larder_svm_model *a, const larder_svm_model *b) {
    size_t n = larder__model_vectors(a);
    return n == larder__model_vectors(b) &&
           memcmp(a->coef, b->coef, a->coefs * n * sizeof *a->coef) == 0 &&
           memcmp(a->rho, b->rho, a->values * sizeof *a->rho) == 0 &&
           memcmp(a->rows, b->rows, n * sizeof *a->rows) == 0;
}

double svm_largest_difference(const larder_svm_model *a, const larder_svm_model *b,
                              const larder_svm_data *d) {
    size_t n = d->rows * a->values;
    double *x = calloc(n, sizeof *x), *y = calloc(n, sizeof *y), most = 0;
    assert_true(x && y);
    check_ok(larder_svm_predict(a, d, NULL, x, NULL));
    check_ok(larder_svm_predict(b, d, NULL, y, NULL));
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(x[i] - y[i]));
    free(x), free(y);
    return most;
}
