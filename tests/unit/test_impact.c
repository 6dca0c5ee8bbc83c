/* The warm-up, the evaluator's place in a run, and the whole recipe impact. */
#include "loader_kit.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/spec.h"
#include "plugins.h"
#include "sim/sim.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- the warm-up ----------------------------------------------------------------------------- */

enum { IDS = 1000, UNSTEADY = 100 };

typedef struct rig {
    const larder_sampler *q;
    larder_draw_env env;
    larder_slots slots;
    float scores[IDS];
    void *st;
} rig;

static void rig_open(rig *g, const char *params) {
    memset(g, 0, sizeof *g);
    g->q = larder__sampler_find("impact");
    g->slots = (larder_slots){.resident = 50, .bytes = 500, .budget = 4000}; /* a quarter: 100 */
    g->env = (larder_draw_env){
        .n = IDS, .seed = 3, .batch = 50, .world = 1, .scores = g->scores, .slots = &g->slots};
    for (int i = 0; i < IDS; i++)
        g->scores[i] = NAN;
    g->st = larder__calloc(1, g->q->plugin.state_size);
    larder_args args;
    check_ok(larder__args_parse(&args, "sampler", &g->q->plugin, params, ',', NULL));
    check_ok(g->q->init(g->st, &g->env, &args));
    larder__args_free(&args);
}

static void rig_close(rig *g) {
    g->q->fini(g->st);
    larder__free(g->st);
}

static size_t rig_begin(rig *g, uint64_t e, const uint32_t **ids) {
    const uint32_t *again;
    size_t n = g->q->evaluate(g->st, e, ids);
    assert_int_equal(g->q->evaluate(g->st, e, &again), n); /* asking twice changes nothing */
    check_ok(g->q->epoch(g->st, e));
    return n;
}

static void unsteady_samples_are_found(void **state) {
    (void)state;
    static rig g;
    rig_open(&g, "");
    const uint32_t *ids;
    for (uint64_t e = 0; e < 6; e++) {
        size_t n = rig_begin(&g, e, &ids);
        const uint8_t *tags = g.q->tags(g.st);
        if (e < 3) { /* two ranks make a variance, two sets a comparison: three epochs on all */
            assert_int_equal(n, 0);
            assert_int_equal(g.q->length(g.st), IDS);
            for (int i = 0; i < IDS; i++)
                assert_int_equal(tags[i], 0);
        } else {
            assert_int_equal(n, UNSTEADY);
            for (size_t i = 0; i < n; i++)
                assert_int_equal(ids[i] % 10, 3);
            for (int i = 0; i < IDS; i++)
                assert_int_equal(!!(tags[i] & LARDER_TAG_KEEP), i % 10 == 3);
            assert_int_equal(g.q->length(g.st) == IDS, e == 3);
        }
        for (int i = 0; i < IDS; i++) /* those swing between the ends, the others stay */
            g.scores[i] = i % 10 == 3 ? (e % 2 ? 5000 : -5000) + (float)i : (float)i;
    }
    rig_close(&g);
}

static void warm_up_has_an_end(void **state) {
    (void)state;
    static rig g;
    static const char *const params[] = {"", "warm_max=5"};
    const uint64_t ends[] = {10, 5};
    for (int k = 0; k < 2; k++) {
        rig_open(&g, params[k]);
        const uint32_t *ids;
        for (uint64_t e = 0; e < 12; e++) { /* everybody swings: no two sets agree */
            assert_int_equal(rig_begin(&g, e, &ids), e < ends[k] ? 0 : UNSTEADY);
            for (uint64_t i = 0; i < IDS; i++)
                g.scores[i] = kit_loss(i, e * 77);
        }
        rig_close(&g);
    }
}

static void other_ways_to_evaluate(void **state) {
    (void)state;
    static rig g;
    const uint32_t *ids;
    rig_open(&g, "eval=realtime");
    assert_int_equal(rig_begin(&g, 0, &ids), 0);
    assert_int_equal(rig_begin(&g, 1, &ids), IDS);
    rig_close(&g);
    rig_open(&g, "eval=history");
    for (uint64_t e = 0; e < 4; e++)
        assert_int_equal(rig_begin(&g, e, &ids), 0);
    assert_int_not_equal(g.q->tags(g.st)[0], 0); /* no warm-up */
    rig_close(&g);
}

/* ---- the evaluator --------------------------------------------------------------------------- */

enum { N = 400, EPOCHS = 9, SIZE = 192, MANY = 300, BATCHES = 25 };
#define RECIPE "impact:warm_max=4"

typedef struct witness {
    pthread_t thread;
    uint64_t taken;           /* batches the user has */
    uint64_t samples[EPOCHS]; /* evaluated before each epoch */
    int64_t label[N];
    uint64_t pixels[N]; /* as the evaluator saw them */
    int answer;
} witness;

static float eval_loss(uint64_t id, uint64_t epoch) { return kit_loss(id, epoch + 1000); }

static int look_again(void *arg, const larder_batch *b, float *loss) {
    witness *w = arg;
    assert_true(pthread_equal(w->thread, pthread_self()));
    assert_true(b->n > 0 && b->n <= 16 && b->epoch > 0 && b->epoch < EPOCHS);
    w->samples[b->epoch] += b->n;
    for (size_t i = 0; i < b->n; i++) {
        assert_int_equal(b->ids[i], b->served[i]);
        if (w->taken)
            assert_int_equal(b->y[i], w->label[b->served[i]]);
        loss[i] = eval_loss(b->served[i], b->epoch - 1);
        uint64_t id = b->served[i];
        uint64_t seen = larder__hash_bytes(1, (const char *)b->x + i * SIZE, SIZE);
        assert_true(w->pixels[id] == 0 || w->pixels[id] == seen); /* no chance in them */
        w->pixels[id] = seen;
    }
    return w->answer;
}

static larder_loader *open_loader(const char *recipe, witness *w) {
    larder_loader_conf c = kit_conf("mem:?n=400&h=8&w=8&c=3", recipe);
    c.cache = "30%";
    c.epochs = EPOCHS;
    c.threads = 3;
    c.lag = 6;
    larder_loader *l = NULL;
    check_ok(larder_loader_open(&l, &c));
    if (w) {
        w->thread = pthread_self();
        check_ok(larder_loader_evaluator(l, look_again, w));
    }
    return l;
}

static void called_between_epochs(void **state) {
    (void)state;
    witness w = {0};
    larder_loader *l = open_loader(RECIPE, &w);
    float losses[16];
    const larder_batch *b;
    uint64_t begun = 0, evaluated = 0;
    for (int rc; (rc = larder_loader_next(l, &b)) != LARDER_END;) {
        check_ok(rc);
        uint64_t now = 0;
        for (int e = 0; e < EPOCHS; e++)
            now += w.samples[e];
        if (now != evaluated) { /* only by the call that hands out an epoch's first batch */
            assert_int_equal(rc, 0);
            assert_int_equal(b->epoch, begun);
            assert_int_equal(now - evaluated, w.samples[b->epoch]);
            evaluated = now;
        }
        if (rc == LARDER_END_EPOCH)
            continue;
        begun = b->epoch + 1;
        for (size_t i = 0; i < b->n; i++) {
            w.label[b->served[i]] = b->y[i];
            losses[i] = kit_loss(b->served[i], b->epoch);
        }
        w.taken++;
        check_ok(larder_loader_report(
            l, b, &(larder_feedback){.size = sizeof(larder_feedback), .loss = losses}));
        check_ok(larder_loader_done(l, b));
    }
    for (int e = 0; e < EPOCHS; e++) /* a quarter of a cache of 120 samples */
        assert_int_equal(w.samples[e], e < 4 ? 0 : 30);
    larder_figures f = {.size = sizeof f};
    check_ok(larder_loader_figures(l, 4, &f)); /* S was partly read for it, then kept */
    assert_int_equal(f.storage_bytes, (f.misses + f.background_reads + f.evaluation_reads) * SIZE);
    assert_int_equal(f.evaluated, 30);
    assert_true(f.evaluation_reads > 0 && f.evaluation_reads < 30);
    assert_int_equal(larder_loader_evaluator(l, look_again, &w), LARDER_E_STATE);
    larder_loader_close(&l);
}

static void a_failing_evaluator_ends_the_run(void **state) {
    (void)state;
    witness w = {.answer = LARDER_E_NOMEM};
    larder_loader *l = open_loader("impact:eval=realtime", &w);
    const larder_batch *b;
    int rc;
    while ((rc = larder_loader_next(l, &b)) >= 0)
        if (rc == 0)
            check_ok(larder_loader_done(l, b));
    assert_int_equal(rc, LARDER_E_NOMEM);
    assert_non_null(strstr(larder_errmsg(), "evaluator"));
    assert_int_equal(larder_loader_next(l, &b), LARDER_E_NOMEM);
    larder_loader_close(&l);
}

typedef struct curious {
    larder_loader *l;
    uint64_t asked;
} curious;

/* All that would be decided waits for it, in this very thread. */
static int look_around(void *arg, const larder_batch *b, float *loss) {
    curious *c = arg;
    const larder_batch *more;
    larder_about about = {.size = sizeof about};
    larder_figures f = {.size = sizeof f};
    void *bytes;
    size_t size;
    check_ok(larder_loader_about(c->l, &about));
    assert_int_equal(about.epoch, b->epoch);
    check_ok(larder_loader_figures(c->l, b->epoch - 1, &f));
    assert_int_equal(larder_loader_save(c->l, LARDER_STATE, &bytes, &size), LARDER_E_STATE);
    assert_non_null(strstr(larder_errmsg(), "in the middle of its samples"));
    check_ok(larder_loader_begin(c->l, b->epoch)); /* it is about to */
    assert_int_equal(larder_loader_begin(c->l, 0), LARDER_E_STATE);
    assert_int_equal(larder_loader_next(c->l, &more), LARDER_E_STATE);
    assert_non_null(strstr(larder_errmsg(), "waits for it"));
    for (size_t i = 0; i < b->n; i++)
        loss[i] = 1;
    c->asked++;
    return 0;
}

static void an_evaluator_that_looks_around(void **state) {
    (void)state;
    curious c = {.l = open_loader("impact:eval=realtime", NULL)};
    const larder_batch *b;
    check_ok(larder_loader_evaluator(c.l, look_around, &c));
    for (int rc; (rc = larder_loader_next(c.l, &b)) != LARDER_END;) {
        check_ok(rc);
        if (rc == 0)
            check_ok(larder_loader_done(c.l, b));
    }
    assert_true(c.asked > 0);
    larder_loader_close(&c.l);
}

static void without_one_it_is_icache(void **state) {
    (void)state;
    uint64_t a[MANY], b[MANY];
    larder_loader *l = open_loader("icache", NULL);
    size_t n = kit_run(l, a, MANY);
    larder_loader_close(&l);
    l = open_loader("impact", NULL);
    assert_int_equal(kit_run(l, b, MANY), n);
    assert_memory_equal(a, b, n * sizeof *a);
    larder_loader_close(&l);
}

static void resumes_anywhere(void **state) {
    (void)state;
    uint64_t whole[MANY], got[MANY];
    witness w = {0};
    larder_loader *l = open_loader(RECIPE, &w);
    size_t count = kit_run(l, whole, MANY);
    larder_loader_close(&l);
    for (size_t before = 2 * BATCHES; before<count; before += before % BATCHES> 20 ? 1 : 3) {
        l = open_loader(RECIPE, &w);
        assert_int_equal(kit_run(l, got, before), before);
        void *bytes;
        size_t size;
        check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
        larder_loader_close(&l);
        l = open_loader(RECIPE, &w);
        check_ok(larder_loader_restore(l, LARDER_STATE, bytes, size));
        larder_free(bytes);
        assert_int_equal(kit_run(l, got + before, MANY - before), count - before);
        assert_memory_equal(got, whole, count * sizeof *got);
        larder_loader_close(&l);
    }
}

static void the_simulator_agrees(void **state) {
    (void)state;
    char folder[256];
    static float train[EPOCHS * N], eval[EPOCHS * N];
    static uint8_t labels[N];
    for (uint64_t i = 0; i < EPOCHS * N; i++) {
        train[i] = kit_loss(i % N, i / N);
        eval[i] = eval_loss(i % N, i / N);
    }
    check_folder(folder);
    kit_write_array(folder, "train_loss.npy", "<f4", EPOCHS, N, train, sizeof train);
    kit_write_array(folder, "eval_loss.npy", "<f4", EPOCHS, N, eval, sizeof eval);
    kit_write_array(folder, "labels.npy", "|u1", N, 1, labels, sizeof labels);
    larder__sim_conf sim = {.recipe = RECIPE,
                            .cache = "30%",
                            .trace = folder,
                            .epochs = EPOCHS,
                            .batch = 16,
                            .seed = 7,
                            .size = SIZE};
    larder__sim_result said;
    check_ok(larder__sim_run(&sim, &said));
    check_folder_remove(folder);
    witness w = {0};
    larder_loader *l = open_loader(RECIPE, &w);
    uint64_t digests[MANY];
    kit_run(l, digests, MANY);
    for (uint64_t e = 0; e < EPOCHS; e++) {
        larder_figures f = {.size = sizeof f};
        check_ok(larder_loader_figures(l, e, &f));
        assert_int_equal(f.served, said.epochs[e].served);
        assert_int_equal(f.hits, said.epochs[e].hits);
        assert_int_equal(f.substitutes, said.epochs[e].substitutes);
        assert_int_equal(f.background_reads, said.epochs[e].background_reads);
        assert_int_equal(f.evaluated, said.epochs[e].evaluated);
        assert_int_equal(f.evaluation_reads, said.epochs[e].evaluation_reads);
        assert_int_equal(f.storage_bytes, said.epochs[e].storage_bytes);
    }
    larder__sim_free(&said);
    larder_loader_close(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsteady_samples_are_found),
        cmocka_unit_test(warm_up_has_an_end),
        cmocka_unit_test(other_ways_to_evaluate),
        cmocka_unit_test(called_between_epochs),
        cmocka_unit_test(a_failing_evaluator_ends_the_run),
        cmocka_unit_test(an_evaluator_that_looks_around),
        cmocka_unit_test(without_one_it_is_icache),
        cmocka_unit_test(resumes_anywhere),
        cmocka_unit_test(the_simulator_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
