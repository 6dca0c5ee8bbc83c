#include "svm/tiny.h"

#include "base/clock.h"
#include "base/clones.h"

#include <float.h>
#include <math.h>

/* Steps before the solver's other means are tried, and looks at a fresh gradient. */
enum { STEPS = 20, LEAST_STEPS = 200, LOOKS = 4 };
static const double flat = 1e-12;    /* as in smo.c */
static const double too_much = 0.25; /* of the tolerance, as in float_doubt.c */

typedef struct tiny {
    const larder__qp *q;
    size_t n; /* variables */
    const larder__exact *points;
    uint64_t left; /* steps */
    double sum;    /* of beta, as it was given */
    double lowest, highest;
    size_t rise;               /* who is lowest */
    uint32_t id[LARDER__TINY]; /* of each variable: its point among all */
    double f[LARDER__TINY];    /* its gradient */
    double diagonal[LARDER__TINY];
    double a[LARDER__TINY], b[LARDER__TINY]; /* rows of the two that move */
} tiny;

static const double *row_of(const tiny *t, size_t v) {
    return t->points->held + (size_t)t->id[v] * t->points->n;
}

static void pick(const tiny *t, size_t v, double *to) {
    const double *row = row_of(t, v);
    for (size_t i = 0; i < t->n; i++)
        to[i] = row[t->id[i]];
}

static void find_ends(tiny *t) {
    const larder__qp *q = t->q;
    t->lowest = INFINITY, t->highest = -INFINITY, t->rise = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (q->beta[i] < q->hi[i] && t->f[i] < t->lowest)
            t->lowest = t->f[i], t->rise = i;
        if (q->beta[i] > q->lo[i] && t->f[i] > t->highest)
            t->highest = t->f[i];
    }
}

/* The gradient from the solution, as no step has rounded it. */
static void refresh(tiny *t) {
    const larder__qp *q = t->q;
    for (size_t i = 0; i < t->n; i++)
        t->f[i] = 0;
    for (size_t v = 0; v < t->n; v++) {
        if (q->beta[v] == 0)
            continue;
        const double *row = row_of(t, v);
        for (size_t i = 0; i < t->n; i++)
            t->f[i] += q->beta[v] * row[t->id[i]];
    }
    for (size_t i = 0; i < t->n; i++)
        t->f[i] += q->linear[i];
    find_ends(t);
}

/* Curvature of the one that rises, whose row is t->a, with another. */
static double curve(const tiny *t, size_t i) {
    double eta = (t->diagonal[t->rise] - t->a[i]) - (t->a[i] - t->diagonal[i]);
    return eta > flat ? eta : flat;
}

/* Who gains most by falling; t->n: nobody. */
static size_t find_partner(const tiny *t) {
    const larder__qp *q = t->q;
    size_t best = t->n;
    double most = -1;
    for (size_t i = 0; i < t->n; i++) {
        double b = t->f[i] - t->lowest;
        if (!(q->beta[i] > q->lo[i]) || !(b > 0))
            continue;
        double eta = curve(t, i), squared = b * b;
        if (squared > most * eta)
            most = squared / eta, best = i;
    }
    return best;
}

LARDER__CLONES static void move(double *f, double step, const double *a, const double *b,
                                size_t n) {
    for (size_t i = 0; i < n; i++)
        f[i] += step * (a[i] - b[i]);
}

static bool one_step(tiny *t) {
    const larder__qp *q = t->q;
    pick(t, t->rise, t->a);
    size_t i = t->rise, j = find_partner(t);
    if (j == t->n)
        return false;
    pick(t, j, t->b);
    double room = q->hi[i] - q->beta[i], fall = q->beta[j] - q->lo[j];
    double step = fmin((t->f[j] - t->f[i]) / curve(t, j), fmin(room, fall));
    q->beta[i] = step == room ? q->hi[i] : q->beta[i] + step;
    q->beta[j] = step == fall ? q->lo[j] : q->beta[j] - step;
    move(t->f, step, t->a, t->b, t->n);
    find_ends(t);
    return true;
}

static double gap_of(const tiny *t) { return t->highest > t->lowest ? t->highest - t->lowest : 0; }

/* Objective and multiplier, as survey.c has them, and what sums of doubles leave open. */
static double sum_up(const tiny *t, const larder__kernel *k, larder__solved *out) {
    const larder__qp *q = t->q;
    double objective = 0, free_sum = 0, whole = 0, sum = 0;
    size_t free = 0, rows = 0;
    for (size_t i = 0; i < t->n; i++) {
        objective += q->beta[i] * (t->f[i] + q->linear[i]);
        whole += fabs(q->beta[i]);
        sum += q->beta[i];
        rows += q->beta[i] != 0;
        if (q->beta[i] > q->lo[i] && q->beta[i] < q->hi[i])
            free_sum += t->f[i], free++;
    }
    out->objective = objective / 2;
    out->rho[0] = free                    ? free_sum / (double)free
                  : !isfinite(t->lowest)  ? t->highest
                  : !isfinite(t->highest) ? t->lowest
                                          : (t->lowest + t->highest) / 2;
    double off = fabs(sum - t->sum), size = whole * t->points->held_size;
    double noise = DBL_EPSILON * size * (4 + sqrt((double)(k->dim + rows)));
    return noise + (off > 0 ? off * fabs(out->rho[0]) / whole : 0);
}

static bool suits(const larder__qp *q, const larder__solver_conf *c) {
    uint64_t most = STEPS * q->n + LEAST_STEPS;
    bool told = c->rows || c->enter || c->scores;
    return c->exact && c->exact->held && q->n <= LARDER__TINY && !q->group && !(c->beyond > 0) &&
           !told && (c->most_iterations == 0 || c->most_iterations > most);
}

static void begin(tiny *t, const larder__qp *q, const larder__solver_conf *c) {
    t->sum = 0;
    t->q = q, t->n = q->n, t->points = c->exact, t->left = STEPS * q->n + LEAST_STEPS;
    for (size_t v = 0; v < t->n; v++) {
        t->id[v] = c->all_of ? c->all_of[q->point[v]] : q->point[v];
        t->diagonal[v] = row_of(t, v)[t->id[v]];
        t->sum += q->beta[v];
    }
    refresh(t);
}

/* An end is looked at again with a gradient that is not the sum of steps. */
static bool steps(tiny *t, double tolerance) {
    uint64_t all = t->left;
    for (int look = 0; look < LOOKS; look++) {
        uint64_t before = t->left;
        while (t->left && gap_of(t) > tolerance && one_step(t))
            t->left--;
        if (gap_of(t) > tolerance)
            return false;
        if (t->left == before && (look || t->left == all))
            return true;
        refresh(t);
    }
    return false;
}

bool larder__tiny_solve(larder__qp *q, const larder__kernel *k, const larder__solver_conf *c,
                        larder__solved *out) {
    tiny t = {0};
    if (!suits(q, c))
        return false;
    double start = larder__now();
    begin(&t, q, c);
    uint64_t all = t.left;
    out->gap = gap_of(&t);
    if (c->watch && c->watch(c->watch_arg, q, out)) {
        out->stopped = true;
        sum_up(&t, k, out);
        return true;
    }
    bool done = steps(&t, c->tolerance);
    out->iterations = all - t.left;
    double noise = sum_up(&t, k, out);
    out->gap = gap_of(&t);
    if (!done || !(noise <= too_much * c->tolerance))
        return false;
    q->knows_f = false;
    out->exact = true;
    out->rounds = 1;
    out->rows_asked = q->n;
    out->times.solve = larder__now() - start;
    return true;
}
