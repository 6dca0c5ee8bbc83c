/* Parameters: what they are unless said, and which make sense. */
#include "base/err.h"
#include "base/sized.h"
#include "base/spec.h"
#include "plugins.h"
#include "svm/svm_device.h"
#include "svm/svm_train.h"

#include <math.h>

int larder_svm_defaults(larder_svm_conf *c) {
    const larder_svm_conf all = {.task = LARDER_SVM_C_SVC,
                                 .kernel = LARDER_SVM_RBF,
                                 .degree = 3,
                                 .c = 1,
                                 .nu = 0.5,
                                 .epsilon = 0.1,
                                 .tolerance = 1e-3,
                                 .shrinking = true,
                                 .merge = true,
                                 .seed = 1,
                                 .cache_bytes = UINT64_MAX,
                                 .checkpoint_seconds = 60};
    return larder__sized_out(c, &all, sizeof all, "larder_svm_conf");
}

static int check_kernel(const larder_svm_data *d, const larder_svm_conf *c) {
    if (c->kernel < LARDER_SVM_LINEAR || c->kernel > LARDER_SVM_PRECOMPUTED)
        return larder__fail(LARDER_E_ARGS, "the kernel is 0 to 4, not %d", (int)c->kernel);
    if (!(c->gamma >= 0) || !isfinite(c->gamma) || !isfinite(c->coef0))
        return larder__fail(LARDER_E_ARGS, "gamma is 0 or more, not %g", c->gamma);
    if (c->degree < 0 || c->degree > 1000)
        return larder__fail(LARDER_E_ARGS, "the degree is 0 to 1000, not %d", c->degree);
    for (size_t i = 0; c->kernel == LARDER_SVM_PRECOMPUTED && i < d->rows; i++) {
        uint64_t p = d->start[i];
        bool has = p < d->start[i + 1] && d->index[p] == 0;
        if (!has || !(d->value[p] >= 1 && d->value[p] <= (double)d->features))
            return larder__fail(LARDER_E_FORMAT,
                                "row %zu: a precomputed kernel wants 0:serial first, with a serial "
                                "of 1 to %u",
                                i + 1, d->features);
    }
    return 0;
}

/* Also where no row will be kept: a name that is wrong is wrong. */
static int check_policy(const char *spec) {
    char name[64];
    const char *rest;
    int rc = spec ? larder__spec_name(spec, name, sizeof name, &rest) : 0;
    return rc < 0 || !spec || larder__policy_find(name) ? rc : LARDER_E_ARGS;
}

static bool above_0(double x) { return x > 0 && isfinite(x); }
static bool from_0(double x) { return x >= 0 && isfinite(x); }

static int check_numbers(const larder_svm_conf *c) {
    bool wants_nu = c->task == LARDER_SVM_NU_SVC || c->task == LARDER_SVM_ONE_CLASS ||
                    c->task == LARDER_SVM_NU_SVR;
    if (!above_0(c->tolerance))
        return larder__fail(LARDER_E_ARGS, "the tolerance is above 0, not %g", c->tolerance);
    if (!above_0(c->c))
        return larder__fail(LARDER_E_ARGS, "C is above 0, not %g", c->c);
    if (wants_nu && !(c->nu > 0 && c->nu <= 1))
        return larder__fail(LARDER_E_ARGS, "nu is above 0 and at most 1, not %g", c->nu);
    if (c->task == LARDER_SVM_EPSILON_SVR && !from_0(c->epsilon))
        return larder__fail(LARDER_E_ARGS, "epsilon is 0 or more, not %g", c->epsilon);
    for (size_t i = 0; i < c->weight_count; i++)
        if (!from_0(c->weights[i].weight))
            return larder__fail(LARDER_E_ARGS, "the weight of class %d is 0 or more, not %g",
                                c->weights[i].label, c->weights[i].weight);
    return 0;
}

int larder__svm_check(const larder_svm_data *d, const larder_svm_conf *c) {
    if (c->task < LARDER_SVM_C_SVC || c->task > LARDER_SVM_NU_SVR)
        return larder__fail(LARDER_E_ARGS, "the task is 0 to 4, not %d", (int)c->task);
    int rc = check_kernel(d, c);
    if (rc == 0)
        rc = larder__svm_device_check(c->device);
    if (rc < 0 || (rc = check_policy(c->policy)) < 0)
        return rc;
    if (d->list_start && !(c->task == LARDER_SVM_C_SVC && c->one_vs_all))
        return larder__fail(LARDER_E_ARGS, "lists of labels want C-SVC (-s 0), one against all");
    if (c->probability && c->task == LARDER_SVM_ONE_CLASS)
        return larder__fail(LARDER_E_ARGS, "one-class tasks have no probabilities");
    if (c->probability && c->one_vs_all)
        return larder__fail(LARDER_E_ARGS, "probabilities want pairs of classes (ovo)");
    return check_numbers(c);
}
