/* Grid search: what the folds of one kernel share is laid out once, C goes up inside a fold, and
 * folds of all gammas are worked on side by side. */
#include "base/err.h"
#include "base/mem.h"
#include "base/sized.h"
#include "svm/folds.h"
#include "svm/svm_predict.h"
#include "svm/svm_train.h"

#include <stdatomic.h>
#include <stdio.h>

typedef struct one_gamma {
    larder_svm_conf conf;
    pthread_mutex_t gate; /* of what follows, but `left` */
    larder__svm_session *session;
    bool opened;
    larder_svm_stats stats;
    size_t left; /* folds */
} one_gamma;

typedef struct search {
    const larder_svm_data *data;
    const larder_svm_grid *grid;
    const larder_svm_conf *conf;
    larder__team *team, **alone; /* all threads; one each */
    larder_svm_stats *stats;
    larder__folds folds;
    one_gamma *gammas;
    uint32_t *others;
    double *sums;         /* a C of a gamma each: right ones, or squared errors */
    size_t told;          /* gammas whose scores are out */
    pthread_mutex_t lock; /* of all sessions, and of the last two */
    _Atomic int code;     /* why it ended early, with its sentence */
    char why[512];
} search;

static void give_up(search *s, int rc) {
    pthread_mutex_lock(&s->lock);
    if (s->code == 0) {
        snprintf(s->why, sizeof s->why, "%s", larder_errmsg());
        s->code = rc;
    }
    pthread_mutex_unlock(&s->lock);
}

/* ---- one fold -------------------------------------------------------------------------------- */

static int score_fold(search *s, const larder__svm_session *t, const larder_svm_model *m,
                      size_t fold, size_t at, larder__team *team) {
    const larder__folds *f = &s->folds;
    size_t from = f->start[fold], n = f->start[fold + 1] - from;
    double *values = larder__malloc((n * m->values + 1) * sizeof *values), sum = 0;
    int rc = values ? larder__svm_session_decide(t, m, f->row + from, n, team, values)
                    : larder__fail(LARDER_E_NOMEM, "no memory for %zu rows", n);
    bool regression = m->task == LARDER_SVM_EPSILON_SVR || m->task == LARDER_SVM_NU_SVR;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        double got = larder__svm_label(m, values + i * m->values);
        double want = s->data->label[f->row[from + i]];
        sum += regression ? (got - want) * (got - want) : got == want;
        if (s->grid->labels)
            s->grid->labels[at * s->data->rows + f->row[from + i]] = got;
    }
    pthread_mutex_lock(&s->lock);
    s->sums[at] += sum;
    pthread_mutex_unlock(&s->lock);
    larder__free(values);
    return rc;
}

/* All C of it, each from the solution of the one before. */
static int search_fold(search *s, larder__svm_session *t, size_t g, size_t fold,
                       larder__team *team) {
    int rc = 0;
    for (size_t c = 0; rc == 0 && c < s->grid->cs && s->code == 0; c++) {
        larder_svm_model *m = NULL;
        rc = larder__svm_session_run(t, s->grid->c[c], &m);
        if (rc == 0)
            rc = score_fold(s, t, m, fold, g * s->grid->cs + c, team);
        larder_svm_model_close(&m);
    }
    return rc;
}

/* ---- one gamma ------------------------------------------------------------------------------- */

static int open_gamma(search *s, size_t g, larder__team *team) {
    one_gamma *o = &s->gammas[g];
    pthread_mutex_lock(&o->gate);
    int rc = o->opened ? 0
                       : larder__svm_session_folds(&o->session, s->data, NULL, s->data->rows,
                                                   s->folds.fold_of, s->folds.folds, &o->conf, team,
                                                   &o->stats);
    o->opened = true;
    pthread_mutex_unlock(&o->gate);
    return rc;
}

static void close_gamma(one_gamma *o, larder_svm_stats *stats) {
    larder__svm_session_close(&o->session);
    stats->points = o->stats.points;
    stats->rows = o->stats.rows;
    stats->values += o->stats.values;
    stats->kernel_seconds += o->stats.kernel_seconds;
    stats->start_seconds = o->stats.start_seconds;
    snprintf(stats->engine, sizeof stats->engine, "%s", o->stats.engine);
    snprintf(stats->device, sizeof stats->device, "%s", o->stats.device);
    o->stats = (larder_svm_stats){0};
}

/* Scores of gammas that are done and have none open before them. */
static int tell(search *s) {
    const larder_svm_grid *grid = s->grid;
    bool regression = s->conf->task == LARDER_SVM_EPSILON_SVR || s->conf->task == LARDER_SVM_NU_SVR;
    for (; s->told < grid->gammas && s->gammas[s->told].left == 0; s->told++)
        for (size_t c = 0; c < grid->cs; c++) {
            size_t at = s->told * grid->cs + c;
            double score = s->sums[at] / (double)s->data->rows * (regression ? 1 : 100);
            grid->score[at] = score;
            if (grid->told &&
                grid->told(grid->arg, grid->c[c], s->gammas[s->told].conf.gamma, score))
                return larder__fail(LARDER_E_CANCELLED, "the search was stopped");
        }
    return 0;
}

/* ---- side by side ---------------------------------------------------------------------------- */

static void search_piece(void *arg, size_t piece, unsigned thread) {
    search *s = arg;
    size_t g = piece / s->folds.folds, fold = piece % s->folds.folds;
    one_gamma *o = &s->gammas[g];
    larder__team *team = s->alone[thread];
    larder__svm_session *t = NULL;
    if (s->code)
        return;
    int rc = open_gamma(s, g, team);
    if (rc == 0)
        rc = larder__svm_session_fork(&t, o->session, team, &s->lock, s->stats, piece > 0);
    if (rc == 0) {
        larder__svm_session_leave_out(t, fold);
        rc = search_fold(s, t, g, fold, team);
    }
    larder__svm_session_close(&t);
    if (rc == 0) {
        pthread_mutex_lock(&s->lock);
        if (--o->left == 0) {
            close_gamma(o, s->stats);
            rc = tell(s);
        }
        pthread_mutex_unlock(&s->lock);
    }
    if (rc < 0)
        give_up(s, rc);
}

static int search_side_by_side(search *s) {
    unsigned threads = larder__team_threads(s->team);
    int rc = 0;
    if (!(s->alone = larder__calloc(threads, sizeof *s->alone)))
        return larder__fail(LARDER_E_NOMEM, "no memory for %u threads", threads);
    for (unsigned i = 0; rc == 0 && i < threads; i++)
        rc = larder__team_open(&s->alone[i], 1);
    if (rc == 0)
        larder__team_run(s->team, search_piece, s, s->grid->gammas * s->folds.folds);
    for (unsigned i = 0; i < threads; i++)
        larder__team_close(&s->alone[i]);
    larder__free(s->alone);
    if (rc == 0 && (rc = s->code) < 0)
        larder__errmsg_set(s->why);
    return rc;
}

/* ---- one after the other --------------------------------------------------------------------- */

/* `all`: a session for all folds, or NULL. */
static int search_alone(search *s, larder__svm_session *all, size_t g, size_t fold) {
    larder__svm_session *own = NULL;
    int rc = 0;
    if (all) {
        larder__svm_session_leave_out(all, fold);
    } else {
        size_t n = larder__folds_others(&s->folds, fold, s->others);
        rc = larder__svm_session_open(&own, s->data, s->others, n, &s->gammas[g].conf, s->team,
                                      s->stats);
    }
    if (rc == 0)
        rc = search_fold(s, all ? all : own, g, fold, s->team);
    larder__svm_session_close(&own);
    return rc;
}

static int search_gamma(search *s, size_t g) {
    one_gamma *o = &s->gammas[g];
    int rc = open_gamma(s, g, s->team);
    for (size_t f = 0; rc == 0 && f < s->folds.folds; f++)
        rc = search_alone(s, o->session, g, f);
    o->left = 0;
    return rc < 0 ? rc : tell(s);
}

/* Where folds share all values, they are worked on side by side. */
static int search_all(search *s) {
    int rc = open_gamma(s, 0, s->team);
    one_gamma *first = &s->gammas[0];
    if (rc == 0 && first->session && larder__svm_session_forks(first->session))
        return search_side_by_side(s);
    for (size_t g = 0; rc == 0 && g < s->grid->gammas; g++) {
        rc = search_gamma(s, g);
        larder_svm_stats kept = s->gammas[g].stats;
        close_gamma(&s->gammas[g], s->stats);
        s->stats->make_us = kept.make_us, s->stats->keep_us = kept.keep_us;
    }
    return rc;
}

/* ---- the call -------------------------------------------------------------------------------- */

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

static int open_search(search *s) {
    const larder_svm_grid *grid = s->grid;
    size_t rows = s->data->rows;
    bool by_class = larder__task_has_classes(s->conf->task);
    int rc = grid->fold_of ? larder__folds_given(&s->folds, grid->fold_of, rows, grid->folds)
                           : larder__folds_open(&s->folds, s->data, NULL, rows, grid->folds,
                                                by_class, s->conf->seed);
    if (rc < 0)
        return rc;
    s->others = larder__malloc((rows + 1) * sizeof *s->others);
    s->sums = larder__calloc(grid->cs * grid->gammas + 1, sizeof *s->sums);
    s->gammas = larder__calloc(grid->gammas + 1, sizeof *s->gammas);
    if (!s->others || !s->sums || !s->gammas)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu rows", rows);
    for (size_t g = 0; g < grid->gammas; g++) {
        one_gamma *o = &s->gammas[g];
        o->conf = *s->conf;
        o->conf.probability = false;
        o->conf.gamma = grid->gamma ? grid->gamma[g] : s->conf->gamma;
        o->left = s->folds.folds;
        pthread_mutex_init(&o->gate, NULL);
    }
    return 0;
}

static void close_search(search *s) {
    for (size_t g = 0; s->gammas && g < s->grid->gammas; g++) {
        larder__svm_session_close(&s->gammas[g].session);
        pthread_mutex_destroy(&s->gammas[g].gate);
    }
    larder__free(s->gammas);
    larder__free(s->others);
    larder__free(s->sums);
    larder__folds_close(&s->folds);
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
    search s = {.data = data, .grid = &grid, .conf = &j.conf, .stats = &j.stats, .team = j.team};
    pthread_mutex_init(&s.lock, NULL);
    if (rc == 0)
        rc = open_search(&s);
    if (rc == 0)
        rc = search_all(&s);
    close_search(&s);
    pthread_mutex_destroy(&s.lock);
    return larder__svm_job_end(&j, rc, stats);
}
