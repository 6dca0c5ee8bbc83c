/* What problems of one training share: rows and values of pairs, folds and grids, and threads, with
 * pairs side by side; each against the plain way. */
#include "svm_kit.h"

#include "base/mem.h"
#include "svm/gram.h"
#include "svm/team.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- rows that are shared -------------------------------------------------------------------- */

static void pairs_share_rows(void **state) {
    (void)state;
    larder_svm_data *d = svm_clouds(2400, 6, 3, 1);
    larder_svm_conf conf = svm_conf(LARDER_SVM_C_SVC, 10, 1);
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
        assert_true(svm_same_model(m[1], m[2]));
        assert_int_equal(s[1].rows_hit, s[2].rows_hit);
        assert_true(svm_largest_difference(m[0], m[1], d) < 5e-3);
        for (size_t k = 0; k < 3; k++)
            larder_svm_model_close(&m[k]);
    }
    larder_svm_data_close(&d);
}

/* Room for half of the rows: some are made more than once, and the result stays. */
static void shared_rows_come_and_go(void **state) {
    (void)state;
    larder_svm_data *d = svm_clouds(2700, 5, 3, 2);
    larder_svm_conf conf = svm_conf(LARDER_SVM_C_SVC, 10, 2);
    larder_svm_model *a, *b;
    larder_svm_stats whole = {.size = sizeof whole}, part = {.size = sizeof part};
    conf.cache_always = true;
    conf.policy = "lru";
    check_ok(larder_svm_train(&a, d, &conf, &whole));
    conf.cache_rows = 1900;
    check_ok(larder_svm_train(&b, d, &conf, &part));
    assert_true(part.values > whole.values);
    assert_true(part.rows_hit > 0);
    assert_true(svm_same_model(a, b)); /* a row is the same row whoever makes it, whenever */
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
    larder_svm_data *d = svm_clouds(1800, 6, 2, 3), *real = svm_clouds(1700, 4, 0, 4);
    larder_svm_conf conf = svm_conf(LARDER_SVM_C_SVC, 3, 1);
    check_folds(d, &conf, true);
    conf = svm_conf(LARDER_SVM_EPSILON_SVR, 3, 1);
    check_folds(real, &conf, false);
    /* A class that is in one fold alone: each fold trains by itself, without it. */
    d->label[7] = 9;
    double *out = calloc(d->rows, sizeof *out);
    conf = svm_conf(LARDER_SVM_C_SVC, 3, 1);
    conf.cache_always = true;
    check_ok(larder_svm_cross(d, &conf, 4, out, NULL));
    free(out);
    larder_svm_data_close(&d);
    larder_svm_data_close(&real);
}

static void grids_share_rows(void **state) {
    (void)state;
    larder_svm_data *d = svm_clouds(1700, 6, 2, 5);
    larder_svm_conf conf = svm_conf(LARDER_SVM_C_SVC, 1, 1);
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
        larder_svm_data *d = svm_clouds(ROWS, 4, named ? 3 : 0, 20 + t);
        larder_svm_conf conf = svm_conf(tasks[t], 1, 1);
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
    larder_svm_data *d = svm_clouds(ROWS, 4, 3, 1);
    larder_svm_conf conf = svm_conf(LARDER_SVM_C_SVC, 1, 1);
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
    larder_svm_data *d = svm_clouds(1500, 4, 2, 31);
    double objective[2];
    for (int i = 0; i < 2; i++) {
        larder_svm_conf conf = svm_conf(LARDER_SVM_C_SVC, 2000, 1);
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
    larder_svm_data *d = svm_clouds(90, 3, 3, 6);
    larder_svm_conf conf = svm_conf(LARDER_SVM_C_SVC, 1, 1);
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
    larder_svm_data *d = svm_clouds(2200, 3, 3, 6);
    larder_svm_conf conf = svm_conf(LARDER_SVM_C_SVC, 1, 1);
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
        larder_svm_data *d = svm_clouds_apart(1700, 64, 6, 5, hard ? 0.5 : 8);
        larder_svm_conf conf = svm_conf(LARDER_SVM_C_SVC, 10, hard ? 0.1 : 0.01);
        larder_svm_model *apart, *one, *three;
        larder_svm_stats s[3] = {{.size = sizeof *s}, {.size = sizeof *s}, {.size = sizeof *s}};
        check_ok(larder_svm_train(&one, d, &conf, &s[1]));
        conf.threads = 3;
        check_ok(larder_svm_train(&three, d, &conf, &s[2]));
        conf.separate_rows = true;
        check_ok(larder_svm_train(&apart, d, &conf, &s[0]));
        assert_true(svm_same_model(one, three));
        assert_true(s[1].values == s[2].values);
        assert_true(svm_largest_difference(one, apart, d) < 5e-3);
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
    larder_svm_data *d = svm_clouds(N, 6, 2, 13);
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

/* Once some pairs are solved. It takes longer than trainings are silent for, so that it hears of
 * every round of whoever did not wait for it. */
static int after_some(void *arg, const larder_svm_progress *p) {
    size_t *solved = arg; /* one thread at a time */
    assert_true(p->problem <= p->problems);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    *solved = p->problem;
    return p->problem >= 3;
}

static void pairs_side_by_side(void **state) {
    (void)state;
    larder_svm_data *d = svm_clouds(900, 9, 9, 7);
    larder_svm_conf conf = svm_conf(LARDER_SVM_C_SVC, 10, 1);
    larder_svm_model *one, *three, *stopped = NULL;
    lines said[2] = {{0}, {0}};
    conf.print = keep_line, conf.print_arg = &said[0];
    check_ok(larder_svm_train(&one, d, &conf, NULL));
    conf.threads = 3, conf.print_arg = &said[1];
    check_ok(larder_svm_train(&three, d, &conf, NULL));
    assert_true(svm_same_model(one, three));
    assert_string_equal(said[0].text, said[1].text);
    size_t solved = 0;
    conf.print = NULL, conf.progress = after_some, conf.progress_arg = &solved;
    assert_int_equal(larder_svm_train(&stopped, d, &conf, NULL), LARDER_E_CANCELLED);
    assert_non_null(stopped);
    assert_true(solved >= 3 && solved < 36);
    assert_true(svm_largest_difference(stopped, stopped, d) == 0);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_share_rows),       cmocka_unit_test(shared_rows_come_and_go),
        cmocka_unit_test(folds_share_rows),       cmocka_unit_test(grids_share_rows),
        cmocka_unit_test(grids_share_all_values), cmocka_unit_test(whole_then_exact),
        cmocka_unit_test(no_memory_for_a_grid),   cmocka_unit_test(no_memory),
        cmocka_unit_test(pairs_after_a_look),     cmocka_unit_test(all_values),
        cmocka_unit_test(pairs_side_by_side),     cmocka_unit_test(a_team_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
