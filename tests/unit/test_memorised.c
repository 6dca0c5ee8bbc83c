/* What reuse memorises, as loaders show it and as samplers see it: losses that follow from what a
 * network would have seen lately make the gap they should, losses that do not make none; and who
 * decides by it does so in batch order, however reports come. */
#include "loader_kit.h"
#include "look_kit.h"

#include "loader/draw/draw.h"

#include <larder/plugin.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 3000, BATCH = 30, EPOCHS = 5 };
#define SOURCE "mem:?n=3000&h=2&w=2&c=1"

/* ---- a loader -------------------------------------------------------------------------------- */

typedef enum { OF_MEMORY, OF_TIME, OF_SAMPLE, AS_LOGITS, ODD } loss_kind;

typedef struct training {
    loss_kind kind;
    uint64_t last[N], served; /* when each was trained on last, + 1; samples so far */
} training;

static float loss_of(const training *t, const larder_batch *b, size_t i) {
    uint64_t last = t->last[b->served[i]];
    bool lately = last && t->served + 1 - last <= N;
    switch (t->kind) {
    case OF_TIME: /* falls fast, as at a training's beginning */
        return 9 / (1 + 0.05f * (float)b->number);
    case OF_SAMPLE:
        return kit_loss(b->served[i], 0);
    default:
        return lately ? 1 : 3;
    }
}

static void step(larder_loader *l, training *t, const larder_batch *b) {
    float loss[BATCH], logits[2 * BATCH];
    for (size_t i = 0; i < b->n; i++) {
        loss[i] = loss_of(t, b, i);
        if (t->kind == ODD && i % 3 == 0)
            loss[i] = i % 2 ? NAN : INFINITY;
        /* -ln of its share is the loss */
        logits[2 * i + (b->y[i] & 1)] = 0;
        logits[2 * i + !(b->y[i] & 1)] = logf(expf(loss[i]) - 1);
    }
    larder_feedback fb = {.size = sizeof fb, .loss = loss};
    if (t->kind == AS_LOGITS)
        fb = (larder_feedback){.size = sizeof fb, .logits = logits, .classes = 2};
    check_ok(larder_loader_report(l, b, &fb));
    for (size_t i = 0; i < b->n; i++)
        t->last[b->served[i]] = t->served + 1;
    t->served += b->n;
}

static larder_loader_conf conf_of(const char *recipe) {
    larder_loader_conf c = kit_conf(SOURCE "&classes=2", recipe);
    c.augment = "";
    c.batch = BATCH;
    c.epochs = EPOCHS;
    return c;
}

static void train(const char *recipe, loss_kind kind, larder_figures out[EPOCHS]) {
    larder_loader_conf c = conf_of(recipe);
    larder_loader *l = NULL;
    training *t = calloc(1, sizeof *t);
    t->kind = kind;
    check_ok(larder_loader_open(&l, &c));
    const larder_batch *b;
    for (int rc; (rc = larder_loader_next(l, &b)) != LARDER_END;) {
        check_ok(rc);
        if (rc == LARDER_END_EPOCH)
            continue;
        step(l, t, b);
        check_ok(larder_loader_done(l, b));
    }
    for (uint64_t e = 0; e < EPOCHS; e++) {
        out[e] = (larder_figures){.size = sizeof *out};
        check_ok(larder_loader_figures(l, e, &out[e]));
    }
    larder_loader_close(&l);
    free(t);
}

/* Fresh samples cost 3, reused ones 1; only at the clock's blurred boundary is one taken for the
 * other. */
static void check_memory(const larder_figures *f, uint64_t reported) {
    assert_true(f->fresh_loss > 2.9 && f->fresh_loss < 3.001);
    assert_true(f->reused_loss > 0.999 && f->reused_loss < 1.1);
    assert_true(f->fresh_reported + f->reused_reported <= reported);
    assert_true(10 * (f->fresh_reported + f->reused_reported) > 9 * reported);
}

static void reuse_shows_what_it_memorises(void **state) {
    (void)state;
    larder_figures f[EPOCHS];
    const char *recipes[] = {"rotate:h=0.8", "rotate:h=0.5", "echo:factor=4", "rotate:h=0"};
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        train(recipes[r], OF_MEMORY, f);
        for (int e = 1; e < EPOCHS; e++)
            check_memory(&f[e], N);
    }
    train("rotate:h=0.8", AS_LOGITS, f);
    for (int e = 1; e < EPOCHS; e++)
        check_memory(&f[e], N);
    train("rotate:h=0.8", ODD, f); /* a third of them are no numbers */
    for (int e = 1; e < EPOCHS; e++)
        check_memory(&f[e], N - N / 3);
    train("rotate:h=0.8", OF_MEMORY, f); /* before the cache is full nothing can be compared */
    assert_true((double)f[0].fresh_reported < 0.3 * N && (double)f[0].reused_reported > 0.5 * N);
}

/* Where losses follow from something else there is none, in plain training and in reuse. */
static void there_is_no_gap_without_memory(void **state) {
    (void)state;
    larder_figures f[EPOCHS];
    const char *recipes[] = {"rotate:h=0.8", "rotate:h=0.5", "echo:factor=4", "rotate:h=0"};
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        train(recipes[r], OF_TIME, f);
        for (int e = 0; e < EPOCHS; e++)
            if (f[e].fresh_reported) { /* of plain training: not in its first epoch */
                assert_true(fabs(f[e].fresh_loss - f[e].reused_loss) < 0.01);
                assert_true(f[e].fresh_loss > 0);
            } else
                assert_true(isnan(f[e].fresh_loss) && r == 3 && e == 0);
        train(recipes[r], OF_SAMPLE, f); /* 0 to 10, spread evenly: sd 2.9 */
        for (int e = 1; e < EPOCHS; e++)
            assert_true(
                fabs(f[e].fresh_loss - f[e].reused_loss) <
                4 * 2.9 *
                    sqrt(1.0 / (double)f[e].fresh_reported + 1.0 / (double)f[e].reused_reported));
    }
    larder_loader_conf c = conf_of("minio"); /* nothing comes before its next epoch */
    larder_loader *l = NULL;
    check_ok(larder_loader_open(&l, &c));
    larder_about about = {.size = sizeof about};
    check_ok(larder_loader_about(l, &about));
    assert_false(about.compares);
    larder_loader_close(&l);
    train("minio", OF_MEMORY, f);
    assert_true(isnan(f[3].fresh_loss) && isnan(f[3].reused_loss) && !f[3].fresh_reported);
}

/* Named after it was given back, late, twice, too late, without losses. */
static void reports_may_come_late_but_once(void **state) {
    (void)state;
    enum { BATCHES = 60 };
    larder_figures f[2];
    for (int late = 0; late < 2; late++) {
        larder_loader_conf c = conf_of("rotate:h=0.5,fill=0,gate=off");
        c.lag = 9;
        larder_loader *l = NULL;
        check_ok(larder_loader_open(&l, &c));
        larder_about about = {.size = sizeof about};
        check_ok(larder_loader_about(l, &about));
        assert_true(about.compares && !about.listens);
        uint64_t served[BATCHES][BATCH];
        int64_t labels[BATCH] = {0};
        float loss[BATCH];
        for (uint64_t k = 0; k < BATCHES; k++) {
            const larder_batch *b;
            check_ok(larder_loader_next(l, &b));
            memcpy(served[k], b->served, sizeof served[k]);
            check_ok(larder_loader_done(l, b));
            uint64_t about_k = k - (late ? 3 : 0);
            for (int i = 0; i < BATCH && about_k < BATCHES; i++)
                loss[i] = kit_loss(served[about_k][i], 0);
            larder_batch named = {.size = sizeof named,
                                  .number = about_k,
                                  .n = BATCH,
                                  .served = served[about_k % BATCHES],
                                  .y = labels};
            larder_feedback fb = {.size = sizeof fb, .loss = loss, .rows = LARDER_ROWS_OWN};
            for (int times = 0; times < 2 && about_k < BATCHES - 3; times++)
                check_ok(larder_loader_report(l, &named, &fb));
            named.number = 0;
            named.served = served[0];
            if (k == BATCHES - 1 && late) /* nobody knows any more which of them were fresh */
                check_ok(larder_loader_report(l, &named, &fb));
        }
        f[late] = (larder_figures){.size = sizeof *f};
        check_ok(larder_loader_figures(l, 0, &f[late]));
        larder_loader_close(&l);
    }
    assert_true(f[0].fresh_reported > 0 && f[0].reused_reported > 0);
    assert_true(f[0].fresh_reported + f[0].reused_reported <= (BATCHES - 3) * BATCH);
    assert_int_equal(f[0].fresh_reported, f[1].fresh_reported);
    assert_true(f[0].fresh_loss == f[1].fresh_loss && f[0].reused_loss == f[1].reused_loss);
}

/* ---- who decides by it ----------------------------------------------------------------------- */

typedef struct watcher {
    const larder_draw_env *env;
    uint64_t taken, drawn;
} watcher;

static larder_memorised seen[400]; /* before each draw */

static int watcher_init(void *st, const larder_draw_env *env, const larder_args *args) {
    (void)args;
    *(watcher *)st = (watcher){.env = env};
    return 0;
}
static int watcher_epoch(void *st, uint64_t epoch) {
    (void)epoch;
    ((watcher *)st)->taken = 0;
    return 0;
}
static uint64_t watcher_length(const void *st) { return ((const watcher *)st)->env->n; }

/* Every other one comes a second time, two batches later. */
static size_t watcher_draw(void *st, larder_pick *out, size_t want) {
    watcher *w = st;
    seen[w->drawn / w->env->batch % 400] = *w->env->memorised;
    size_t n = 0;
    for (; n < want && w->taken < w->env->n; n++, w->taken++, w->drawn++) {
        uint64_t back = n % 2 && w->drawn > 2 * want ? 2 * want + 1 : 0;
        out[n].id = (w->drawn - back) * 7 % w->env->n;
    }
    return n;
}
static void watcher_save(const void *st, larder_writer *w) {
    larder_write_u64(w, ((const watcher *)st)->taken);
    larder_write_u64(w, ((const watcher *)st)->drawn);
}
static int watcher_load(void *st, larder_reader *r) {
    ((watcher *)st)->taken = larder_read_u64(r);
    ((watcher *)st)->drawn = larder_read_u64(r);
    return larder_read_status(r);
}
static bool watches(const larder_args *args) { return larder_args_number(args, "looks") != 0; }
static const larder_param watcher_params[] = {{"looks", "bool", "1", "at what is memorised", 0, 0},
                                              {0}};
static const larder_sampler watcher_sampler = {
    .plugin = {.name = "watcher",
               .summary = "looks at what is memorised",
               .params = watcher_params,
               .state_size = sizeof(watcher)},
    .repeats = true,
    .init = watcher_init,
    .epoch = watcher_epoch,
    .draw = watcher_draw,
    .length = watcher_length,
    .save = watcher_save,
    .load = watcher_load,
    .watches = watches,
};

enum { WIDE = 512, ROWS = 16, LAG = 4, DRAWN = 200 };

typedef struct rig {
    larder__draw *d;
    larder__planned p;
} rig;

static void rig_open(rig *g, const char *recipe) {
    larder__cache_text text;
    check_ok(larder__cache_text_parse(&text, "20%", ""));
    larder__draw_conf c = {.recipe = recipe,
                           .cache = &text,
                           .store = &larder__store_null,
                           .n = WIDE,
                           .payload = WIDE * 8,
                           .size = 8,
                           .batch = ROWS,
                           .world = 1,
                           .lag = LAG};
    check_ok(larder__draw_open(&g->d, &c));
    check_ok(larder__planned_open(&g->p, g->d));
}

static void rig_close(rig *g) {
    larder__planned_close(&g->p);
    larder__draw_close(&g->d);
}

typedef struct spoken {
    uint64_t number, epoch, served[ROWS];
    size_t n;
} spoken;

static void say(rig *g, const spoken *s) {
    float loss[ROWS], logits[2 * ROWS] = {0};
    int64_t labels[ROWS] = {0};
    for (size_t i = 0; i < s->n; i++)
        loss[i] = kit_loss(s->served[i], s->number);
    larder_feedback fb = {.size = sizeof fb, .loss = loss, .logits = logits, .classes = 2};
    check_ok(larder__draw_note(g->d, s->number, s->epoch, s->n, s->served, labels, &fb, true));
}

/* Draws, and reports each batch at once, or those of a lag together and backwards; one in five
 * never. At `stop` the draw is saved and another one goes on. */
static void run(const char *recipe, bool late, uint64_t stop, larder_memorised out[DRAWN]) {
    rig g;
    spoken said[LAG];
    rig_open(&g, recipe);
    memset(seen, 0, sizeof seen);
    for (uint64_t k = 0; k < DRAWN; k++) {
        if (k == stop) {
            larder_writer w = {0};
            larder__draw_save(g.d, &w);
            rig_close(&g);
            rig_open(&g, recipe);
            larder_reader in = {.at = w.bytes, .end = w.bytes + w.size};
            check_ok(larder__draw_load(g.d, &in));
            larder__writer_free(&w);
        }
        check_ok(larder__draw_next(g.d, &g.p));
        spoken *s = &said[k % LAG];
        *s = (spoken){.number = k, .epoch = g.p.epoch, .n = g.p.n};
        for (size_t i = 0; i < g.p.n; i++)
            s->served[i] = g.p.tickets[i].key;
        if (!late && k % 5)
            say(&g, s);
        for (uint64_t back = 0; late && k % LAG == LAG - 1 && back < LAG; back++)
            if ((k - back) % 5)
                say(&g, &said[(k - back) % LAG]);
    }
    memcpy(out, seen, DRAWN * sizeof *out);
    rig_close(&g);
}

static void decisions_come_in_batch_order(void **state) {
    (void)state;
    check_ok(larder_register_sampler(&watcher_sampler));
    static larder_memorised once[DRAWN], late[DRAWN], resumed[DRAWN];
    const char *recipes[] = {"minio:sampler=watcher", "minio:sampler=watcher,signal=loss",
                             "minio:sampler=watcher,signal=rank"};
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        larder_memorised first[DRAWN];
        run(recipes[r], false, 0, once);
        if (r == 0)
            memcpy(first, once, sizeof first);
        run(recipes[r], true, 0, late);
        run(recipes[r], true, DRAWN / 2, resumed);
        assert_memory_equal(once, late, sizeof once);
        assert_memory_equal(once, resumed, sizeof once);
        /* Nothing before the first effect that has both sorts; then it follows what is said. */
        for (int k = 0; k < LAG + 2; k++)
            assert_true(isnan(once[k].fresh_loss));
        assert_true(once[DRAWN - 1].fresh > 0 && once[DRAWN - 1].reused > 0);
        assert_true(once[DRAWN - 1].fresh_loss > 0 && once[DRAWN - 1].reused_loss > 0);
        assert_true(once[DRAWN - 2].fresh_loss != once[DRAWN - 3].fresh_loss);
    }
    rig g; /* who does not look needs no feedback kept */
    rig_open(&g, "minio:sampler=watcher,looks=0");
    assert_true(!larder__draw_feedback(g.d) && larder__draw_compares(g.d));
    assert_false(larder__draw_listens(g.d));
    rig_close(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reuse_shows_what_it_memorises),
        cmocka_unit_test(there_is_no_gap_without_memory),
        cmocka_unit_test(reports_may_come_late_but_once),
        cmocka_unit_test(decisions_come_in_batch_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
