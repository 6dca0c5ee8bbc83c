/* From decision functions to a model in LIBSVM's layout. */
#include "base/err.h"
#include "base/mem.h"
#include "svm/session.h"

#include <string.h>

typedef larder__svm_session trainer;

/* Support vectors by class, within a class by sample. Returns their number. */
static size_t list_vectors(const trainer *t, bool *used, uint32_t *list, size_t *per_class) {
    size_t n = 0;
    for (size_t f = 0; f < t->at; f++)
        for (size_t i = 0; i < t->member_count[f]; i++)
            if (t->made[f].coef[i] != 0)
                used[t->members[f][i]] = true;
    for (size_t c = 0; c < t->classes || c == 0; c++)
        for (size_t s = 0; s < t->samples.n; s++)
            if (used[s] && t->class_of[s] == c) {
                list[n++] = (uint32_t)s;
                if (per_class)
                    per_class[c]++;
            }
    return n;
}

/* Which row of coefficients holds function f's for a sample of this class (LIBSVM's layout). */
static size_t coef_row(const larder_svm_model *m, size_t f, size_t a, size_t b, size_t own) {
    if (!larder__task_has_classes(m->task))
        return 0;
    if (m->one_vs_all)
        return f;
    return own == a ? b - 1 : a;
}

static void place_coefs(const trainer *t, larder_svm_model *m, const uint32_t *place, size_t n) {
    size_t a = 0, b = 1;
    for (size_t f = 0; f < t->at; f++) {
        m->rho[f] = t->made[f].rho;
        m->iterations[f] = t->made[f].solved.iterations;
        for (size_t i = 0; i < t->member_count[f]; i++) {
            uint32_t s = t->members[f][i];
            if (place[s] != UINT32_MAX)
                m->coef[coef_row(m, f, a, b, t->class_of[s]) * n + place[s]] = t->made[f].coef[i];
        }
        if (++b >= t->classes)
            a++, b = a + 1;
    }
}

/* Of a precomputed kernel only the serial number is kept. */
static int take_vectors(const trainer *t, larder_svm_model *m, uint32_t *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        list[i] = t->samples.row[list[i]];
    if (!(m->rows = larder__malloc((n + 1) * sizeof *m->rows)))
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu support vectors", n);
    memcpy(m->rows, list, n * sizeof *list);
    int rc = larder__svm_data_pick(&m->vectors, t->data, list, n);
    if (rc < 0 || t->conf->kernel != LARDER_SVM_PRECOMPUTED)
        return rc;
    larder_svm_data *v = m->vectors;
    for (size_t i = 0; i < n; i++) {
        v->index[i] = 0;
        v->value[i] = v->value[v->start[i]];
        v->start[i] = i;
    }
    v->start[n] = n;
    v->features = 0;
    return 0;
}

/* The model takes the probabilities over. */
static void take_probabilities(trainer *t, larder_svm_model *m) {
    if (t->stopped)
        return; /* not all of them were fitted */
    m->prob_a = t->prob_a;
    t->prob_a = NULL;
    if (larder__task_has_classes(m->task)) {
        m->prob_b = t->prob_b;
        t->prob_b = NULL;
    }
}

int larder__session_model(trainer *t, larder_svm_model **out) {
    size_t n = t->samples.n;
    bool *used = larder__calloc(n + 1, sizeof *used);
    uint32_t *list = larder__malloc((n + 1) * sizeof *list);
    uint32_t *place = larder__malloc((n + 1) * sizeof *place);
    larder_svm_model *m = NULL;
    bool named = larder__task_has_classes(t->conf->task);
    int rc = used && list && place ? 0 : larder__fail(LARDER_E_NOMEM, "no memory for a model");
    if (rc == 0)
        rc = larder__model_new(&m, t->conf->task, &t->kernel.conf, named ? t->classes : 2,
                               named && t->conf->one_vs_all);
    if (rc == 0) {
        memset(place, 0xff, (n + 1) * sizeof *place);
        size_t vectors = list_vectors(t, used, list, m->class_vectors);
        for (size_t i = 0; i < vectors; i++)
            place[list[i]] = (uint32_t)i;
        m->multi_label = t->data->list_start != NULL;
        if (named)
            memcpy(m->label, t->label, t->classes * sizeof *m->label);
        m->coef = larder__calloc(m->coefs * vectors + 1, sizeof *m->coef);
        m->iterations = larder__calloc(m->values + 1, sizeof *m->iterations);
        if (m->coef && m->iterations) {
            place_coefs(t, m, place, vectors);
            take_probabilities(t, m);
            rc = take_vectors(t, m, list, vectors);
        } else {
            rc = larder__fail(LARDER_E_NOMEM, "no memory for %zu support vectors", vectors);
        }
    }
    larder__free(used);
    larder__free(list);
    larder__free(place);
    if (rc < 0)
        larder_svm_model_close(&m);
    *out = m;
    return rc;
}
