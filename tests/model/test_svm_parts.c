/* The parts around the solver: rows that pairs and folds share, pairs side by side, weights, models
 * taken apart, shrinking, values near the border; each against the plain way. */
#include "check.h"

#include "base/mem.h"
#include "svm/gram.h"
#include "svm/near_border.h"
#include "svm/samples.h"
#include "svm/shrink.h"
#include "svm/smo.h"
#include "svm/svm_predict.h"
#include "svm/team.h"
#include "svm/working_set.h"

#include <larder/plugin.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static larder_rng rng;

/* Clouds of points, a class each, so far apart; label 0.. or, with classes = 0, a target. */
static larder_svm_data *clouds_apart(size_t rows, size_t dim, int classes, uint64_t seed,
                                     double apart) {
    larder_rng_seed(&rng, seed, 0);
    double *x = calloc(rows * dim, sizeof *x), *y = calloc(rows, sizeof *y);
    assert_true(x && y);
    for (size_t i = 0; i < rows; i++) {
        uint32_t c = classes ? larder_rng_below(&rng, (uint32_t)classes) : 0;
        double sum = 0;
        for (size_t f = 0; f < dim; f++) {
            x[i * dim + f] = larder_rng_unit(&rng) + (f == c % dim ? apart : 0);
            sum += x[i * dim + f] * (f % 2 ? 1 : -1);
        }
        y[i] = classes ? c : sum + larder_rng_unit(&rng);
    }
    larder_svm_data *d = NULL;
    check_ok(larder_svm_copy(&d, &(larder_svm_matrix){.size = sizeof(larder_svm_matrix),
                                                      .rows = rows,
                                                      .features = dim,
                                                      .value = x,
                                                      .label = y}));
    free(x), free(y);
    return d;
}

static larder_svm_data *clouds(size_t rows, size_t dim, int classes, uint64_t seed) {
    return clouds_apart(rows, dim, classes, seed, 0.5);
}

static larder_svm_conf conf_of(larder_svm_task task, double c, double gamma) {
    larder_svm_conf conf = {.size = sizeof conf};
    larder_svm_defaults(&conf);
    conf.task = task, conf.c = c, conf.gamma = gamma, conf.threads = 1;
    return conf;
}

static bool same_model(const larder_svm_model *a, const larder_svm_model *b) {
    size_t n = larder__model_vectors(a);
    return n == larder__model_vectors(b) &&
           memcmp(a->coef, b->coef, a->coefs * n * sizeof *a->coef) == 0 &&
           memcmp(a->rho, b->rho, a->values * sizeof *a->rho) == 0 &&
           memcmp(a->rows, b->rows, n * sizeof *a->rows) == 0;
}

static double largest_difference(const larder_svm_model *a, const larder_svm_model *b,
                                 const larder_svm_data *d) {
    size_t n = d->rows * a->values;
    double *x = calloc(n, sizeof *x), *y = calloc(n, sizeof *y), most = 0;
    assert_true(x && y);
    check_ok(larder_svm_predict(a, d, NULL, x, NULL));
    check_ok(larder_svm_predict(b, d, NULL, y, NULL));
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(x[i] - y[i]));
    free(x), free(y);
    return most;
}

/* ---- rows that are shared -------------------------------------------------------------------- */

static void pairs_share_rows(void **state) {
    (void)state;
    larder_svm_data *d = clouds(2400, 6, 3, 1);
    larder_svm_conf conf = conf_of(LARDER_SVM_C_SVC, 10, 1);
    conf.cache_always = true;
    static const char *const policies[] = {"kkt", "hcst", "lru"};
    for (size_t i = 0; i < 3; i++) {
        larder_svm_model *m[3];
        larder_svm_stats s[3] = {{.size = sizeof *s}, {.size = sizeof *s}, {.size = sizeof *s}};
        conf.policy = policies[i];
        conf.separate_rows = true, conf.threads = 1;
        check_ok(larder_svm_train(&m[0], d, &conf, &s[0]));
        conf.separate_rows = false;
        check_ok(larder_svm_train(&m[1], d, &conf, &s[1]));
        conf.threads = 3;
        check_ok(larder_svm_train(&m[2], d, &conf, &s[2]));
        assert_true(s[1].values < s[0].values);
        assert_true(same_model(m[1], m[2]));
        assert_int_equal(s[1].rows_hit, s[2].rows_hit);
        assert_true(largest_difference(m[0], m[1], d) < 5e-3);
        for (size_t k = 0; k < 3; k++)
            larder_svm_model_close(&m[k]);
    }
    larder_svm_data_close(&d);
}

/* Room for half of the rows: some are made more than once, and the result stays. */
static void shared_rows_come_and_go(void **state) {
    (void)state;
    larder_svm_data *d = clouds(2700, 5, 3, 2);
    larder_svm_conf conf = conf_of(LARDER_SVM_C_SVC, 10, 2);
    larder_svm_model *a, *b;
    larder_svm_stats whole = {.size = sizeof whole}, part = {.size = sizeof part};
    conf.cache_always = true;
    conf.policy = "lru";
    check_ok(larder_svm_train(&a, d, &conf, &whole));
    conf.cache_rows = 1900;
    check_ok(larder_svm_train(&b, d, &conf, &part));
    assert_true(part.values > whole.values);
    assert_true(part.rows_hit > 0);
    assert_true(same_model(a, b)); /* a row is the same row whoever makes it, whenever */
    larder_svm_model_close(&a);
    larder_svm_model_close(&b);
    larder_svm_data_close(&d);
}

static void check_folds(const larder_svm_data *d, larder_svm_conf *conf, bool exact) {
    double *a = calloc(d->rows, sizeof *a), *b = calloc(d->rows, sizeof *b);
    larder_svm_stats own = {.size = sizeof own}, shared = {.size = sizeof shared};
    assert_true(a && b);
    conf->cache_always = true;
    conf->separate_rows = true;
    check_ok(larder_svm_cross(d, conf, 4, a, &own));
    conf->separate_rows = false;
    check_ok(larder_svm_cross(d, conf, 4, b, &shared));
    assert_true(shared.values < own.values / 2);
    size_t apart = 0;
    for (size_t i = 0; i < d->rows; i++)
        apart += exact ? a[i] != b[i] : fabs(a[i] - b[i]) > 0.02;
    assert_true(apart < d->rows / 100);
    free(a), free(b);
}

static void folds_share_rows(void **state) {
    (void)state;
    larder_svm_data *d = clouds(1800, 6, 2, 3), *real = clouds(1700, 4, 0, 4);
    larder_svm_conf conf = conf_of(LARDER_SVM_C_SVC, 3, 1);
    check_folds(d, &conf, true);
    conf = conf_of(LARDER_SVM_EPSILON_SVR, 3, 1);
    check_folds(real, &conf, false);
    /* A class that is in one fold alone: each fold trains by itself, without it. */
    d->label[7] = 9;
    double *out = calloc(d->rows, sizeof *out);
    conf = conf_of(LARDER_SVM_C_SVC, 3, 1);
    conf.cache_always = true;
    check_ok(larder_svm_cross(d, &conf, 4, out, NULL));
    free(out);
    larder_svm_data_close(&d);
    larder_svm_data_close(&real);
}

static void grids_share_rows(void **state) {
    (void)state;
    larder_svm_data *d = clouds(1700, 6, 2, 5);
    larder_svm_conf conf = conf_of(LARDER_SVM_C_SVC, 1, 1);
    double c[] = {1, 4, 16}, gamma[] = {0.5, 2}, score[2][6];
    larder_svm_stats s[2] = {{.size = sizeof *s}, {.size = sizeof *s}};
    conf.cache_always = true;
    for (int i = 0; i < 2; i++) {
        conf.separate_rows = i == 1;
        larder_svm_grid grid = {.size = sizeof grid,
                                .c = c,
                                .gamma = gamma,
                                .cs = 3,
                                .gammas = 2,
                                .folds = 3,
                                .score = score[i]};
        check_ok(larder_svm_search(d, &conf, &grid, &s[i]));
    }
    assert_true(s[0].values < s[1].values);
    for (size_t i = 0; i < 6; i++)
        assert_true(fabs(score[0][i] - score[1][i]) < 0.5);
    larder_svm_data_close(&d);
}

/* All values computed once, folds side by side, against rows that are made anew; folds as given,
 * and what was said of each row. Threads change nothing. */
static void grids_share_all_values(void **state) {
    (void)state;
    enum { ROWS = 420, CS = 3, POINTS = 6 };
    static const larder_svm_task tasks[] = {LARDER_SVM_C_SVC, LARDER_SVM_EPSILON_SVR,
                                            LARDER_SVM_NU_SVC};
    static double labels[3][POINTS * ROWS];
    double c[] = {1, 8, 64}, gamma[] = {0.5, 4}, score[3][POINTS];
    uint32_t fold_of[ROWS];
    for (uint32_t i = 0; i < ROWS; i++)
        fold_of[i] = i % 5 > 2 ? 1 : i % 5 == 0 ? 2 : 0;
    for (size_t t = 0; t < 3; t++) {
        bool named = tasks[t] != LARDER_SVM_EPSILON_SVR;
        larder_svm_data *d = clouds(ROWS, 4, named ? 3 : 0, 20 + t);
        larder_svm_conf conf = conf_of(tasks[t], 1, 1);
        conf.nu = 0.3;
        for (int i = 0; i < 3; i++) {
            larder_svm_stats s = {.size = sizeof s};
            conf.threads = i == 1 ? 3 : 1;
            conf.separate_rows = i == 2;
            larder_svm_grid grid = {.size = sizeof grid,
                                    .c = c,
                                    .gamma = gamma,
                                    .cs = CS,
                                    .gammas = 2,
                                    .folds = 3,
                                    .score = score[i],
                                    .fold_of = fold_of,
                                    .labels = labels[i]};
            check_ok(larder_svm_search(d, &conf, &grid, &s));
            assert_int_equal(s.problems, POINTS * 3 * (named ? 3 : 1));
        }
        assert_memory_equal(labels[0], labels[1], sizeof labels[0]);
        size_t apart = 0;
        for (size_t i = 0; i < POINTS * ROWS; i++)
            apart += fabs(labels[0][i] - labels[2][i]) > 0.02;
        assert_true(apart <= POINTS * ROWS / 200);
        for (size_t i = 0; i < POINTS; i++) {
            double sum = 0;
            for (size_t row = 0; row < ROWS; row++) {
                double got = labels[0][i * ROWS + row], off = got - d->label[row];
                sum += named ? 100 * (off == 0) : off * off;
            }
            assert_true(fabs(score[0][i] - sum / ROWS) < 1e-9 * (1 + fabs(sum)));
        }
        larder_svm_data_close(&d);
    }
    fold_of[7] = 3;
    larder_svm_data *d = clouds(ROWS, 4, 3, 1);
    larder_svm_conf conf = conf_of(LARDER_SVM_C_SVC, 1, 1);
    larder_svm_grid grid = {.size = sizeof grid,
                            .c = c,
                            .cs = 1,
                            .gammas = 1,
                            .folds = 3,
                            .score = score[0],
                            .fold_of = fold_of};
    assert_int_equal(larder_svm_search(d, &conf, &grid, NULL), LARDER_E_ARGS);
    larder_svm_data_close(&d);
}

/* A problem of one round that floats cannot tell goes on in rounds of doubles. */
static void whole_then_exact(void **state) {
    (void)state;
    larder_svm_data *d = clouds(1500, 4, 2, 31);
    double objective[2];
    for (int i = 0; i < 2; i++) {
        larder_svm_conf conf = conf_of(LARDER_SVM_C_SVC, 2000, 1);
        larder_svm_stats s = {.size = sizeof s};
        larder_svm_model *m;
        conf.cache_always = i == 1; /* rounds from the start */
        check_ok(larder_svm_train(&m, d, &conf, &s));
        assert_true(s.exact == 1 && s.unreached == 0);
        objective[i] = s.objective;
        larder_svm_model_close(&m);
    }
    assert_true(fabs(objective[0] - objective[1]) < 1e-5 * fabs(objective[0]));
    larder_svm_data_close(&d);
}

/* Every allocation fails once, on the way through a grid of shared values. */
static void no_memory_for_a_grid(void **state) {
    (void)state;
    setenv("LARDER_SEE", "0", 1);
    larder_svm_data *d = clouds(90, 3, 3, 6);
    larder_svm_conf conf = conf_of(LARDER_SVM_C_SVC, 1, 1);
    double c[] = {1, 100}, gamma[] = {1, 2}, score[4];
    for (uint64_t n = 1;; n += 1 + n / 8) {
        larder_svm_grid grid = {.size = sizeof grid,
                                .c = c,
                                .gamma = gamma,
                                .cs = 2,
                                .gammas = 2,
                                .folds = 2,
                                .score = score};
        larder__mem_fail_at(n, 0);
        int rc = larder_svm_search(d, &conf, &grid, NULL);
        bool failed = larder__mem_failed();
        larder__mem_fail_at(0, 0);
        assert_true(rc == (failed ? LARDER_E_NOMEM : 0));
        if (!failed)
            break;
    }
    larder_svm_data_close(&d);
    unsetenv("LARDER_SEE");
}

/* Every allocation fails once, on the way through cells and folds. */
static void no_memory(void **state) {
    (void)state;
    setenv("LARDER_SEE", "0", 1); /* a training that cannot be seen goes on */
    larder_svm_data *d = clouds(2200, 3, 3, 6);
    larder_svm_conf conf = conf_of(LARDER_SVM_C_SVC, 1, 1);
    conf.cache_always = true;
    conf.policy = "lru";
    double *out = calloc(d->rows, sizeof *out);
    for (uint64_t n = 1;; n += 1 + n / 8) {
        larder__mem_fail_at(n, 0);
        int rc = larder_svm_cross(d, &conf, 2, out, NULL);
        bool failed = larder__mem_failed();
        larder__mem_fail_at(0, 0);
        assert_true(rc == (failed ? LARDER_E_NOMEM : 0));
        if (!failed)
            break;
    }
    free(out);
    larder_svm_data_close(&d);
    unsetenv("LARDER_SEE");
}

/* Where values are dear some pairs say whether all of them are computed at once: they are where
 * pairs want most of their rows, and the answer does not depend on threads. */
static void pairs_after_a_look(void **state) {
    (void)state;
    for (int hard = 0; hard < 2; hard++) {
        larder_svm_data *d = clouds_apart(1700, 64, 6, 5, hard ? 0.5 : 8);
        larder_svm_conf conf = conf_of(LARDER_SVM_C_SVC, 10, hard ? 0.1 : 0.01);
        larder_svm_model *apart, *one, *three;
        larder_svm_stats s[3] = {{.size = sizeof *s}, {.size = sizeof *s}, {.size = sizeof *s}};
        check_ok(larder_svm_train(&one, d, &conf, &s[1]));
        conf.threads = 3;
        check_ok(larder_svm_train(&three, d, &conf, &s[2]));
        conf.separate_rows = true;
        check_ok(larder_svm_train(&apart, d, &conf, &s[0]));
        assert_true(same_model(one, three));
        assert_true(s[1].values == s[2].values);
        assert_true(largest_difference(one, apart, d) < 5e-3);
        uint64_t all = larder__gram_values(1700);
        assert_true(hard ? s[1].values > all && s[1].values < s[0].values
                         : s[1].values < all && s[1].values == s[0].values);
        larder_svm_model_close(&apart);
        larder_svm_model_close(&one);
        larder_svm_model_close(&three);
        larder_svm_data_close(&d);
    }
}

/* Half of all values are computed, the others are theirs. */
static void all_values(void **state) {
    (void)state;
    enum { N = 1300 };
    larder_svm_data *d = clouds(N, 6, 2, 13);
    larder__kernel_conf conf = {.type = LARDER_SVM_RBF, .gamma = 1};
    larder__kernel k;
    larder__panel all;
    larder__team *team;
    larder__gram g;
    uint32_t ids[N];
    static float row[N];
    uint64_t values = 0;
    for (uint32_t i = 0; i < N; i++)
        ids[i] = i;
    check_ok(larder__kernel_open(&k, &conf, d, NULL, LARDER__ENGINE_AUTO));
    check_ok(larder__panel_fill(&all, &k, d, ids, N));
    check_ok(larder__team_open(&team, 3));
    check_ok(larder__gram_open(&g, &k, &all, team));
    size_t bytes = (larder__kernel_scratch(&k, 1) + 63) / 64 * 64 + 64;
    void *scratch = aligned_alloc(64, bytes);
    assert_non_null(scratch);
    memset(scratch, 0, bytes);
    for (size_t i = 0; i < N; i++) {
        larder__kernel_block(&k, &all, i, i + 1, &all, 0, N, row, N, scratch);
        for (size_t j = 0; j < N; j++) {
            values += j >= i / LARDER__TILE * LARDER__TILE;
            assert_true(fabsf(larder__gram_row(&g, i)[j] - row[j]) < 1e-6f);
            if (i / LARDER__TILE != j / LARDER__TILE)
                assert_true(larder__gram_row(&g, i)[j] == larder__gram_row(&g, j)[i]);
        }
    }
    assert_true(larder__gram_values(N) == values);
    free(scratch);
    larder__gram_close(&g);
    larder__team_close(&team);
    larder__panel_free(&all);
    larder__kernel_close(&k);
    larder_svm_data_close(&d);
}

/* ---- side by side ---------------------------------------------------------------------------- */

typedef struct lines {
    char *text;
    size_t size;
} lines;

static void keep_line(void *arg, const char *line) {
    lines *l = arg;
    size_t n = strlen(line);
    l->text = realloc(l->text, l->size + n + 1);
    assert_non_null(l->text);
    memcpy(l->text + l->size, line, n + 1);
    l->size += n;
}

static int at_once(void *arg, const larder_svm_progress *p) {
    size_t *calls = arg; /* one thread at a time */
    assert_true(p->problem <= p->problems);
    return (int)++*calls;
}

static void pairs_side_by_side(void **state) {
    (void)state;
    larder_svm_data *d = clouds(900, 9, 9, 7);
    larder_svm_conf conf = conf_of(LARDER_SVM_C_SVC, 10, 1);
    larder_svm_model *one, *three, *stopped = NULL;
    lines said[2] = {{0}, {0}};
    conf.print = keep_line, conf.print_arg = &said[0];
    check_ok(larder_svm_train(&one, d, &conf, NULL));
    conf.threads = 3, conf.print_arg = &said[1];
    check_ok(larder_svm_train(&three, d, &conf, NULL));
    assert_true(same_model(one, three));
    assert_string_equal(said[0].text, said[1].text);
    size_t calls = 0;
    conf.print = NULL, conf.progress = at_once, conf.progress_arg = &calls;
    assert_int_equal(larder_svm_train(&stopped, d, &conf, NULL), LARDER_E_CANCELLED);
    assert_non_null(stopped);
    assert_true(largest_difference(stopped, stopped, d) == 0);
    free(said[0].text), free(said[1].text);
    larder_svm_model_close(&one);
    larder_svm_model_close(&three);
    larder_svm_model_close(&stopped);
    larder_svm_data_close(&d);
}

typedef struct counted {
    _Atomic unsigned times[257];
    unsigned threads;
} counted;

static void count_piece(void *arg, size_t piece, unsigned thread) {
    counted *c = arg;
    assert_true(thread < c->threads);
    atomic_fetch_add(&c->times[piece], 1);
}

/* Every piece once, whoever wakes when. */
static void a_team_leaves_nothing(void **state) {
    (void)state;
    for (unsigned threads = 1; threads <= 5; threads += 2) {
        larder__team *t;
        check_ok(larder__team_open(&t, threads));
        for (size_t run = 0; run < 400; run++) {
            counted c = {.threads = threads};
            size_t pieces = run * 37 % 257;
            larder__team_run(t, count_piece, &c, pieces);
            for (size_t i = 0; i < 257; i++)
                assert_int_equal(c.times[i], i < pieces);
        }
        larder__team_close(&t);
    }
}

/* ---- weights, orders, parts ------------------------------------------------------------------ */

static void weights_are_repeats(void **state) {
    (void)state;
    larder_svm_data *d = clouds(300, 4, 2, 8), *repeated = NULL, *heavy = NULL;
    double weight[300];
    uint32_t pick[900];
    size_t n = 0;
    for (uint32_t i = 0; i < 300; i++) {
        weight[i] = 1 + larder_rng_below(&rng, 3);
        for (double k = 0; k < weight[i]; k++)
            pick[n++] = i;
    }
    check_ok(larder__svm_data_pick(&repeated, d, pick, n));
    larder_svm_matrix weighed = {.size = sizeof weighed,
                                 .rows = d->rows,
                                 .start = d->start,
                                 .index = d->index,
                                 .value = d->value,
                                 .label = d->label,
                                 .weight = weight};
    check_ok(larder_svm_copy(&heavy, &weighed));
    for (larder_svm_task task = LARDER_SVM_C_SVC; task <= LARDER_SVM_NU_SVR; task++) {
        larder_svm_conf conf = conf_of(task, 0.5, 1);
        larder_svm_model *a, *b;
        conf.tolerance = 1e-6, conf.nu = 0.3, conf.merge = false;
        check_ok(larder_svm_train(&a, heavy, &conf, NULL));
        check_ok(larder_svm_train(&b, repeated, &conf, NULL));
        assert_true(largest_difference(a, b, d) < (task == LARDER_SVM_NU_SVC ? 1e-2 : 1e-3));
        larder_svm_model_close(&a);
        larder_svm_model_close(&b);
    }
    weight[5] = -1;
    larder_svm_data_close(&heavy);
    assert_int_equal(larder_svm_copy(&heavy, &weighed), LARDER_E_ARGS);
    larder_svm_data_close(&d);
    larder_svm_data_close(&repeated);
}

static void classes_in_order(void **state) {
    (void)state;
    larder_svm_data *d = clouds(300, 4, 4, 9);
    larder_svm_conf conf = conf_of(LARDER_SVM_C_SVC, 1, 1);
    larder_svm_model *a, *b;
    d->label[0] = 3;
    check_ok(larder_svm_train(&a, d, &conf, NULL));
    conf.sorted_classes = true;
    check_ok(larder_svm_train(&b, d, &conf, NULL));
    assert_true(a->label[0] == 3);
    double *x = calloc(d->rows, sizeof *x), *y = calloc(d->rows, sizeof *y);
    check_ok(larder_svm_predict(a, d, x, NULL, NULL));
    check_ok(larder_svm_predict(b, d, y, NULL, NULL));
    size_t apart = 0;
    for (size_t i = 0; i < d->rows; i++)
        apart += x[i] != y[i];
    assert_true(apart < 5); /* ties of votes go to the first class */
    for (size_t i = 0; i < 4; i++)
        assert_true(b->label[i] == (double)i);
    free(x), free(y);
    larder_svm_model_close(&a);
    larder_svm_model_close(&b);
    larder_svm_data_close(&d);
}

static void taken_apart(void **state) {
    (void)state;
    larder_svm_data *d = clouds(400, 5, 3, 10);
    larder_svm_conf conf = conf_of(LARDER_SVM_C_SVC, 1, 1);
    conf.probability = true;
    larder_svm_model *m, *again = NULL;
    check_ok(larder_svm_train(&m, d, &conf, NULL));
    larder_svm_parts parts = {.size = sizeof parts};
    check_ok(larder_svm_disassemble(m, &parts));
    assert_int_equal(parts.vector_count, parts.vectors->rows);
    assert_int_equal(parts.values, 3);
    assert_int_equal(parts.coef_lines, 2);
    const larder_svm_data *v = parts.vectors;
    for (size_t i = 0; i < parts.vector_count; i++) { /* each is the row it says */
        uint64_t at = v->start[i], row = d->start[parts.support[i]];
        size_t pairs = v->start[i + 1] - at;
        assert_int_equal(pairs, d->start[parts.support[i] + 1] - row);
        assert_memory_equal(v->index + at, d->index + row, pairs * sizeof *v->index);
        assert_memory_equal(v->value + at, d->value + row, pairs * sizeof *v->value);
    }
    check_ok(larder_svm_assemble(&again, &parts));
    assert_true(largest_difference(m, again, d) == 0);
    assert_non_null(again->prob_a);
    larder_svm_data_close(&d);
    larder_svm_model_close(&m);
    larder_svm_model_close(&again);
}

static void refused(larder_svm_parts p, const char *why) {
    larder_svm_model *m;
    assert_int_equal(larder_svm_assemble(&m, &p), LARDER_E_ARGS);
    assert_null(m);
    if (!strstr(larder_errmsg(), why))
        fail_msg("\"%s\" lacks \"%s\"", larder_errmsg(), why);
}

static larder_svm_data *vectors_of(uint32_t index, double value, size_t each) {
    uint64_t start[] = {0, each, 2 * each};
    uint32_t at[] = {index, index + 1, index, index + 1};
    double values[] = {value, value, value, value}, label[2] = {0};
    if (each == 1)
        at[1] = index;
    larder_svm_data *d;
    larder_svm_matrix m = {.size = sizeof m,
                           .rows = 2,
                           .features = 3,
                           .start = start,
                           .index = at,
                           .value = values,
                           .label = label,
                           .flags = LARDER_SVM_INDEX_ZERO};
    check_ok(larder_svm_copy(&d, &m));
    return d;
}

/* A pickle may say anything; what it says is looked at before a byte of it is used. */
static void parts_that_do_not_fit(void **state) {
    (void)state;
    larder_svm_data *d = clouds(60, 4, 3, 10);
    larder_svm_conf conf = conf_of(LARDER_SVM_C_SVC, 2, 0.5);
    conf.probability = true;
    larder_svm_model *m;
    check_ok(larder_svm_train(&m, d, &conf, NULL));
    larder_svm_parts good = {.size = sizeof good}, p;
    check_ok(larder_svm_disassemble(m, &good));
    const uint64_t *c = good.class_vectors;
    const uint64_t more[] = {c[0], c[1] + 1, c[2]}, round[] = {c[0], UINT64_MAX, c[1] + c[2] + 1},
                   fewer[] = {0, 0, 0};
#define WITHOUT(field, why) (p = good, p.field, refused(p, why))
    WITHOUT(class_vectors = more, "support vectors by class");
    WITHOUT(class_vectors = round, "support vectors by class");
    WITHOUT(class_vectors = fewer, "support vectors by class");
    WITHOUT(class_vectors = NULL, "a model wants");
    WITHOUT(label = NULL, "a model wants");
    WITHOUT(sigmoid_b = NULL, "a model wants");
    WITHOUT(vectors = NULL, "a model wants");
    WITHOUT(coef = NULL, "a model wants");
    WITHOUT(rho = NULL, "a model wants");
    WITHOUT(kernel = (larder_svm_kernel)9, "no kernel 9");
    WITHOUT(task = (larder_svm_task)77, "no task 77");
    WITHOUT(classes = 0, "1 to 65536 classes");
    WITHOUT(classes = 70000, "1 to 65536 classes");
    WITHOUT(degree = -1, "a degree of 0 to 1000");
    WITHOUT(degree = 1001, "a degree of 0 to 1000");
    p = good, p.one_vs_all = true;
    p.class_vectors = round;
    refused(p, "support vectors by class");
#undef WITHOUT
    /* Vectors of a kernel that is given are serial numbers. */
    const double coef[2] = {1, -1}, rho[1] = {0};
    p = (larder_svm_parts){.size = sizeof p,
                           .task = LARDER_SVM_EPSILON_SVR,
                           .kernel = LARDER_SVM_PRECOMPUTED,
                           .classes = 2,
                           .coef = coef,
                           .rho = rho};
    const struct {
        uint32_t index;
        double value;
        size_t each;
    } wrong[] = {{1, 3, 1}, {0, -1, 1}, {0, 1e12, 1}, {0, 3, 2}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        larder_svm_data *v = vectors_of(wrong[i].index, wrong[i].value, wrong[i].each);
        p.vectors = v;
        refused(p, "is not 0:serial alone");
        larder_svm_data_close(&v);
    }
    larder_svm_data *v = vectors_of(0, 3, 1);
    p.vectors = v, p.kernel = LARDER_SVM_RBF;
    refused(p, "has an index 0");
    larder_svm_data_close(&v);
    larder_svm_data_close(&d);
    larder_svm_model_close(&m);
}

/* ---- small parts ----------------------------------------------------------------------------- */

static void samples_by_cell(void **state) {
    (void)state;
    larder_svm_data *d = clouds(200, 2, 3, 11);
    uint64_t keys[200];
    uint32_t cell[200], also[200], row[200], before[200];
    size_t start[5];
    for (size_t i = 0; i < 200; i++)
        keys[i] = 0, cell[i] = larder_rng_below(&rng, 4), also[i] = (uint32_t)i;
    cell[0] = 2;
    memcpy(before, cell, sizeof cell);
    larder__samples s;
    check_ok(larder__samples_open(&s, d, NULL, 200, keys, false));
    check_ok(larder__samples_sort(&s, 200, cell, also, 4, start));
    memcpy(row, s.row, sizeof row);
    for (size_t i = 0; i < 200; i++) {
        assert_int_equal(cell[i], before[row[i]]);
        assert_int_equal(also[i], row[i]);
        assert_int_equal(s.sample_of[row[i]], i);
        assert_true(i >= start[cell[i]] && i < start[cell[i] + 1]);
        assert_true(i == 0 || cell[i] > cell[i - 1] || row[i] > row[i - 1]);
    }
    larder__samples_close(&s);
    larder_svm_data_close(&d);
}

static int by_key(const void *a, const void *b) {
    const larder__candidate *x = a, *y = b;
    return x->key < y->key ? -1 : x->key > y->key ? 1 : x->id < y->id ? -1 : x->id > y->id;
}

static void first_candidates(void **state) {
    (void)state;
    enum { MOST = 400 };
    larder__candidate a[MOST], b[MOST];
    for (size_t trial = 0; trial < 300; trial++) {
        size_t n = larder_rng_below(&rng, MOST), k = larder_rng_below(&rng, MOST);
        for (uint32_t i = 0; i < n; i++)
            a[i] = b[i] = (larder__candidate){larder_rng_below(&rng, 50), i};
        qsort(b, n, sizeof *b, by_key);
        size_t got = larder__candidates_first(a, n, k);
        assert_int_equal(got, k < n ? k : n);
        for (size_t i = 0; i < got; i++)
            assert_int_equal(a[i].id, b[i].id);
    }
}

/* A made problem of two clouds that overlap a little, in one block of memory. */
enum { SLOTS = 512, SLOT_ROOM = SLOTS * 3 / 8 };
typedef struct slots_block {
    larder__smo smo;
    larder__smo_part part;
    float k[SLOTS * (SLOTS + 16)], part_k[SLOT_ROOM * (SLOT_ROOM + 16)];
    float diagonal[SLOTS], part_diagonal[SLOT_ROOM];
    double f[SLOTS], beta[SLOTS], lo[SLOTS], hi[SLOTS], linear[SLOTS];
    double part_f[SLOT_ROOM], part_beta[SLOT_ROOM], part_lo[SLOT_ROOM], part_hi[SLOT_ROOM];
    double before[SLOT_ROOM];
    uint32_t place[SLOTS], part_place[SLOT_ROOM], slot[SLOT_ROOM];
    uint8_t bits[10][SLOTS / 8 + 2];
    bool made[SLOTS], part_made[SLOT_ROOM];
    size_t asked;
} slots_block;

static void count_row(void *arg, size_t slot) {
    slots_block *b = arg;
    assert_false(b->made[slot]);
    b->made[slot] = true, b->asked++;
}

static void open_slots(slots_block *b, unsigned groups, uint64_t seed, bool part) {
    double x[SLOTS];
    larder_rng_seed(&rng, seed, 0);
    memset(b, 0, sizeof *b);
    b->smo = (larder__smo){.n = SLOTS,
                           .groups = groups,
                           .k = b->k,
                           .place = b->place,
                           .stride = SLOTS + 16,
                           .f = b->f,
                           .beta = b->beta,
                           .lo = b->lo,
                           .hi = b->hi,
                           .diagonal = b->diagonal,
                           .up = b->bits[0],
                           .low = b->bits[1],
                           .in_group = {b->bits[2], b->bits[3]},
                           .made = b->made,
                           .make = count_row,
                           .make_arg = b,
                           .part = part ? &b->part : NULL};
    b->part = (larder__smo_part){.smo = {.k = b->part_k,
                                         .place = b->part_place,
                                         .f = b->part_f,
                                         .beta = b->part_beta,
                                         .lo = b->part_lo,
                                         .hi = b->part_hi,
                                         .diagonal = b->part_diagonal,
                                         .up = b->bits[4],
                                         .low = b->bits[5],
                                         .in_group = {b->bits[6], b->bits[7]},
                                         .made = b->part_made},
                                 .room = larder__smo_part_room(SLOTS),
                                 .slot = b->slot,
                                 .before = b->before,
                                 .wanted = b->bits[8]};
    for (size_t i = 0; i < SLOTS - 5; i++) { /* the last are empty */
        double y = i % 2 ? 1 : -1;
        x[i] = 0.8 * y + 2 * larder_rng_unit(&rng) - 1;
        b->lo[i] = y > 0 ? 0 : -3, b->hi[i] = y > 0 ? 3 : 0;
        b->f[i] = b->linear[i] = -y, b->diagonal[i] = 1;
        size_t g = groups > 1 ? i / 2 % 2 : 0;
        b->smo.in_group[g][i / 8] |= (uint8_t)(1u << i % 8);
    }
    for (size_t i = 0; i < SLOTS; i++)
        b->place[i] = (uint32_t)i;
    for (size_t i = 0; i < SLOTS - 5; i++)
        for (size_t j = 0; j < SLOTS - 5; j++)
            b->k[i * b->smo.stride + j] = (float)exp(-4 * (x[i] - x[j]) * (x[i] - x[j]));
}

static double worth(const slots_block *b) {
    double sum = 0;
    for (size_t i = 0; i < SLOTS; i++) {
        double f = b->linear[i];
        for (size_t j = 0; j < SLOTS; j++)
            f += b->beta[j] * (double)b->k[j * b->smo.stride + i];
        if (i < SLOTS - 5)
            assert_true(fabs(f - b->f[i]) < 1e-9); /* also of those that were left out */
        sum += b->beta[i] * (f + b->linear[i]) / 2;
    }
    return sum;
}

/* Steps that leave slots out for a while end where others do. */
static void slots_left_out(void **state) {
    (void)state;
    slots_block *a = malloc(sizeof *a), *b = malloc(sizeof *b);
    assert_true(a && b);
    for (unsigned turn = 0; turn < 8; turn++) {
        uint64_t most = turn < 6 ? 100000 : 500; /* also where steps run out inside */
        unsigned seed = turn < 6 ? turn : (turn - 6) * 3;
        open_slots(a, 1 + seed % 2, seed, false);
        open_slots(b, 1 + seed % 2, seed, true);
        uint64_t plain = larder__smo_run(&a->smo, 1e-5, 0, most);
        uint64_t steps = larder__smo_run(&b->smo, 1e-5, 0, most);
        assert_true(steps <= most && plain <= most);
        assert_true(b->part.smo.n > 0 && b->asked < SLOTS); /* it was left for a part */
        double one = worth(a), other = worth(b);
        if (turn < 6)
            assert_true(fabs(one - other) < 1e-4 * fabs(one));
    }
    free(a), free(b);
}

/* Points that take part and those that do not, laid out; sums find their way back. */
static void shrunk_points(void **state) {
    (void)state;
    larder_svm_data *d = clouds(150, 6, 2, 12);
    larder__kernel_conf conf = {.type = LARDER_SVM_RBF, .gamma = 1};
    larder__kernel k;
    larder__panel all;
    larder__shrunk s;
    uint32_t ids[150];
    double beta[150], f[150] = {0};
    for (uint32_t i = 0; i < 150; i++)
        ids[i] = i, beta[i] = i;
    check_ok(larder__kernel_open(&k, &conf, d, NULL, LARDER__ENGINE_AUTO));
    check_ok(larder__panel_fill(&all, &k, d, ids, 150));
    check_ok(larder__shrunk_open(&s, 150, 150));
    for (int round = 0; round < 3; round++) {
        size_t idle = 0;
        for (size_t i = 0; i < 150; i++)
            idle += s.idle[i] = larder_rng_below(&rng, 3) == 0;
        check_ok(larder__shrunk_begin(&s, &k, &all, beta, 150));
        assert_true(s.on && s.active == 150 - idle && s.part.n == s.active && s.rest.n == idle);
        for (size_t i = 0; i < 150; i++) {
            const larder__panel *in = i < s.active ? &s.part : &s.rest;
            size_t at = i < s.active ? i : i - s.active;
            assert_true(s.idle[s.ids[i]] == (i >= s.active));
            assert_true(i == 0 || i == s.active || s.ids[i] > s.ids[i - 1]);
            assert_true(in->norm[at] == all.norm[s.ids[i]]);
            assert_memory_equal(in->dense + at * k.dim, all.dense + s.ids[i] * k.dim,
                                k.dim * sizeof(float));
        }
        for (size_t i = 0; i < s.active; i++)
            s.sum[i] = s.ids[i] + 1;
        memset(f, 0, sizeof f);
        larder__shrunk_spread(&s, f, s.ids, 0, s.active);
        for (size_t i = 0; i < 150; i++)
            assert_true(f[i] == (s.idle[i] ? 0 : (double)i + 1) && s.sum[i] == 0);
        assert_memory_equal(s.beta, beta, sizeof beta);
    }
    assert_int_equal(s.times, 3);
    larder__shrunk_close(&s);
    larder__panel_free(&all);
    larder__kernel_close(&k);
    larder_svm_data_close(&d);
}

/* What is in doubt is the sum in doubles; what is not stays as it was. */
static void near_the_border(void **state) {
    (void)state;
    larder_svm_data *d = clouds(500, 4, 3, 13);
    larder_svm_conf conf = conf_of(LARDER_SVM_C_SVC, 1, 1);
    larder_svm_model *m;
    check_ok(larder_svm_train(&m, d, &conf, NULL));
    larder__kernel k;
    check_ok(larder__kernel_open(&k, &m->kernel, m->vectors, d, LARDER__ENGINE_AUTO));
    larder__border b;
    check_ok(larder__border_open(&b, m, &k, 1));
    size_t a = 0, c = 1;
    for (size_t v = 0; v < m->values; v++) {
        for (size_t row = 0; row < 40; row++) {
            double sum = -m->rho[v];
            size_t at = 0;
            for (size_t class = 0; class < 3; class ++)
                for (size_t i = 0; i < m->class_vectors[class]; i++, at++) {
                    double distance = 0, coef = class == a
                                                    ? m->coef[(c - 1) * m->vectors->rows + at]
                                                : class == c ? m->coef[a * m->vectors->rows + at]
                                                             : 0;
                    for (size_t f = 0; f < 4; f++) {
                        double x = d->value[row * 4 + f] - m->vectors->value[at * 4 + f];
                        distance += x * x;
                    }
                    sum += coef * exp(-distance);
                }
            double error = larder__border_error(&b, d, row, 1) * b.spread[v];
            double doubt = larder__border_settle(&b, v, d, row, error, 1e-12);
            assert_true(fabs(doubt - sum) < 1e-9 * (1 + fabs(sum)));
            assert_true(larder__border_settle(&b, v, d, row, error, 0.5) == 0.5);
        }
        if (++c == 3)
            a++, c = a + 1;
    }
    larder__border_close(&b);
    larder__kernel_close(&k);
    larder_svm_model_close(&m);
    larder_svm_data_close(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_share_rows),
        cmocka_unit_test(shared_rows_come_and_go),
        cmocka_unit_test(folds_share_rows),
        cmocka_unit_test(grids_share_rows),
        cmocka_unit_test(grids_share_all_values),
        cmocka_unit_test(whole_then_exact),
        cmocka_unit_test(no_memory_for_a_grid),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(pairs_after_a_look),
        cmocka_unit_test(all_values),
        cmocka_unit_test(pairs_side_by_side),
        cmocka_unit_test(a_team_leaves_nothing),
        cmocka_unit_test(weights_are_repeats),
        cmocka_unit_test(classes_in_order),
        cmocka_unit_test(taken_apart),
        cmocka_unit_test(parts_that_do_not_fit),
        cmocka_unit_test(samples_by_cell),
        cmocka_unit_test(first_candidates),
        cmocka_unit_test(slots_left_out),
        cmocka_unit_test(shrunk_points),
        cmocka_unit_test(near_the_border),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
