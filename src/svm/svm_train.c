#include "svm/svm_train.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "svm/held_rows.h"
#include "svm/session.h"
#include "svm/smo.h"
#include "svm/svm_cross.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef larder__svm_session trainer;

/* ---- one decision function ------------------------------------------------------------------- */

/* The model as it would be if training ended here. */
static int write_checkpoint(trainer *t, const larder__qp *q, const larder__solved *s) {
    larder_svm_model *m = NULL;
    int rc = larder__decision_take(&t->made[t->at], q, s, t->task, t->conf);
    bool stopped = t->stopped;
    t->stopped = true; /* nothing final leaves the trainer */
    t->at++;
    if (rc == 0)
        rc = larder__session_model(t, &m);
    t->at--;
    t->stopped = stopped;
    larder__decision_close(&t->made[t->at]);
    if (rc == 0)
        rc = larder_svm_save(m, t->conf->checkpoint);
    larder_svm_model_close(&m);
    return rc;
}

/* nu-SVC divides its solution by r, a difference of two multipliers that is far below 1 where nu is
 * small, and its objective by r squared: what the tolerance leaves open grows with it. LIBSVM's own
 * objectives at -e 0.001 lie up to 0.4 % off its optimum (heart_scale). A hundredth of the
 * tolerance leaves 1e-5; small problems have fewer free vectors to average over and steps that cost
 * nothing. */
static double inner_tolerance(const trainer *t) {
    if (t->conf->task != LARDER_SVM_NU_SVC)
        return t->conf->tolerance;
    return t->conf->tolerance / (t->task->n <= LARDER__WS ? 1000 : 100);
}

/* The gap falls by about the same factor in equal times. */
static double time_left(trainer *t, double gap, double seconds) {
    if (t->first_gap == 0)
        t->first_gap = gap;
    double way = log(t->first_gap / inner_tolerance(t));
    double part = way > 0 ? log(t->first_gap / gap) / way : 0;
    double done = ((double)t->at + fmin(fmax(part, 0), 1)) / (double)t->functions;
    return done > 0.02 ? seconds * (1 - done) / done : NAN;
}

static int watch(void *arg, const larder__qp *q, const larder__solved *s) {
    trainer *t = arg;
    double now = larder__now();
    if (t->conf->checkpoint && now - t->saved > t->conf->checkpoint_seconds) {
        t->saved = now;
        if ((t->code = write_checkpoint(t, q, s)) < 0) {
            snprintf(t->why, sizeof t->why, "%s", larder_errmsg());
            return -1;
        }
    }
    if (!t->conf->progress)
        return 0;
    double hits = NAN;
    if (t->in_use) {
        larder__row_cache_figures f;
        larder__row_cache_read(t->in_use, &f);
        hits = f.asked ? (double)f.hits / (double)f.asked : 0;
    }
    larder_svm_progress p = {.problem = t->at,
                             .problems = t->functions,
                             .rounds = s->rounds,
                             .iterations = s->iterations,
                             .gap = s->gap,
                             .tolerance = inner_tolerance(t),
                             .objective = s->objective,
                             .seconds = now - t->began,
                             .seconds_left = time_left(t, s->gap, now - t->began),
                             .hits = hits};
    return t->conf->progress(t->conf->progress_arg, &p);
}

/* ---- keeping rows ---------------------------------------------------------------------------- */

/* A row that is kept is written once and read from memory at each use; computed afresh it goes
 * straight into the gradient. With a third of rows found, keeping pays from about here on. */
static const double worth_keeping = 3;

static uint64_t cache_budget(const trainer *t, size_t points) {
    uint64_t row = points * sizeof(float), all = row * points;
    if (t->conf->cache_rows)
        return t->conf->cache_rows < points ? t->conf->cache_rows * row : all;
    if (t->conf->cache_bytes != UINT64_MAX)
        return t->conf->cache_bytes < all ? t->conf->cache_bytes : all;
    long pages = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    uint64_t half = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size / 2 : all;
    return half < all ? half : all;
}

static int open_rows(const trainer *t, larder__row_cache **out, size_t points) {
    larder__row_cache_conf conf = {.policy = t->conf->policy ? t->conf->policy : "kkt",
                                   .rows = points,
                                   .budget = cache_budget(t, points),
                                   .seed = t->conf->seed};
    return larder__row_cache_open(out, &conf);
}

static int decide_cache(trainer *t) {
    larder_svm_stats *s = t->stats;
    /* A problem that fits the working set computes each value once. */
    if (cache_budget(t, t->samples.points) == 0 || t->samples.points <= LARDER__WS)
        return 0;
    int rc = larder__held_measure(&t->kernel, &t->panel, &s->make_us, &s->keep_us);
    t->keeps = t->conf->cache_always || s->make_us > worth_keeping * s->keep_us;
    bool shared = t->functions < 2 || t->conf->one_vs_all || t->classes == 2;
    if (rc == 0 && t->keeps && shared)
        rc = open_rows(t, &t->cache, t->samples.points);
    s->cache_on = t->keeps;
    snprintf(s->policy, sizeof s->policy, "%s",
             !t->keeps         ? ""
             : t->conf->policy ? t->conf->policy
                               : "kkt");
    return rc;
}

static void count_hits(trainer *t, larder__row_cache *cache) {
    larder__row_cache_figures f;
    larder__row_cache_read(cache, &f);
    t->stats->rows_hit += f.hits;
}

/* ---- the sequence of rows -------------------------------------------------------------------- */

static const uint32_t *among_all(trainer *t, const uint32_t *points, size_t n) {
    if (!t->own_points)
        return points;
    for (size_t i = 0; i < n; i++)
        t->ids[i] = t->own_points[points[i]];
    return t->ids;
}

static int rows_leave(void *arg, const uint32_t *points, const float *dist, size_t n) {
    trainer *t = arg;
    return larder__access_log_leave(t->log, among_all(t, points, n), dist, n);
}

/* Pairs of classes have points of their own, too few to be worth the room. */
static int rows_scored(void *arg, const float *dist) {
    trainer *t = arg;
    return t->own_points ? 0 : larder__access_log_scores(t->log, dist);
}

static int rows_enter(void *arg, const uint32_t *points, size_t n) {
    trainer *t = arg;
    return larder__access_log_round(t->log, among_all(t, points, n), n, 0);
}

static int open_log(trainer *t) {
    if (!t->conf->access_log)
        return 0;
    larder__free(t->ids);
    t->ids = larder__malloc((t->samples.points + 1) * sizeof *t->ids);
    if (!t->ids)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu points", t->samples.points);
    return larder__access_log_open(&t->log, t->conf->access_log, t->samples.points);
}

static void add_stats(larder_svm_stats *to, const larder__solved *s) {
    to->problems++;
    to->rounds += s->rounds;
    to->iterations += s->iterations;
    to->rows_asked += s->rows_asked;
    to->rows_made += s->rows_made;
    to->values += s->values;
    to->kernel_seconds += s->times.kernel;
    to->cache_seconds += s->times.cache;
    to->select_seconds += s->times.select;
    to->solve_seconds += s->times.solve;
    to->update_seconds += s->times.update;
    to->objective = s->objective;
    to->gap = s->gap;
}

/* Points of some samples as a panel of their own; `local` gets each sample's point in it. */
static int own_panel(larder__panel *out, trainer *t, const uint32_t *members, size_t n,
                     uint32_t *local) {
    uint32_t *number = larder__malloc((t->samples.points + 1) * sizeof *number);
    uint32_t *ids = larder__malloc((n + 1) * sizeof *ids);
    size_t points = 0;
    int rc = number && ids ? 0 : larder__fail(LARDER_E_NOMEM, "no memory for %zu samples", n);
    if (rc == 0) {
        memset(number, 0xff, t->samples.points * sizeof *number);
        for (size_t i = 0; i < n; i++) {
            uint32_t p = t->samples.point[members[i]];
            if (number[p] == UINT32_MAX) {
                ids[points] = p;
                number[p] = (uint32_t)points++;
            }
            local[i] = number[p];
        }
        rc = larder__panel_room(out, &t->kernel, points);
        if (rc == 0)
            larder__panel_pick(out, &t->kernel, &t->panel, ids, points);
    }
    larder__free(number);
    larder__free(t->own_points);
    t->own_points = ids;
    return rc;
}

typedef struct function { /* one decision function about to be solved */
    uint32_t *point, *count;
    double *y;
    larder__task task;
} function;

static void close_function(function *f) {
    larder__free(f->point);
    larder__free(f->count);
    larder__free(f->y);
}

static int open_function(function *f, const trainer *t, const uint32_t *members, size_t n) {
    *f = (function){.task = {.n = n, .c = {t->conf->c, t->conf->c}}};
    f->point = larder__malloc((n + 1) * sizeof *f->point);
    f->count = larder__malloc((n + 1) * sizeof *f->count);
    f->y = larder__malloc((n + 1) * sizeof *f->y);
    if (!f->point || !f->count || !f->y)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu samples", n);
    for (size_t i = 0; i < n; i++) {
        f->point[i] = t->samples.point[members[i]];
        f->count[i] = t->samples.count[members[i]];
        f->task.rows += f->count[i];
    }
    f->task.point = f->point, f->task.count = f->count, f->task.y = f->y;
    return 0;
}

/* The last solution stretched to the new bounds: what was at its bound stays there, sums stay zero.
 */
static const double *warm_start(trainer *t) {
    bool can = t->conf->task == LARDER_SVM_C_SVC || t->conf->task == LARDER_SVM_EPSILON_SVR;
    if (!can || t->last_c == 0 || !t->last[t->at].coef)
        return NULL;
    double *coef = t->last[t->at].coef, stretch = t->conf->c / t->last_c;
    for (size_t i = 0; i < t->member_count[t->at]; i++)
        coef[i] *= stretch;
    return coef;
}

/* LIBSVM's limit, for problems that have no solution within the tolerance. */
static uint64_t most_iterations(size_t n) { return n > 100000 ? 100 * n : 10000000; }

static int solve_function(trainer *t, function *f, bool all_points) {
    larder__panel own = {0};
    larder__row_cache *rows = NULL;
    const larder__panel *panel = &t->panel;
    int rc = 0;
    if (!all_points) {
        rc = own_panel(&own, t, t->members[t->at], f->task.n, f->point);
        panel = &own;
        if (rc == 0 && t->keeps && f->task.n > LARDER__WS)
            rc = open_rows(t, &rows, own.n);
    }
    t->in_use = all_points ? t->cache : rows;
    t->task = &f->task;
    if (rc == 0 && t->log)
        rc = larder__access_log_solver(t->log, (uint32_t)t->at);
    larder__solver_conf conf = {.leave = t->log ? rows_leave : NULL,
                                .enter = t->log ? rows_enter : NULL,
                                .scores = t->log ? rows_scored : NULL,
                                .arg = t,
                                .tolerance = inner_tolerance(t),
                                .most_iterations = most_iterations(f->task.n),
                                .shrinking = t->conf->shrinking,
                                .team = t->team,
                                .rows = t->in_use,
                                .watch = watch,
                                .watch_arg = t};
    larder__decision *d = &t->made[t->at];
    f->task.start = warm_start(t);
    t->first_gap = 0;
    if (rc == 0)
        rc = larder__task_solve(d, &f->task, t->conf, &t->kernel, panel, &conf);
    larder__panel_free(&own);
    if (rows)
        count_hits(t, rows);
    larder__row_cache_close(&rows);
    t->in_use = NULL;
    if (rc < 0)
        return rc;
    add_stats(t->stats, &d->solved);
    larder__decision_print(d, &f->task, t->conf);
    t->stopped = d->solved.stopped;
    t->at++;
    return 0;
}

/* Samples of the classes a and b (b == classes: everybody) in the order of classes. */
static int gather(trainer *t, size_t a, size_t b, size_t *first) {
    size_t n = 0;
    uint32_t *m = larder__malloc((t->samples.n + 1) * sizeof *m);
    if (!m)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu samples", t->samples.n);
    bool everybody = b == t->classes;
    for (size_t s = 0; s < t->samples.n; s++)
        if (everybody || t->class_of[s] == a)
            m[n++] = (uint32_t)s;
    *first = n;
    for (size_t s = 0; !everybody && s < t->samples.n; s++)
        if (t->class_of[s] == b)
            m[n++] = (uint32_t)s;
    larder__free(t->members[t->at]);
    t->members[t->at] = m;
    t->member_count[t->at] = n;
    return 0;
}

/* The probability of a against b, from the rows of both. */
static int fit_pair(trainer *t, size_t a, size_t b) {
    uint32_t *rows = larder__malloc((t->n + 1) * sizeof *rows);
    size_t n = 0, at = t->at - 1;
    if (!rows)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu rows", t->n);
    for (size_t i = 0; i < t->n; i++) {
        uint32_t c = t->class_of[t->samples.sample_of[i]];
        if (c == a || c == b)
            rows[n++] = larder__session_row(t, i);
    }
    int rc = larder__svm_fit_pair(t->data, rows, n, t->conf, t->team, t->label[a], &t->prob_a[at],
                                  &t->prob_b[at]);
    larder__free(rows);
    return rc;
}

static int solve_pair(trainer *t, size_t a, size_t b) {
    function f;
    size_t first;
    int rc = gather(t, a, b, &first);
    if (rc < 0)
        return rc;
    rc = open_function(&f, t, t->members[t->at], t->member_count[t->at]);
    for (size_t i = 0; rc == 0 && i < f.task.n; i++)
        f.y[i] = i < first ? 1 : -1;
    f.task.c[0] = t->weighted[a], f.task.c[1] = t->weighted[b];
    if (rc == 0)
        rc = solve_function(t, &f, t->classes == 2);
    if (rc == 0 && t->prob_a && !t->stopped)
        rc = fit_pair(t, a, b);
    close_function(&f);
    return rc;
}

/* Class a against all others. */
static int solve_against_all(trainer *t, size_t a) {
    function f;
    size_t first;
    int rc = gather(t, a, t->classes, &first);
    if (rc < 0)
        return rc;
    rc = open_function(&f, t, t->members[t->at], t->member_count[t->at]);
    for (size_t i = 0; rc == 0 && i < f.task.n; i++)
        f.y[i] = larder_svm_data_has(t->data, t->samples.row[t->members[t->at][i]], t->label[a])
                     ? 1
                     : -1;
    f.task.c[0] = t->weighted[a];
    if (rc == 0)
        rc = solve_function(t, &f, true);
    close_function(&f);
    return rc;
}

static int solve_single(trainer *t) { /* regression, one-class */
    function f;
    size_t first;
    int rc = gather(t, 0, t->classes, &first);
    if (rc < 0)
        return rc;
    rc = open_function(&f, t, t->members[t->at], t->member_count[t->at]);
    for (size_t i = 0; rc == 0 && i < f.task.n; i++)
        f.y[i] = t->conf->task == LARDER_SVM_ONE_CLASS ? 1 : t->data->label[t->samples.row[i]];
    if (rc == 0)
        rc = solve_function(t, &f, true);
    if (rc == 0 && t->prob_a && !t->stopped)
        rc = larder__svm_fit_errors(t->data, t->rows, t->n, t->conf, t->team, t->prob_a);
    close_function(&f);
    return rc;
}

static int solve_all(trainer *t) {
    int rc = 0;
    if (!larder__task_has_classes(t->conf->task))
        return solve_single(t);
    for (size_t a = 0; a < t->classes && rc == 0 && !t->stopped; a++) {
        if (t->conf->one_vs_all)
            rc = solve_against_all(t, a);
        for (size_t b = a + 1; !t->conf->one_vs_all && b < t->classes && rc == 0 && !t->stopped;
             b++)
            rc = solve_pair(t, a, b);
    }
    return rc;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int open_trainer(trainer *t) {
    larder__kernel_conf k = {t->conf->kernel, t->conf->degree, t->conf->gamma, t->conf->coef0};
    if (k.gamma == 0 && t->data->features > 0)
        k.gamma = 1.0 / t->data->features;
    int rc = larder__session_samples(t);
    if (rc == 0)
        rc = larder__kernel_open(&t->kernel, &k, t->data, NULL, LARDER__ENGINE_AUTO);
    if (rc == 0)
        rc = larder__panel_fill(&t->panel, &t->kernel, t->data, t->samples.point_row,
                                t->samples.points);
    if (rc < 0)
        return rc;
    bool named = larder__task_has_classes(t->conf->task);
    t->functions = !named                ? 1
                   : t->conf->one_vs_all ? t->classes
                                         : t->classes * (t->classes - 1) / 2;
    t->made = larder__calloc(t->functions + 1, sizeof *t->made);
    t->last = larder__calloc(t->functions + 1, sizeof *t->last);
    t->members = larder__calloc(t->functions + 1, sizeof *t->members);
    t->member_count = larder__calloc(t->functions + 1, sizeof *t->member_count);
    bool fits = true;
    if (t->conf->probability) {
        t->prob_a = larder__calloc(t->functions + 1, sizeof *t->prob_a);
        t->prob_b = larder__calloc(t->functions + 1, sizeof *t->prob_b);
        fits = t->prob_a && t->prob_b;
    }
    return t->made && t->last && t->members && t->member_count && fits
               ? decide_cache(t)
               : larder__fail(LARDER_E_NOMEM, "no memory for %zu problems", t->functions);
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
    larder__free(t->label);
    larder__free(t->weighted);
    larder__free(t->class_of);
    larder__free(t->own_points);
    larder__free(t->ids);
    larder__free(t->prob_a);
    larder__free(t->prob_b);
    larder__row_cache_close(&t->cache);
    larder__panel_free(&t->panel);
    larder__kernel_close(&t->kernel);
    larder__samples_close(&t->samples);
    larder__free(t);
    *session = NULL;
}

int larder__svm_session_open(larder__svm_session **out, const larder_svm_data *data,
                             const uint32_t *rows, size_t n, const larder_svm_conf *conf,
                             larder__team *team, larder_svm_stats *stats) {
    trainer *t = *out = larder__calloc(1, sizeof *t);
    if (!t)
        return larder__fail(LARDER_E_NOMEM, "no memory to train");
    t->data = data, t->rows = rows, t->n = n, t->team = team, t->stats = stats;
    t->own = *conf;
    t->conf = &t->own;
    t->began = t->saved = larder__now();
    int rc = open_trainer(t);
    if (rc < 0) {
        larder__svm_session_close(out);
        return rc;
    }
    stats->points = t->samples.points;
    stats->rows = n;
    snprintf(stats->engine, sizeof stats->engine, "%s", larder__kernel_engine(&t->kernel));
    return 0;
}

/* What was made becomes what the next run begins with. */
static void step_on(trainer *t, double c) {
    for (size_t f = 0; f < t->functions; f++) {
        larder__decision_close(&t->last[f]);
        t->last[f] = t->made[f];
        t->made[f] = (larder__decision){0};
    }
    t->last_c = t->at == t->functions ? t->own.c : 0;
    t->own.c = c;
    t->at = 0;
}

int larder__svm_session_run(larder__svm_session *t, double c, larder_svm_model **out) {
    *out = NULL;
    if (t->at)
        step_on(t, c);
    t->own.c = c;
    int rc = larder__task_has_classes(t->conf->task) ? larder__session_weigh(t) : 0;
    if (rc == 0)
        rc = open_log(t);
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
    if (s && s->cache)
        count_hits(s, s->cache);
    larder__svm_session_close(&s);
    return rc;
}

int larder_svm_train(larder_svm_model **out, const larder_svm_data *data,
                     const larder_svm_conf *conf, larder_svm_stats *stats) {
    larder_svm_stats own = {0};
    larder__team *team = NULL;
    *out = NULL;
    double start = larder__now();
    int rc = larder__svm_check(data, conf);
    if (rc == 0)
        rc = larder__team_open(&team, conf->threads);
    if (rc == 0) {
        own.threads = larder__team_threads(team);
        rc = larder__svm_train(out, data, NULL, data->rows, conf, team, &own);
    }
    larder__team_close(&team);
    own.seconds = larder__now() - start;
    if (rc == 0 && conf->print && larder__task_has_classes(conf->task)) {
        char line[64];
        snprintf(line, sizeof line, "Total nSV = %zu\n", larder_svm_vectors(*out));
        conf->print(conf->print_arg, line);
    }
    if (stats)
        *stats = own;
    return rc;
}
