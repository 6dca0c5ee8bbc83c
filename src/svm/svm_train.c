#include "svm/svm_train.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "svm/access.h"
#include "svm/held_rows.h"
#include "svm/smo.h"
#include "svm/svm_cross.h"
#include "svm/task.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct larder__svm_session trainer;
struct larder__svm_session {
    const larder_svm_data *data;
    larder_svm_conf own;         /* a copy, whose C changes */
    const larder_svm_conf *conf; /* that copy */
    const uint32_t *rows;        /* that take part */
    size_t n;
    larder__team *team;
    larder_svm_stats *stats;
    larder__kernel kernel;
    larder__samples samples;
    larder__panel panel; /* all points */
    size_t classes, class_room;
    double *label;          /* a class each */
    double *weighted;       /* C of each class */
    uint32_t *class_of;     /* a sample each */
    larder__decision *made; /* a decision function each */
    uint32_t **members;     /* of each decision function: its samples */
    size_t *member_count;
    size_t functions, at;      /* how many decision functions, which is solved */
    larder__row_cache *cache;  /* over all points, for all decision functions; NULL: off */
    larder__row_cache *in_use; /* that one or a pair's own */
    bool keeps;                /* rows are kept */
    larder__access_log *log;   /* NULL: rows are not recorded */
    uint32_t *own_points; /* of the current problem's points: the number among all; NULL: same */
    uint32_t *ids;        /* work: points of a round */
    const larder__task *task; /* that is solved */
    double first_gap;         /* of the problem that is solved; 0: not known yet */
    double saved;             /* when the last checkpoint was written */
    double *prob_a, *prob_b;  /* a decision function each; NULL: not wanted */
    double began;
    bool stopped;
    double last_c;          /* of the run before, 0: none */
    larder__decision *last; /* its decision functions */
};

void larder_svm_defaults(larder_svm_conf *c) {
    *c = (larder_svm_conf){.task = LARDER_SVM_C_SVC,
                           .kernel = LARDER_SVM_RBF,
                           .degree = 3,
                           .c = 1,
                           .nu = 0.5,
                           .epsilon = 0.1,
                           .tolerance = 1e-3,
                           .shrinking = true,
                           .merge = true,
                           .seed = 1,
                           .cache_bytes = UINT64_MAX,
                           .checkpoint_seconds = 60};
}

/* ---- classes --------------------------------------------------------------------------------- */

static uint32_t row_at(const trainer *t, size_t i) { return t->rows ? t->rows[i] : (uint32_t)i; }

static size_t class_index(const trainer *t, double label) {
    size_t c = 0;
    while (c < t->classes && t->label[c] != label)
        c++;
    return c;
}

static int add_class(trainer *t, double label, size_t *out) {
    *out = class_index(t, label);
    if (*out < t->classes)
        return 0;
    if (t->classes == t->class_room) {
        size_t room = t->class_room ? t->class_room * 2 : 16;
        double *more = larder__realloc(t->label, room * sizeof *more);
        if (!more)
            return larder__fail(LARDER_E_NOMEM, "no memory for %zu classes", room);
        t->label = more;
        t->class_room = room;
    }
    t->label[t->classes++] = label;
    return 0;
}

/* Classes in the order of their first row; of -1 and +1 the positive one comes first (LIBSVM). */
static int find_classes(trainer *t, uint64_t *keys) {
    for (size_t i = 0; i < t->n; i++) {
        double label = t->data->label[row_at(t, i)];
        if (label != rint(label) || fabs(label) > INT32_MAX)
            return larder__fail(LARDER_E_ARGS,
                                "row %u has the label %g; classes are whole numbers (regression "
                                "is -s 3 or -s 4)",
                                row_at(t, i) + 1, label);
        size_t c;
        int rc = add_class(t, label, &c);
        if (rc < 0)
            return rc;
        keys[i] = c;
    }
    if (t->classes == 2 && t->label[0] == -1 && t->label[1] == 1) {
        t->label[0] = 1, t->label[1] = -1;
        for (size_t i = 0; i < t->n; i++)
            keys[i] = !keys[i];
    }
    return 0;
}

static int weigh_classes(trainer *t) {
    const larder_svm_conf *c = t->conf;
    if (!t->weighted)
        t->weighted = larder__calloc(t->classes + 1, sizeof *t->weighted);
    if (!t->weighted)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu classes", t->classes);
    for (size_t i = 0; i < t->classes; i++)
        t->weighted[i] = c->c;
    for (size_t w = 0; w < c->weight_count; w++) {
        size_t at = class_index(t, c->weights[w].label);
        if (at < t->classes)
            t->weighted[at] *= c->weights[w].weight;
        else if (c->print) {
            char line[120];
            snprintf(line, sizeof line,
                     "WARNING: class label %d specified in weight is not found\n",
                     c->weights[w].label);
            c->print(c->print_arg, line);
        }
    }
    return 0;
}

/* A key is a hash of the set, whatever the order in which it is written. */
static int find_label_sets(trainer *t, uint64_t *keys) {
    const larder_svm_data *d = t->data;
    size_t c;
    for (size_t i = 0; i < t->n; i++) {
        uint32_t row = row_at(t, i);
        keys[i] = 0;
        for (uint64_t p = d->list_start[row]; p < d->list_start[row + 1]; p++) {
            int rc = add_class(t, d->list[p], &c);
            if (rc < 0)
                return rc;
            uint64_t h = (c + 1) * UINT64_C(0x9e3779b97f4a7c15);
            keys[i] += (h ^ h >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
        }
    }
    return t->classes ? 0 : larder__fail(LARDER_E_ARGS, "no row has a label");
}

/* What two rows must share to be one sample. */
static int make_keys(trainer *t, uint64_t *keys) {
    if (t->data->list_start)
        return find_label_sets(t, keys);
    if (larder__task_has_classes(t->conf->task))
        return find_classes(t, keys);
    for (size_t i = 0; i < t->n; i++) {
        double label = t->conf->task == LARDER_SVM_ONE_CLASS ? 0 : t->data->label[row_at(t, i)];
        memcpy(&keys[i], &label, sizeof label);
    }
    return 0;
}

static int find_samples(trainer *t) {
    uint64_t *keys = larder__malloc((t->n + 1) * sizeof *keys);
    if (!keys)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu rows", t->n);
    int rc = make_keys(t, keys);
    bool merge = t->conf->merge && t->conf->kernel != LARDER_SVM_PRECOMPUTED;
    if (rc == 0)
        rc = larder__samples_open(&t->samples, t->data, t->rows, t->n, keys, merge);
    if (rc == 0 && !(t->class_of = larder__calloc(t->samples.n + 1, sizeof *t->class_of)))
        rc = larder__fail(LARDER_E_NOMEM, "no memory for %zu samples", t->samples.n);
    for (size_t i = 0; rc == 0 && i < t->n; i++)
        if (larder__task_has_classes(t->conf->task) && !t->data->list_start)
            t->class_of[t->samples.sample_of[i]] = (uint32_t)keys[i];
    larder__free(keys);
    return rc;
}

/* ---- one decision function ------------------------------------------------------------------- */

static int make_model(trainer *, larder_svm_model **);

/* The model as it would be if training ended here. */
static int write_checkpoint(trainer *t, const larder__qp *q, const larder__solved *s) {
    larder_svm_model *m = NULL;
    int rc = larder__decision_take(&t->made[t->at], q, s, t->task, t->conf);
    bool stopped = t->stopped;
    t->stopped = true; /* nothing final leaves the trainer */
    t->at++;
    if (rc == 0)
        rc = make_model(t, &m);
    t->at--;
    t->stopped = stopped;
    larder__decision_close(&t->made[t->at]);
    if (rc == 0)
        rc = larder_svm_save(m, t->conf->checkpoint);
    larder_svm_model_close(&m);
    return rc;
}

/* The gap falls by about the same factor in equal times. */
static double time_left(trainer *t, double gap, double seconds) {
    if (t->first_gap == 0)
        t->first_gap = gap;
    double way = log(t->first_gap / t->conf->tolerance);
    double part = way > 0 ? log(t->first_gap / gap) / way : 0;
    double done = ((double)t->at + fmin(fmax(part, 0), 1)) / (double)t->functions;
    return done > 0.02 ? seconds * (1 - done) / done : NAN;
}

static int watch(void *arg, const larder__qp *q, const larder__solved *s) {
    trainer *t = arg;
    double now = larder__now();
    if (t->conf->checkpoint && now - t->saved > t->conf->checkpoint_seconds) {
        t->saved = now;
        if (write_checkpoint(t, q, s) < 0)
            return -1;
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
                             .tolerance = t->conf->tolerance,
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
    larder__row_cache_conf conf = {.policy = t->conf->policy ? t->conf->policy : "lfu",
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
                               : "lfu");
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
    if (rc == 0 && t->log)
        rc = larder__access_log_solver(t->log, (uint32_t)t->at);
    larder__solver_conf conf = {.leave = t->log ? rows_leave : NULL,
                                .enter = t->log ? rows_enter : NULL,
                                .arg = t,
                                .tolerance = t->conf->tolerance,
                                .shrinking = t->conf->shrinking,
                                .most_iterations = most_iterations(f->task.n),
                                .team = t->team,
                                .rows = t->in_use,
                                .watch = watch,
                                .watch_arg = t};
    larder__decision *d = &t->made[t->at];
    f->task.start = warm_start(t);
    t->task = &f->task;
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
            rows[n++] = row_at(t, i);
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

/* ---- the model ------------------------------------------------------------------------------- */

/* Support vectors by class, within a class by sample. Returns their number. */
static size_t list_vectors(const trainer *t, bool *used, uint32_t *list, size_t *per_class) {
    size_t n = 0;
    for (size_t f = 0; f < t->at; f++)
        for (size_t i = 0; i < t->member_count[f]; i++)
            if (t->made[f].coef[i] != 0)
                used[t->members[f][i]] = true;
    for (size_t c = 0; c < t->classes || c == 0; c++)
        for (size_t s = 0; s < t->samples.n; s++)
            if (used[s] && t->class_of[s] == c) {
                list[n++] = (uint32_t)s;
                if (per_class)
                    per_class[c]++;
            }
    return n;
}

/* Which row of coefficients holds function f's for a sample of this class (LIBSVM's layout). */
static size_t coef_row(const larder_svm_model *m, size_t f, size_t a, size_t b, size_t own) {
    if (!larder__task_has_classes(m->task))
        return 0;
    if (m->one_vs_all)
        return f;
    return own == a ? b - 1 : a;
}

static void place_coefs(const trainer *t, larder_svm_model *m, const uint32_t *place, size_t n) {
    size_t a = 0, b = 1;
    for (size_t f = 0; f < t->at; f++) {
        m->rho[f] = t->made[f].rho;
        for (size_t i = 0; i < t->member_count[f]; i++) {
            uint32_t s = t->members[f][i];
            if (place[s] != UINT32_MAX)
                m->coef[coef_row(m, f, a, b, t->class_of[s]) * n + place[s]] = t->made[f].coef[i];
        }
        if (++b >= t->classes)
            a++, b = a + 1;
    }
}

/* Of a precomputed kernel only the serial number is kept. */
static int take_vectors(const trainer *t, larder_svm_model *m, uint32_t *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        list[i] = t->samples.row[list[i]];
    int rc = larder__svm_data_pick(&m->vectors, t->data, list, n);
    if (rc < 0 || t->conf->kernel != LARDER_SVM_PRECOMPUTED)
        return rc;
    larder_svm_data *v = m->vectors;
    for (size_t i = 0; i < n; i++) {
        v->index[i] = 0;
        v->value[i] = v->value[v->start[i]];
        v->start[i] = i;
    }
    v->start[n] = n;
    v->features = 0;
    return 0;
}

/* The model takes the probabilities over. */
static void take_probabilities(trainer *t, larder_svm_model *m) {
    if (t->stopped)
        return; /* not all of them were fitted */
    m->prob_a = t->prob_a;
    t->prob_a = NULL;
    if (larder__task_has_classes(m->task)) {
        m->prob_b = t->prob_b;
        t->prob_b = NULL;
    }
}

static int make_model(trainer *t, larder_svm_model **out) {
    size_t n = t->samples.n;
    bool *used = larder__calloc(n + 1, sizeof *used);
    uint32_t *list = larder__malloc((n + 1) * sizeof *list);
    uint32_t *place = larder__malloc((n + 1) * sizeof *place);
    larder_svm_model *m = NULL;
    bool named = larder__task_has_classes(t->conf->task);
    int rc = used && list && place ? 0 : larder__fail(LARDER_E_NOMEM, "no memory for a model");
    if (rc == 0)
        rc = larder__model_new(&m, t->conf->task, &t->kernel.conf, named ? t->classes : 2,
                               named && t->conf->one_vs_all);
    if (rc == 0) {
        memset(place, 0xff, (n + 1) * sizeof *place);
        size_t vectors = list_vectors(t, used, list, m->class_vectors);
        for (size_t i = 0; i < vectors; i++)
            place[list[i]] = (uint32_t)i;
        m->multi_label = t->data->list_start != NULL;
        if (named)
            memcpy(m->label, t->label, t->classes * sizeof *m->label);
        m->coef = larder__calloc(m->coefs * vectors + 1, sizeof *m->coef);
        if (m->coef) {
            place_coefs(t, m, place, vectors);
            take_probabilities(t, m);
            rc = take_vectors(t, m, list, vectors);
        } else {
            rc = larder__fail(LARDER_E_NOMEM, "no memory for %zu support vectors", vectors);
        }
    }
    larder__free(used);
    larder__free(list);
    larder__free(place);
    if (rc < 0)
        larder_svm_model_close(&m);
    *out = m;
    return rc;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int open_trainer(trainer *t) {
    larder__kernel_conf k = {t->conf->kernel, t->conf->degree, t->conf->gamma, t->conf->coef0};
    if (k.gamma == 0 && t->data->features > 0)
        k.gamma = 1.0 / t->data->features;
    int rc = find_samples(t);
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
    int rc = larder__task_has_classes(t->conf->task) ? weigh_classes(t) : 0;
    if (rc == 0)
        rc = open_log(t);
    if (rc == 0)
        rc = solve_all(t);
    if (t->log)
        rc = larder__access_log_close(&t->log, rc);
    if (rc == 0)
        rc = make_model(t, out);
    if (rc == 0 && t->stopped)
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

/* ---- parameters ------------------------------------------------------------------------------ */

static int check_kernel(const larder_svm_data *d, const larder_svm_conf *c) {
    if (c->kernel < LARDER_SVM_LINEAR || c->kernel > LARDER_SVM_PRECOMPUTED)
        return larder__fail(LARDER_E_ARGS, "the kernel is 0 to 4, not %d", (int)c->kernel);
    if (!(c->gamma >= 0) || !isfinite(c->gamma) || !isfinite(c->coef0))
        return larder__fail(LARDER_E_ARGS, "gamma is 0 or more, not %g", c->gamma);
    if (c->degree < 0 || c->degree > 1000)
        return larder__fail(LARDER_E_ARGS, "the degree is 0 to 1000, not %d", c->degree);
    for (size_t i = 0; c->kernel == LARDER_SVM_PRECOMPUTED && i < d->rows; i++) {
        uint64_t p = d->start[i];
        bool has = p < d->start[i + 1] && d->index[p] == 0;
        if (!has || !(d->value[p] >= 1 && d->value[p] <= (double)d->features))
            return larder__fail(LARDER_E_FORMAT,
                                "row %zu: a precomputed kernel wants 0:serial first, with a serial "
                                "of 1 to %u",
                                i + 1, d->features);
    }
    return 0;
}

int larder__svm_check(const larder_svm_data *d, const larder_svm_conf *c) {
    if (c->task < LARDER_SVM_C_SVC || c->task > LARDER_SVM_NU_SVR)
        return larder__fail(LARDER_E_ARGS, "the task is 0 to 4, not %d", (int)c->task);
    int rc = check_kernel(d, c);
    if (rc < 0)
        return rc;
    if (d->list_start && !(c->task == LARDER_SVM_C_SVC && c->one_vs_all))
        return larder__fail(LARDER_E_ARGS, "lists of labels want C-SVC (-s 0), one against all");
    bool wants_nu = c->task == LARDER_SVM_NU_SVC || c->task == LARDER_SVM_ONE_CLASS ||
                    c->task == LARDER_SVM_NU_SVR;
    if (!(c->tolerance > 0) || !isfinite(c->tolerance))
        return larder__fail(LARDER_E_ARGS, "the tolerance is above 0, not %g", c->tolerance);
    if (!(c->c > 0) || !isfinite(c->c))
        return larder__fail(LARDER_E_ARGS, "C is above 0, not %g", c->c);
    if (wants_nu && !(c->nu > 0 && c->nu <= 1))
        return larder__fail(LARDER_E_ARGS, "nu is above 0 and at most 1, not %g", c->nu);
    if (c->task == LARDER_SVM_EPSILON_SVR && !(c->epsilon >= 0))
        return larder__fail(LARDER_E_ARGS, "epsilon is 0 or more, not %g", c->epsilon);
    if (c->probability && c->task == LARDER_SVM_ONE_CLASS)
        return larder__fail(LARDER_E_ARGS, "one-class tasks have no probabilities");
    if (c->probability && c->one_vs_all)
        return larder__fail(LARDER_E_ARGS, "probabilities want pairs of classes (ovo)");
    for (size_t i = 0; i < c->weight_count; i++)
        if (!(c->weights[i].weight >= 0) || !isfinite(c->weights[i].weight))
            return larder__fail(LARDER_E_ARGS, "the weight of class %d is 0 or more, not %g",
                                c->weights[i].label, c->weights[i].weight);
    return 0;
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
