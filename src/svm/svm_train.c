#include "svm/svm_train.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/sized.h"
#include "svm/session.h"
#include "svm/svm_predict.h"
#include "svm/svm_seen.h"

#include <stdio.h>
#include <string.h>

typedef larder__svm_session trainer;

/* ---- all decision functions ------------------------------------------------------------------ */

typedef struct pairs { /* side by side, each by one thread */
    trainer *t;
    larder__team **alone; /* a thread each */
    uint32_t *at, *a, *b; /* a decision function each: its number and classes */
} pairs;

static void solve_piece(void *arg, size_t piece, unsigned thread) {
    pairs *p = arg;
    if (!p->t->stopped)
        larder__session_solve(p->t, p->at[piece], p->a[piece], p->b[piece], p->alone[thread]);
}

/* Many small problems: threads gain more from one each than inside one. Not if all are tiny, which
 * takes no longer than a thread's start. */
static bool side_by_side(const trainer *t) {
    unsigned threads = larder__team_threads(t->team);
    bool many = t->shared ? t->functions > 1 && t->shared->values
                          : t->functions >= 4 * (size_t)threads && !t->keeps;
    return threads > 1 && many && !t->exact.held && larder__task_has_classes(t->conf->task) &&
           !t->conf->one_vs_all && !t->log && !t->conf->checkpoint;
}

/* Every so many of those that are not solved yet. */
static int solve_side_by_side(trainer *t, size_t every) {
    unsigned threads = larder__team_threads(t->team);
    size_t room = (t->functions + 1) * sizeof(uint32_t);
    pairs p = {t, larder__calloc(threads, sizeof *p.alone), larder__malloc(room),
               larder__malloc(room), larder__malloc(room)};
    int rc = p.alone && p.at && p.a && p.b
                 ? 0
                 : larder__fail(LARDER_E_NOMEM, "no memory for %zu problems", t->functions);
    for (unsigned i = 0; rc == 0 && i < threads; i++)
        rc = larder__team_open(&p.alone[i], 1);
    size_t n = 0;
    uint32_t at = 0;
    for (uint32_t a = 0; rc == 0 && a < t->classes; a++)
        for (uint32_t b = a + 1; b < t->classes; b++, at++)
            if (!t->done[at] && at % every == 0)
                p.at[n] = at, p.a[n] = a, p.b[n++] = b;
    if (rc == 0) {
        larder__team_run(t->team, solve_piece, &p, n);
        rc = t->code;
    }
    for (unsigned i = 0; p.alone && i < threads; i++)
        larder__team_close(&p.alone[i]);
    larder__free(p.alone);
    larder__free(p.at);
    larder__free(p.a);
    larder__free(p.b);
    return rc;
}

static int solve_next(trainer *t, size_t a, size_t b) {
    int rc = t->stopped || t->done[t->at] ? 0 : larder__session_solve(t, t->at, a, b, t->team);
    if (rc == 0 && t->done[t->at])
        t->at++;
    return rc;
}

/* Some pairs first, to see how many rows pairs want. */
static int look(trainer *t) {
    enum { LOOKS = 2 };
    int rc = solve_side_by_side(t, (t->functions + LOOKS - 1) / LOOKS);
    return rc < 0 || t->stopped ? rc : larder__session_decide_again(t);
}

static int solve_all(trainer *t) {
    int rc = t->looks ? look(t) : 0;
    if (rc < 0)
        return rc;
    if (!larder__task_has_classes(t->conf->task))
        return solve_next(t, 0, t->classes);
    if (side_by_side(t)) {
        rc = solve_side_by_side(t, 1);
        t->at = t->functions;
        return rc;
    }
    for (size_t a = 0; a < t->classes && rc == 0 && !t->stopped; a++) {
        if (t->conf->one_vs_all)
            rc = solve_next(t, a, t->classes);
        for (size_t b = a + 1; !t->conf->one_vs_all && b < t->classes && rc == 0 && !t->stopped;
             b++)
            rc = solve_next(t, a, b);
    }
    return rc;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Room for what becomes of each of them. */
static int open_functions(trainer *t) {
    t->made = larder__calloc(t->functions + 1, sizeof *t->made);
    t->last = larder__calloc(t->functions + 1, sizeof *t->last);
    t->members = larder__calloc(t->functions + 1, sizeof *t->members);
    t->member_count = larder__calloc(t->functions + 1, sizeof *t->member_count);
    t->done = larder__calloc(t->functions + 1, sizeof *t->done);
    bool fits = true;
    if (t->conf->probability) {
        t->prob_a = larder__calloc(t->functions + 1, sizeof *t->prob_a);
        t->prob_b = larder__calloc(t->functions + 1, sizeof *t->prob_b);
        fits = t->prob_a && t->prob_b;
    }
    return t->made && t->last && t->members && t->member_count && t->done && fits
               ? 0
               : larder__fail(LARDER_E_NOMEM, "no memory for %zu problems", t->functions);
}

static int open_trainer(trainer *t) {
    larder__kernel_conf k = {t->conf->kernel, t->conf->degree, t->conf->gamma, t->conf->coef0};
    if (k.gamma == 0 && t->data->features > 0)
        k.gamma = 1.0 / t->data->features;
    int rc = larder__session_samples(t);
    if (rc == 0)
        rc = larder__session_sort(t);
    if (rc == 0)
        rc = larder__kernel_open(&t->kernel, &k, t->data, NULL, LARDER__ENGINE_AUTO);
    if (rc == 0)
        rc = larder__session_points(t);
    if (rc < 0)
        return rc;
    bool named = larder__task_has_classes(t->conf->task);
    t->functions = !named                ? 1
                   : t->conf->one_vs_all ? t->classes
                                         : t->classes * (t->classes - 1) / 2;
    rc = larder__session_decide_rows(t);
    return rc < 0 ? rc : open_functions(t);
}

/* What a fork has from another. */
static void close_layout(trainer *t) {
    larder__free(t->label);
    larder__free(t->class_of);
    larder__free(t->cell);
    larder__free(t->cell_start);
    larder__kept_rows_close(&t->kept);
    larder__svm_shared_close(&t->shared);
    larder__gram_close(&t->gram);
    larder__exact_close(&t->exact);
    larder__panel_free(&t->panel);
    larder__kernel_close(&t->kernel);
    larder__samples_close(&t->samples);
    pthread_mutex_destroy(&t->own_lock);
}

void larder__svm_session_close(larder__svm_session **session) {
    trainer *t = *session;
    if (!t)
        return;
    for (size_t f = 0; f < t->functions; f++) {
        if (t->made)
            larder__decision_close(&t->made[f]);
        if (t->last)
            larder__decision_close(&t->last[f]);
        if (t->members)
            larder__free(t->members[f]);
    }
    larder__free(t->made);
    larder__free(t->last);
    larder__free(t->members);
    larder__free(t->member_count);
    larder__free(t->weighted);
    larder__free(t->done);
    larder__free(t->ids);
    larder__free(t->prob_a);
    larder__free(t->prob_b);
    if (!t->forked)
        close_layout(t);
    larder__free(t);
    *session = NULL;
}

static int open_session(larder__svm_session **out, trainer *t, larder_svm_stats *stats,
                        const larder_svm_conf *conf) {
    pthread_mutex_init(&t->own_lock, NULL);
    t->lock = &t->own_lock;
    t->own = *conf;
    t->conf = &t->own;
    t->stats = stats;
    t->cells = 1;
    t->left_out = SIZE_MAX;
    t->began = t->saved = larder__now();
    int rc = open_trainer(t);
    if (rc < 0) {
        larder__svm_session_close(out);
        return rc;
    }
    stats->points = t->samples.points;
    stats->rows = t->n;
    snprintf(stats->engine, sizeof stats->engine, "%s", larder__kernel_engine(&t->kernel));
    return 0;
}

int larder__svm_session_open(larder__svm_session **out, const larder_svm_data *data,
                             const uint32_t *rows, size_t n, const larder_svm_conf *conf,
                             larder__team *team, larder_svm_stats *stats) {
    trainer *t = *out = larder__calloc(1, sizeof *t);
    if (!t)
        return larder__fail(LARDER_E_NOMEM, "no memory to train");
    t->data = data, t->rows = rows, t->n = n, t->team = team, t->folds = 1;
    return open_session(out, t, stats, conf);
}

int larder__svm_session_folds(larder__svm_session **out, const larder_svm_data *data,
                              const uint32_t *rows, size_t n, const uint32_t *fold_of_row,
                              size_t folds, const larder_svm_conf *conf, larder__team *team,
                              larder_svm_stats *stats) {
    trainer *t = *out = larder__calloc(1, sizeof *t);
    if (!t)
        return larder__fail(LARDER_E_NOMEM, "no memory to train");
    t->data = data, t->rows = rows, t->n = n, t->team = team;
    t->folds = folds, t->fold_of_row = fold_of_row;
    int rc = open_session(out, t, stats, conf);
    if (rc == 0 && !t->kept && !t->gram.k && !t->shared) /* nothing to share */
        larder__svm_session_close(out);
    return rc;
}

bool larder__svm_session_forks(const larder__svm_session *t) { return t->gram.k != NULL; }

int larder__svm_session_fork(larder__svm_session **out, const larder__svm_session *of,
                             larder__team *team, pthread_mutex_t *lock, larder_svm_stats *stats,
                             bool silent) {
    trainer *t = *out = larder__malloc(sizeof *t);
    if (!t)
        return larder__fail(LARDER_E_NOMEM, "no memory to train");
    *t = *of;
    t->forked = true;
    t->own.warn = silent ? NULL : t->own.warn;
    t->conf = &t->own;
    t->team = team, t->lock = lock, t->stats = stats;
    t->made = t->last = NULL;
    t->members = NULL, t->member_count = NULL, t->done = NULL, t->weighted = NULL;
    t->ids = NULL, t->prob_a = t->prob_b = NULL;
    int rc = open_functions(t);
    if (rc < 0)
        larder__svm_session_close(out);
    return rc;
}

int larder__svm_session_decide(const larder__svm_session *t, const larder_svm_model *m,
                               const uint32_t *rows, size_t n, larder__team *team, double *out) {
    if (!t->gram.k || t->rows || m->kernel.type == LARDER_SVM_LINEAR)
        return larder__svm_decide(m, t->data, rows, n, t->shared ? t->shared->device : NULL, team,
                                  out);
    larder__decided_by by = {&t->gram, t->samples.sample_of, t->panel.norm};
    return larder__svm_decide_by(m, &t->kernel, t->data, rows, n, &by, team, out);
}

void larder__svm_session_leave_out(larder__svm_session *t, size_t fold) {
    t->left_out = fold;
    t->fresh = true;
}

/* What was made becomes what the next run begins with. */
static void step_on(trainer *t) {
    for (size_t f = 0; f < t->functions; f++) {
        larder__decision_close(&t->last[f]);
        t->last[f] = t->made[f];
        t->made[f] = (larder__decision){0};
    }
    t->last_c = t->at == t->functions && !t->fresh ? t->own.c : 0;
    t->at = t->printed = t->finished = 0;
    memset(t->done, 0, t->functions * sizeof *t->done);
}

int larder__svm_session_run(larder__svm_session *t, double c, larder_svm_model **out) {
    *out = NULL;
    if (t->at)
        step_on(t);
    t->own.c = c;
    t->fresh = false;
    bool named = larder__task_has_classes(t->conf->task);
    int rc = named ? larder__session_weigh(t) : 0;
    if (rc == 0 && named && !t->conf->one_vs_all && t->classes == 1 && t->conf->warn)
        t->conf->warn(t->conf->warn_arg, "all rows are of one class: the model will name no other");
    if (rc == 0)
        rc = larder__session_open_log(t);
    if (rc == 0)
        rc = solve_all(t);
    if (t->log)
        rc = larder__access_log_close(&t->log, rc);
    if (rc == 0)
        rc = larder__session_model(t, out);
    if (t->code < 0) {
        larder__errmsg_set(t->why);
        rc = t->code;
    } else if (rc == 0 && t->stopped)
        rc = larder__fail(LARDER_E_CANCELLED, "training was stopped before its end");
    return rc;
}

int larder__svm_train(larder_svm_model **out, const larder_svm_data *data, const uint32_t *rows,
                      size_t n, const larder_svm_conf *conf, larder__team *team,
                      larder_svm_stats *stats) {
    larder__svm_session *s = NULL;
    *out = NULL;
    int rc = larder__svm_session_open(&s, data, rows, n, conf, team, stats);
    if (rc == 0)
        rc = larder__svm_session_run(s, conf->c, out);
    if (s)
        larder__session_count(s);
    larder__svm_session_close(&s);
    return rc;
}

static void warn_unreached(const larder_svm_conf *conf, const larder_svm_stats *s) {
    char line[400];
    if (!conf->warn || s->unreached == 0)
        return;
    unsigned long long some = s->unreached, all = s->problems > some ? s->problems : some;
    snprintf(
        line, sizeof line,
        "%llu of %llu problems ended above the tolerance of %g, the farthest at %g: %s; scaling "
        "the data (svm-scale, StandardScaler) helps, or a smaller C",
        some, all, conf->tolerance, s->worst_gap,
        s->ran_out ? "the limit of steps was reached (--max-iter, max_iter)"
                   : "doubles cannot tell more for values of this size");
    conf->warn(conf->warn_arg, line);
}

int larder__svm_job_begin(larder__svm_job *j, const larder_svm_data *data,
                          const larder_svm_conf *given, const larder_svm_stats *wanted) {
    larder_svm_conf conf = {.size = sizeof conf};
    *j = (larder__svm_job){.start = larder__now()};
    larder_svm_defaults(&conf);
    int rc = larder__sized_in(&conf, sizeof conf, given, "larder_svm_conf");
    if (rc == 0 && wanted)
        rc = larder__sized_check(wanted, "larder_svm_stats");
    if (rc == 0)
        rc = larder__svm_check(data, &conf);
    if (rc == 0)
        rc = larder__team_open(&j->team, conf.threads);
    if (rc == 0) {
        larder__svm_seen_begin(&j->seen, &conf, data->rows);
        j->conf = j->seen.conf;
    }
    return rc;
}

int larder__svm_job_end(larder__svm_job *j, int rc, larder_svm_stats *out) {
    larder__svm_seen_end(&j->seen);
    larder__team_close(&j->team);
    j->stats.seconds = larder__now() - j->start;
    if (rc == 0)
        warn_unreached(&j->conf, &j->stats);
    int handed = out ? larder__sized_out(out, &j->stats, sizeof j->stats, "larder_svm_stats") : 0;
    return rc < 0 ? rc : handed;
}

/* What took less is trained again if the power fails before the system has written it; its file is
 * put in place whole, as always. */
static const double brief_seconds = 1;

int larder_svm_train(larder_svm_model **out, const larder_svm_data *data,
                     const larder_svm_conf *given, larder_svm_stats *stats) {
    larder__svm_job j;
    *out = NULL;
    int rc = larder__svm_job_begin(&j, data, given, stats);
    const larder_svm_conf *conf = &j.conf;
    if (rc == 0) {
        j.stats.threads = larder__team_threads(j.team);
        rc = larder__svm_train(out, data, NULL, data->rows, conf, j.team, &j.stats);
    }
    if (rc == 0 && conf->print && larder__task_has_classes(conf->task)) {
        char line[64];
        snprintf(line, sizeof line, "Total nSV = %zu\n", larder__model_vectors(*out));
        conf->print(conf->print_arg, line);
    }
    if (rc == 0)
        (*out)->brief = larder__now() - j.start < brief_seconds;
    return larder__svm_job_end(&j, rc, stats);
}
