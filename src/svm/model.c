#include "svm/model.h"

#include "base/err.h"
#include "base/mem.h"

int larder__model_new(larder_svm_model **out, larder_svm_task task,
                      const larder__kernel_conf *kernel, size_t classes, bool one_vs_all) {
    larder_svm_model *m = *out = larder__calloc(1, sizeof *m);
    if (!m)
        return larder__fail(LARDER_E_NOMEM, "no memory for a model");
    bool named = larder__task_has_classes(task);
    m->task = task;
    m->kernel = *kernel;
    m->classes = classes;
    m->one_vs_all = one_vs_all;
    m->values = !named ? 1 : one_vs_all ? classes : classes * (classes - 1) / 2;
    m->coefs = !named ? 1 : one_vs_all ? classes : classes > 1 ? classes - 1 : 1;
    m->rho = larder__calloc(m->values + 1, sizeof *m->rho);
    if (named) {
        m->label = larder__calloc(classes + 1, sizeof *m->label);
        m->class_vectors = larder__calloc(classes + 1, sizeof *m->class_vectors);
    }
    if (m->rho && (!named || (m->label && m->class_vectors)))
        return 0;
    larder_svm_model_close(out);
    return larder__fail(LARDER_E_NOMEM, "no memory for a model of %zu classes", classes);
}

void larder_svm_model_close(larder_svm_model **model) {
    larder_svm_model *m = *model;
    if (!m)
        return;
    larder__free(m->label);
    larder__free(m->class_vectors);
    larder__free(m->rho);
    larder__free(m->prob_a);
    larder__free(m->prob_b);
    larder__free(m->coef);
    larder__free(m->rows);
    larder_svm_data_close(&m->vectors);
    larder__free(m);
    *model = NULL;
}

larder_svm_task larder_svm_model_task(const larder_svm_model *m) { return m->task; }
size_t larder_svm_classes(const larder_svm_model *m) { return m->classes; }
size_t larder_svm_vectors(const larder_svm_model *m) { return m->vectors ? m->vectors->rows : 0; }
size_t larder_svm_values(const larder_svm_model *m) { return m->values; }
bool larder_svm_has_probability(const larder_svm_model *m) { return m->prob_a != NULL; }
double larder_svm_class(const larder_svm_model *m, size_t i) {
    return m->label && i < m->classes ? m->label[i] : (double)i;
}
size_t larder_svm_class_vectors(const larder_svm_model *m, size_t i) {
    return m->class_vectors && i < m->classes ? m->class_vectors[i] : 0;
}
size_t larder_svm_coef_lines(const larder_svm_model *m) { return m->coefs; }
const double *larder_svm_coefs(const larder_svm_model *m) { return m->coef; }
const double *larder_svm_rho(const larder_svm_model *m) { return m->rho; }
const uint32_t *larder_svm_support(const larder_svm_model *m) { return m->rows; }

const double *larder_svm_sigmoids(const larder_svm_model *m, const double **b) {
    *b = m->prob_b;
    return m->prob_a;
}

int larder_svm_matrix(const larder_svm_model *m, size_t features, double *out) {
    const larder_svm_data *v = m->vectors;
    if (m->kernel.type == LARDER_SVM_PRECOMPUTED)
        return larder__fail(LARDER_E_STATE, "vectors of a precomputed kernel are not known");
    for (size_t i = 0; v && i < v->rows; i++) {
        double *row = out + i * features;
        for (size_t f = 0; f < features; f++)
            row[f] = 0;
        for (uint64_t p = v->start[i]; p < v->start[i + 1]; p++) {
            if (v->index[p] > features)
                return larder__fail(LARDER_E_ARGS, "a support vector has feature %u of %zu",
                                    v->index[p], features);
            row[v->index[p] - 1] = v->value[p];
        }
    }
    return 0;
}
