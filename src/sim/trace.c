#include "sim/trace.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/npy.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SNAPSHOTS = 4096, FOLDER_BYTES = 3800 };

struct larder__trace {
    larder__npy labels, loss, eval, correct; /* rows is 0 where there is none */
    char folder[FOLDER_BYTES];
    uint16_t snapshots[SNAPSHOTS]; /* epochs with embeddings, rising */
    size_t count;
    larder__npy embeddings; /* those of snapshots[loaded] */
    size_t loaded;
};

static int read_array(larder__npy *out, const char *path) {
    int rc = larder__npy_read(out, path);
    if (rc < 0 || out->dims <= 2)
        return rc;
    larder__npy_free(out);
    return larder__fail(LARDER_E_FORMAT, "%s: more than two dimensions", path);
}

/* A file that need not be there. */
static int read_optional(larder__npy *out, const char *folder, const char *name, uint64_t cols) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (access(path, F_OK) != 0)
        return 0;
    int rc = read_array(out, path);
    if (rc == 0 && out->rows && out->cols != cols)
        rc = larder__fail(LARDER_E_FORMAT, "%s: not of the same samples as labels.npy", path);
    return rc;
}

int larder__trace_open(larder__trace **out, const char *folder) {
    larder__trace *t = *out = larder__calloc(1, sizeof *t);
    if (!t)
        return LARDER_E_NOMEM;
    char path[4096];
    if (snprintf(t->folder, sizeof t->folder, "%s", folder) >= (int)sizeof t->folder) {
        larder__trace_close(out);
        return larder__fail(LARDER_E_ARGS, "the trace's folder has too long a name");
    }
    snprintf(path, sizeof path, "%s/labels.npy", folder);
    int rc = read_array(&t->labels, path);
    if (rc == 0) {
        snprintf(path, sizeof path, "%s/train_loss.npy", folder);
        rc = read_array(&t->loss, path);
    }
    if (rc == 0 && (t->labels.cols != 1 || t->loss.cols != t->labels.rows || t->loss.rows == 0))
        rc = larder__fail(LARDER_E_FORMAT, "%s: labels and losses are not of the same samples",
                          folder);
    if (rc == 0)
        rc = read_optional(&t->eval, folder, "eval_loss.npy", t->labels.rows);
    if (rc == 0)
        rc = read_optional(&t->correct, folder, "correct_bits.npy", (t->labels.rows + 7) / 8);
    if (rc == 0 && t->correct.rows && t->correct.width != 1)
        rc =
            larder__fail(LARDER_E_FORMAT, "%s/correct_bits.npy: its elements are no bytes", folder);
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
    larder__npy_free(&(*pt)->correct);
    larder__npy_free(&(*pt)->embeddings);
    larder__free(*pt);
    *pt = NULL;
}

uint64_t larder__trace_samples(const larder__trace *t) { return t->labels.rows; }

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

double larder__trace_accuracy(const larder__trace *t, uint64_t epoch) {
    if (!t->correct.rows || !t->labels.rows)
        return NAN;
    uint64_t row = epoch < t->correct.rows ? epoch : t->correct.rows - 1, right = 0;
    const unsigned char *bits = t->correct.data + row * t->correct.cols;
    for (uint64_t i = 0; i < t->labels.rows; i++)
        right += bits[i / 8] >> (7 - i % 8) & 1;
    return (double)right / (double)t->labels.rows;
}

/* ---- embeddings ------------------------------------------------------------------------------ */

/* The epoch in a name such as emb023.npy; -1: it is no such name. */
static int epoch_in(const char *name) {
    int epoch = -1, used = 0;
    bool named = sscanf(name, "emb%4d.npy%n", &epoch, &used) == 1 && used && !name[used];
    return named && epoch >= 0 ? epoch : -1;
}

static int load_snapshot(larder__trace *t, size_t which) {
    if (t->embeddings.rows && t->loaded == which)
        return 0;
    char path[4096];
    snprintf(path, sizeof path, "%s/emb%03u.npy", t->folder, t->snapshots[which]);
    size_t dim = t->embeddings.rows ? t->embeddings.cols : 0;
    larder__npy fresh;
    int rc = read_array(&fresh, path);
    if (rc < 0)
        return rc;
    larder__npy_free(&t->embeddings);
    t->embeddings = fresh;
    t->loaded = which;
    if (fresh.rows != t->labels.rows || fresh.cols == 0 || fresh.cols > 4096 ||
        (dim && fresh.cols != dim))
        return larder__fail(LARDER_E_FORMAT,
                            "%s: %llu x %llu numbers are no embeddings of these samples", path,
                            (unsigned long long)fresh.rows, (unsigned long long)fresh.cols);
    return 0;
}

int larder__trace_find_embeddings(larder__trace *t) {
    DIR *d = opendir(t->folder);
    if (!d)
        return larder__fail(LARDER_E_IO, "%s: cannot be listed", t->folder);
    t->count = 0;
    for (struct dirent *e; (e = readdir(d)) && t->count < SNAPSHOTS;) {
        int epoch = epoch_in(e->d_name);
        if (epoch < 0)
            continue;
        size_t at = t->count++;
        for (; at && t->snapshots[at - 1] > epoch; at--)
            t->snapshots[at] = t->snapshots[at - 1];
        t->snapshots[at] = (uint16_t)epoch;
    }
    closedir(d);
    if (t->count == 0)
        return larder__fail(LARDER_E_NOTFOUND,
                            "%s: there is no embNNN.npy, and this recipe looks "
                            "at embeddings",
                            t->folder);
    return load_snapshot(t, 0);
}

size_t larder__trace_dim(const larder__trace *t) { return t->embeddings.cols; }

int larder__trace_embeddings(larder__trace *t, uint64_t epoch, const uint64_t *ids, size_t n,
                             float *out) {
    size_t which = 0;
    while (which + 1 < t->count && t->snapshots[which + 1] <= epoch)
        which++;
    int rc = load_snapshot(t, which);
    size_t dim = t->embeddings.cols;
    for (size_t i = 0; rc == 0 && i < n; i++)
        for (size_t k = 0; k < dim; k++)
            out[i * dim + k] = larder__npy_float(&t->embeddings, ids[i], k);
    return rc;
}
