/* A trained model: support vectors, their coefficients in each decision function, offsets. */
#ifndef LARDER_SVM_MODEL_H
#define LARDER_SVM_MODEL_H

#include "svm/kernel.h"

struct larder_svm_model {
    larder_svm_task task;
    larder__kernel_conf kernel;
    size_t classes;          /* 2 for regression and one-class, as LIBSVM says */
    bool one_vs_all;         /* a decision function a class, not a pair */
    bool multi_label;        /* one-vs-all whose classes do not exclude each other */
    double *label;           /* a class each; NULL for regression and one-class */
    size_t values;           /* decision functions */
    double *rho;             /* a decision function each */
    double *prob_a, *prob_b; /* NULL: no probabilities; prob_a[0] is sigma for regression */
    size_t coefs;            /* coefficients a vector: classes - 1, or classes of one-vs-all */
    uint64_t *class_vectors; /* support vectors of each class, NULL as label */
    larder_svm_data *vectors;
    uint32_t *rows;       /* a vector each: its row in the training data; NULL: read from a file */
    double *coef;         /* coefs x vectors->rows */
    uint64_t *iterations; /* a decision function each: steps of its solver; NULL: as rows */
    bool brief;           /* training took so little that its file need not be flushed */
};

int larder__model_new(larder_svm_model **out, larder_svm_task, const larder__kernel_conf *,
                      size_t classes, bool one_vs_all);
/* A model that lies in memory; `name` is for sentences. */
int larder__model_parse(larder_svm_model **out, const void *bytes, size_t size, const char *name);
static inline size_t larder__model_vectors(const larder_svm_model *m) {
    return m->vectors ? m->vectors->rows : 0;
}
static inline bool larder__task_has_classes(larder_svm_task t) {
    return t == LARDER_SVM_C_SVC || t == LARDER_SVM_NU_SVC;
}

#endif
