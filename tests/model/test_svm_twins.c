/* Kernel engines against doubles written out, and the solver against the optimality conditions of
 * its problem, computed from the data and the model alone. */
#include "check.h"

#include "base/mem.h"
#include "svm/calibrate.h"
#include "svm/kernel.h"
#include "svm/model.h"
#include "svm/samples.h"
#include "svm/task.h"

#include <larder/plugin.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- data ------------------------------------------------------------------------------------ */

enum { BINARY, WHOLE, REAL };

/* `share` of the features are there; labels -1 and +1, or `classes` numbers, or a target. */
static larder_svm_data *make_data(size_t rows, uint32_t dim, double share, int kind, int classes,
                                  uint64_t seed) {
    larder_rng rng;
    larder_rng_seed(&rng, seed, 0);
    uint64_t *start = calloc(rows + 1, sizeof *start);
    uint32_t *index = calloc(rows * dim + 1, sizeof *index);
    double *value = calloc(rows * dim + 1, sizeof *value), *label = calloc(rows, sizeof *label);
    assert_true(start && index && value && label);
    uint64_t n = 0;
    for (size_t i = 0; i < rows; i++) {
        double sum = 0;
        for (uint32_t f = 1; f <= dim; f++)
            if (larder_rng_unit(&rng) < share) {
                index[n] = f;
                value[n] = kind == BINARY  ? 1
                           : kind == WHOLE ? 1 + (double)larder_rng_below(&rng, 9)
                                           : larder_rng_unit(&rng) * 2 - 1;
                sum += value[n] * (f % 3 == 0 ? -1 : 1);
                n++;
            }
        sum += 2 * larder_rng_unit(&rng) - 1;
        label[i] = classes == 0   ? sum
                   : classes == 2 ? (sum > share * dim / 3 ? 1 : -1)
                                  : (double)larder_rng_below(&rng, (uint32_t)classes);
        start[i + 1] = n;
    }
    larder_svm_data *d = NULL;
    check_ok(larder_svm_copy(&d, &(larder_svm_matrix){.size = sizeof(larder_svm_matrix),
                                                      .rows = rows,
                                                      .start = start,
                                                      .index = index,
                                                      .value = value,
                                                      .label = label}));
    free(start), free(index), free(value), free(label);
    return d;
}

static double slow_kernel(const larder__kernel_conf *k, const larder_svm_data *a, size_t i,
                          const larder_svm_data *b, size_t j) {
    double product = 0, distance = 0;
    uint64_t p = a->start[i], q = b->start[j];
    while (p < a->start[i + 1] || q < b->start[j + 1]) {
        uint32_t x = p < a->start[i + 1] ? a->index[p] : UINT32_MAX;
        uint32_t y = q < b->start[j + 1] ? b->index[q] : UINT32_MAX;
        double u = x <= y ? a->value[p++] : 0, v = y <= x ? b->value[q++] : 0;
        product += u * v;
        distance += (u - v) * (u - v);
    }
    double base = k->gamma * product + k->coef0;
    return k->type == LARDER_SVM_RBF       ? exp(-k->gamma * distance)
           : k->type == LARDER_SVM_POLY    ? pow(base, k->degree)
           : k->type == LARDER_SVM_SIGMOID ? tanh(base)
                                           : product;
}

/* ---- engines --------------------------------------------------------------------------------- */

static void one_engine(const larder_svm_data *d, const larder__kernel_conf *conf,
                       larder__engine engine) {
    larder__kernel k;
    larder__panel all, some;
    enum { ROWS = 21 };
    check_ok(larder__kernel_open(&k, conf, d, NULL, engine));
    uint32_t *ids = calloc(d->rows, sizeof *ids), pick[ROWS];
    for (uint32_t i = 0; i < d->rows; i++)
        ids[i] = i;
    for (uint32_t i = 0; i < ROWS; i++)
        pick[i] = (i * 13 + 5) % (uint32_t)d->rows;
    check_ok(larder__panel_fill(&all, &k, d, ids, d->rows));
    check_ok(larder__panel_room(&some, &k, ROWS));
    larder__panel_pick(&some, &k, &all, pick, ROWS);
    void *scratch = calloc(1, larder__kernel_scratch(&k, ROWS) + 64);
    float *block = calloc(ROWS * d->rows, sizeof *block);
    double *sum = calloc(d->rows, sizeof *sum), weight[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        weight[i] = (double)i - 7.5;
    larder__kernel_block(&k, &some, 0, ROWS, &all, 0, d->rows, block, d->rows, scratch);
    larder__kernel_add(&k, &some, ROWS, weight, &all, 0, d->rows, sum, scratch);
    float *diagonal = calloc(d->rows, sizeof *diagonal);
    larder__kernel_diagonal(&k, &all, diagonal);
    for (size_t c = 0; c < d->rows; c++) {
        double total = 0, size = 0;
        for (size_t r = 0; r < ROWS; r++) {
            double want = slow_kernel(conf, d, pick[r], d, c), got = block[r * d->rows + c];
            double room = 2e-5 * (1 + fabs(want));
            if (fabs(want - got) > room)
                fail_msg("%s, kernel %d: K(%u, %zu) = %g, not %g", larder__kernel_engine(&k),
                         (int)conf->type, pick[r], c, got, want);
            total += weight[r] * got;
            size += fabs(weight[r] * got);
        }
        assert_true(fabs(total - sum[c]) <= 1e-12 * (1 + size));
        double own = slow_kernel(conf, d, c, d, c);
        assert_true(fabs(own - (double)diagonal[c]) <= 2e-5 * (1 + fabs(own)));
    }
    free(ids), free(scratch), free(block), free(sum), free(diagonal);
    larder__panel_free(&all);
    larder__panel_free(&some);
    larder__kernel_close(&k);
}

static void all_kernels(const larder_svm_data *d, double gamma, larder__engine engine) {
    for (int t = LARDER_SVM_LINEAR; t <= LARDER_SVM_SIGMOID; t++)
        for (int degree = 2; degree <= (t == LARDER_SVM_POLY ? 5 : 2); degree++) {
            larder__kernel_conf conf = {(larder_svm_kernel)t, degree, gamma, 0.5};
            one_engine(d, &conf, engine);
        }
}

static void engines_agree(void **state) {
    (void)state;
    static const uint32_t dims[] = {1, 31, 60, 126, 127, 300, 700};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        larder_svm_data *d = make_data(97, dims[i], 0.2, BINARY, 2, i);
        all_kernels(d, 1.0 / dims[i], LARDER__ENGINE_BITS);
        all_kernels(d, 1.0 / dims[i], LARDER__ENGINE_DENSE);
        all_kernels(d, 1.0 / dims[i], LARDER__ENGINE_SPARSE);
        larder_svm_data_close(&d);
        d = make_data(97, dims[i], 0.3, REAL, 2, i);
        all_kernels(d, 1.0 / dims[i], LARDER__ENGINE_DENSE);
        all_kernels(d, 1.0 / dims[i], LARDER__ENGINE_SPARSE);
        all_kernels(d, 1.0 / dims[i], LARDER__ENGINE_AUTO);
        larder_svm_data_close(&d);
    }
}

/* Points that lie close together far from zero: products would cancel. */
static void far_from_zero(void **state) {
    (void)state;
    uint64_t start[65];
    uint32_t index[64 * 20];
    double value[64 * 20], label[64];
    larder_rng rng;
    larder_rng_seed(&rng, 3, 0);
    start[0] = 0;
    for (size_t i = 0; i < 64; i++) {
        label[i] = i % 2 ? 1 : -1;
        for (uint32_t f = 0; f < 20; f++)
            index[i * 20 + f] = f + 1, value[i * 20 + f] = 1000 * f + larder_rng_unit(&rng);
        start[i + 1] = 20 * (i + 1);
    }
    larder_svm_data *d = NULL;
    check_ok(larder_svm_copy(&d, &(larder_svm_matrix){.size = sizeof(larder_svm_matrix),
                                                      .rows = 64,
                                                      .start = start,
                                                      .index = index,
                                                      .value = value,
                                                      .label = label}));
    larder__kernel_conf conf = {LARDER_SVM_RBF, 0, 0.5, 0};
    one_engine(d, &conf, LARDER__ENGINE_AUTO);
    larder_svm_data_close(&d);
}

/* ---- the solver ------------------------------------------------------------------------------ */

/* Decision values of the training rows, from model and data, in doubles. */
static double slow_value(const larder_svm_model *m, const larder_svm_data *d, size_t row) {
    double sum = -m->rho[0];
    for (size_t s = 0; s < m->vectors->rows; s++)
        sum += m->coef[s] * slow_kernel(&m->kernel, m->vectors, s, d, row);
    return sum;
}

/* alpha of each row: a merged vector's is shared out evenly. */
static void alphas(const larder_svm_model *m, const larder_svm_data *d, double *out) {
    for (size_t i = 0; i < d->rows; i++) {
        out[i] = 0;
        for (size_t s = 0; s < m->vectors->rows; s++) {
            const larder_svm_data *v = m->vectors;
            uint64_t n = v->start[s + 1] - v->start[s];
            if (v->label[s] == d->label[i] && n == d->start[i + 1] - d->start[i] &&
                memcmp(v->index + v->start[s], d->index + d->start[i], n * sizeof *v->index) == 0 &&
                memcmp(v->value + v->start[s], d->value + d->start[i], n * sizeof *v->value) == 0)
                out[i] = m->coef[s];
        }
    }
    for (size_t i = 0; i < d->rows; i++) {
        size_t same = 0;
        for (size_t j = 0; j < d->rows; j++) {
            uint64_t n = d->start[i + 1] - d->start[i];
            same +=
                d->label[j] == d->label[i] && n == d->start[j + 1] - d->start[j] &&
                memcmp(d->index + d->start[j], d->index + d->start[i], n * sizeof *d->index) == 0 &&
                memcmp(d->value + d->start[j], d->value + d->start[i], n * sizeof *d->value) == 0;
        }
        out[i] /= (double)same;
    }
}

/* C-SVC: y f >= 1 at alpha = 0, <= 1 at C, = 1 between, within the tolerance. */
static void check_c_svc(const larder_svm_model *m, const larder_svm_data *d, double c) {
    double *alpha = calloc(d->rows, sizeof *alpha), sum = 0, room = 2e-3;
    alphas(m, d, alpha);
    for (size_t i = 0; i < d->rows; i++) {
        double y = d->label[i], margin = y * slow_value(m, d, i), a = y * alpha[i];
        sum += alpha[i];
        assert_true(a >= 0 && a <= c * (1 + 1e-9));
        if (a < c * (1 - 1e-9) && margin < 1 - room)
            fail_msg("row %zu: alpha %g below C, margin %g", i, a, margin);
        if (a > 0 && margin > 1 + room)
            fail_msg("row %zu: alpha %g above 0, margin %g", i, a, margin);
    }
    assert_true(fabs(sum) < 1e-6 * c * (double)d->rows);
    free(alpha);
}

/* epsilon-SVR: an error below epsilon has coefficient 0, one above the bound. */
static void check_svr(const larder_svm_model *m, const larder_svm_data *d, double c, double eps) {
    double *alpha = calloc(d->rows, sizeof *alpha), room = 2e-3;
    alphas(m, d, alpha);
    for (size_t i = 0; i < d->rows; i++) {
        double error = d->label[i] - slow_value(m, d, i);
        if (fabs(error) < eps - room)
            assert_true(alpha[i] == 0);
        if (fabs(error) > eps + room)
            assert_true(fabs(alpha[i] - copysign(c, error)) < 1e-6 * c);
    }
    free(alpha);
}

static larder_svm_conf conf_of(larder_svm_task task, larder_svm_kernel kernel, double c,
                               double gamma) {
    larder_svm_conf conf = {.size = sizeof conf};
    larder_svm_defaults(&conf);
    conf.task = task, conf.kernel = kernel, conf.c = c, conf.gamma = gamma;
    conf.threads = 1;
    return conf;
}

static double train(const larder_svm_data *d, const larder_svm_conf *conf, larder_svm_model **out) {
    larder_svm_stats stats = {.size = sizeof stats};
    larder_svm_model *m = NULL;
    check_ok(larder_svm_train(&m, d, conf, &stats));
    if (out)
        *out = m;
    else
        larder_svm_model_close(&m);
    return stats.objective;
}

static void optimal_classes(void **state) {
    (void)state;
    static const struct {
        size_t rows;
        uint32_t dim;
        double share;
        int kind;
    } sets[] = {{300, 12, 0.5, REAL}, {1500, 14, 0.4, BINARY}, {1300, 200, 0.03, REAL}};
    for (size_t i = 0; i < 3; i++)
        for (int kernel = LARDER_SVM_LINEAR; kernel <= LARDER_SVM_RBF; kernel++) {
            larder_svm_data *d =
                make_data(sets[i].rows, sets[i].dim, sets[i].share, sets[i].kind, 2, 11 + i);
            larder_svm_conf conf =
                conf_of(LARDER_SVM_C_SVC, (larder_svm_kernel)kernel, 2, 1.0 / sets[i].dim);
            conf.coef0 = 1;
            larder_svm_model *m;
            train(d, &conf, &m);
            check_c_svc(m, d, 2);
            larder_svm_model_close(&m);
            larder_svm_data_close(&d);
        }
}

static void optimal_regression(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        larder_svm_data *d = make_data(seed == 2 ? 1400 : 200, 8, 0.8, REAL, 0, seed);
        larder_svm_conf conf = conf_of(LARDER_SVM_EPSILON_SVR, LARDER_SVM_RBF, 3, 0.2);
        larder_svm_model *m;
        train(d, &conf, &m);
        check_svr(m, d, 3, conf.epsilon);
        larder_svm_model_close(&m);
        larder_svm_data_close(&d);
    }
}

/* The objective does not depend on merging, keeping rows, or threads; the model not on threads. */
static void same_whatever_way(void **state) {
    (void)state;
    larder_svm_data *d = make_data(2600, 12, 0.4, BINARY, 2, 5);
    larder_svm_conf conf = conf_of(LARDER_SVM_C_SVC, LARDER_SVM_RBF, 10, 0.5);
    conf.cache_bytes = 0;
    larder_svm_model *one, *other;
    double first = train(d, &conf, &one);
    conf.threads = 3;
    assert_true(train(d, &conf, &other) == first);
    assert_int_equal(one->vectors->rows, other->vectors->rows);
    assert_memory_equal(one->coef, other->coef, one->vectors->rows * sizeof *one->coef);
    larder_svm_model_close(&one);
    larder_svm_model_close(&other);
    conf.merge = false;
    assert_true(fabs(train(d, &conf, NULL) / first - 1) < 1e-5);
    conf.cache_always = true;
    conf.cache_rows = 200;
    static const char *const policies[] = {"lru", "lfu", "random"};
    for (size_t i = 0; i < 3; i++) {
        conf.policy = policies[i];
        assert_true(fabs(train(d, &conf, NULL) / first - 1) < 1e-5);
    }
    conf.policy = "belady";
    assert_int_equal(larder_svm_train(&one, d, &conf, NULL), LARDER_E_ARGS);
    larder_svm_data_close(&d);
}

static int stop_at_once(void *arg, const larder_svm_progress *p) {
    (void)arg;
    return p->rounds >= 2;
}

static void stopped_training_has_a_model(void **state) {
    (void)state;
    larder_svm_data *d = make_data(3000, 20, 0.5, REAL, 2, 9);
    larder_svm_conf conf = conf_of(LARDER_SVM_C_SVC, LARDER_SVM_RBF, 10, 0.5);
    conf.progress = stop_at_once;
    larder_svm_model *m = NULL;
    assert_int_equal(larder_svm_train(&m, d, &conf, NULL), LARDER_E_CANCELLED);
    assert_non_null(m);
    double *labels = calloc(d->rows, sizeof *labels);
    check_ok(larder_svm_predict(m, d, labels, NULL, NULL));
    free(labels);
    larder_svm_model_close(&m);
    larder_svm_data_close(&d);
}

/* A checkpoint is a model that predicts; one that cannot be written ends training with its reason.
 */
static void checkpoints(void **state) {
    (void)state;
    char folder[256], path[300];
    snprintf(path, sizeof path, "%s/checkpoint", check_folder(folder));
    larder_svm_data *d = make_data(3000, 20, 0.5, REAL, 3, 9);
    larder_svm_conf conf = conf_of(LARDER_SVM_C_SVC, LARDER_SVM_RBF, 10, 0.5);
    conf.checkpoint = path;
    conf.checkpoint_seconds = 0;
    larder_svm_model *m = NULL, *kept = NULL;
    check_ok(larder_svm_train(&m, d, &conf, NULL));
    check_ok(larder_svm_load(&kept, path));
    assert_int_equal(kept->classes, 3);
    double *labels = calloc(d->rows, sizeof *labels);
    check_ok(larder_svm_predict(kept, d, labels, NULL, NULL));
    free(labels);
    larder_svm_model_close(&m);
    larder_svm_model_close(&kept);
    conf.checkpoint = "/no/such/folder/checkpoint";
    assert_int_equal(larder_svm_train(&m, d, &conf, NULL), LARDER_E_NOTFOUND);
    assert_non_null(strstr(larder_errmsg(), "/no/such/folder/checkpoint"));
    larder_svm_model_close(&m);
    larder_svm_data_close(&d);
    check_folder_remove(folder);
}

/* Every allocation of a training fails once; nothing leaks and nothing crashes. */
static void no_memory(void **state) {
    (void)state;
    setenv("LARDER_SEE", "0", 1); /* a training that cannot be seen goes on */
    larder_svm_data *d = make_data(60, 6, 0.5, REAL, 3, 2);
    larder_svm_conf conf = conf_of(LARDER_SVM_C_SVC, LARDER_SVM_RBF, 1, 0.5);
    conf.probability = true;
    for (uint64_t n = 1;; n += 1 + n / 40) {
        larder_svm_model *m = NULL;
        larder__mem_fail_at(n, 0);
        int rc = larder_svm_train(&m, d, &conf, NULL);
        bool failed = larder__mem_failed();
        larder__mem_fail_at(0, 0);
        if (failed && rc == 0)
            fail_msg("allocation %llu failed unseen", (unsigned long long)n);
        if (rc < 0)
            assert_true(rc == LARDER_E_NOMEM && !m);
        larder_svm_model_close(&m);
        if (!failed)
            break;
    }
    larder_svm_data_close(&d);
    unsetenv("LARDER_SEE");
}

/* Pairwise probabilities that come from one distribution give it back. */
static void coupling(void **state) {
    (void)state;
    const double p[4] = {0.1, 0.2, 0.3, 0.4};
    double pair[16] = {0}, got[4], work[20];
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 4; j++)
            pair[i * 4 + j] = i == j ? 0 : p[i] / (p[i] + p[j]);
    larder__couple(4, pair, got, work);
    for (size_t i = 0; i < 4; i++)
        assert_true(fabs(got[i] - p[i]) < 2e-3);
}

/* The fitted sigmoid has no slope of its likelihood left. */
static void sigmoid(void **state) {
    (void)state;
    enum { N = 400 };
    double v[N], a, b, ga = 0, gb = 0, plus = 0;
    bool yes[N];
    larder_rng rng;
    larder_rng_seed(&rng, 4, 0);
    for (size_t i = 0; i < N; i++) {
        v[i] = 4 * larder_rng_unit(&rng) - 2;
        yes[i] = larder_rng_unit(&rng) < 1 / (1 + exp(-1.5 * v[i] + 0.3));
        plus += yes[i];
    }
    larder__sigmoid_fit(v, yes, N, &a, &b);
    for (size_t i = 0; i < N; i++) {
        double t = yes[i] ? (plus + 1) / (plus + 2) : 1 / (N - plus + 2);
        ga += v[i] * (t - larder__sigmoid(v[i], a, b)), gb += t - larder__sigmoid(v[i], a, b);
    }
    assert_true(fabs(ga) < 1e-4 && fabs(gb) < 1e-4);
    assert_true(fabs(a + 1.5) < 0.5 && fabs(b - 0.3) < 0.4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engines_agree),     cmocka_unit_test(far_from_zero),
        cmocka_unit_test(optimal_classes),   cmocka_unit_test(optimal_regression),
        cmocka_unit_test(same_whatever_way), cmocka_unit_test(stopped_training_has_a_model),
        cmocka_unit_test(checkpoints),       cmocka_unit_test(no_memory),
        cmocka_unit_test(coupling),          cmocka_unit_test(sigmoid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
