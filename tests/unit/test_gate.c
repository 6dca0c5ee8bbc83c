/* The gate of rotate as training sees it: what has to be reported for it to open, what keeps it
 * shut, and that a gate that is shut decides nothing. With real reports through a loader. */
#include "check.h"
#include "loader_kit.h"

#include "base/hash.h"
#include "shared/machine.h"

#include <math.h>
#include <string.h>

enum { N = 2000, CLASSES = 10, BATCH = 50, EPOCHS = 4, BATCHES = N / BATCH * EPOCHS };
#define SOURCE "mem:?n=2000&h=4&w=4&c=1&classes=10"

typedef enum {
    SILENT,     /* nothing is reported */
    CLEAN,      /* nearly all samples are easy; loss and logits */
    HARD,       /* nobody is learned when fresh, and everybody who comes again soon */
    SMOOTHED,   /* CLEAN with label smoothing: losses alone, with a floor of .5 */
    MIXED,      /* CLEAN with mixup: logits, and no label that is one class */
    REGRESSION, /* tiny losses alone */
} training;

typedef struct outcome {
    uint64_t digests[BATCHES];
    size_t batches, notes;
    double share, open;
} outcome;

static uint64_t services, last[N]; /* so far; after how many each came last, 0: never */

static bool knows(training how, uint64_t id) {
    return how == HARD ? last[id] && services - last[id] < N : larder__mix64(id) % 10 > 0;
}

static double stat_of(larder_loader *l, const char *name) {
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++)
        if (strcmp(v.name, name) == 0)
            return v.value;
    fail_msg("there is no figure %s", name);
    return 0;
}

static void report(larder_loader *l, const larder_batch *b, training how) {
    float loss[BATCH], logits[BATCH * CLASSES] = {0};
    int64_t nobody[BATCH];
    for (size_t i = 0; i < b->n; i++) {
        bool known = knows(how, b->served[i]);
        logits[i * CLASSES + (size_t)b->y[i]] = known ? 8 : 0;
        loss[i] = how == REGRESSION ? 1e-4f : how == SMOOTHED && known ? 0.51f : 2.3f;
        if (how == CLEAN || how == HARD)
            loss[i] = 7; /* logits decide */
        nobody[i] = -1;
        last[b->served[i]] = ++services;
    }
    larder_feedback fb = {.size = sizeof fb, .classes = CLASSES};
    larder_batch named = *b;
    if (how == SILENT)
        return;
    if (how != MIXED)
        fb.loss = loss;
    if (how == CLEAN || how == HARD || how == MIXED)
        fb.logits = logits;
    if (how == MIXED) {
        named.size = sizeof named;
        named.y = nobody;
        fb.rows = LARDER_ROWS_ALL;
    }
    check_ok(larder_loader_report(l, how == MIXED ? &named : b, &fb));
}

static larder_loader *open_loader(const char *recipe, void *state, size_t size) {
    larder_loader_conf c = kit_conf(SOURCE, recipe);
    larder_loader *l;
    c.batch = BATCH;
    c.epochs = EPOCHS;
    check_ok(larder_loader_open(&l, &c));
    if (state)
        check_ok(larder_loader_restore(l, LARDER_STATE, state, size));
    return l;
}

/* Up to batch `until`. */
static void go_on(larder_loader *l, training how, size_t until, outcome *out) {
    const larder_batch *b;
    while (out->batches < until) {
        int rc = larder_loader_next(l, &b);
        check_ok(rc);
        if (rc == LARDER_END)
            break;
        if (rc == LARDER_END_EPOCH)
            continue;
        out->digests[out->batches++] = larder__hash_bytes(1, b->served, b->n * sizeof *b->served);
        report(l, b, how);
        check_ok(larder_loader_done(l, b));
    }
}

static outcome run(const char *recipe, training how) {
    outcome out = {0};
    char says[512];
    memset(last, 0, sizeof last);
    services = 0;
    larder_loader *l = open_loader(recipe, NULL, 0);
    go_on(l, how, BATCHES, &out);
    assert_int_equal(out.batches, BATCHES);
    out.share = stat_of(l, "fresh_learned");
    out.open = stat_of(l, "gate_open");
    while (larder_loader_says(l, LARDER_SAYS_NOTE, out.notes, says, sizeof says) == 0) {
        assert_non_null(strstr(says, "learned="));
        out.notes++;
    }
    larder_loader_close(&l);
    return out;
}

static bool same(const outcome *a, const outcome *b) {
    return memcmp(a->digests, b->digests, sizeof a->digests) == 0;
}

static void easy_data_opens_it(void **unused) {
    (void)unused;
    outcome off = run("rotate:h=0.6,gate=off", CLEAN), on = run("rotate:h=0.6,gate=0.3", CLEAN);
    assert_true(off.open == 0 && off.share == 0 && off.notes == 0);
    assert_true(on.open == 1 && on.share > 0.7 && on.share < 1 && on.notes == 0);
    assert_false(same(&off, &on));
    outcome high = run("rotate:h=0.6,gate=0.99", CLEAN); /* nine of ten are not enough */
    assert_true(high.open == 0 && high.share > 0.7 && same(&off, &high));
}

/* What is learned by reuse alone does not open it, and a gate that is shut changes nothing. */
static void others_keep_it_shut(void **unused) {
    (void)unused;
    static const struct {
        training how;
        size_t notes;
    } all[] = {{SILENT, 0}, {HARD, 0}, {SMOOTHED, 1}, {MIXED, 1}, {REGRESSION, 1}};
    outcome off = run("rotate:h=0.6,gate=off", SILENT);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        outcome on = run("rotate:h=0.6,gate=0.3", all[i].how);
        assert_true(on.open == 0 && on.share <= (all[i].how == HARD ? 0.2 : 0));
        assert_int_equal(on.notes, all[i].notes);
        assert_true(same(&off, &on));
        outcome none = run("rotate:h=0.6,gate=1", all[i].how);
        assert_true(none.notes == 0 && same(&off, &none));
    }
}

/* A threshold that the user names counts for the loss that is reported. */
static void a_named_threshold_opens_it(void **unused) {
    (void)unused;
    outcome off = run("rotate:h=0.6,gate=off", SMOOTHED);
    outcome low = run("rotate:h=0.6,gate=0.3,learned=0.5", SMOOTHED);
    outcome fits = run("rotate:h=0.6,gate=0.3,learned=0.6", SMOOTHED);
    assert_true(low.open == 0 && low.notes == 0 && same(&off, &low));
    assert_true(fits.open == 1 && fits.notes == 0 && !same(&off, &fits));
    assert_true(run("rotate:h=0.6,gate=0.3,learned=1e-3", REGRESSION).open == 1);
}

static void resumes_to_the_bit(void **unused) {
    (void)unused;
    outcome whole = run("rotate:h=0.6,gate=0.3", CLEAN);
    for (size_t at = 7; at < BATCHES; at += 51) {
        outcome parts = {0};
        void *bytes;
        size_t size;
        memset(last, 0, sizeof last);
        services = 0;
        larder_loader *l = open_loader("rotate:h=0.6,gate=0.3", NULL, 0);
        go_on(l, CLEAN, at, &parts);
        check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
        larder_loader_close(&l);
        l = open_loader("rotate:h=0.6,gate=0.3", bytes, size);
        go_on(l, CLEAN, BATCHES, &parts);
        assert_true(same(&whole, &parts));
        assert_true(stat_of(l, "fresh_learned") == whole.share);
        larder_free(bytes);
        larder_loader_close(&l);
    }
}

static void odd_parameters_are_refused(void **unused) {
    (void)unused;
    static const char *const odd[] = {"rotate:gate=2",
                                      "rotate:gate=-0.1",
                                      "rotate:gate=open",
                                      "rotate:gate=0.3x",
                                      "rotate:gate=",
                                      "rotate:learned=0.5",
                                      "rotate:gate=0.3,learned=inf",
                                      "rotate:gate=0.3,learned=low",
                                      "rotate:gate=0.3,victim=loss"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        larder_loader_conf c = kit_conf(SOURCE, odd[i]);
        larder_loader *l;
        assert_int_equal(larder_loader_open(&l, &c), LARDER_E_ARGS);
    }
}

/* ---- a cache that several jobs share --------------------------------------------------------- */

static void tell(larder__machine *m, uint32_t job, larder__op op) {
    larder__outcome out;
    check_ok(larder__machine_apply(m, job, &op, &out));
}

/* Losses come as they were said, not as ranks among a job's own, of which a twentieth would always
 * be below .05: nobody says that anything is learned, and the gate stays shut. */
static void jobs_that_share_say_losses(void **unused) {
    (void)unused;
    for (int easy = 0; easy < 2; easy++) {
        larder__agreement about = {.keys = N, .budget = N / 5, .seed = 3, .share = {1}};
        strcpy(about.policy, "rotate:gate=0.3");
        larder__machine *m;
        check_ok(larder__machine_open(&m, &(larder__machine_conf){.about = &about, .size = 1}));
        for (uint32_t job = 0; job < 2; job++)
            tell(m, job, (larder__op){.type = LARDER__OP_JOIN, .number = {0, 1}});
        for (uint64_t key = 0; key < N; key++) {
            larder__row row = {.key = (uint32_t)key, .group = LARDER_NO_GROUP, .score = NAN};
            uint32_t job = key % 2;
            tell(m, job, (larder__op){.type = LARDER__OP_CLAIM, .n = 1, .rows = &row});
            float loss = easy ? 0.04f : 0.06f + (float)key;
            tell(m, job,
                 (larder__op){.type = LARDER__OP_SCORES, .n = 1, .ids = &key, .scores = &loss});
        }
        double shown[LARDER_FIGURES] = {0};
        larder__cache_show(larder__machine_cache(m), shown);
        assert_true(easy ? shown[0] > 0.9 && shown[1] == 1 : shown[0] == 0 && shown[1] == 0);
        larder__machine_close(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(easy_data_opens_it),         cmocka_unit_test(others_keep_it_shut),
        cmocka_unit_test(a_named_threshold_opens_it), cmocka_unit_test(resumes_to_the_bit),
        cmocka_unit_test(odd_parameters_are_refused), cmocka_unit_test(jobs_that_share_say_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
