/* Decision values that are linear in what a row holds: of linear kernels, where a sum over support
 * vectors is one product with their weighted sum, and of precomputed ones, whose rows hold the
 * values. A row costs its numbers and not the vectors, and doubles are affordable. */
#include "base/clones.h"
#include "base/err.h"
#include "base/mem.h"
#include "svm/near_border.h"
#include "svm/svm_predict.h"

#include <float.h>
#include <math.h>

enum { STEP = 64 /* rows a thread takes at a time */, SPARE = 65536 };

typedef struct linear {
    const larder_svm_model *m;
    const larder_svm_data *data;
    const uint32_t *ids;
    larder__border border; /* its model alone */
    size_t n, features;
    double *weight; /* features x decision functions */
    double *most;   /* of each feature, its largest weight */
    double *out;
} linear;

static bool is_given(const larder_svm_model *m) { return m->kernel.type == LARDER_SVM_PRECOMPUTED; }

static size_t features_of(const larder_svm_model *m) {
    const larder_svm_data *d = m->vectors;
    double most = d->features;
    for (size_t i = 0; is_given(m) && i < d->rows; i++)
        most = fmax(most, d->value[d->start[i]]); /* its number in the kernel */
    return (size_t)most;
}

bool larder__linear_fits(const larder_svm_model *m, const larder_svm_data *rows) {
    const larder_svm_data *d = m->vectors;
    double pairs = (double)d->start[d->rows] * (double)m->coefs + (double)rows->start[rows->rows];
    return (m->kernel.type == LARDER_SVM_LINEAR || is_given(m)) &&
           (double)features_of(m) * (double)m->values <= SPARE + 4 * pairs;
}

/* Added up in long doubles: coefficients have both signs. */
static void gather(linear *l, size_t v, long double *sum) {
    const larder_svm_data *d = l->m->vectors;
    larder__run runs[2];
    for (size_t f = 0; f <= l->features; f++)
        sum[f] = 0;
    for (size_t n = larder__runs_of(l->m, v, runs); n-- > 0;)
        for (size_t i = runs[n].begin; i < runs[n].end; i++)
            for (uint64_t p = d->start[i]; p < d->start[i + 1]; p++)
                if (is_given(l->m))
                    sum[(size_t)d->value[p]] += runs[n].coef[i];
                else
                    sum[d->index[p]] += (long double)runs[n].coef[i] * d->value[p];
    for (size_t f = 0; f <= l->features; f++) {
        l->weight[f * l->m->values + v] = (double)sum[f];
        l->most[f] = fmax(l->most[f], fabs((double)sum[f]));
    }
}

LARDER__CLONES static void add(double *sum, const double *weight, double x, size_t n) {
    for (size_t v = 0; v < n; v++)
        sum[v] += x * weight[v];
}

static void decide_rows(void *arg, size_t piece, unsigned thread) {
    (void)thread;
    linear *l = arg;
    const larder_svm_data *d = l->data;
    size_t values = l->m->values, end = (piece + 1) * STEP;
    for (size_t i = piece * STEP; i < end && i < l->n; i++) {
        size_t row = l->ids ? l->ids[i] : i;
        double *sum = l->out + i * values, size = 0;
        for (size_t v = 0; v < values; v++)
            sum[v] = 0;
        for (uint64_t p = d->start[row]; p < d->start[row + 1]; p++)
            if (d->index[p] <= l->features) {
                add(sum, l->weight + d->index[p] * values, d->value[p], values);
                size += fabs(d->value[p]) * l->most[d->index[p]];
            }
        for (size_t v = 0; v < values; v++)
            sum[v] = larder__border_settle(&l->border, v, d, row, 4 * DBL_EPSILON * size,
                                           sum[v] - l->m->rho[v]);
    }
}

int larder__linear_decide(const larder_svm_model *m, const larder_svm_data *data,
                          const uint32_t *rows, size_t n, larder__team *team, double *out) {
    linear l = {.m = m, .data = data, .ids = rows, .n = n, .out = out};
    l.features = features_of(m);
    l.border.model = m;
    l.border.by_sign = larder__task_has_classes(m->task) || m->task == LARDER_SVM_ONE_CLASS;
    long double *sum = larder__malloc((l.features + 1) * sizeof *sum);
    l.weight = larder__malloc((l.features + 1) * m->values * sizeof *l.weight);
    l.most = larder__calloc(l.features + 1, sizeof *l.most);
    int rc = sum && l.weight && l.most
                 ? 0
                 : larder__fail(LARDER_E_NOMEM, "no memory to predict %zu rows", n);
    for (size_t v = 0; rc == 0 && v < m->values; v++)
        gather(&l, v, sum);
    if (rc == 0)
        larder__team_run(team, decide_rows, &l, (n + STEP - 1) / STEP);
    larder__free(sum);
    larder__free(l.weight);
    larder__free(l.most);
    return rc;
}
