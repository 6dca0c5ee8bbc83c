/* What is a class, and which rows are one sample. */
#include "base/err.h"
#include "base/grow.h"
#include "base/mem.h"
#include "svm/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef larder__svm_session trainer;

static size_t class_index(const trainer *t, double label) {
    size_t c = 0;
    while (c < t->classes && t->label[c] != label)
        c++;
    return c;
}

static int add_class(trainer *t, double label, size_t *out) {
    *out = class_index(t, label);
    if (*out < t->classes)
        return 0;
    if (larder__grow(&t->label, &t->class_room, t->classes + 1, sizeof *t->label) < 0)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu classes", t->classes + 1);
    t->label[t->classes++] = label;
    return 0;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int sort_classes(trainer *t, uint64_t *keys) {
    double *found = larder__malloc((t->classes + 1) * sizeof *found);
    if (!found)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu classes", t->classes);
    memcpy(found, t->label, t->classes * sizeof *found);
    qsort(t->label, t->classes, sizeof *t->label, by_value);
    for (size_t i = 0; i < t->n; i++)
        keys[i] = class_index(t, found[keys[i]]);
    larder__free(found);
    return 0;
}

/* Classes in the order of their first row; of -1 and +1 the positive one comes first (LIBSVM). */
static int find_classes(trainer *t, uint64_t *keys) {
    for (size_t i = 0; i < t->n; i++) {
        double label = t->data->label[larder__session_row(t, i)];
        if (label != rint(label) || fabs(label) > INT32_MAX)
            return larder__fail(LARDER_E_ARGS,
                                "row %u has the label %g; classes are whole numbers (regression "
                                "is -s 3 or -s 4)",
                                larder__session_row(t, i) + 1, label);
        size_t c;
        int rc = add_class(t, label, &c);
        if (rc < 0)
            return rc;
        keys[i] = c;
    }
    if (t->conf->sorted_classes)
        return sort_classes(t, keys);
    if (t->classes == 2 && t->label[0] == -1 && t->label[1] == 1) {
        t->label[0] = 1, t->label[1] = -1;
        for (size_t i = 0; i < t->n; i++)
            keys[i] = !keys[i];
    }
    return 0;
}

int larder__session_weigh(trainer *t) {
    const larder_svm_conf *c = t->conf;
    if (!t->weighted)
        t->weighted = larder__calloc(t->classes + 1, sizeof *t->weighted);
    if (!t->weighted)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu classes", t->classes);
    for (size_t i = 0; i < t->classes; i++)
        t->weighted[i] = c->c;
    for (size_t w = 0; w < c->weight_count; w++) {
        size_t at = class_index(t, c->weights[w].label);
        if (at < t->classes)
            t->weighted[at] *= c->weights[w].weight;
        else if (c->warn) {
            char line[120];
            snprintf(line, sizeof line, "a weight is given for class %d, which no row has",
                     c->weights[w].label);
            c->warn(c->warn_arg, line);
        }
    }
    return 0;
}

/* A key is a hash of the set, whatever the order in which it is written. */
static int find_label_sets(trainer *t, uint64_t *keys) {
    const larder_svm_data *d = t->data;
    size_t c;
    for (size_t i = 0; i < t->n; i++) {
        uint32_t row = larder__session_row(t, i);
        keys[i] = 0;
        for (uint64_t p = d->list_start[row]; p < d->list_start[row + 1]; p++) {
            int rc = add_class(t, d->list[p], &c);
            if (rc < 0)
                return rc;
            uint64_t h = (c + 1) * UINT64_C(0x9e3779b97f4a7c15);
            keys[i] += (h ^ h >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
        }
    }
    return t->classes ? 0 : larder__fail(LARDER_E_ARGS, "no row has a label");
}

/* What two rows must share to be one sample. */
static int make_keys(trainer *t, uint64_t *keys) {
    if (t->data->list_start)
        return find_label_sets(t, keys);
    if (larder__task_has_classes(t->conf->task))
        return find_classes(t, keys);
    for (size_t i = 0; i < t->n; i++) {
        double label =
            t->conf->task == LARDER_SVM_ONE_CLASS ? 0 : t->data->label[larder__session_row(t, i)];
        memcpy(&keys[i], &label, sizeof label);
    }
    return 0;
}

int larder__session_samples(trainer *t) {
    uint64_t *keys = larder__malloc((t->n + 1) * sizeof *keys);
    if (!keys)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu rows", t->n);
    int rc = make_keys(t, keys);
    bool merge = t->conf->merge && t->conf->kernel != LARDER_SVM_PRECOMPUTED && !t->fold_of_row;
    if (rc == 0)
        rc = larder__samples_open(&t->samples, t->data, t->rows, t->n, keys, merge);
    if (rc == 0 && !(t->class_of = larder__calloc(t->samples.n + 1, sizeof *t->class_of)))
        rc = larder__fail(LARDER_E_NOMEM, "no memory for %zu samples", t->samples.n);
    for (size_t i = 0; rc == 0 && i < t->n; i++)
        if (larder__task_has_classes(t->conf->task) && !t->data->list_start)
            t->class_of[t->samples.sample_of[i]] = (uint32_t)keys[i];
    larder__free(keys);
    return rc;
}
