#include "sim/trace.h"

#include "base/err.h"
#include "base/mem.h"
#include "sim/npy.h"

#include <stdio.h>

struct larder__trace {
    larder__npy labels, loss;
};

int larder__trace_open(larder__trace **out, const char *folder) {
    larder__trace *t = *out = larder__calloc(1, sizeof *t);
    if (!t)
        return LARDER_E_NOMEM;
    char path[4096];
    snprintf(path, sizeof path, "%s/labels.npy", folder);
    int rc = larder__npy_read(&t->labels, path);
    if (rc == 0) {
        snprintf(path, sizeof path, "%s/train_loss.npy", folder);
        rc = larder__npy_read(&t->loss, path);
    }
    if (rc == 0 && (t->labels.cols != 1 || t->loss.cols != t->labels.rows || t->loss.rows == 0))
        rc = larder__fail(LARDER_E_FORMAT, "%s: labels and losses are not of the same samples",
                          folder);
    if (rc < 0)
        larder__trace_close(out);
    return rc;
}

void larder__trace_close(larder__trace **pt) {
    if (!*pt)
        return;
    larder__npy_free(&(*pt)->labels);
    larder__npy_free(&(*pt)->loss);
    larder__free(*pt);
    *pt = NULL;
}

uint64_t larder__trace_samples(const larder__trace *t) { return t->labels.rows; }
uint64_t larder__trace_epochs(const larder__trace *t) { return t->loss.rows; }

float larder__trace_loss(const larder__trace *t, uint64_t epoch, uint64_t id) {
    return larder__npy_float(&t->loss, epoch < t->loss.rows ? epoch : t->loss.rows - 1, id);
}

int64_t larder__trace_label(const larder__trace *t, uint64_t id) {
    return (int64_t)larder__npy_float(&t->labels, id, 0);
}
