/* Grid search: the folds of one kernel are opened once, and C goes up inside them. */
#include "base/err.h"
#include "base/mem.h"
#include "base/sized.h"
#include "svm/folds.h"
#include "svm/svm_predict.h"
#include "svm/svm_train.h"

typedef struct search {
    const larder_svm_data *data;
    const larder_svm_grid *grid;
    larder_svm_conf conf; /* with the gamma of the moment */
    larder__team *team;
    larder_svm_stats *stats;
    larder__folds folds;
    uint32_t *others;
    double *sums; /* a C each: right ones, or squared errors */
} search;

static int score_fold(search *s, const larder_svm_model *m, size_t fold, double *sum) {
    const larder__folds *f = &s->folds;
    size_t at = f->start[fold], n = f->start[fold + 1] - at;
    double *values = larder__malloc((n * m->values + 1) * sizeof *values);
    int rc = values ? larder__svm_decide(m, s->data, f->row + at, n, s->team, values)
                    : larder__fail(LARDER_E_NOMEM, "no memory for %zu rows", n);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        double got = larder__svm_label(m, values + i * m->values);
        double want = s->data->label[f->row[at + i]];
        bool regression = m->task == LARDER_SVM_EPSILON_SVR || m->task == LARDER_SVM_NU_SVR;
        *sum += regression ? (got - want) * (got - want) : got == want;
    }
    larder__free(values);
    return rc;
}

/* `all`: a session for all folds, or NULL. */
static int search_fold(search *s, larder__svm_session *all, size_t fold) {
    larder__svm_session *own = NULL;
    int rc = 0;
    if (all) {
        larder__svm_session_leave_out(all, fold);
    } else {
        size_t n = larder__folds_others(&s->folds, fold, s->others);
        rc = larder__svm_session_open(&own, s->data, s->others, n, &s->conf, s->team, s->stats);
    }
    for (size_t c = 0; rc == 0 && c < s->grid->cs; c++) {
        larder_svm_model *m = NULL;
        rc = larder__svm_session_run(all ? all : own, s->grid->c[c], &m);
        if (rc == 0)
            rc = score_fold(s, m, fold, &s->sums[c]);
        larder_svm_model_close(&m);
    }
    larder__svm_session_close(&own);
    return rc;
}

static int search_gamma(search *s, size_t g) {
    const larder_svm_grid *grid = s->grid;
    bool regression = s->conf.task == LARDER_SVM_EPSILON_SVR || s->conf.task == LARDER_SVM_NU_SVR;
    int rc = 0;
    if (grid->gamma)
        s->conf.gamma = grid->gamma[g];
    for (size_t c = 0; c < grid->cs; c++)
        s->sums[c] = 0;
    larder__svm_session *all = NULL;
    rc = larder__svm_session_folds(&all, s->data, NULL, s->data->rows, s->folds.fold_of,
                                   s->folds.folds, &s->conf, s->team, s->stats);
    for (size_t f = 0; rc == 0 && f < s->folds.folds; f++)
        rc = search_fold(s, all, f);
    larder__svm_session_close(&all);
    for (size_t c = 0; rc == 0 && c < grid->cs; c++) {
        double score = s->sums[c] / (double)s->data->rows * (regression ? 1 : 100);
        grid->score[g * grid->cs + c] = score;
        if (grid->told && grid->told(grid->arg, grid->c[c], s->conf.gamma, score))
            rc = larder__fail(LARDER_E_CANCELLED, "the search was stopped");
    }
    return rc;
}

static int check_grid(const larder_svm_data *d, const larder_svm_grid *g) {
    if (g->folds < 2 || g->folds > d->rows)
        return larder__fail(LARDER_E_ARGS, "cross validation wants 2 to %zu folds, not %zu",
                            d->rows, g->folds);
    if (g->cs < 1 || g->gammas < 1)
        return larder__fail(LARDER_E_ARGS, "a grid has at least one C and one gamma");
    for (size_t i = 0; i < g->cs; i++)
        if (!(g->c[i] > 0) || (i > 0 && !(g->c[i] > g->c[i - 1])))
            return larder__fail(LARDER_E_ARGS, "the values of C are above 0 and ascend");
    return 0;
}

int larder_svm_search(const larder_svm_data *data, const larder_svm_conf *given,
                      const larder_svm_grid *asked, larder_svm_stats *stats) {
    larder__svm_job j;
    larder_svm_grid grid = {0};
    int rc = larder__svm_job_begin(&j, data, given, stats);
    if (rc == 0)
        rc = larder__sized_in(&grid, sizeof grid, asked, "larder_svm_grid");
    if (rc == 0)
        rc = check_grid(data, &grid);
    search s = {.data = data, .grid = &grid, .conf = j.conf, .stats = &j.stats, .team = j.team};
    s.conf.probability = false;
    if (rc == 0)
        rc = larder__folds_open(&s.folds, data, NULL, data->rows, grid.folds,
                                larder__task_has_classes(s.conf.task), s.conf.seed);
    s.others = larder__malloc((data->rows + 1) * sizeof *s.others);
    s.sums = larder__calloc(grid.cs + 1, sizeof *s.sums);
    if (rc == 0 && (!s.others || !s.sums))
        rc = larder__fail(LARDER_E_NOMEM, "no memory for %zu rows", data->rows);
    for (size_t g = 0; rc == 0 && g < grid.gammas; g++)
        rc = search_gamma(&s, g);
    larder__free(s.others);
    larder__free(s.sums);
    larder__folds_close(&s.folds);
    return larder__svm_job_end(&j, rc, stats);
}
