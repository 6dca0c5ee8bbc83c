#include "svm/svm_cross.h"

#include "base/err.h"
#include "base/mem.h"
#include "svm/calibrate.h"
#include "svm/folds.h"
#include "svm/svm_device.h"
#include "svm/svm_predict.h"

#include <math.h>

/* What a model that did not see them says about the rows of one fold; `at`: their first place. */
typedef int told(void *arg, const larder_svm_model *, const larder__folds *, size_t at, size_t n,
                 const double *values);

typedef struct crossing {
    const larder_svm_data *data;
    const larder_svm_conf *conf;
    larder__team *team;
    larder_svm_stats *stats;
    told *tell;
    void *arg;
} crossing;

/* The model of all folds but one, by a session for all of them or one of its own. */
static int train_others(const crossing *c, larder__svm_session *all, const larder__folds *f,
                        size_t fold, uint32_t *others, larder_svm_model **out) {
    if (all) {
        larder__svm_session_leave_out(all, fold);
        return larder__svm_session_run(all, c->conf->c, out);
    }
    size_t rest = larder__folds_others(f, fold, others);
    return larder__svm_train(out, c->data, others, rest, c->conf, c->team, c->stats);
}

static int one_fold(const crossing *c, larder__svm_session *all, const larder__folds *f,
                    size_t fold, uint32_t *others) {
    larder_svm_model *m = NULL;
    size_t at = f->start[fold], n = f->start[fold + 1] - at;
    larder__svm_device *device = NULL;
    int rc = train_others(c, all, f, fold, others, &m);
    if (rc == 0)
        rc = larder__svm_device_for(&device, c->conf->device,
                                    m->kernel.type != LARDER_SVM_PRECOMPUTED);
    double *values = m ? larder__malloc((n * m->values + 1) * sizeof *values) : NULL;
    if (rc == 0 && !values)
        rc = larder__fail(LARDER_E_NOMEM, "no memory for %zu values", n);
    if (rc == 0)
        rc = all ? larder__svm_session_decide(all, m, f->row + at, n, c->team, values)
                 : larder__svm_decide(m, c->data, f->row + at, n, device, c->team, values);
    if (rc == 0)
        rc = c->tell(c->arg, m, f, at, n, values);
    larder__free(values);
    larder_svm_model_close(&m);
    return rc;
}

static int cross(const crossing *c, const uint32_t *rows, size_t n, size_t folds) {
    larder__folds f;
    larder__svm_session *all = NULL;
    bool by_class = larder__task_has_classes(c->conf->task);
    int rc = larder__folds_open(&f, c->data, rows, n, folds, by_class, c->conf->seed);
    uint32_t *others = rc == 0 ? larder__malloc((n + 1) * sizeof *others) : NULL;
    if (rc == 0 && !others)
        rc = larder__fail(LARDER_E_NOMEM, "no memory for %zu rows", n);
    if (rc == 0 && !c->conf->probability) /* whose own folds lie inside these */
        rc = larder__svm_session_folds(&all, c->data, rows, n, f.fold_of, f.folds, c->conf, c->team,
                                       c->stats);
    for (size_t i = 0; rc == 0 && i < f.folds; i++)
        rc = one_fold(c, all, &f, i, others);
    larder__svm_session_close(&all);
    larder__free(others);
    larder__folds_close(&f);
    return rc;
}

/* ---- predictions ----------------------------------------------------------------------------- */

static int tell_labels(void *arg, const larder_svm_model *m, const larder__folds *f, size_t at,
                       size_t n, const double *values) {
    double *out = arg;
    int rc = 0;
    if (m->prob_a && larder__task_has_classes(m->task)) {
        for (size_t i = 0; rc == 0 && i < n; i++)
            rc = larder__svm_probable(m, values + i * m->values, NULL, &out[f->place[at + i]]);
        return rc;
    }
    for (size_t i = 0; i < n; i++)
        out[f->place[at + i]] = larder__svm_label(m, values + i * m->values);
    return 0;
}

int larder_svm_cross(const larder_svm_data *data, const larder_svm_conf *given, size_t folds,
                     double *out, larder_svm_stats *stats) {
    larder__svm_job j;
    int rc = larder__svm_job_begin(&j, data, given, stats);
    if (rc == 0 && (folds < 2 || data->rows < 2))
        rc = larder__fail(LARDER_E_ARGS,
                          "cross validation wants 2 folds and 2 rows, not %zu and %zu", folds,
                          data->rows);
    if (rc == 0 && folds > data->rows) { /* as LIBSVM */
        folds = data->rows;
        if (j.conf.warn)
            j.conf.warn(j.conf.warn_arg, "more folds than rows: each row is left out once");
    }
    if (rc == 0) {
        crossing c = {data, &j.conf, j.team, &j.stats, tell_labels, out};
        rc = cross(&c, NULL, data->rows, folds);
    }
    return larder__svm_job_end(&j, rc, stats);
}

/* ---- probabilities --------------------------------------------------------------------------- */

enum { FOLDS = 5 };

typedef struct gathered {
    double *value;
    bool *is_positive;
    const larder_svm_data *data;
    double positive;
} gathered;

static int tell_values(void *arg, const larder_svm_model *m, const larder__folds *f, size_t at,
                       size_t n, const double *values) {
    gathered *g = arg;
    for (size_t i = 0; i < n; i++) {
        double v = m->values ? values[i * m->values] : 1; /* one class was left: sure of it */
        double sign = m->label[0] == g->positive ? 1 : -1;
        g->value[f->place[at + i]] = sign * v;
        g->is_positive[f->place[at + i]] = g->data->label[f->row[at + i]] == g->positive;
    }
    return 0;
}

/* The folds' own trainings print nothing and fit nothing. */
static larder_svm_conf quiet(const larder_svm_conf *conf) {
    larder_svm_conf c = *conf;
    c.probability = false;
    c.print = NULL;
    c.warn = NULL;
    c.access_log = c.checkpoint = NULL;
    return c;
}

int larder__svm_fit_pair(const larder_svm_data *data, const uint32_t *rows, size_t n,
                         const larder_svm_conf *conf, larder__team *team, double positive,
                         double *a, double *b) {
    larder_svm_conf own = quiet(conf);
    larder_svm_stats stats = {0};
    own.one_vs_all = false;
    gathered g = {larder__malloc((n + 1) * sizeof(double)), larder__malloc((n + 1) * sizeof(bool)),
                  data, positive};
    crossing c = {data, &own, team, &stats, tell_values, &g};
    int rc = g.value && g.is_positive
                 ? cross(&c, rows, n, FOLDS)
                 : larder__fail(LARDER_E_NOMEM, "no memory to fit probabilities of %zu rows", n);
    if (rc == 0)
        larder__sigmoid_fit(g.value, g.is_positive, n, a, b);
    larder__free(g.value);
    larder__free(g.is_positive);
    return rc;
}

static int tell_errors(void *arg, const larder_svm_model *m, const larder__folds *f, size_t at,
                       size_t n, const double *values) {
    gathered *g = arg;
    for (size_t i = 0; i < n; i++)
        g->value[f->place[at + i]] = fabs(g->data->label[f->row[at + i]] - values[i * m->values]);
    return 0;
}

int larder__svm_fit_errors(const larder_svm_data *data, const uint32_t *rows, size_t n,
                           const larder_svm_conf *conf, larder__team *team, double *sigma) {
    larder_svm_conf own = quiet(conf);
    larder_svm_stats stats = {0};
    gathered g = {.value = larder__malloc((n + 1) * sizeof(double)), .data = data};
    crossing c = {data, &own, team, &stats, tell_errors, &g};
    int rc = g.value ? cross(&c, rows, n, FOLDS)
                     : larder__fail(LARDER_E_NOMEM, "no memory to fit errors of %zu rows", n);
    double sum = 0, few = 0;
    size_t count = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        sum += g.value[i];
    double most = 5 * sqrt(2 * (sum / (double)n) * (sum / (double)n)); /* beyond: an outlier */
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (g.value[i] <= most)
            few += g.value[i], count++;
    *sigma = count ? few / (double)count : 0;
    larder__free(g.value);
    return rc;
}
