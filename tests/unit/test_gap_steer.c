/* h=auto bounded by what reuse memorises: on gaps that follow from h by a formula, where it settles
 * is known beforehand; and through a loader whose storage is too slow. */
#include "check.h"
#include "loader_kit.h"

#include "base/hash.h"
#include "base/spec.h"
#include "base/state.h"
#include "plugins.h"
#include "sample/steer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- by a formula ---------------------------------------------------------------------------- */

enum { BATCHES = 640 }; /* of an epoch; one decision in ten */
static const double NEEDED = 1 - 0.9 / 4;

typedef struct model {
    larder__steer s;
    double gap, power; /* relative gap = gap x (h / (1 - h))^power, fading over an epoch */
    double sum, weight;
    double least, most; /* h in the last epoch */
    bool silent;        /* nothing is reported */
} model;

static void open_steer(larder__steer *s, const char *text) {
    larder_args args;
    const larder_plugin *p = &larder__sampler_find("rotate")->plugin;
    check_ok(larder__args_parse(&args, "sampler", p, text, ',', NULL));
    check_ok(larder__steer_init(s, &args, BATCHES));
    larder__args_free(&args);
}

static void run_epoch(model *m, int epoch) {
    const double keep = 1 - 1. / BATCHES, start = 2.3; /* the first loss of all */
    check_ok(larder__steer_epoch(&m->s));
    m->least = 1, m->most = 0;
    for (int i = 0; i < BATCHES; i++) {
        double done = epoch + (double)i / BATCHES, fresh = start * pow(0.8, done);
        double gap = m->weight > 0 ? m->sum / m->weight * start : 0;
        larder_memorised seen = {.fresh_loss = NAN, .reused_loss = NAN, .first_loss = NAN};
        if (!m->silent)
            seen = (larder_memorised){1000, 1000, fresh, fresh - gap, start};
        larder__steer_pace(&m->s, &(larder_pace){.read_seconds = 4e-3, .step_seconds = 1e-3});
        larder__steer_memorised(&m->s, &seen);
        double h = larder__steer_next(&m->s, done, 1, true);
        m->sum = m->sum * keep + m->gap * pow(h / (1 - h), m->power);
        m->weight = m->weight * keep + 1;
        m->least = fmin(m->least, h), m->most = fmax(m->most, h);
    }
}

static void close_to(double got, double want, const char *what) {
    if (!(fabs(got - want) < 0.02))
        fail_msg("%s: %g instead of %g", what, got, want);
}

/* The gap is the bound where reuse is (bound / gap)^(1 / power), if storage needs as much. Within
 * four epochs it is there, whether the gap grows as is assumed, faster or slower; and stays. */
static void settles_at_the_bound(void **unused) {
    (void)unused;
    static const double powers[] = {1, 2, 0.6};
    for (size_t k = 0; k < sizeof powers / sizeof *powers; k++)
        for (double allows = 0.4; allows < 1; allows += 0.12) {
            model m = {.power = powers[k]};
            m.gap = 0.1 / pow(allows / (1 - allows), m.power);
            open_steer(&m.s, "h=auto,gap=0.1");
            for (int epoch = 0; epoch < 10; epoch++) {
                run_epoch(&m, epoch);
                if (epoch < 4)
                    continue;
                close_to(m.least, fmin(allows, NEEDED), "least h");
                close_to(m.most, fmin(allows, NEEDED), "most h");
            }
            double held = larder__steer_held(&m.s);
            if (allows < NEEDED - 0.06)
                close_to(held, NEEDED, "what storage needs");
            else
                assert_true(isnan(held));
            larder__steer_fini(&m.s);
        }
}

static void without_reports_or_a_bound_as_ever(void **unused) {
    (void)unused;
    model ever = {.silent = true}, none = {.gap = 9, .power = 1};
    open_steer(&ever.s, "h=auto");
    open_steer(&none.s, "h=auto,gap=0");
    for (int epoch = 0; epoch < 3; epoch++) {
        run_epoch(&ever, epoch);
        run_epoch(&none, epoch);
        assert_true(ever.most == none.most && ever.least == none.least);
    }
    close_to(ever.least, NEEDED, "h");
    assert_true(isnan(larder__steer_held(&ever.s)));
    assert_int_equal(ever.s.count, none.s.count);
    larder__steer_fini(&ever.s);
    larder__steer_fini(&none.s);
}

/* Losses that fall to nothing: of what was lost at first, little is left to be memorised. */
static void small_losses_bound_nothing(void **unused) {
    (void)unused;
    larder__steer s;
    open_steer(&s, "h=auto,gap=0.1");
    check_ok(larder__steer_epoch(&s));
    for (int i = 0; i < BATCHES; i++) {
        double fresh = i < BATCHES / 4 ? 1 : 0.05;
        larder_memorised seen = {1000, 1000, fresh, fresh < 1 ? 0.001 : 0.99, 1};
        larder__steer_pace(&s, &(larder_pace){.read_seconds = 4e-3, .step_seconds = 1e-3});
        larder__steer_memorised(&s, &seen);
        larder__steer_next(&s, 0, 1, true);
    }
    close_to(s.h, NEEDED, "h");
    larder__steer_fini(&s);
}

static void a_saved_one_goes_on(void **unused) {
    (void)unused;
    model m = {.gap = 0.05, .power = 1}, copy = m;
    open_steer(&m.s, "h=auto,gap=0.1");
    run_epoch(&m, 0);
    larder_writer w = {0};
    larder__steer_save(&m.s, &w);
    copy.sum = m.sum, copy.weight = m.weight;
    open_steer(&copy.s, "h=auto,gap=0.1");
    larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
    check_ok(larder__steer_load(&copy.s, &r));
    for (int epoch = 1; epoch < 4; epoch++) {
        run_epoch(&m, epoch);
        run_epoch(&copy, epoch);
        assert_true(m.s.h == copy.s.h && m.least == copy.least && m.most == copy.most);
    }
    larder__writer_free(&w);
    larder__steer_fini(&m.s);
    larder__steer_fini(&copy.s);
}

/* ---- through a loader ------------------------------------------------------------------------ */

enum { N = 640, BATCH = 16, EPOCHS = 5, ALL = N / BATCH * EPOCHS };
/* Storage takes 1 ms a sample, the loop below next to nothing: h rises on any machine. */
#define SLOW "slow:iops=1000:mem:?n=640&h=4&w=4&c=1"

typedef struct outcome {
    uint64_t digests[ALL], repeats;
    bool said;
} outcome;

/* What comes again within an epoch's worth of samples has a tenth of the loss. */
static outcome run(const char *recipe, const char *record, const char *replay) {
    static uint64_t last[N];
    outcome out = {0};
    char says[512];
    larder_loader_conf c = kit_conf(SLOW, recipe);
    c.epochs = EPOCHS;
    c.record = record;
    c.replay = replay;
    larder_loader *l;
    const larder_batch *b;
    check_ok(larder_loader_open(&l, &c));
    memset(last, 0, sizeof last);
    uint64_t services = 0;
    for (int rc; (rc = larder_loader_next(l, &b)) != LARDER_END;) {
        check_ok(rc);
        if (rc == LARDER_END_EPOCH)
            continue;
        float loss[BATCH];
        out.digests[b->number] = larder__hash_bytes(1, b->served, b->n * sizeof *b->served);
        for (size_t i = 0; i < b->n; i++) {
            uint64_t id = b->served[i];
            loss[i] = last[id] && services - last[id] < N ? 0.1f : 1;
            last[id] = ++services;
        }
        larder_feedback fb = {.size = sizeof fb, .loss = loss};
        check_ok(larder_loader_report(l, b, &fb));
        check_ok(larder_loader_done(l, b));
    }
    larder_figures f = {.size = sizeof f};
    check_ok(larder_loader_figures(l, EPOCHS - 1, &f));
    out.repeats = f.repeats;
    for (uint64_t i = 0; larder_loader_says(l, LARDER_SAYS_NOTE, i, says, sizeof says) == 0; i++)
        out.said |= strstr(says, "storage needs h=0.") != NULL;
    larder_loader_close(&l);
    return out;
}

/* And a run that repeats it, by its record, decides the same. */
static void a_slow_storage_is_waited_for(void **unused) {
    (void)unused;
    char tape[] = "/tmp/larder-gap-XXXXXX";
    int fd = mkstemp(tape);
    assert_true(fd >= 0);
    close(fd);
    outcome free = run("rotate:gate=off,gap=0", NULL, NULL);
    outcome bound = run("rotate:gate=off,gap=0.1", tape, NULL);
    outcome again = run("rotate:gate=off,gap=0.1", NULL, tape);
    assert_true(free.repeats > N / 2 && !free.said);
    assert_true(bound.repeats < free.repeats * 2 / 3 && bound.said);
    assert_memory_equal(bound.digests, again.digests, sizeof bound.digests);
    unlink(tape);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settles_at_the_bound),
        cmocka_unit_test(without_reports_or_a_bound_as_ever),
        cmocka_unit_test(small_losses_bound_nothing),
        cmocka_unit_test(a_saved_one_goes_on),
        cmocka_unit_test(a_slow_storage_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
