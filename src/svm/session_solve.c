/* One decision function, from its samples to its coefficients. */
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "svm/session.h"
#include "svm/smo.h"
#include "svm/svm_cross.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef larder__svm_session trainer;

/* ---- while it is solved ---------------------------------------------------------------------- */

/* The model as it would be if training ended here. Functions are solved one after the other then.
 */
static int write_checkpoint(larder__solving *f, const larder__qp *q, const larder__solved *s) {
    trainer *t = f->t;
    larder_svm_model *m = NULL;
    int rc = larder__decision_take(&t->made[f->at], q, s, &f->task, t->conf);
    bool stopped = t->stopped;
    t->stopped = true; /* nothing final leaves the trainer */
    t->at++;
    if (rc == 0)
        rc = larder__session_model(t, &m);
    t->at--;
    t->stopped = stopped;
    larder__decision_close(&t->made[f->at]);
    if (rc == 0)
        rc = larder_svm_save(m, t->conf->checkpoint);
    larder_svm_model_close(&m);
    return rc;
}

/* The gap falls by about the same factor in equal times. */
static double time_left(larder__solving *f, double gap, double seconds) {
    const trainer *t = f->t;
    if (f->first_gap == 0)
        f->first_gap = gap;
    double way = log(f->first_gap / t->conf->tolerance);
    double part = way > 0 ? log(f->first_gap / gap) / way : 0;
    double done = ((double)t->finished + fmin(fmax(part, 0), 1)) / (double)t->functions;
    return done > 0.02 ? seconds * (1 - done) / done : NAN;
}

static int tell_progress(larder__solving *f, const larder__solved *s, double now) {
    trainer *t = f->t;
    double hits = NAN;
    larder__row_cache_figures c = {.asked = s->rows_asked};
    if (f->kept) {
        larder__row_cache_read(f->kept->cache, &c);
        hits = c.asked ? (double)c.hits / (double)c.asked : 0;
    }
    larder_svm_progress p = {.size = sizeof p,
                             .problem = t->finished,
                             .problems = t->functions,
                             .rounds = s->rounds,
                             .iterations = s->iterations,
                             .gap = s->gap,
                             .tolerance = t->conf->tolerance,
                             .objective = s->objective,
                             .seconds = now - t->began,
                             .seconds_left = time_left(f, s->gap, now - t->began),
                             .hits = hits,
                             .rows_asked = c.asked,
                             .rows_hit = c.hits};
    return t->conf->progress(t->conf->progress_arg, &p);
}

/* Why the session ends, from whichever thread says so first. */
static void give_up(trainer *t, int rc) {
    pthread_mutex_lock(t->lock);
    if (t->code == 0) {
        t->code = rc;
        snprintf(t->why, sizeof t->why, "%s", larder_errmsg());
    }
    pthread_mutex_unlock(t->lock);
    t->stopped = true;
}

/* Whoever listens may take longer than a round of a small problem: Python's end does. */
static const double quiet_seconds = 1e-3;

static int watch(void *arg, const larder__qp *q, const larder__solved *s) {
    larder__solving *f = arg;
    trainer *t = f->t;
    double now = larder__now();
    if (t->stopped)
        return 1;
    if (t->conf->checkpoint && now - t->saved > t->conf->checkpoint_seconds) {
        t->saved = now;
        int rc = write_checkpoint(f, q, s);
        if (rc < 0) {
            give_up(t, rc);
            return -1;
        }
    }
    if (!t->conf->progress)
        return 0;
    pthread_mutex_lock(t->lock);
    int stop = 0;
    if (now - t->heard > quiet_seconds) {
        stop = tell_progress(f, s, now);
        t->heard = now;
    }
    pthread_mutex_unlock(t->lock);
    return stop;
}

static void add_stats(larder_svm_stats *to, const larder__solved *s, double tolerance) {
    to->problems++;
    to->rounds += s->rounds;
    to->iterations += s->iterations;
    to->rows_asked += s->rows_asked;
    to->rows_hit += s->rows_hit;
    to->rows_made += s->rows_made;
    to->values += s->values;
    to->kernel_seconds += s->times.kernel;
    to->cache_seconds += s->times.cache;
    to->select_seconds += s->times.select;
    to->solve_seconds += s->times.solve;
    to->update_seconds += s->times.update;
    to->exact += s->exact;
    if (s->stopped || s->gap <= tolerance) /* not where it is no number */
        return;
    to->unreached++;
    to->ran_out += s->ran_out;
    to->worst_gap = fmax(to->worst_gap, isnan(s->gap) ? INFINITY : s->gap);
}

/* ---- its samples ----------------------------------------------------------------------------- */

size_t larder__session_members(const trainer *t, size_t a, uint32_t *out) {
    size_t n = 0, from = 0, to = t->samples.n;
    bool left = t->left_out != SIZE_MAX;
    if (t->cell_start && a != SIZE_MAX) { /* cells of one class lie side by side */
        from = t->cell_start[a * t->folds];
        to = t->cell_start[(a + 1) * t->folds];
    }
    for (size_t s = from; s < to; s++)
        if ((a == SIZE_MAX || t->class_of[s] == a) &&
            (!left || t->cell[s] % t->folds != t->left_out))
            out[n++] = (uint32_t)s;
    return n;
}

static size_t most_members(const trainer *t, size_t a) {
    return t->cell_start ? t->cell_start[(a + 1) * t->folds] - t->cell_start[a * t->folds]
                         : t->samples.n;
}

/* Samples of the classes a and b (b == classes: everybody) in the order of classes. */
static int gather(larder__solving *f, size_t a, size_t b, size_t *first) {
    trainer *t = f->t;
    size_t room = b == t->classes ? t->samples.n : most_members(t, a) + most_members(t, b);
    uint32_t *m = larder__malloc((room + 1) * sizeof *m);
    if (!m)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu samples", t->samples.n);
    bool everybody = b == t->classes;
    size_t n = *first = larder__session_members(t, everybody ? SIZE_MAX : a, m);
    if (!everybody)
        n += larder__session_members(t, b, m + n);
    larder__free(t->members[f->at]);
    t->members[f->at] = m;
    t->member_count[f->at] = n;
    return 0;
}

static void close_solving(larder__solving *f) {
    larder__free(f->point);
    larder__free(f->count);
    larder__free(f->y);
    larder__free(f->own_points);
    larder__free(f->own_rows);
    larder__free(f->parts);
    larder__panel_free(&f->own);
    if (f->kept != f->t->kept)
        larder__kept_rows_close(&f->kept);
}

static int open_solving(larder__solving *f) {
    const trainer *t = f->t;
    const uint32_t *members = t->members[f->at];
    size_t n = t->member_count[f->at];
    f->task = (larder__svm_task){.n = n, .c = {t->conf->c, t->conf->c}};
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

/* The same where all values lie at hand: lengths are all that is looked at. */
static int bare_panel(larder__solving *f) {
    const trainer *t = f->t;
    f->own_points = larder__malloc((f->task.n + 1) * sizeof *f->own_points);
    f->own_rows = larder__malloc((f->task.n + 1) * sizeof *f->own_rows);
    f->own.norm = larder__malloc((f->task.n + 1) * sizeof *f->own.norm);
    f->own.n = f->task.n;
    if (!f->own_points || !f->own_rows || !f->own.norm)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu samples", f->task.n);
    for (uint32_t i = 0; i < f->task.n; i++) { /* each sample is its own point */
        f->own_points[i] = f->point[i];
        f->own_rows[i] = t->samples.point_row[f->point[i]];
        f->own.norm[i] = t->panel.norm[f->point[i]];
        f->point[i] = i;
    }
    return 0;
}

/* Points of its samples as a panel of their own; f->point becomes each sample's point in it. */
static int own_panel(larder__solving *f) {
    const trainer *t = f->t;
    if (t->gram.k || t->shared || (t->exact.held && t->kernel.engine != LARDER__ENGINE_GIVEN))
        return bare_panel(f);
    uint32_t *number = larder__malloc(((t->cell ? 0 : t->samples.points) + 1) * sizeof *number);
    size_t points = 0;
    f->own_points = larder__malloc((f->task.n + 1) * sizeof *f->own_points);
    f->own_rows = larder__malloc((f->task.n + 1) * sizeof *f->own_rows);
    int rc = number && f->own_points && f->own_rows
                 ? 0
                 : larder__fail(LARDER_E_NOMEM, "no memory for %zu samples", f->task.n);
    if (rc == 0) {
        for (; t->cell && points < f->task.n; points++) { /* each sample is its own point */
            f->own_points[points] = f->point[points];
            f->point[points] = (uint32_t)points;
        }
        memset(number, 0xff, (t->cell ? 0 : t->samples.points) * sizeof *number);
        for (size_t i = 0; !t->cell && i < f->task.n; i++) {
            uint32_t p = f->point[i];
            if (number[p] == UINT32_MAX) {
                f->own_points[points] = p;
                number[p] = (uint32_t)points++;
            }
            f->point[i] = number[p];
        }
        rc = larder__panel_room(&f->own, &t->kernel, points);
        if (rc == 0)
            larder__panel_pick(&f->own, &t->kernel, &t->panel, f->own_points, points);
        for (size_t i = 0; i < points; i++)
            f->own_rows[i] = t->samples.point_row[f->own_points[i]];
    }
    larder__free(number);
    return rc;
}

/* ---- solving --------------------------------------------------------------------------------- */

/* The last solution stretched to the new bounds: what was at its bound stays there, sums stay zero.
 */
static const double *warm_start(larder__solving *f) {
    const trainer *t = f->t;
    bool can = t->conf->task == LARDER_SVM_C_SVC || t->conf->task == LARDER_SVM_EPSILON_SVR;
    if (!can || t->last_c == 0 || !t->last[f->at].coef)
        return NULL;
    larder__decision *last = &t->last[f->at];
    double *coef = last->coef, stretch = t->conf->c / t->last_c;
    for (size_t i = 0; i < t->member_count[f->at]; i++)
        coef[i] *= stretch;
    f->task.knows_f = last->f && last->knows_f;
    for (size_t i = 0; f->task.knows_f && i < t->member_count[f->at]; i++)
        last->f[i] *= stretch;
    return coef;
}

/* Where each sample is its own point the gradient goes from one C to the next. */
static int lend_gradient(larder__solving *f) {
    const trainer *t = f->t;
    if (!t->gram.k || t->folds < 2)
        return 0;
    f->task.f = t->last[f->at].f;
    t->last[f->at].f = NULL;
    if (!f->task.f && !(f->task.f = larder__malloc((f->task.n + 1) * sizeof *f->task.f)))
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu samples", f->task.n);
    return 0;
}

/* nu-SVC divides its solution by r, a difference of two multipliers that is far below 1 where nu is
 * small, and its objective by r squared: what the tolerance leaves open grows with it. LIBSVM's own
 * objectives at -e 0.001 lie up to 0.4 % off its optimum (heart_scale). A hundredth of the
 * tolerance leaves 1e-5; small problems have fewer free vectors to average over and steps that cost
 * nothing. Where nu can hardly be reached r is next to nothing, no tolerance is enough, and the
 * work must have an end. */
static void go_beyond(larder__solver_conf *c, const larder__svm_task *t) {
    c->beyond = c->tolerance / (t->n <= LARDER__WS ? 1000 : 100);
    c->beyond_share = 30;
    c->beyond_least = 300000;
}

/* LIBSVM's limit, for problems that have no solution within the tolerance. */
static uint64_t most_iterations(size_t n) { return n > 100000 ? 100 * n : 10000000; }

/* In the order of functions, whoever is done first. */
static void tell_done(larder__solving *f) {
    trainer *t = f->t;
    pthread_mutex_lock(t->lock);
    add_stats(t->stats, &t->made[f->at].solved, t->conf->tolerance);
    larder__solving_count(f);
    t->done[f->at] = true;
    t->finished++;
    for (; t->printed < t->functions && t->done[t->printed]; t->printed++) {
        const larder__decision *d = &t->made[t->printed];
        t->stats->objective = d->solved.objective, t->stats->gap = d->solved.gap;
        larder__decision_print(d, t->conf);
    }
    pthread_mutex_unlock(t->lock);
}

static int solve(larder__solving *f) {
    trainer *t = f->t;
    const larder__panel *panel = &t->panel;
    int rc = 0;
    if (t->left_out != SIZE_MAX || f->task.n < t->samples.n) {
        rc = own_panel(f);
        panel = &f->own;
    }
    if (rc == 0)
        rc = larder__solving_rows(f);
    larder__solver_conf conf = {.tolerance = t->conf->tolerance,
                                .most_iterations = t->conf->most_iterations
                                                       ? t->conf->most_iterations
                                                       : most_iterations(f->task.n),
                                .shrinking = t->conf->shrinking && !t->shared,
                                .whole = t->looks ? LARDER__WHOLE_AT_HAND : 0,
                                .team = f->team,
                                .data = t->data,
                                .data_row = f->own_rows ? f->own_rows : t->samples.point_row,
                                .gram = t->gram.k ? &t->gram : NULL,
                                .exact = t->exact.kernel ? &t->exact : NULL,
                                .all_of = t->exact.kernel ? f->own_points : NULL,
                                .device = t->shared,
                                .device_of = f->own_points,
                                .rows = f->kept,
                                .parts = f->parts,
                                .part_count = f->part_count,
                                .watch = watch,
                                .watch_arg = f};
    if (rc == 0)
        rc = larder__solving_log(f, &conf);
    if (t->conf->task == LARDER_SVM_NU_SVC)
        go_beyond(&conf, &f->task);
    larder__decision *d = &t->made[f->at];
    f->task.start = warm_start(f);
    if (rc == 0)
        rc = lend_gradient(f);
    if (rc == 0)
        rc = larder__task_solve(d, &f->task, t->conf, &t->kernel, panel, &conf);
    d->f = f->task.f, d->knows_f = f->task.knows_f;
    if (rc < 0)
        return rc;
    if (d->solved.stopped)
        t->stopped = true;
    tell_done(f);
    return 0;
}

/* The probability of a against b, from the rows of both. */
static int fit_pair(larder__solving *f, size_t a, size_t b) {
    const trainer *t = f->t;
    uint32_t *rows = larder__malloc((t->n + 1) * sizeof *rows);
    size_t n = 0;
    if (!rows)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu rows", t->n);
    for (size_t i = 0; i < t->n; i++) {
        uint32_t c = t->class_of[t->samples.sample_of[i]];
        if (c == a || c == b)
            rows[n++] = larder__session_row(t, i);
    }
    int rc = larder__svm_fit_pair(t->data, rows, n, t->conf, f->team, t->label[a],
                                  &t->prob_a[f->at], &t->prob_b[f->at]);
    larder__free(rows);
    return rc;
}

/* +1 or -1, or the target. */
static double target(const larder__solving *f, size_t i, size_t first, size_t a, bool pair) {
    const trainer *t = f->t;
    size_t row = t->samples.row[t->members[f->at][i]];
    if (pair)
        return i < first ? 1 : -1;
    if (larder__task_has_classes(t->conf->task))
        return larder__svm_data_has(t->data, row, t->label[a]) ? 1 : -1;
    return t->conf->task == LARDER_SVM_ONE_CLASS ? 1 : t->data->label[row];
}

int larder__session_solve(trainer *t, size_t at, size_t a, size_t b, larder__team *team) {
    larder__solving f = {.t = t, .at = at, .team = team};
    bool named = larder__task_has_classes(t->conf->task), pair = named && b < t->classes;
    size_t first;
    int rc = gather(&f, a, b, &first);
    if (rc == 0)
        rc = open_solving(&f);
    for (size_t i = 0; rc == 0 && i < f.task.n; i++)
        f.y[i] = target(&f, i, first, a, pair);
    if (named)
        f.task.c[0] = t->weighted[a];
    if (pair)
        f.task.c[1] = t->weighted[b];
    if (rc == 0)
        rc = solve(&f);
    if (rc == 0 && t->prob_a && pair && !t->stopped)
        rc = fit_pair(&f, a, b);
    if (rc == 0 && t->prob_a && !named && !t->stopped)
        rc = larder__svm_fit_errors(t->data, t->rows, t->n, t->conf, team, t->prob_a);
    close_solving(&f);
    if (rc < 0)
        give_up(t, rc);
    return rc;
}
