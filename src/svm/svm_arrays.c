/* Data sets from arrays in memory. */
#include "base/err.h"
#include "base/mem.h"
#include "base/sized.h"
#include "svm/svm_data.h"

#include <math.h>
#include <string.h>

static int check_pairs(const larder_svm_matrix *m) {
    if (m->start[0] != 0)
        return larder__fail(LARDER_E_ARGS, "the first row begins with pair 0");
    for (size_t i = 0; i < m->rows; i++) {
        if (m->start[i + 1] < m->start[i])
            return larder__fail(LARDER_E_ARGS, "row %zu ends before it begins", i);
        for (uint64_t p = m->start[i]; p < m->start[i + 1]; p++)
            if (!isfinite(m->value[p]) || m->index[p] > INT32_MAX ||
                (p > m->start[i] && m->index[p] <= m->index[p - 1]))
                return larder__fail(LARDER_E_ARGS,
                                    "row %zu, pair %llu: indices ascend and values are finite", i,
                                    (unsigned long long)(p - m->start[i]));
    }
    return 0;
}

static int check_values(const larder_svm_matrix *m) {
    for (size_t i = 0; i < m->rows; i++)
        for (size_t f = 0; f < m->features; f++)
            if (!isfinite(m->value[i * m->features + f]))
                return larder__fail(LARDER_E_ARGS, "row %zu, column %zu is not finite", i, f);
    return 0;
}

static int check_matrix(const larder_svm_matrix *m) {
    if (m->rows == 0 || m->rows >= UINT32_MAX || m->features > INT32_MAX)
        return larder__fail(LARDER_E_ARGS,
                            "a data set has 1 to 4294967294 rows of at most 2147483647 features");
    for (size_t i = 0; i < m->rows; i++) {
        if (!isfinite(m->label[i]))
            return larder__fail(LARDER_E_ARGS, "the label of row %zu is not finite", i);
        if (m->weight && (!(m->weight[i] >= 0) || !isfinite(m->weight[i])))
            return larder__fail(LARDER_E_ARGS, "the weight of row %zu is %g, not 0 or more", i,
                                m->weight[i]);
    }
    return m->start ? check_pairs(m) : check_values(m);
}

static uint64_t count_pairs(const larder_svm_matrix *m) {
    uint64_t pairs = 0, all = m->start ? 0 : (uint64_t)m->rows * m->features;
    for (uint64_t i = 0; i < all; i++)
        pairs += m->value[i] != 0;
    return m->start ? m->start[m->rows] : pairs;
}

static void copy_pairs(larder_svm_data *d, const larder_svm_matrix *m) {
    uint64_t pairs = m->start[m->rows];
    memcpy(d->start, m->start, (m->rows + 1) * sizeof *m->start);
    if (pairs) {
        memcpy(d->index, m->index, pairs * sizeof *m->index);
        memcpy(d->value, m->value, pairs * sizeof *m->value);
    }
    for (size_t i = 0; i < m->rows; i++)
        if (m->start[i + 1] > m->start[i] && m->index[m->start[i + 1] - 1] > d->features)
            d->features = m->index[m->start[i + 1] - 1];
}

static void copy_values(larder_svm_data *d, const larder_svm_matrix *m) {
    uint32_t first = (m->flags & LARDER_SVM_INDEX_ZERO) ? 0 : 1;
    const double *value = m->value;
    uint64_t pairs = 0;
    for (size_t i = 0; i < m->rows; i++) {
        for (uint32_t f = 0; f < m->features; f++, value++)
            if (*value != 0) {
                d->index[pairs] = f + first;
                d->value[pairs++] = *value;
            }
        d->start[i + 1] = pairs;
    }
    d->features = (uint32_t)m->features - (first == 0 && m->features > 0);
}

int larder_svm_copy(larder_svm_data **out, const larder_svm_matrix *given) {
    larder_svm_matrix m = {0};
    *out = NULL;
    int rc = larder__sized_in(&m, sizeof m, given, "larder_svm_matrix");
    if (rc == 0)
        rc = check_matrix(&m);
    if (rc == 0)
        rc = larder__svm_data_new(out, false);
    if (rc == 0)
        rc = larder__svm_data_grow(*out, m.rows, count_pairs(&m), 0);
    larder_svm_data *d = *out;
    if (rc == 0 && m.weight && !(d->weight = larder__malloc((m.rows + 1) * sizeof *d->weight)))
        rc = larder__fail(LARDER_E_NOMEM, "no memory for %zu weights", m.rows);
    if (rc < 0 || !d) {
        larder_svm_data_close(out);
        return rc;
    }
    d->rows = m.rows;
    memcpy(d->label, m.label, m.rows * sizeof *m.label);
    if (m.weight)
        memcpy(d->weight, m.weight, m.rows * sizeof *m.weight);
    if (m.start)
        copy_pairs(d, &m);
    else
        copy_values(d, &m);
    return 0;
}

int larder_svm_view(const larder_svm_data *d, larder_svm_matrix *out) {
    larder_svm_matrix own = {.rows = d->rows,
                             .start = d->start,
                             .index = d->index,
                             .value = d->value,
                             .label = d->label,
                             .weight = d->weight,
                             .features = d->features};
    return larder__sized_out(out, &own, sizeof own, "larder_svm_matrix");
}
