/* Models taken apart and put together again. */
#include "base/err.h"
#include "base/mem.h"
#include "base/sized.h"
#include "svm/model.h"

#include <string.h>

static int check_vectors(const larder_svm_parts *p) {
    const larder_svm_data *v = p->vectors;
    bool given = p->kernel == LARDER_SVM_PRECOMPUTED;
    for (size_t i = 0; i < v->rows; i++) {
        uint64_t at = v->start[i], end = v->start[i + 1];
        if (given && (end != at + 1 || v->index[at] != 0 || !(v->value[at] >= 0) ||
                      v->value[at] > INT32_MAX))
            return larder__fail(LARDER_E_ARGS, "support vector %zu is not 0:serial alone", i);
        if (!given && at < end && v->index[at] == 0)
            return larder__fail(LARDER_E_ARGS, "support vector %zu has an index 0", i);
    }
    return 0;
}

static bool is_whole(const larder_svm_parts *p, bool named) {
    if (named && (!p->label || !p->class_vectors || (p->sigmoid_a && !p->sigmoid_b)))
        return false;
    return p->vectors && p->coef && p->rho;
}

static int check_parts(const larder_svm_parts *p) {
    bool named = larder__task_has_classes(p->task);
    if (!is_whole(p, named))
        return larder__fail(LARDER_E_ARGS, "a model wants vectors, coefficients, rho and labels");
    if ((unsigned)p->task > LARDER_SVM_NU_SVR || (unsigned)p->kernel > LARDER_SVM_PRECOMPUTED)
        return larder__fail(LARDER_E_ARGS, "there is no task %d or no kernel %d", (int)p->task,
                            (int)p->kernel);
    if (p->classes < 1 || p->classes > 65536 || p->degree < 0 || p->degree > 1000)
        return larder__fail(LARDER_E_ARGS, "1 to 65536 classes, a degree of 0 to 1000");
    uint64_t sum = 0, rows = p->vectors->rows;
    bool each = true; /* none is more than all, or their sum might come round to be right */
    for (size_t c = 0; named && c < p->classes; c++) {
        sum += p->class_vectors[c];
        each = each && p->class_vectors[c] <= rows;
    }
    if (named && (!each || (!p->one_vs_all && sum != rows)))
        return larder__fail(LARDER_E_ARGS, "%llu support vectors by class, %llu in all",
                            (unsigned long long)sum, (unsigned long long)rows);
    return check_vectors(p);
}

static int copy(double **to, const double *from, size_t n) {
    if (!from)
        return 0;
    if (!(*to = larder__malloc((n + 1) * sizeof **to)))
        return larder__fail(LARDER_E_NOMEM, "no memory for a model");
    memcpy(*to, from, n * sizeof **to);
    return 0;
}

static int copy_vectors(larder_svm_model *m, const larder_svm_data *from) {
    uint32_t *all = larder__malloc((from->rows + 1) * sizeof *all);
    if (!all)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu support vectors", from->rows);
    for (uint32_t i = 0; i < from->rows; i++)
        all[i] = i;
    int rc = larder__svm_data_pick(&m->vectors, from, all, from->rows);
    larder__free(all);
    return rc;
}

int larder_svm_disassemble(const larder_svm_model *m, larder_svm_parts *out) {
    larder_svm_parts own = {.task = m->task,
                            .kernel = m->kernel.type,
                            .degree = m->kernel.degree,
                            .one_vs_all = m->one_vs_all,
                            .gamma = m->kernel.gamma,
                            .coef0 = m->kernel.coef0,
                            .classes = m->classes,
                            .label = m->label,
                            .class_vectors = m->class_vectors,
                            .coef = m->coef,
                            .rho = m->rho,
                            .sigmoid_a = m->prob_a,
                            .sigmoid_b = m->prob_b,
                            .vectors = m->vectors,
                            .vector_count = larder__model_vectors(m),
                            .coef_lines = m->coefs,
                            .values = m->values,
                            .support = m->rows,
                            .iterations = m->iterations};
    return larder__sized_out(out, &own, sizeof own, "larder_svm_parts");
}

int larder_svm_assemble(larder_svm_model **out, const larder_svm_parts *given) {
    larder_svm_parts parts = {0}, *p = &parts;
    *out = NULL;
    int rc = larder__sized_in(p, sizeof *p, given, "larder_svm_parts");
    larder__kernel_conf kernel = {p->kernel, p->degree, p->gamma, p->coef0};
    if (rc == 0)
        rc = check_parts(p);
    if (rc == 0)
        rc = larder__model_new(out, p->task, &kernel, p->classes, p->one_vs_all);
    larder_svm_model *m = *out;
    if (rc < 0 || !m)
        return rc;
    bool named = larder__task_has_classes(p->task);
    for (size_t c = 0; named && c < p->classes; c++) {
        m->label[c] = p->label[c];
        m->class_vectors[c] = p->class_vectors[c];
    }
    memcpy(m->rho, p->rho, m->values * sizeof *m->rho);
    rc = copy(&m->coef, p->coef, m->coefs * p->vectors->rows);
    if (rc == 0)
        rc = copy(&m->prob_a, p->sigmoid_a, named ? m->values : 1);
    if (rc == 0 && named)
        rc = copy(&m->prob_b, p->sigmoid_b, m->values);
    if (rc == 0)
        rc = copy_vectors(m, p->vectors);
    if (rc < 0)
        larder_svm_model_close(out);
    return rc;
}
