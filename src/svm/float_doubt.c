/* How far the gradient is off that rows of floats have summed up, and the same in doubles. */
#include "base/err.h"
#include "base/mem.h"
#include "svm/solver_state.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef larder__solver solver;

/* Values of floats are off by some units in the last place; where even all of them in one direction
 * do not matter, nothing is measured. Where they might, the error is measured at some points, and
 * an error of a quarter of the gap is too much. */
static const double units = 4.0 / (1 << 23);
static const double too_much = 0.25;
static const double grown = 1.5; /* what is feared, before it is measured again */
static const double progress = 1e-12;
static const double nothing = 0.01; /* of the gap to reach: an error that nobody needs to look at */
static const double balanced = 1e-9; /* a sum of beta that is zero, but for rounding */
enum { SAMPLE = 32, SAFETY = 2, STILL_ROUNDS = 8 };

static void *zeros(size_t count, size_t bytes) {
    void *p = count > (SIZE_MAX - 64) / bytes ? NULL : larder__memalign(64, count * bytes + 64);
    return p ? memset(p, 0, count * bytes + 64) : NULL;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static int open_points(solver *s) {
    larder__precision *p = &s->precision;
    if (p->open)
        return 0;
    double sum = s->sums[0] + s->sums[1], size = 0;
    for (size_t v = 0; v < s->qp->n; v++)
        size += fabs(s->qp->beta[v]);
    int rc = s->conf->exact
                 ? 0
                 : larder__exact_open(&p->own, s->kernel, s->conf->data, s->conf->data_row,
                                      s->all->n, fabs(sum) <= balanced * size);
    if (rc < 0)
        return rc;
    p->points = s->conf->exact ? s->conf->exact : &p->own;
    p->open = true;
    p->everybody = larder__malloc((s->all->n + 1) * sizeof *p->everybody);
    p->left = larder__malloc((s->qp->n + 1) * sizeof *p->left);
    p->weight = larder__malloc((s->qp->n + 1) * sizeof *p->weight);
    p->scratch = larder__calloc(s->threads, sizeof *p->scratch);
    bool ok = p->everybody && p->left && p->weight && p->scratch;
    for (unsigned i = 0; ok && i < s->threads; i++)
        ok = (p->scratch[i] = zeros(larder__exact_scratch(p->points), 1)) != NULL;
    if (!ok)
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu points in doubles", s->all->n);
    for (uint32_t i = 0; i < s->all->n; i++)
        p->everybody[i] = larder__among_all(s, i);
    return 0;
}

static double stray_of(const solver *s) {
    double most = 0;
    if (s->kernel->engine == LARDER__ENGINE_GIVEN) {
        for (size_t i = 0; i < s->all->n * s->kernel->dim; i++)
            most = fmax(most, i % s->kernel->dim ? fabs((double)s->all->dense[i]) : 0);
        return most < FLT_MAX ? units * most : INFINITY;
    }
    for (size_t i = 0; i < s->all->n; i++)
        most = fmax(most, (double)s->all->norm[i]);
    double size = larder__kernel_size(s->kernel, most, most);
    return size < FLT_MAX ? units * size : INFINITY;
}

static size_t list_solution(solver *s) {
    larder__precision *p = &s->precision;
    size_t n = 0;
    for (size_t v = 0; v < s->qp->n; v++)
        if (s->qp->beta[v] != 0) {
            p->left[n] = larder__among_all(s, s->qp->point[v]);
            p->weight[n++] = s->qp->beta[v];
        }
    return n;
}

/* The largest error of the gradient at some points. */
static double measure(solver *s) {
    larder__precision *p = &s->precision;
    uint32_t at[SAMPLE], where[SAMPLE];
    double sum[SAMPLE] = {0}, most = 0;
    size_t n = s->all->n < SAMPLE ? s->all->n : SAMPLE, rows = list_solution(s);
    for (size_t i = 0; i < n; i++)
        at[i] = (uint32_t)(i * s->all->n / n), where[i] = larder__among_all(s, at[i]);
    larder__exact_add(p->points, p->left, p->weight, rows, where, n, sum, p->scratch[0]);
    s->out->values += rows * n;
    double moved = larder__exact_moved(p->points, p->left, p->weight, rows);
    for (size_t i = 0; i < n; i++)
        if (!s->shrunk.on || !s->shrunk.idle[at[i]])
            most = fmax(most, fabs(sum[i] + moved - s->f[at[i]]));
    return SAFETY * most;
}

int larder__precision_fails(solver *s, double gap, bool last, bool *out) {
    larder__precision *p = &s->precision;
    *out = false;
    if (!s->conf->data || p->on)
        return 0;
    double sum = 0, limit = too_much * fmax(gap, s->target);
    for (size_t v = 0; v < s->qp->n; v++)
        sum += fabs(s->qp->beta[v]);
    if (p->stray == 0) {
        p->stray = stray_of(s);
        p->share = 1;
    }
    double feared = p->stray * sum;
    if (feared <= limit || (!last && p->share * feared <= limit))
        return 0;
    if (!(feared <= grown * p->seen) || (last && feared != p->seen)) {
        int rc = open_points(s);
        if (rc < 0)
            return rc;
        p->share = measure(s) / feared;
        p->seen = feared;
    }
    *out = !(p->share * feared <= limit); /* also where floats overflow */
    return 0;
}

/* ---- in doubles ------------------------------------------------------------------------------ */

typedef struct adding {
    solver *s;
    const uint32_t *left;
    const double *weight;
    size_t rows;
} adding;

static void add_tile(void *arg, size_t piece, unsigned thread) {
    adding *a = arg;
    solver *s = a->s;
    size_t c0 = piece * LARDER__TILE, n = s->all->n - c0;
    n = n < LARDER__TILE ? n : LARDER__TILE;
    larder__exact_add(s->precision.points, a->left, a->weight, a->rows, s->precision.everybody + c0,
                      n, s->f + c0, s->precision.scratch[thread]);
}

void larder__precision_add(solver *s, const uint32_t *points, const double *weight, size_t rows) {
    adding a = {s, points, weight, rows};
    larder__team_run(s->conf->team, add_tile, &a, (s->all->n + LARDER__TILE - 1) / LARDER__TILE);
    s->out->rows_made += rows;
    s->out->values += rows * s->all->n;
    s->precision.added += (double)rows;
    for (size_t r = 0; r < rows; r++)
        s->precision.added_weight += fabs(weight[r]);
}

void larder__precision_refresh(solver *s) {
    larder__precision *p = &s->precision;
    memset(s->f, 0, s->all->n * sizeof *s->f);
    larder__precision_add(s, p->left, p->weight, list_solution(s));
    p->by_points = true;
    p->fresh = true;
    p->added = p->added_weight = 0;
}

/* Each row that was added has rounded its own values and the gradient, all in one direction at the
 * worst. */
bool larder__precision_fresh(const solver *s) {
    const larder__precision *p = &s->precision;
    double whole = 0;
    if (p->fresh || !p->by_points)
        return p->fresh;
    for (size_t v = 0; v < s->qp->n; v++)
        whole += fabs(s->qp->beta[v]);
    whole += p->added_weight;
    double size = larder__exact_size(p->points);
    return DBL_EPSILON * size * (p->added_weight + p->added * whole) <= nothing * s->target;
}

double larder__precision_moved(solver *s) {
    larder__precision *p = &s->precision;
    return p->by_points ? larder__exact_moved(p->points, p->left, p->weight, list_solution(s)) : 0;
}

int larder__precision_begin(solver *s) {
    larder__precision *p = &s->precision;
    int rc = open_points(s);
    if (rc < 0)
        return rc;
    p->smo.smo = &s->smo;
    p->smo.stride = s->slots;
    p->smo.k = larder__memalign(64, s->slots * s->slots * sizeof *p->smo.k);
    p->smo.diagonal = zeros(s->slots, sizeof *p->smo.diagonal);
    if (!p->smo.k || !p->smo.diagonal)
        return larder__fail(LARDER_E_NOMEM, "no memory to solve in doubles");
    if ((rc = larder__face_open(&p->smo.face, s->slots)) < 0)
        return rc;
    p->on = s->out->exact = true;
    memset(s->smo.made, false, s->slots * sizeof *s->smo.made);
    p->objective = INFINITY;
    larder__precision_refresh(s);
    return 0;
}

bool larder__precision_stands(solver *s) {
    larder__precision *p = &s->precision;
    if (!p->on)
        return false;
    if (s->seen.objective < p->objective - progress * fabs(p->objective) || isinf(p->objective)) {
        p->objective = s->seen.objective;
        p->best = s->out->rounds;
    }
    return s->out->rounds >= p->best + STILL_ROUNDS;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void sum_tile(void *arg, size_t piece, unsigned thread) {
    adding *a = arg;
    solver *s = a->s;
    size_t c0 = piece * LARDER__TILE, n = s->all->n - c0;
    n = n < LARDER__TILE ? n : LARDER__TILE;
    larder__exact_sum(s->precision.points, a->left, a->weight, a->rows, s->precision.everybody + c0,
                      n, s->f + c0, s->precision.scratch[thread]);
}

/* What a sum of `rows` values, `size` at most together, may be off. Errors of both signs grow with
 * the root of their number. */
static double noise_of(const solver *s, double epsilon, double size, size_t rows) {
    return epsilon * size * (4 + sqrt((double)(s->kernel->dim + rows)));
}

/* The gradient in long doubles. Returns what it may still be off: the model is in doubles. */
static double sum_again(solver *s, double size, size_t rows) {
    larder__precision *p = &s->precision;
    adding a = {s, p->left, p->weight, rows};
    larder__team_run(s->conf->team, sum_tile, &a, (s->all->n + LARDER__TILE - 1) / LARDER__TILE);
    s->out->values += rows * s->all->n;
    double most = 0, moved = larder__precision_moved(s);
    for (size_t i = 0; i < s->all->n; i++)
        most = fmax(most, fabs(s->f[i] + moved));
    return fmax(noise_of(s, LDBL_EPSILON, size, rows), DBL_EPSILON * most);
}

/* A sum of beta that is off by d makes the objective one of another problem, by d times the
 * multiplier: as much as if each gradient was off by that over the sum of all |beta|. Where points
 * were moved, it tilts the gradient too. */
static double noise_of_sums(const solver *s, double whole) {
    const larder__exact *e = s->precision.points;
    bool linear = s->kernel->conf.type == LARDER_SVM_LINEAR;
    double sums[2] = {0}, noise = 0, mean = 0, far = 0;
    for (size_t v = 0; v < s->qp->n; v++)
        sums[larder__group_of(s->qp, v)] += s->qp->beta[v];
    for (size_t f = 0; linear && e->mean && f < s->kernel->dim; f++)
        mean += e->mean[f] * e->mean[f];
    for (size_t i = 0; mean > 0 && i < e->n; i++)
        far = fmax(far, e->norm[i]);
    for (unsigned g = 0; g < s->smo.groups; g++) {
        double off = fabs(sums[g] - s->sums[g]);
        if (off > 0)
            noise += off * (fabs(s->out->rho[g]) / whole + sqrt(mean * far));
    }
    return noise;
}

double larder__precision_judge(solver *s) {
    larder__precision *p = &s->precision;
    size_t rows = list_solution(s);
    double tolerance = s->conf->tolerance, leeway = too_much * tolerance, whole = 0;
    for (size_t r = 0; r < rows; r++)
        whole += fabs(p->weight[r]);
    double size = whole > 0 ? whole * larder__exact_size(p->points) : 0, gap = s->out->gap;
    double noise = noise_of(s, DBL_EPSILON, size, rows);
    if (!(noise <= leeway)) {
        noise = sum_again(s, size, rows);
        double again = larder__survey_all(s);
        gap = gap <= tolerance && again <= tolerance + leeway ? fmin(gap, again) : again;
    }
    noise += noise_of_sums(s, whole);
    return noise <= leeway ? gap : gap + noise / too_much;
}

void larder__precision_close(solver *s) {
    larder__precision *p = &s->precision;
    larder__exact_close(&p->own);
    larder__face_close(&p->smo.face);
    larder__free(p->smo.k);
    larder__free(p->smo.diagonal);
    larder__free(p->everybody);
    larder__free(p->left);
    larder__free(p->weight);
    for (unsigned i = 0; p->scratch && i < s->threads; i++)
        larder__free(p->scratch[i]);
    larder__free(p->scratch);
}
