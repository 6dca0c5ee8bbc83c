#include "sim/trace.h"

#include "base/err.h"
#include "base/mem.h"
#include "sim/npy.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

struct larder__trace {
    larder__npy labels, loss, eval; /* eval.rows is 0 where there is none */
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
    if (rc == 0) {
        snprintf(path, sizeof path, "%s/eval_loss.npy", folder);
        rc = access(path, F_OK) == 0 ? larder__npy_read(&t->eval, path) : 0;
    }
    if (rc == 0 && t->eval.rows && t->eval.cols != t->labels.rows)
        rc = larder__fail(LARDER_E_FORMAT, "%s: not of the same samples as labels.npy", path);
    if (rc < 0)
        larder__trace_close(out);
    return rc;
}

void larder__trace_close(larder__trace **pt) {
    if (!*pt)
        return;
    larder__npy_free(&(*pt)->labels);
    larder__npy_free(&(*pt)->loss);
    larder__npy_free(&(*pt)->eval);
    larder__free(*pt);
    *pt = NULL;
}

uint64_t larder__trace_samples(const larder__trace *t) { return t->labels.rows; }
uint64_t larder__trace_epochs(const larder__trace *t) { return t->loss.rows; }

float larder__trace_loss(const larder__trace *t, uint64_t epoch, uint64_t id) {
    return larder__npy_float(&t->loss, epoch < t->loss.rows ? epoch : t->loss.rows - 1, id);
}

bool larder__trace_evaluates(const larder__trace *t) { return t->eval.rows > 0; }

float larder__trace_eval(const larder__trace *t, uint64_t epoch, uint64_t id) {
    if (!t->eval.rows)
        return NAN;
    return larder__npy_float(&t->eval, epoch < t->eval.rows ? epoch : t->eval.rows - 1, id);
}

int64_t larder__trace_label(const larder__trace *t, uint64_t id) {
    return (int64_t)larder__npy_float(&t->labels, id, 0);
}
