/* Kernel values in doubles against plain loops, and small problems of columns of all scales solved
 * to what doubles can tell. */
#include "check.h"

#include "svm/exact.h"
#include "svm/smo_exact.h"

#include <larder/plugin.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 48, DIM = 7 };
static larder_rng rng;

static double value_at(const double *x, size_t i, size_t f) { return x[i * DIM + f]; }

/* Columns of 1e-3 .. 1e3; `share` of the values are not zero. */
static void fill(double *x, double share) {
    for (size_t i = 0; i < ROWS; i++)
        for (size_t f = 0; f < DIM; f++)
            x[i * DIM + f] = larder_rng_unit(&rng) < share
                                 ? (larder_rng_unit(&rng) - 0.3) * pow(10, (double)f - 3)
                                 : 0;
}

static double plain(const larder__kernel_conf *c, const double *x, size_t a, size_t b) {
    double product = 0, distance = 0;
    for (size_t f = 0; f < DIM; f++) {
        double p = value_at(x, a, f), q = value_at(x, b, f);
        product += p * q;
        distance += (p - q) * (p - q);
    }
    return larder__kernel_value(c, product, distance);
}

/* All values at once are those that are made when they are wanted; `out`: ROWS a row. */
static void hold(const larder__kernel *k, const larder_svm_data *d, const uint32_t *row,
                 bool balanced, const double *out) {
    enum { SOME = ROWS - 3 };
    larder__exact e;
    check_ok(larder__exact_open(&e, k, d, row, SOME, balanced));
    check_ok(larder__exact_hold(&e));
    for (size_t i = 0; e.held && i < SOME; i++)
        for (size_t j = 0; j < SOME; j++) {
            double v = e.held[i * SOME + j];
            assert_true(fabs(v - out[i * ROWS + j]) <= 1e-10 * (1 + fabs(v)));
            assert_true(v == e.held[j * SOME + i]);
        }
    larder__exact_close(&e);
}

static void compare(const larder__kernel_conf *c, double share, bool balanced) {
    double x[ROWS * DIM], y[ROWS] = {0};
    fill(x, share);
    larder_svm_data *d = NULL;
    check_ok(larder_svm_copy(&d, &(larder_svm_matrix){.size = sizeof(larder_svm_matrix),
                                                      .rows = ROWS,
                                                      .features = DIM,
                                                      .value = x,
                                                      .label = y}));
    larder__kernel k;
    check_ok(larder__kernel_open(&k, c, d, NULL, LARDER__ENGINE_AUTO));
    uint32_t row[ROWS], all[ROWS];
    for (uint32_t i = 0; i < ROWS; i++)
        row[i] = ROWS - 1 - i, all[i] = i;
    larder__exact e;
    check_ok(larder__exact_open(&e, &k, d, row, ROWS, balanced));
    void *scratch = calloc(1, larder__exact_scratch(&e));
    static double out[ROWS * ROWS];
    double weight[ROWS], sum[ROWS] = {0}, again[ROWS], whole = 0;
    larder__exact_block(&e, all, ROWS - 3, all, ROWS, out, ROWS, scratch);
    for (size_t i = 0; i < ROWS; i++)
        weight[i] = larder_rng_unit(&rng) - 0.5;
    for (size_t i = 1; i < ROWS - 3; i++)
        whole += weight[i];
    weight[0] = balanced ? -whole : weight[0];
    larder__exact_add(&e, all, weight, ROWS - 3, all, ROWS, sum, scratch);
    larder__exact_sum(&e, all, weight, ROWS - 3, all, ROWS, again, scratch);
    bool elsewhere = e.mean && c->type == LARDER_SVM_LINEAR;
    double moved = larder__exact_moved(&e, all, weight, ROWS - 3);
    for (size_t j = 0; j < ROWS; j++) {
        double want = 0;
        for (size_t i = 0; i < ROWS - 3; i++) {
            double v = plain(c, x, row[i], row[j]);
            assert_true(elsewhere || fabs(out[i * ROWS + j] - v) <= 1e-10 * (1 + fabs(v)));
            assert_true(fabs(v) <= larder__exact_size(&e) || elsewhere);
            want += weight[i] * v;
        }
        assert_true(fabs(sum[j] + moved - want) <= 1e-9 * (1 + fabs(want)));
        assert_true(fabs(again[j] + moved - want) <= 1e-9 * (1 + fabs(want)));
    }
    if (!elsewhere)
        hold(&k, d, row, balanced, out);
    free(scratch);
    larder__exact_close(&e);
    larder__kernel_close(&k);
    larder_svm_data_close(&d);
}

static void values_are_those_of_doubles(void **state) {
    (void)state;
    const larder__kernel_conf confs[] = {{LARDER_SVM_LINEAR, 0, 0, 0},
                                         {LARDER_SVM_POLY, 3, 0.01, 1},
                                         {LARDER_SVM_RBF, 0, 1e-5, 0},
                                         {LARDER_SVM_SIGMOID, 0, 1e-5, 0.1}};
    larder_rng_seed(&rng, 5, 0);
    for (size_t i = 0; i < sizeof confs / sizeof *confs; i++) {
        for (unsigned b = 0; b < 2; b++) {
            compare(&confs[i], 1, b);
            compare(&confs[i], 0.1, b);
        }
    }
}

typedef struct problem {
    larder__smo smo;
    larder__smo_exact exact;
    double k[ROWS * ROWS], diagonal[ROWS], f[ROWS], beta[ROWS], lo[ROWS], hi[ROWS], linear[ROWS];
    uint8_t members[2][ROWS / 8];
} problem;

/* Classification by a linear kernel, one sum or one a class (as nu tasks have it). */
static void pose(problem *p, unsigned groups, double c) {
    double x[ROWS * DIM];
    *p = (problem){0};
    fill(x, 1);
    larder__kernel_conf linear = {.type = LARDER_SVM_LINEAR};
    for (size_t i = 0; i < ROWS; i++) {
        bool first =
            value_at(x, i, 0) * 1000 + value_at(x, i, 6) / 1000 + larder_rng_unit(&rng) * 0.3 > 0.5;
        unsigned g = groups > 1 && !first ? 1 : 0;
        p->members[g][i / 8] |= (uint8_t)(1u << i % 8);
        p->lo[i] = first ? 0 : -c, p->hi[i] = first ? c : 0;
        p->linear[i] = groups > 1 ? 0 : first ? -1 : 1;
        p->beta[i] = groups > 1 ? (first ? c / 2 : -c / 2) : 0;
        for (size_t j = 0; j < ROWS; j++)
            p->k[i * ROWS + j] = plain(&linear, x, i, j);
    }
    for (size_t i = 0; i < ROWS; i++) {
        p->diagonal[i] = p->k[i * ROWS + i];
        p->f[i] = p->linear[i];
        for (size_t j = 0; j < ROWS; j++)
            p->f[i] += p->k[i * ROWS + j] * p->beta[j];
    }
    p->smo = (larder__smo){.n = ROWS,
                           .groups = groups,
                           .f = p->f,
                           .beta = p->beta,
                           .lo = p->lo,
                           .hi = p->hi,
                           .in_group = {p->members[0], p->members[1]}};
    p->exact =
        (larder__smo_exact){.smo = &p->smo, .k = p->k, .stride = ROWS, .diagonal = p->diagonal};
}

static void check_optimal(const problem *p, double tolerance, const double *sums) {
    for (unsigned g = 0; g < p->smo.groups; g++) {
        double low = INFINITY, high = -INFINITY, sum = 0;
        for (size_t i = 0; i < ROWS; i++) {
            double f = p->linear[i];
            for (size_t j = 0; j < ROWS; j++)
                f += p->k[i * ROWS + j] * p->beta[j];
            assert_true(p->beta[i] >= p->lo[i] && p->beta[i] <= p->hi[i]);
            if (!(p->members[g][i / 8] >> i % 8 & 1))
                continue;
            sum += p->beta[i];
            if (p->beta[i] < p->hi[i])
                low = fmin(low, f);
            if (p->beta[i] > p->lo[i])
                high = fmax(high, f);
        }
        assert_true(!(high - low > tolerance));
        assert_true(fabs(sum - sums[g]) < 1e-9 * (1 + fabs(sums[g])));
    }
}

static void wild_problems_are_solved(void **state) {
    (void)state;
    larder_rng_seed(&rng, 8, 0);
    for (int turn = 0; turn < 60; turn++) {
        problem *p = malloc(sizeof *p);
        assert_non_null(p);
        pose(p, 1 + (unsigned)turn % 2, pow(10, turn % 5 - 2));
        double sums[2] = {0};
        for (unsigned g = 0; g < p->smo.groups; g++)
            for (size_t i = 0; i < ROWS; i++)
                sums[g] += p->members[g][i / 8] >> i % 8 & 1 ? p->beta[i] : 0;
        check_ok(larder__face_open(&p->exact.face, ROWS));
        uint64_t steps = larder__smo_exact_run(&p->exact, 1e-5, 0, 2000000);
        assert_true(steps < 2000000);
        check_optimal(p, 2e-5, sums);
        larder__face_close(&p->exact.face);
        free(p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_are_those_of_doubles),
                                       cmocka_unit_test(wild_problems_are_solved)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
