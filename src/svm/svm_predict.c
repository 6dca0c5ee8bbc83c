#include "svm/svm_predict.h"

#include "base/clones.h"
#include "base/err.h"
#include "base/mem.h"
#include "svm/calibrate.h"
#include "svm/near_border.h"
#include "svm/svm_device.h"

#include <math.h>
#include <string.h>

enum {
    STEP = 256,                            /* support vectors of a block, at most */
    STRIDE = LARDER__TILE + LARDER__LANES, /* rows of it fall on different cache sets */
    COLUMNS = 8,                           /* a cache line of sums */
    GO_THREADED = 1 << 22                  /* kernel values */
};

static const double least = 1e-37; /* below, exponentials of floats are zero */

typedef struct deciding {
    const larder_svm_model *m;
    const larder__kernel *kernel;
    const larder__decided_by *by; /* NULL: values are computed */
    bool quick;                   /* sums of few products may be floats */
    larder__panel vectors, rows;
    larder__border border;
    const larder_svm_data *data;
    const uint32_t *ids; /* of the rows in the data; NULL: all */
    size_t n;
    double *out;
    uint32_t *class_of;                   /* a support vector each */
    void **scratch;                       /* a thread each: the engine's, then a tile, then sums */
    size_t engine_bytes, sum_count, step; /* step: support vectors of a block */
} deciding;

/* Sums stand as coefficients do: a line each, and of pairs of classes a block of lines each class.
 * Support vectors stand by class, so most blocks are of one. */
static void deal(const deciding *d, size_t from, size_t to, const float *tile, double *sums,
                 size_t n) {
    size_t lines = d->m->coefs, total = d->m->vectors->rows;
    while (from < to) {
        size_t own = d->class_of[from], end = from;
        while (end < to && d->class_of[end] == own)
            end++;
        larder__add_rows(sums + own * lines * LARDER__TILE, LARDER__TILE, d->m->coef + from, total,
                         lines, tile, end - from, STRIDE, n, d->quick);
        tile += (end - from) * STRIDE;
        from = end;
    }
}

static bool is_paired(const larder_svm_model *m) {
    return larder__task_has_classes(m->task) && !m->one_vs_all;
}

/* Decision values of a few columns, whose sums lie side by side. */
static void put_together(const deciding *d, const double *sums, size_t stride, size_t n,
                         double *out) {
    const larder_svm_model *m = d->m;
    if (!is_paired(m)) {
        for (size_t v = 0; v < m->values; v++)
            for (size_t i = 0; i < n; i++)
                out[i * m->values + v] = sums[v * stride + i];
        return;
    }
    for (size_t a = 0; a < m->classes; a++)
        for (size_t b = a + 1; b < m->classes; b++, out++) {
            const double *x = sums + (a * m->coefs + b - 1) * stride;
            const double *y = sums + (b * m->coefs + a) * stride;
            for (size_t i = 0; i < n; i++)
                out[i * m->values] = x[i] + y[i];
        }
}

/* From values at hand: rows of those vectors, columns of those rows. */
static void gather(const deciding *d, size_t s, size_t to, size_t c0, size_t c1, float *tile) {
    uint32_t column[LARDER__TILE];
    for (size_t c = c0; c < c1; c++)
        column[c - c0] = d->by->place[d->ids ? d->ids[c] : c];
    for (; s < to; s++, tile += STRIDE) {
        const float *row = larder__gram_row(d->by->gram, d->by->place[d->m->rows[s]]);
        larder__gram_pick(tile, row, column, c1 - c0);
    }
}

/* RBF values are off by a share of themselves: a row far from all vectors is off by next to
 * nothing, however its decision values are. So the largest value of each row is kept. */
LARDER__CLONES static void see_most(float *restrict most, const float *restrict tile, size_t rows,
                                    size_t n) {
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < n; i++)
            most[i] = most[i] > tile[r * STRIDE + i] ? most[i] : tile[r * STRIDE + i];
}

/* From the sums of columns c0..c1, `stride` from one line to the next. `most`: the largest value of
 * each, or NULL. */
static void settle(const deciding *d, const double *sums, size_t stride, size_t c0, size_t c1,
                   const float *most) {
    size_t values = d->m->values;
    for (size_t c = c0; c < c1; c++) {
        double *out = d->out + c * values;
        size_t row = d->ids ? d->ids[c] : c;
        double norm = (double)(d->by ? d->by->norm[d->by->place[row]] : d->rows.norm[c]);
        double error = larder__border_error(&d->border, d->data, row, norm);
        if (most)
            error = error * (double)most[c - c0] + least;
        if ((c - c0) % COLUMNS == 0)
            put_together(d, sums + (c - c0), stride, c1 - c < COLUMNS ? c1 - c : COLUMNS, out);
        for (size_t v = 0; v < values; v++) {
            double off = error * d->border.spread[v];
            out[v] -= d->m->rho[v];
            if (larder__border_doubts(&d->border, off, out[v]))
                out[v] = larder__border_exact(&d->border, v, d->data, row);
        }
    }
}

static void decide_tile(void *arg, size_t piece, unsigned thread) {
    deciding *d = arg;
    size_t c0 = piece * LARDER__TILE, c1 = c0 + LARDER__TILE;
    c1 = c1 < d->n ? c1 : d->n;
    size_t n = c1 - c0;
    float *tile = (float *)d->scratch[thread] + d->engine_bytes / sizeof(float);
    double *sums = (double *)(void *)(tile + d->step * STRIDE);
    memset(sums, 0, d->sum_count * sizeof *sums);
    float most[LARDER__TILE] = {0};
    bool fades = d->m->kernel.type == LARDER_SVM_RBF;
    size_t vectors = d->m->vectors->rows;
    for (size_t s = 0; s < vectors; s += d->step) {
        size_t to = s + d->step < vectors ? s + d->step : vectors;
        if (d->by)
            gather(d, s, to, c0, c1, tile);
        else
            larder__kernel_block(d->kernel, &d->vectors, s, to, &d->rows, c0, c1, tile, STRIDE,
                                 d->scratch[thread]);
        deal(d, s, to, tile, sums, n);
        if (fades)
            see_most(most, tile, to - s, n);
    }
    settle(d, sums, LARDER__TILE, c0, c1, fades ? most : NULL);
}

/* ---- on a device ----------------------------------------------------------------------------- */

typedef struct chunk { /* rows whose sums have come back */
    const deciding *d;
    const double *sums;
    size_t from, to, stride;
} chunk;

static void settle_tile(void *arg, size_t piece, unsigned thread) {
    const chunk *k = arg;
    (void)thread;
    size_t c0 = k->from + piece * LARDER__TILE, c1 = c0 + LARDER__TILE;
    settle(k->d, k->sums + (c0 - k->from), k->stride, c0, c1 < k->to ? c1 : k->to, NULL);
}

static double most_norm(const deciding *d);

static int decide_there(deciding *d, larder__svm_device *device, larder__team *team) {
    const larder_svm_model *m = d->m;
    size_t classes = is_paired(m) ? m->classes : 1;
    larder__device_decide *there = NULL;
    d->vectors.norm = larder__calloc(m->vectors->rows + 1, sizeof *d->vectors.norm);
    d->rows.norm = larder__calloc(d->n + 1, sizeof *d->rows.norm);
    if (!d->vectors.norm || !d->rows.norm)
        return larder__fail(LARDER_E_NOMEM, "no memory to predict %zu rows", d->n);
    int rc = larder__device_decide_open(&there, device, d->kernel, m, d->data, d->ids, d->n,
                                        classes, d->vectors.norm, d->rows.norm);
    if (rc < 0)
        return rc;
    size_t step = larder__device_decide_step(there);
    double *sums = larder__malloc(classes * m->coefs * step * sizeof *sums + 1);
    rc = sums ? larder__border_open(&d->border, m, d->kernel, most_norm(d))
              : larder__fail(LARDER_E_NOMEM, "no memory to predict %zu rows", d->n);
    for (size_t from = 0; rc == 0 && from < d->n; from += step) {
        chunk k = {d, sums, from, from + step < d->n ? from + step : d->n, step};
        rc = larder__device_decide_sums(there, k.from, k.to, sums);
        if (rc == 0)
            larder__team_run(team, settle_tile, &k,
                             (k.to - k.from + LARDER__TILE - 1) / LARDER__TILE);
    }
    larder__border_close(&d->border);
    larder__device_decide_close(&there);
    larder__free(sums);
    return rc;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int check_serials(const larder_svm_model *m, const larder_svm_data *data) {
    if (m->kernel.type != LARDER_SVM_PRECOMPUTED)
        return 0;
    for (size_t i = 0; i < m->vectors->rows; i++)
        if (m->vectors->value[m->vectors->start[i]] > (double)data->features)
            return larder__fail(LARDER_E_ARGS,
                                "support vector %zu is number %.0f of the precomputed kernel, but "
                                "the rows have %u values",
                                i + 1, m->vectors->value[m->vectors->start[i]], data->features);
    return 0;
}

static int open_scratch(deciding *d, unsigned threads) {
    size_t vectors = d->m->vectors->rows;
    d->step = vectors < STEP ? vectors : STEP;
    d->engine_bytes = d->by ? 0 : (larder__kernel_scratch(d->kernel, d->step) + 63) / 64 * 64;
    d->sum_count = d->m->coefs * (is_paired(d->m) ? d->m->classes : 1) * LARDER__TILE;
    size_t bytes =
        d->engine_bytes + d->step * STRIDE * sizeof(float) + d->sum_count * sizeof(double);
    d->scratch = larder__calloc(threads, sizeof *d->scratch);
    for (unsigned i = 0; d->scratch && i < threads; i++) {
        d->scratch[i] = larder__memalign(64, (bytes + 63) / 64 * 64);
        if (!d->scratch[i])
            return larder__fail(LARDER_E_NOMEM, "no memory to predict");
        memset(d->scratch[i], 0, d->engine_bytes);
    }
    return d->scratch ? 0 : larder__fail(LARDER_E_NOMEM, "no memory to predict");
}

static int deal_classes(deciding *d) {
    const larder_svm_model *m = d->m;
    d->class_of = larder__calloc(m->vectors->rows + 1, sizeof *d->class_of);
    if (!d->class_of)
        return larder__fail(LARDER_E_NOMEM, "no memory to predict %zu rows", d->n);
    for (size_t c = 0, s = 0; is_paired(m) && c < m->classes; c++)
        for (size_t i = 0; i < m->class_vectors[c] && s < m->vectors->rows; i++)
            d->class_of[s++] = (uint32_t)c;
    return 0;
}

static int open_panels(deciding *d, larder__kernel *kernel, bool there) {
    const larder_svm_model *m = d->m;
    size_t most = m->vectors->rows > d->n ? m->vectors->rows : d->n;
    uint32_t *all = larder__malloc((most + 1) * sizeof *all);
    if (!all)
        return larder__fail(LARDER_E_NOMEM, "no memory to predict %zu rows", d->n);
    for (uint32_t i = 0; i < most; i++)
        all[i] = i;
    int rc = larder__kernel_open(kernel, &m->kernel, m->vectors, d->data, LARDER__ENGINE_AUTO);
    kernel->flipped = true;
    d->kernel = kernel;
    if (there) { /* the points are laid out on the device */
        larder__free(all);
        return rc;
    }
    if (rc == 0)
        rc = larder__panel_fill(&d->vectors, kernel, m->vectors, all, m->vectors->rows);
    if (rc == 0)
        rc = larder__panel_fill(&d->rows, kernel, d->data, d->ids ? d->ids : all, d->n);
    larder__free(all);
    return rc;
}

static double most_norm(const deciding *d) {
    double most = 0;
    for (size_t i = 0; i < d->m->vectors->rows; i++)
        most = fmax(
            most, (double)(d->by ? d->by->norm[d->by->place[d->m->rows[i]]] : d->vectors.norm[i]));
    return most;
}

/* Values of these kernels are at most one. */
static bool may_be_quick(const deciding *d) {
    larder_svm_kernel type = d->m->kernel.type;
    double most = 0;
    for (size_t v = 0; v < d->m->values; v++)
        most = fmax(most, d->border.spread[v]);
    return (type == LARDER_SVM_RBF || type == LARDER_SVM_SIGMOID) && most < 1e30;
}

static int decide(deciding *d, larder__team *team) {
    unsigned threads = larder__team_threads(team);
    int rc = deal_classes(d);
    if (rc == 0)
        rc = larder__border_open(&d->border, d->m, d->kernel, most_norm(d));
    d->border.sign_alone = d->by != NULL;
    d->quick = rc == 0 && may_be_quick(d);
    if (rc == 0)
        rc = open_scratch(d, threads);
    if (rc == 0)
        larder__team_run(team, decide_tile, d, (d->n + LARDER__TILE - 1) / LARDER__TILE);
    for (unsigned i = 0; d->scratch && i < threads; i++)
        larder__free(d->scratch[i]);
    larder__free(d->scratch);
    larder__free(d->class_of);
    larder__border_close(&d->border);
    return rc;
}

/* Stopped before the first step, or one class. */
static bool is_empty(const larder_svm_model *m, size_t n, double *out) {
    if (larder__model_vectors(m) > 0)
        return false;
    for (size_t i = 0; i < n * m->values; i++)
        out[i] = -m->rho[i % m->values];
    return true;
}

int larder__svm_decide(const larder_svm_model *m, const larder_svm_data *data, const uint32_t *rows,
                       size_t n, larder__svm_device *device, larder__team *team, double *out) {
    deciding d = {.m = m, .data = data, .ids = rows, .n = n, .out = out};
    larder__kernel kernel = {0};
    if (is_empty(m, n, out))
        return 0;
    int rc = check_serials(m, data);
    if (rc == 0 && larder__linear_fits(m, data))
        return larder__linear_decide(m, data, rows, n, team, out);
    if (rc == 0)
        rc = open_panels(&d, &kernel, device != NULL);
    if (rc == 0)
        rc = device ? decide_there(&d, device, team) : decide(&d, team);
    larder__panel_free(&d.vectors);
    larder__panel_free(&d.rows);
    larder__kernel_close(&kernel);
    return rc;
}

int larder__svm_decide_by(const larder_svm_model *m, const larder__kernel *kernel,
                          const larder_svm_data *data, const uint32_t *rows, size_t n,
                          const larder__decided_by *by, larder__team *team, double *out) {
    deciding d = {
        .m = m, .kernel = kernel, .by = by, .data = data, .ids = rows, .n = n, .out = out};
    return is_empty(m, n, out) ? 0 : decide(&d, team);
}

/* ---- labels ---------------------------------------------------------------------------------- */

/* Of a class: the pairs with those before it, each in its own block, and then its own block. */
static size_t votes_of(const double *values, size_t classes, size_t c) {
    size_t votes = 0, pair = c - 1;
    for (size_t a = 0; a < c; a++) {
        votes += !(values[pair] > 0);
        pair += classes - 2 - a;
    }
    pair = c * (2 * classes - c - 1) / 2;
    for (size_t b = c + 1; b < classes; b++)
        votes += values[pair++] > 0;
    return votes;
}

static size_t most_votes(const larder_svm_model *m, const double *values) {
    size_t best = 0, most = 0;
    for (size_t c = 0; c < m->classes; c++) {
        size_t votes = votes_of(values, m->classes, c);
        if (votes > most)
            most = votes, best = c;
    }
    return best;
}

double larder__svm_label(const larder_svm_model *m, const double *values) {
    size_t best = 0;
    if (m->task == LARDER_SVM_ONE_CLASS)
        return values[0] > 0 ? 1 : -1;
    if (!larder__task_has_classes(m->task))
        return values[0];
    if (!m->one_vs_all)
        return m->label[most_votes(m, values)];
    for (size_t c = 1; c < m->classes; c++)
        best = values[c] > values[best] ? c : best;
    return m->label[best];
}

static int with_team(const larder_svm_model *m, const larder_svm_data *data,
                     larder__svm_device *device, double *out) {
    larder__team *team = NULL;
    bool large = (double)data->rows * (double)larder__model_vectors(m) > GO_THREADED;
    int rc = larder__team_open(&team, large ? 0 : 1);
    if (rc == 0)
        rc = larder__svm_decide(m, data, NULL, data->rows, device, team, out);
    larder__team_close(&team);
    return rc;
}

/* ---- probabilities --------------------------------------------------------------------------- */

static void pairwise(const larder_svm_model *m, const double *values, double *pair) {
    size_t k = m->classes, at = 0;
    for (size_t i = 0; i < k; i++)
        for (size_t j = i + 1; j < k; j++, at++) {
            double p = larder__sigmoid(values[at], m->prob_a[at], m->prob_b[at]);
            p = fmin(fmax(p, 1e-7), 1 - 1e-7);
            pair[i * k + j] = p;
            pair[j * k + i] = 1 - p;
        }
}

int larder__svm_probable(const larder_svm_model *m, const double *values, double *out,
                         double *label) {
    size_t k = m->classes, best = 0;
    double *work = larder__calloc(2 * k * k + 2 * k, sizeof *work);
    if (!work)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu classes", k);
    double *pair = work, *p = work + k * k;
    p[0] = 1;
    if (m->values && k == 2) {
        pairwise(m, values, pair);
        p[0] = pair[1], p[1] = pair[2];
    } else if (m->values) {
        pairwise(m, values, pair);
        larder__couple(k, pair, p, p + k);
    }
    for (size_t c = 1; c < k; c++)
        best = p[c] > p[best] ? c : best;
    *label = m->label[best];
    if (out)
        memcpy(out, p, k * sizeof *out);
    larder__free(work);
    return 0;
}

static bool wants_device(const larder_svm_model *m) {
    return m->kernel.type != LARDER_SVM_PRECOMPUTED;
}

int larder_svm_predict(const larder_svm_model *m, const larder_svm_data *data, double *labels,
                       double *values, double *probabilities) {
    return larder_svm_predict_on(m, data, NULL, labels, values, probabilities);
}

int larder_svm_predict_on(const larder_svm_model *m, const larder_svm_data *data, const char *on,
                          double *labels, double *values, double *probabilities) {
    larder__svm_device *device = NULL;
    int rc = larder__svm_device_for(&device, on, wants_device(m));
    if (rc < 0)
        return rc;
    if (probabilities && (!m->prob_a || !larder__task_has_classes(m->task) || m->one_vs_all))
        return larder__fail(LARDER_E_STATE,
                            "the model has no probabilities of classes; train it with -b 1");
    double *own = values ? NULL : larder__malloc((data->rows * m->values + 1) * sizeof *own);
    if (!values && !own)
        return larder__fail(LARDER_E_NOMEM, "no memory to predict %zu rows", data->rows);
    const double *at = values ? values : own;
    rc = with_team(m, data, device, values ? values : own);
    if (rc < 0 && device && on &&
        strcmp(on, "auto") == 0) /* the GPU has too little room, perhaps */
        rc = with_team(m, data, NULL, values ? values : own);
    for (size_t i = 0; rc == 0 && i < data->rows; i++, at += m->values) {
        double label = 0;
        if (probabilities)
            rc = larder__svm_probable(m, at, probabilities + i * m->classes, &label);
        else if (labels)
            label = larder__svm_label(m, at);
        if (labels)
            labels[i] = label;
    }
    larder__free(own);
    return rc;
}
