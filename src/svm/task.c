#include "svm/task.h"

#include "base/err.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct programme {
    larder__qp qp;
    uint32_t *point;
    double *lo, *hi, *linear, *beta;
    uint8_t *group;
} programme;

static bool is_regression(larder_svm_task t) {
    return t == LARDER_SVM_EPSILON_SVR || t == LARDER_SVM_NU_SVR;
}
static bool has_groups(larder_svm_task t) {
    return t == LARDER_SVM_NU_SVC || t == LARDER_SVM_NU_SVR;
}

static void close_programme(programme *p) {
    larder__free(p->point);
    larder__free(p->lo);
    larder__free(p->hi);
    larder__free(p->linear);
    larder__free(p->beta);
    larder__free(p->group);
}

static int open_programme(programme *p, size_t n) {
    *p = (programme){0};
    p->qp.n = n;
    if (!(p->point = larder__calloc(n + 1, sizeof *p->point)) ||
        !(p->lo = larder__calloc(n + 1, sizeof *p->lo)) ||
        !(p->hi = larder__calloc(n + 1, sizeof *p->hi)) ||
        !(p->linear = larder__calloc(n + 1, sizeof *p->linear)) ||
        !(p->beta = larder__calloc(n + 1, sizeof *p->beta)) ||
        !(p->group = larder__calloc(n + 1, sizeof *p->group))) {
        close_programme(p);
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu variables", n);
    }
    return 0;
}

/* ---- each task as bounds, linear term and start ---------------------------------------------- */

/* Variable v of sample s: y = `side` and bound `most`. */
static void set_variable(programme *p, const larder__svm_task *t, size_t v, size_t s, double side,
                         double most, double linear) {
    p->point[v] = t->point[s];
    p->lo[v] = side > 0 ? 0 : -most;
    p->hi[v] = side > 0 ? most : 0;
    p->linear[v] = linear;
    p->group[v] = side > 0 ? 0 : 1;
}

/* LIBSVM's start of nu tasks: from the front, each up to its bound, until the sum is reached. */
static void pour(programme *p, size_t from, size_t to, unsigned group, double sum) {
    for (size_t v = from; v < to; v++) {
        if (p->group[v] != group)
            continue;
        double most = group ? -p->lo[v] : p->hi[v], take = fmin(most, sum);
        p->beta[v] = group ? -take : take;
        sum -= take;
    }
}

static int set_nu_svc(programme *p, const larder__svm_task *t, const larder_svm_conf *c) {
    double sums[2] = {0, 0};
    for (size_t s = 0; s < t->n; s++) {
        set_variable(p, t, s, s, t->y[s], t->count[s], 0);
        sums[p->group[s]] += t->count[s];
    }
    double half = c->nu * t->rows / 2;
    if (half > fmin(sums[0], sums[1]))
        return larder__fail(LARDER_E_ARGS,
                            "nu = %g cannot be reached with %.0f and %.0f rows of two classes",
                            c->nu, sums[0], sums[1]);
    pour(p, 0, t->n, 0, half);
    pour(p, 0, t->n, 1, half);
    return 0;
}

static void set_svr(programme *p, const larder__svm_task *t, const larder_svm_conf *c) {
    double margin = c->task == LARDER_SVM_EPSILON_SVR ? c->epsilon : 0;
    for (size_t s = 0; s < t->n; s++) {
        double most = c->c * t->count[s];
        set_variable(p, t, s, s, 1, most, margin - t->y[s]);
        set_variable(p, t, t->n + s, s, -1, most, -margin - t->y[s]);
        if (t->start)
            p->beta[t->start[s] > 0 ? s : t->n + s] = t->start[s];
    }
    if (c->task == LARDER_SVM_NU_SVR) {
        double half = c->c * c->nu * t->rows / 2;
        pour(p, 0, t->n, 0, half);
        pour(p, t->n, 2 * t->n, 1, half);
    }
}

static int set_programme(programme *p, const larder__svm_task *t, const larder_svm_conf *c) {
    switch (c->task) {
    case LARDER_SVM_C_SVC:
        for (size_t s = 0; s < t->n; s++) {
            set_variable(p, t, s, s, t->y[s], t->c[t->y[s] < 0] * t->count[s], -t->y[s]);
            if (t->start)
                p->beta[s] = t->start[s];
        }
        break;
    case LARDER_SVM_NU_SVC:
        return set_nu_svc(p, t, c);
    case LARDER_SVM_ONE_CLASS:
        for (size_t s = 0; s < t->n; s++)
            set_variable(p, t, s, s, 1, t->count[s], 0);
        pour(p, 0, t->n, 0, c->nu * t->rows);
        break;
    case LARDER_SVM_EPSILON_SVR:
    case LARDER_SVM_NU_SVR:
        set_svr(p, t, c);
        break;
    }
    return 0;
}

/* ---- the solution ---------------------------------------------------------------------------- */

static void take_coefficients(larder__decision *out, const larder__qp *q, const larder__svm_task *t,
                              const larder_svm_conf *c) {
    double sum = 0;
    out->vectors = out->bounded = 0;
    out->one_c = t->c[0] == t->c[1];
    for (size_t s = 0; s < t->n; s++) {
        out->coef[s] = q->beta[s] + (is_regression(c->task) ? q->beta[t->n + s] : 0);
        sum += fabs(out->coef[s]);
        double most = q->hi[s] > 0 ? q->hi[s] : -q->lo[s];
        out->vectors += out->coef[s] != 0;
        out->bounded += out->coef[s] != 0 && fabs(out->coef[s]) >= most;
    }
    out->extra = sum / (t->c[0] * t->rows);
}

/* rho and, of nu tasks, the scale r (LIBSVM's Solver_NU). */
static void take_offset(larder__decision *out, const larder__svm_task *t,
                        const larder_svm_conf *c) {
    const double *rho = out->solved.rho;
    out->rho = rho[0];
    if (!has_groups(c->task))
        return;
    double r = (rho[0] - rho[1]) / 2;
    out->rho = (rho[0] + rho[1]) / 2;
    if (c->task == LARDER_SVM_NU_SVR) {
        out->extra = -r;
        return;
    }
    out->extra = 1 / r;
    out->rho /= r;
    out->solved.objective /= r * r;
    for (size_t s = 0; s < t->n; s++)
        out->coef[s] /= r;
}

int larder__decision_take(larder__decision *out, const larder__qp *q, const larder__solved *solved,
                          const larder__svm_task *t, const larder_svm_conf *c) {
    if (!out->coef && !(out->coef = larder__calloc(t->n + 1, sizeof *out->coef)))
        return larder__fail(LARDER_E_NOMEM, "no memory for %zu coefficients", t->n);
    out->solved = *solved;
    take_coefficients(out, q, t, c);
    take_offset(out, t, c);
    return 0;
}

int larder__task_solve(larder__decision *out, larder__svm_task *t, const larder_svm_conf *c,
                       const larder__kernel *k, const larder__panel *all,
                       const larder__solver_conf *conf) {
    programme p;
    *out = (larder__decision){0};
    int rc = open_programme(&p, is_regression(c->task) ? 2 * t->n : t->n);
    if (rc < 0)
        return rc;
    larder__solved solved;
    if ((rc = set_programme(&p, t, c)) == 0) {
        p.qp.point = p.point, p.qp.lo = p.lo, p.qp.hi = p.hi, p.qp.linear = p.linear;
        p.qp.beta = p.beta, p.qp.group = has_groups(c->task) ? p.group : NULL;
        p.qp.f = t->f, p.qp.knows_f = t->knows_f;
        rc = larder__solve(&p.qp, k, all, conf, &solved);
        t->knows_f = p.qp.knows_f;
    }
    if (rc == 0)
        rc = larder__decision_take(out, &p.qp, &solved, t, c);
    close_programme(&p);
    if (rc < 0)
        larder__decision_close(out);
    return rc;
}

void larder__decision_close(larder__decision *d) {
    larder__free(d->coef);
    larder__free(d->f);
    d->coef = d->f = NULL;
}

void larder__decision_print(const larder__decision *d, const larder_svm_conf *c) {
    char line[160];
    if (!c->print)
        return;
    snprintf(line, sizeof line, "*\noptimization finished, #iter = %llu\n",
             (unsigned long long)d->solved.iterations);
    c->print(c->print_arg, line);
    const char *extra =
        c->task == LARDER_SVM_EPSILON_SVR || (c->task == LARDER_SVM_C_SVC && d->one_c) ? "nu"
        : c->task == LARDER_SVM_NU_SVC                                                 ? "C"
        : c->task == LARDER_SVM_NU_SVR                                                 ? "epsilon"
                                                                                       : NULL;
    if (extra) {
        snprintf(line, sizeof line, "%s = %f\n", extra, d->extra);
        c->print(c->print_arg, line);
    }
    snprintf(line, sizeof line, "obj = %f, rho = %f\nnSV = %zu, nBSV = %zu\n", d->solved.objective,
             d->rho, d->vectors, d->bounded);
    c->print(c->print_arg, line);
}
