/* Tiny problems over values that lie at hand: optimal by the definition, feasible where steps were
 * too few, declined where they do not suit; and trained machines against the solver's own way. */
#include "check.h"

#include "svm/tiny.h"

#include <larder/plugin.h>
#include <math.h>
#include <stdlib.h>

enum { ROWS = 60, DIM = 5, MOST = 40 };
static larder_rng rng;

typedef struct world {
    larder_svm_data *data;
    larder__kernel kernel;
    larder__exact points;
    uint32_t row[ROWS];
    double x[ROWS * DIM];
} world;

static void make_world(world *w, const larder__kernel_conf *c) {
    double y[ROWS];
    for (size_t i = 0; i < ROWS * DIM; i++)
        w->x[i] = larder_rng_unit(&rng) * 2 - 1;
    for (uint32_t i = 0; i < ROWS; i++)
        w->row[i] = i, y[i] = i % 4;
    check_ok(larder_svm_copy(&w->data, &(larder_svm_matrix){.size = sizeof(larder_svm_matrix),
                                                            .rows = ROWS,
                                                            .features = DIM,
                                                            .value = w->x,
                                                            .label = y}));
    check_ok(larder__kernel_open(&w->kernel, c, w->data, NULL, LARDER__ENGINE_AUTO));
    check_ok(larder__exact_open(&w->points, &w->kernel, w->data, w->row, ROWS, false));
    check_ok(larder__exact_hold(&w->points));
    assert_non_null(w->points.held);
}

static void close_world(world *w) {
    larder__exact_close(&w->points);
    larder__kernel_close(&w->kernel);
    larder_svm_data_close(&w->data);
}

static double plain(const world *w, size_t a, size_t b) {
    double product = 0, distance = 0;
    for (size_t f = 0; f < DIM; f++) {
        double p = w->x[a * DIM + f], q = w->x[b * DIM + f];
        product += p * q, distance += (p - q) * (p - q);
    }
    return larder__kernel_value(&w->kernel.conf, product, distance);
}

typedef struct problem { /* some of the points, in any order */
    larder__qp q;
    uint32_t all_of[MOST], point[MOST];
    double lo[MOST], hi[MOST], linear[MOST], beta[MOST];
} problem;

static void pose(problem *p, size_t n, double c) {
    *p = (problem){.q = {.n = n}};
    for (uint32_t v = 0; v < n; v++) {
        bool first = larder_rng_unit(&rng) < 0.5;
        p->point[v] = (uint32_t)(n - 1 - v);
        p->all_of[v] = (v * 7 + 3) % ROWS;
        p->lo[v] = first ? 0 : -c, p->hi[v] = first ? c : 0;
        p->linear[v] = first ? -1 : 1;
    }
    p->q.point = p->point, p->q.lo = p->lo, p->q.hi = p->hi;
    p->q.linear = p->linear, p->q.beta = p->beta;
}

/* Bounds and sum hold; the gap and the objective, from their definitions. */
static double look(const world *w, const problem *p, double *objective) {
    double low = INFINITY, high = -INFINITY, sum = 0;
    *objective = 0;
    for (size_t i = 0; i < p->q.n; i++) {
        double f = p->linear[i];
        for (size_t j = 0; j < p->q.n; j++)
            f += p->beta[j] * plain(w, p->all_of[p->point[i]], p->all_of[p->point[j]]);
        assert_true(p->beta[i] >= p->lo[i] && p->beta[i] <= p->hi[i]);
        sum += p->beta[i];
        *objective += p->beta[i] * (f + p->linear[i]) / 2;
        low = p->beta[i] < p->hi[i] ? fmin(low, f) : low;
        high = p->beta[i] > p->lo[i] ? fmax(high, f) : high;
    }
    assert_true(fabs(sum) < 1e-10);
    return high - low;
}

static void solutions_are_optimal(void **state) {
    (void)state;
    const larder__kernel_conf confs[] = {
        {LARDER_SVM_LINEAR, 0, 0, 0}, {LARDER_SVM_POLY, 2, 0.5, 1}, {LARDER_SVM_RBF, 0, 0.7, 0}};
    unsigned solved = 0;
    larder_rng_seed(&rng, 3, 0);
    for (unsigned turn = 0; turn < 120; turn++) {
        world w;
        problem p;
        larder__solved s = {0};
        make_world(&w, &confs[turn % 3]);
        pose(&p, 2 + turn % (MOST - 2), pow(10, turn % 4 - 1));
        larder__solver_conf c = {.tolerance = 1e-4, .exact = &w.points, .all_of = p.all_of};
        bool done = larder__tiny_solve(&p.q, &w.kernel, &c, &s);
        double objective, gap = look(&w, &p, &objective);
        if (done) {
            assert_true(!(gap > 1.001e-4));
            assert_true(fabs(objective - s.objective) <= 1e-9 * (1 + fabs(objective)));
            solved++;
        }
        close_world(&w);
    }
    assert_true(solved > 90); /* the others want more than a few steps */
}

static void others_are_declined(void **state) {
    (void)state;
    world w;
    problem p;
    uint8_t group[MOST] = {0};
    larder__solved s = {0};
    larder_rng_seed(&rng, 4, 0);
    make_world(&w, &(larder__kernel_conf){LARDER_SVM_RBF, 0, 0.7, 0});
    pose(&p, 20, 1);
    larder__solver_conf c = {.tolerance = 1e-4, .exact = &w.points, .all_of = p.all_of};
    c.most_iterations = 10;
    assert_false(larder__tiny_solve(&p.q, &w.kernel, &c, &s));
    c.most_iterations = 0, c.beyond = 1e-6;
    assert_false(larder__tiny_solve(&p.q, &w.kernel, &c, &s));
    c.beyond = 0, p.q.group = group;
    assert_false(larder__tiny_solve(&p.q, &w.kernel, &c, &s));
    p.q.group = NULL, c.tolerance = 1e-300; /* rounding alone is above it */
    assert_false(larder__tiny_solve(&p.q, &w.kernel, &c, &s));
    c.tolerance = 1e-4;
    assert_true(larder__tiny_solve(&p.q, &w.kernel, &c, &s));
    close_world(&w);
}

/* Four classes, once as they come and once with rows of their own, where nothing lies at hand. */
static void machines_are_the_solvers_own(void **state) {
    (void)state;
    larder_rng_seed(&rng, 5, 0);
    for (unsigned turn = 0; turn < 6; turn++) {
        world w;
        make_world(&w, &(larder__kernel_conf){LARDER_SVM_RBF, 0, 0.7, 0});
        double objective[2], values[2][ROWS * 6], labels[ROWS];
        for (unsigned apart = 0; apart < 2; apart++) {
            larder_svm_conf c = {.size = sizeof c};
            larder_svm_stats stats = {.size = sizeof stats};
            larder_svm_model *m = NULL;
            larder_svm_defaults(&c);
            c.gamma = 0.7, c.c = pow(10, turn % 3), c.tolerance = 1e-7, c.threads = 1;
            c.separate_rows = apart;
            check_ok(larder_svm_train(&m, w.data, &c, &stats));
            objective[apart] = stats.objective;
            check_ok(larder_svm_predict(m, w.data, labels, values[apart], NULL));
            larder_svm_model_close(&m);
        }
        assert_true(fabs(objective[0] / objective[1] - 1) < 1e-6);
        for (size_t i = 0; i < ROWS * 6; i++)
            assert_true(fabs(values[0][i] - values[1][i]) < 1e-5);
        close_world(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(solutions_are_optimal),
                                       cmocka_unit_test(others_are_declined),
                                       cmocka_unit_test(machines_are_the_solvers_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
