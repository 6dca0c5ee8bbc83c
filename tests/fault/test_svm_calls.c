/* Training and predicting on a GPU whose driver fails, call by call: each time there is a sentence
 * or the same answer, and the next training is as if nothing had been. */
#include "fake_kit.h"

#include <larder/svm.h>
#include <math.h>

enum {
    FEW = 340 /* fewer are never a GPU's */,
    MANY = 1300 /* a working set is smaller */,
    FEATURES = 3
};
static fake_cuda fake;

static larder_svm_data *some_data(int classes, int points) {
    static double value[MANY * FEATURES], label[MANY];
    uint64_t seed = 5;
    for (int i = 0; i < points; i++) {
        double sum = 0;
        for (int k = 0; k < FEATURES; k++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            value[i * FEATURES + k] = (double)(seed >> 40) / (1 << 24);
            sum += value[i * FEATURES + k];
        }
        label[i] = (int)(sum * classes / FEATURES * 0.999);
    }
    larder_svm_matrix m = {.size = sizeof m,
                           .rows = (size_t)points,
                           .value = value,
                           .label = label,
                           .features = FEATURES};
    larder_svm_data *d;
    check_ok(larder_svm_copy(&d, &m));
    return d;
}

typedef struct answer {
    double values[MANY * 3], objective;
} answer;

typedef struct job {
    int classes, points;
    const char *policy;
    uint64_t rows; /* that are kept, with a policy; without one all values lie there */
    bool off;      /* nothing is kept */
    bool again;    /* from a start that is not zero */
    long tries;    /* in `make test`, where each takes 40 ms */
} job;

static int run(const job *j, const larder_svm_data *d, answer *out) {
    larder_svm_conf c = {.size = sizeof c};
    larder_svm_stats s = {.size = sizeof s};
    larder_svm_model *m = NULL;
    check_ok(larder_svm_defaults(&c));
    c.device = "cuda";
    c.gamma = 2;
    c.c = 0.1;
    c.tolerance = 0.5; /* a round or two */
    c.threads = 1;
    c.policy = j->policy;
    c.cache_rows = j->rows;
    c.cache_bytes = j->off ? 0 : c.cache_bytes;
    int rc = larder_svm_train(&m, d, &c, &s);
    assert_true((m != NULL) == (rc == 0));
    memset(out, 0, sizeof *out);
    out->objective = s.objective;
    if (rc == 0)
        rc = larder_svm_predict_on(m, d, "cuda", NULL, out->values, NULL);
    larder_svm_model_close(&m);
    if (rc == 0 && j->again) {
        double score[2], cs[] = {1, 8};
        larder_svm_grid g = {
            .size = sizeof g, .c = cs, .cs = 2, .gammas = 1, .folds = 2, .score = score};
        rc = larder_svm_search(d, &c, &g, NULL);
    }
    return rc;
}

/* With the first fault in 1, 2, …, in turn of one call and of all from there on. */
static void each_call(const job *j) {
    larder_svm_data *d = some_data(j->classes, j->points);
    answer want, got;
    long n = 1, refused = 0, said = 0;
    fake_cuda_fail(&fake, 0, false);
    check_ok(run(j, d, &want));
    long before = *fake.calls;
    check_ok(run(j, d, &got));
    long calls = *fake.calls - before;
    long step = getenv("LARDER_LONG") ? 1 : 1 + calls / j->tries;
    for (n = 1; n <= calls; n += step) {
        fake_cuda_fail(&fake, n, n / step % 2);
        int rc = run(j, d, &got);
        fake_cuda_fail(&fake, 0, false);
        if (rc == 0) {
            assert_memory_equal(&got, &want, sizeof got);
            continue;
        }
        refused++;
        assert_true(rc == LARDER_E_IO || rc == LARDER_E_NOMEM || rc == LARDER_E_UNSUPPORTED);
        said += strstr(larder_errmsg(), "GPU") != NULL;
    }
    check_ok(run(j, d, &got));
    assert_memory_equal(&got, &want, sizeof got);
    printf("  %d classes, %s: %ld calls, %ld refusals\n", j->classes,
           j->policy ? j->policy
           : j->off  ? "none"
                     : "all",
           calls, refused);
    assert_true(refused > 0);
    assert_int_equal(said, refused);
    larder_svm_data_close(&d);
}

static void opening(void **state) {
    larder_svm_data *d = some_data(2, FEW);
    answer got;
    int rc;
    long n = 0;
    (void)state;
    do { /* a device that was opened stays open */
        fake_cuda_fail(&fake, ++n, true);
        rc = run(&(job){.classes = 2, .points = FEW, .tries = 22}, d, &got);
        if (rc < 0)
            assert_non_null(strstr(larder_errmsg(), "GPU"));
    } while (rc < 0 && n < 25);
    fake_cuda_fail(&fake, 0, false);
    check_ok(run(&(job){.classes = 2, .points = FEW, .tries = 22}, d, &got));
    larder_svm_data_close(&d);
}

static void values_that_all_lie_there(void **state) {
    (void)state;
    each_call(&(job){.classes = 2, .points = FEW, .tries = 22});
    each_call(&(job){.classes = 3, .points = FEW, .again = true, .tries = 10});
}

static void rows_that_are_kept(void **state) {
    (void)state;
    each_call(&(job){.classes = 2, .points = FEW, .policy = "lru", .rows = 8, .tries = 22});
    each_call(&(job){.classes = 2, .points = FEW, .off = true, .again = true, .tries = 10});
    each_call(&(job){.classes = 2, .points = MANY, .policy = "kkt", .rows = 100, .tries = 5});
}

int main(void) {
    char folder[256];
    check_folder(folder);
    if (!fake_cuda_open(&fake, "code_on_cpu.so", folder)) {
        check_folder_remove(folder);
        printf("skipped: no device code for this processor in this build\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(opening),
                                       cmocka_unit_test(values_that_all_lie_there),
                                       cmocka_unit_test(rows_that_are_kept)};
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    check_folder_remove(folder);
    return rc;
}
