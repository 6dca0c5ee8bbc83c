/* Data sets from arrays in memory. */
#include "base/err.h"
#include "base/mem.h"
#include "svm/svm_data.h"

#include <math.h>
#include <string.h>

static int check_matrix(size_t rows, size_t features, const double *value, const double *label) {
    if (rows == 0 || rows >= UINT32_MAX || features > INT32_MAX)
        return larder__fail(LARDER_E_ARGS,
                            "a data set has 1 to 4294967294 rows of at most 2147483647 features");
    for (size_t i = 0; i < rows; i++) {
        if (!isfinite(label[i]))
            return larder__fail(LARDER_E_ARGS, "the label of row %zu is not finite", i);
        for (size_t f = 0; f < features; f++)
            if (!isfinite(value[i * features + f]))
                return larder__fail(LARDER_E_ARGS, "row %zu, column %zu is not finite", i, f);
    }
    return 0;
}

int larder_svm_dense(larder_svm_data **out, size_t rows, size_t features, const double *value,
                     const double *label, unsigned flags) {
    *out = NULL;
    int rc = check_matrix(rows, features, value, label);
    if (rc < 0)
        return rc;
    uint64_t pairs = 0, all = (uint64_t)rows * features;
    for (uint64_t i = 0; i < all; i++)
        pairs += value[i] != 0;
    larder_svm_data *d = larder__calloc(1, sizeof *d);
    rc = d ? larder__svm_data_grow(d, rows, pairs, 0)
           : larder__fail(LARDER_E_NOMEM, "no memory for a data set");
    if (rc < 0) {
        larder_svm_data_close(&d);
        return rc;
    }
    uint32_t first = (flags & LARDER_SVM_INDEX_ZERO) ? 0 : 1;
    pairs = 0;
    for (size_t i = 0; i < rows; i++) {
        for (uint32_t f = 0; f < features; f++)
            if (value[i * features + f] != 0) {
                d->index[pairs] = f + first;
                d->value[pairs++] = value[i * features + f];
            }
        d->start[i + 1] = pairs;
        d->label[i] = label[i];
    }
    d->rows = rows;
    d->features = (uint32_t)features - (first == 0 && features > 0);
    *out = d;
    return 0;
}

int larder_svm_weigh(larder_svm_data *d, const double *weight) {
    for (size_t i = 0; i < d->rows; i++)
        if (!(weight[i] >= 0) || !isfinite(weight[i]))
            return larder__fail(LARDER_E_ARGS, "the weight of row %zu is %g, not 0 or more", i,
                                weight[i]);
    double *own = larder__malloc((d->rows + 1) * sizeof *own);
    if (!own)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu weights", d->rows);
    memcpy(own, weight, d->rows * sizeof *own);
    larder__free(d->weight);
    d->weight = own;
    return 0;
}
