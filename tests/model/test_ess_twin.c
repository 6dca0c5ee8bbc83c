/* ess counts what was served: recounted from the job's tape, which holds both what was asked for
 * and what came instead, and with weights from the batches themselves. */
#include "loader_kit.h"

#include "base/hash.h"
#include "tape/tape.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 600, DIM = 8, BATCH = 16, EPOCHS = 5 };
/* Hubs that stand in as often as they can, and no weights. */
#define SPIDER                                                                                     \
    "spider:ratio=0.5,ratio_end=0.3,degree=20,hubs=16,hub_epoch=0,hub_batch=0,again=0,correct=0"

static double kish(const double *pull) {
    double sum = 0, squares = 0;
    for (int i = 0; i < N; i++) {
        sum += pull[i];
        squares += pull[i] * pull[i];
    }
    return sum * sum / squares / N;
}

static double ess_of(larder_loader *l) {
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++)
        if (strcmp(v.name, "ess") == 0)
            return v.value;
    fail_msg("no ess");
    return 0;
}

static void report(larder_loader *l, const larder_batch *b) {
    float emb[BATCH * DIM], loss[BATCH];
    for (size_t i = 0; i < b->n; i++) {
        loss[i] = kit_loss(b->served[i], b->epoch);
        for (uint64_t k = 0; k < DIM; k++) /* classes are clusters */
            emb[i * DIM + k] = (float)(larder__mix64((uint64_t)b->y[i] * DIM + k) % 100) +
                               (float)(larder__mix64(b->served[i] * DIM + k) % 100) / 5;
    }
    check_ok(larder_loader_report(
        l, b,
        &(larder_feedback){
            .size = sizeof(larder_feedback), .loss = loss, .embeddings = emb, .dim = DIM}));
}

/* Runs it, and checks ess after each epoch against the batches' own rows. */
static void run(const char *recipe, const char *record, double said[EPOCHS], bool resume) {
    larder_loader_conf c = kit_conf("mem:?n=600&h=8&w=8&c=3&classes=5", recipe);
    c.cache = "30%";
    c.epochs = EPOCHS;
    c.record = record;
    larder_loader *l = NULL;
    check_ok(larder_loader_open(&l, &c));
    assert_true(isnan(ess_of(l)));
    double pull[N] = {0};
    for (int e = 0, step = 0; e < EPOCHS; step++) {
        const larder_batch *b;
        int rc = larder_loader_next(l, &b);
        check_ok(rc);
        if (rc == LARDER_END_EPOCH) {
            said[e++] = ess_of(l);
            assert_true(fabs(said[e - 1] - kish(pull)) < 1e-5);
            memset(pull, 0, sizeof pull);
            continue;
        }
        for (size_t i = 0; i < b->n; i++)
            pull[b->served[i]] += (double)b->weight[i];
        report(l, b);
        check_ok(larder_loader_done(l, b));
        if (resume && step % 23 == 22) { /* in the middle of an epoch, too */
            void *bytes;
            size_t size;
            check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
            larder_loader_close(&l);
            check_ok(larder_loader_open(&l, &c));
            check_ok(larder_loader_restore(l, LARDER_STATE, bytes, size));
            larder_free(bytes);
        }
    }
    larder_loader_close(&l);
}

static void as_the_tape_has_it(void **state) {
    (void)state;
    static const char *const recipes[] = {SPIDER, "icache", "shade:repeat=3"};
    for (int k = 0; k < 3; k++) {
        char folder[256], path[300];
        double said[EPOCHS];
        check_folder(folder);
        snprintf(path, sizeof path, "%s/job.tape", folder);
        run(recipes[k], path, said, false);
        larder__tape t;
        check_ok(larder__tape_read(&t, path));
        double apart = 0;
        uint64_t substitutes = 0;
        for (uint64_t e = 0; e < EPOCHS; e++) {
            double served[N] = {0}, asked[N] = {0};
            for (uint64_t b = t.epochs[e].begin; b < t.epochs[e].end; b++)
                for (uint64_t i = t.batches[b].begin; i < t.batches[b].begin + t.batches[b].n;
                     i++) {
                    served[t.served[i]]++;
                    asked[t.ids[i]]++;
                }
            assert_true(fabs(said[e] - kish(served)) < 1e-5);
            apart = fmax(apart, kish(asked) - kish(served));
            substitutes += t.epochs[e].figures.substitutes;
        }
        if (k == 0) { /* where hubs stand in, what was asked for says something else */
            assert_true(substitutes > 100);
            assert_true(apart > 0.01);
        }
        larder__tape_free(&t);
        check_folder_remove(folder);
    }
}

static void with_weights(void **state) {
    (void)state;
    double said[EPOCHS];
    run("spider:correct=1,degree=20,hubs=16", "", said, false);
    run("icache:correct=1", "", said, false);
    run("shade:correct=1", "", said, false);
}

static void after_a_resume(void **state) {
    (void)state;
    double whole[EPOCHS], again[EPOCHS];
    run(SPIDER, "", whole, false);
    run(SPIDER, "", again, true);
    assert_memory_equal(whole, again, sizeof whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_tape_has_it),
        cmocka_unit_test(with_weights),
        cmocka_unit_test(after_a_resume),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
