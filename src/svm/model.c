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
    larder__free(m->iterations);
    larder_svm_data_close(&m->vectors);
    larder__free(m);
    *model = NULL;
}
