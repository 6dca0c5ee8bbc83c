#include "svm/near_border.h"

#include "base/err.h"
#include "base/mem.h"
#include "svm/exact.h"

#include <float.h>
#include <math.h>

/* A kernel value in floats is off by some units in its last place, each its own way. Eight units
 * times the root of the squared sum is beyond what such sums stray. */
static const double stray = 8.0 / (1 << 23);

static larder__run run_of_class(const larder_svm_model *m, size_t class, size_t line) {
    larder__run r = {.coef = m->coef + line * m->vectors->rows};
    for (size_t c = 0; c < class; c++)
        r.begin += m->class_vectors[c];
    r.end = r.begin + m->class_vectors[class];
    r.end = r.end < m->vectors->rows ? r.end : m->vectors->rows;
    return r;
}

size_t larder__runs_of(const larder_svm_model *m, size_t v, larder__run out[2]) {
    if (!larder__task_has_classes(m->task) || m->one_vs_all) {
        out[0] = (larder__run){0, m->vectors->rows, m->coef + v * m->vectors->rows};
        return 1;
    }
    size_t a = 0;
    while (v >= m->classes - 1 - a)
        v -= m->classes - 1 - a++;
    size_t b = a + 1 + v;
    out[0] = run_of_class(m, a, b - 1);
    out[1] = run_of_class(m, b, a);
    return 2;
}

int larder__border_open(larder__border *b, const larder_svm_model *m, const larder__kernel *k,
                        double most_norm) {
    *b = (larder__border){.model = m, .kernel = k, .most_norm = most_norm};
    b->by_sign = larder__task_has_classes(m->task) || m->task == LARDER_SVM_ONE_CLASS;
    if (!(b->spread = larder__calloc(m->values + 1, sizeof *b->spread)))
        return larder__fail(LARDER_E_NOMEM, "no memory to predict");
    for (size_t v = 0; v < m->values; v++) {
        larder__run runs[2];
        double sum = 0;
        for (size_t n = larder__runs_of(m, v, runs); n-- > 0;)
            for (size_t i = runs[n].begin; i < runs[n].end; i++)
                sum += runs[n].coef[i] * runs[n].coef[i];
        b->spread[v] = sqrt(sum);
    }
    return 0;
}

void larder__border_close(larder__border *b) {
    larder__free(b->spread);
    b->spread = NULL;
}

/* How large kernel values of this row can be, times how many units they may be off. */
static double size_of(const larder__border *b, const larder_svm_data *data, size_t row,
                      double norm) {
    double most = 0;
    if (b->model->kernel.type != LARDER_SVM_PRECOMPUTED)
        return larder__kernel_size(b->kernel, norm, b->most_norm);
    for (uint64_t p = data->start[row]; p < data->start[row + 1]; p++)
        most = fmax(most, data->index[p] ? fabs(data->value[p]) : 0);
    return most;
}

/* ---- in long doubles: far from zero, doubles lose what coefficients of both signs leave ------ */

static long double exact_kernel(const larder__kernel_conf *c, const larder_svm_data *a, size_t i,
                                const larder_svm_data *b, size_t j) {
    uint64_t p = a->start[i], pe = a->start[i + 1], q = b->start[j], qe = b->start[j + 1];
    long double product = 0, distance = 0;
    while (p < pe || q < qe) {
        bool left = p < pe && (q == qe || a->index[p] <= b->index[q]);
        bool right = q < qe && (p == pe || b->index[q] <= a->index[p]);
        long double x = left ? a->value[p] : 0, y = right ? b->value[q] : 0;
        product += x * y;
        distance += (x - y) * (x - y);
        p += left;
        q += right;
    }
    return larder__exact_value(c, product, distance);
}

/* Support vector j of a precomputed kernel is a serial number: a column of the row's values. */
static double given(const larder_svm_data *data, size_t row, const larder_svm_data *vectors,
                    size_t j) {
    double serial = vectors->value[vectors->start[j]];
    for (uint64_t p = data->start[row]; p < data->start[row + 1]; p++)
        if ((double)data->index[p] == serial)
            return data->value[p];
    return 0;
}

/* In doubles, where they are enough: differences keep a distance's digits, whatever its size. */
static bool quick(const larder__border *b, size_t v, const larder_svm_data *data, size_t row,
                  double *out) {
    const larder_svm_model *m = b->model;
    const larder_svm_data *w = m->vectors;
    if (m->kernel.type != LARDER_SVM_RBF)
        return false;
    larder__run runs[2];
    double sum = -m->rho[v], size = fabs(m->rho[v]);
    uint64_t terms = 8 + data->start[row + 1] - data->start[row];
    size_t many = larder__runs_of(m, v, runs);
    for (size_t n = 0; n < many; n++)
        for (size_t i = runs[n].begin; i < runs[n].end; i++) {
            uint64_t p = data->start[row], pe = data->start[row + 1], q = w->start[i];
            double distance = 0;
            for (uint64_t qe = w->start[i + 1]; p < pe || q < qe;) {
                bool left = p < pe && (q == qe || data->index[p] <= w->index[q]);
                bool right = q < qe && (p == pe || w->index[q] <= data->index[p]);
                double x = (left ? data->value[p] : 0) - (right ? w->value[q] : 0);
                distance += x * x;
                p += left;
                q += right;
            }
            sum += runs[n].coef[i] * exp(-m->kernel.gamma * distance);
            size += fabs(runs[n].coef[i]);
            terms += 1 + (w->start[i + 1] - w->start[i]) / (runs[n].end - runs[n].begin);
        }
    *out = sum;
    return DBL_EPSILON * (double)terms * size < 1e-6 * fabs(sum);
}

double larder__border_exact(const larder__border *b, size_t v, const larder_svm_data *data,
                            size_t row) {
    const larder_svm_model *m = b->model;
    larder__run runs[2];
    double value;
    if (quick(b, v, data, row, &value))
        return value;
    long double sum = 0;
    size_t many = larder__runs_of(m, v, runs);
    for (size_t n = 0; n < many; n++)
        for (size_t i = runs[n].begin; i < runs[n].end; i++)
            sum += runs[n].coef[i] * (m->kernel.type == LARDER_SVM_PRECOMPUTED
                                          ? given(data, row, m->vectors, i)
                                          : exact_kernel(&m->kernel, data, row, m->vectors, i));
    return (double)(sum - m->rho[v]);
}

double larder__border_error(const larder__border *b, const larder_svm_data *data, size_t row,
                            double norm) {
    return stray * size_of(b, data, row, norm);
}

double larder__border_settle(const larder__border *b, size_t v, const larder_svm_data *data,
                             size_t row, double error, double value) {
    return larder__border_doubts(b, error, value) ? larder__border_exact(b, v, data, row) : value;
}
