/* Plug-ins from outside: what is refused and why, what becomes of those that are not, and structs
 * as an older or a newer larder has them. */
#include "base/mem.h"
#include "base/spec.h"
#include "cache_kit.h"
#include "plugins.h"
#include "stage/pipeline.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void refused(int rc, int code, const char *why) {
    assert_int_equal(rc, code);
    if (!strstr(larder_errmsg(), why))
        fail_msg("\"%s\" is not in: %s", why, larder_errmsg());
}

static larder_policy lru_as(const char *name) {
    larder_policy p = *larder__policy_find("lru");
    p.plugin.name = name;
    return p;
}

/* ---- refused --------------------------------------------------------------------------------- */

static void names_are_checked(void **state) {
    (void)state;
    static const char *const bad[] = {
        NULL,  "",    "Upper",       "9lives",
        "a-b", "a b", "caf\xc3\xa9", "a_name_that_is_longer_than_31_bytes"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        larder_policy p = lru_as(bad[i]);
        refused(larder_register_policy(&p), LARDER_E_ARGS, "a name is 1 to 31 small letters");
    }
    larder_policy p = lru_as("lru");
    refused(larder_register_policy(&p), LARDER_E_ARGS, "policy lru: there is one of this name");
    p = lru_as("quiver"); /* who says quiver means the recipe */
    refused(larder_register_policy(&p), LARDER_E_ARGS, "policy quiver: there is one of this name");
    p = lru_as("unsaid");
    p.plugin.summary = "two\nlines";
    refused(larder_register_policy(&p), LARDER_E_ARGS, "its summary is one line");
    larder_recipe r = {{"minio", "another one", NULL, 0}, "uniform", "lru", ""};
    refused(larder_register_recipe(&r), LARDER_E_ARGS, "recipe minio: there is one of this name");
}

static void versions_are_checked(void **state) {
    (void)state;
    larder_policy p = lru_as("other");
    larder_registration r = {LARDER_PLUGIN_ABI + 1, LARDER_SORT_POLICY, sizeof p, &p, {0}};
    refused(larder_register(&r), LARDER_E_UNSUPPORTED,
            "policy \"other\": made for plug-in version");
    r.abi = LARDER_PLUGIN_ABI;
    r.sort = LARDER_SORTS;
    refused(larder_register(&r), LARDER_E_ARGS, "names a sort");
    r.sort = LARDER_SORT_POLICY;
    r.size = sizeof(larder_plugin) - 1;
    refused(larder_register(&r), LARDER_E_ARGS, "names a sort");
    refused(larder_register(NULL), LARDER_E_ARGS, "names a sort");
    assert_null(larder__policy_find("other"));
}

static void operations_are_checked(void **state) {
    (void)state;
    larder_policy p = lru_as("other");
    p.victim = NULL;
    refused(larder_register_policy(&p), LARDER_E_ARGS, "policy other: it needs init, insert, hit");
    p = lru_as("other");
    p.load = NULL;
    refused(larder_register_policy(&p), LARDER_E_ARGS, "save and load come together");
    p = lru_as("other");
    p.brings = &(const larder_policy_brings){.reads_all = true};
    refused(larder_register_policy(&p), LARDER_E_ARGS, "by fetch");
    p = lru_as("other");
    p.hears = &(const larder_policy_hears){.needs_scores = true};
    refused(larder_register_policy(&p), LARDER_E_ARGS, "has score");
    p = lru_as("other");
    p.shows = &(const larder_policy_shows){.figures = (const larder_figure[]){{0}}};
    refused(larder_register_policy(&p), LARDER_E_ARGS, "figure is missing");

    larder_sampler s = *larder__sampler_find("uniform");
    s.plugin.name = "other";
    s.draw = NULL;
    refused(larder_register_sampler(&s), LARDER_E_ARGS,
            "sampler other: it needs init, epoch, draw");
    larder_signal g = *larder__signal_find("loss");
    g.plugin.name = "other";
    g.observe = NULL;
    refused(larder_register_signal(&g), LARDER_E_ARGS, "signal other: it needs init, and observe");
    larder_source from = *larder__source_find("mem");
    from.plugin.name = "other";
    from.stat = NULL;
    refused(larder_register_source(&from), LARDER_E_ARGS, "source other: it needs open, close");
    larder_stage stage = *larder__stage_find("flip");
    stage.plugin.name = "other";
    stage.place = NULL;
    refused(larder_register_stage(&stage), LARDER_E_ARGS, "exactly one of place");
    larder_recipe r = {{"other", "of nothing", NULL, 0}, "uniform", "nobody", ""};
    refused(larder_register_recipe(&r), LARDER_E_ARGS, "recipe other: there is no policy");
    r.policy = "lru";
    r.signal = "nothing";
    refused(larder_register_recipe(&r), LARDER_E_ARGS, "recipe other: there is no signal");
}

/* One by one, each operation that a sort cannot do without is missing, each that goes with others
 * stands alone. */
#define WITHOUT(kind, from, field, why)                                                            \
    do {                                                                                           \
        larder_##kind x_ = (from);                                                                 \
        memset(&x_.field, 0, sizeof x_.field);                                                     \
        refused(larder_register_##kind(&x_), LARDER_E_ARGS, why);                                  \
    } while (0)
#define WITH(kind, from, field, value, why)                                                        \
    do {                                                                                           \
        larder_##kind x_ = (from);                                                                 \
        x_.field = (value);                                                                        \
        refused(larder_register_##kind(&x_), LARDER_E_ARGS, why);                                  \
    } while (0)

static larder_policy one_that_hears(const char *name) {
    size_t i = 0;
    while (!larder__policies[i]->hears || !larder__policies[i]->hears->offer)
        i++;
    larder_policy p = *larder__policies[i];
    p.plugin.name = name;
    return p;
}

static bool always(const void *st) {
    (void)st;
    return true;
}

static void policies_are_whole(void **state) {
    (void)state;
    larder_policy p = lru_as("other");
    WITHOUT(policy, p, init, "it needs init");
    WITHOUT(policy, p, insert, "it needs init");
    WITHOUT(policy, p, hit, "it needs init");
    WITHOUT(policy, p, remove, "it needs init");
    WITHOUT(policy, p, save, "save and load come together");
    WITHOUT(policy, p, plugin.summary, "its summary is one line");
    WITH(policy, p, plugin.summary, "", "its summary is one line");
    larder_policy hears = one_that_hears("other");
    larder_policy_hears deaf = *hears.hears;
    deaf.score = NULL;
    WITH(policy, p, hears, &deaf, "has score");
    deaf = (larder_policy_hears){.offer = deaf.offer};
    WITH(policy, p, hears, &deaf, "has score");
    deaf = (larder_policy_hears){.listens = always};
    WITH(policy, p, hears, &deaf, "has score");
    larder_param broken[] = {{"x", NULL, "1", "one", 0, 0}, {0}};
    WITH(policy, p, plugin.params, broken, "lacks type, initial or help");
    broken[0] = (larder_param){"x", "int", NULL, "one", 0, 0};
    WITH(policy, p, plugin.params, broken, "lacks type, initial or help");
}

static void samplers_are_whole(void **state) {
    (void)state;
    larder_sampler s = *larder__sampler_find("uniform"), turning = {.init = NULL};
    s.plugin.name = "other";
    WITHOUT(sampler, s, init, "it needs init");
    WITHOUT(sampler, s, epoch, "it needs init");
    WITHOUT(sampler, s, length, "it needs init");
    WITHOUT(sampler, s, save, "it needs init");
    WITHOUT(sampler, s, load, "it needs init");
    for (size_t i = 0; larder__samplers[i]; i++) {
        larder_sampler x = *larder__samplers[i];
        x.plugin.name = "other";
        if (x.turns)
            turning = x;
        if (x.brings)
            WITHOUT(sampler, x, brings_most, "brings and brings_most come together");
        if (x.shown)
            WITHOUT(sampler, x, shown_name, "shown_name and shown come together");
    }
    assert_non_null(turning.turns); /* there is one */
    WITHOUT(sampler, turning, turns, "turns, past and follow come together");
    WITHOUT(sampler, turning, past, "turns, past and follow come together");
    WITHOUT(sampler, turning, follow, "turns, past and follow come together");
}

static void signals_are_whole(void **state) {
    (void)state;
    bool prepares = false, shows = false, saves = false;
    for (size_t i = 0; larder__signals[i]; i++) {
        larder_signal s = *larder__signals[i];
        s.plugin.name = "other";
        WITHOUT(signal, s, init, "it needs init");
        if (s.prepare) {
            prepares = true;
            WITHOUT(signal, s, prepare, "or instead result_size, prepare");
            WITHOUT(signal, s, apply, "or instead result_size, prepare");
            WITHOUT(signal, s, check, "or instead result_size, prepare");
            WITHOUT(signal, s, result_size, "or instead result_size, prepare");
            WITH(signal, s, observe, larder__signal_find("loss")->observe, "or instead");
            if (larder__signal_find("loss")->epoch)
                WITH(signal, s, epoch, larder__signal_find("loss")->epoch, "epoch does not go");
        }
        if (s.save) {
            saves = true;
            WITHOUT(signal, s, load, "save and load come together");
        }
        if (s.figures) {
            shows = true;
            WITHOUT(signal, s, figure, "figures and figure come together");
        }
    }
    assert_true(prepares && shows && saves);
}

static void engines_are_whole(void **state) {
    (void)state;
    larder_engine e = *larder__engines[0];
    e.plugin.name = "other";
    WITHOUT(engine, e, open, "it needs open");
    WITHOUT(engine, e, close, "it needs open");
    WITHOUT(engine, e, update, "it needs open");
    WITHOUT(engine, e, count, "it needs open");
    WITHOUT(engine, e, nearest, "it needs open");
    WITHOUT(engine, e, rows, "it needs open");
    WITHOUT(engine, e, bytes, "it needs open");
    WITHOUT(engine, e, save, "it needs open");
    WITHOUT(engine, e, load, "it needs open");
    WITH(engine, e, plugin.name, "ninechars", "at most eight letters");
    WITH(engine, e, plugin.name, larder__engines[0]->plugin.name, "there is one of this name");
}

static void sources_are_whole(void **state) {
    (void)state;
    larder_source s = *larder__source_find("mem"), parts = *larder__source_find("pack"),
                  slow = *larder__source_find("slow");
    s.plugin.name = parts.plugin.name = slow.plugin.name = "other";
    WITHOUT(source, s, open, "it needs open");
    WITHOUT(source, s, close, "it needs open");
    WITHOUT(source, s, describe, "it needs open");
    WITHOUT(source, s, name, "it needs open");
    WITHOUT(source, s, read, "it needs open");
    WITHOUT(source, parts, extent, "extent, part_bytes and read_parts come together");
    WITHOUT(source, parts, read_parts, "extent, part_bytes and read_parts come together");
    WITHOUT(source, slow, plugin.params, "a source around another has a parameter");
    WITH(source, slow, plugin.params, (&(const larder_param){0}), "around another has a parameter");
    for (size_t i = 0; larder__sources[i]; i++)
        if (larder__sources[i]->figures) {
            larder_source x = *larder__sources[i];
            x.plugin.name = "other";
            WITHOUT(source, x, figure, "figures and figure come together");
        }
    larder_stage stage = *larder__stage_find("flip");
    stage.plugin.name = "other";
    WITHOUT(stage, stage, init, "it needs init and exactly one");
}

static void recipes_are_whole(void **state) {
    (void)state;
    larder_recipe r = {{"other", "of something", NULL, 0}, "uniform", "lru", ""};
    WITHOUT(recipe, r, sampler, "there is no sampler");
    WITH(recipe, r, sampler, "nobody", "there is no sampler");
    WITHOUT(recipe, r, policy, "there is no policy");
    WITHOUT(recipe, r, signal, "there is no signal");
    WITH(recipe, r, plugin.name, "lfu", "there is one of this name"); /* a policy; not its own */
    larder_registration none = {LARDER_PLUGIN_ABI, LARDER_SORT_RECIPE, sizeof r, NULL, {0}};
    refused(larder_register(&none), LARDER_E_ARGS, "names a sort");
}

/* Nothing stays of what there was no memory for. */
static void without_memory(void **state) {
    (void)state;
    larder_policy p = one_that_hears("forgotten");
    int rc = -1;
    for (uint64_t at = 1; rc < 0 && at < 100; at++) {
        larder__mem_fail_at(at, 0);
        rc = larder_register_policy(&p);
        int failed = larder__mem_failed();
        larder__mem_fail_at(0, 0);
        if (failed) {
            assert_true(rc < 0);
            assert_true(larder_errmsg()[0]);
            assert_null(larder__policy_find("forgotten"));
        }
    }
    check_ok(rc);
    assert_non_null(larder__policy_find("forgotten"));
}

static void parameters_are_checked(void **state) {
    (void)state;
    larder_policy p = lru_as("other");
    p.plugin.params = (const larder_param[]){{"x", "int", "1", NULL, 0, 0}, {0}};
    refused(larder_register_policy(&p), LARDER_E_ARGS, "parameter x lacks");
    p.plugin.params = (const larder_param[]){{"x", "integer", "1", "one", 0, 0}, {0}};
    refused(larder_register_policy(&p), LARDER_E_ARGS, "parameter x has the type \"integer\"");
    p.plugin.params = (const larder_param[]){{"x", "int", "7", "seven", 0, 3}, {0}};
    assert_true(larder_register_policy(&p) < 0);
    p.plugin.params = (const larder_param[]){{"x", "int", "much", "a lot", 0, 3}, {0}};
    assert_true(larder_register_policy(&p) < 0);
}

/* ---- taken ----------------------------------------------------------------------------------- */

static void taken_ones_are_known(void **state) {
    (void)state;
    static larder_policy p; /* the struct itself may go: it is copied */
    p = lru_as("older_first");
    p.hears = &(const larder_policy_hears){0};
    check_ok(larder_register_policy(&p));
    memset(&p, 0xff, sizeof p);
    const larder_policy *got = larder__policy_find("older_first");
    assert_non_null(got);
    larder__cache *c = kit_cache(got, &larder__store_null, 4, 2, 1);
    for (uint64_t k = 0; k < 4; k++) {
        larder_access a = {.key = k, .size = 1};
        larder__ticket t;
        check_ok(larder__cache_claim(c, &a, 1, &t));
    }
    assert_true(larder__cache_resident(c, 3) && !larder__cache_resident(c, 0));
    larder__cache_close(&c);
    assert_null(larder__policy_find("older_frist"));
    assert_non_null(strstr(larder_errmsg(), "did you mean older_first?"));
    larder_recipe space;
    assert_ptr_equal(larder__recipe_find("older_first", &space), &space);

    larder_recipe r = {
        {"older_first", "with its own sampler", NULL, 0}, "sequential", "older_first", ""};
    check_ok(larder_register_recipe(&r)); /* of the same name: it is what that one means */
    const larder_recipe *found = larder__recipe_find("older_first", &space);
    assert_string_equal(found->sampler, "sequential");
    refused(larder_register_recipe(&r), LARDER_E_ARGS, "there is one of this name already");
}

static int invert(const void *st, const larder_pixels *px, larder_rng *rng) {
    (void)st, (void)rng;
    for (size_t i = 0; i < (size_t)px->w * px->h * px->c; i++)
        px->at[i] = (uint8_t)(255 - px->at[i]);
    return 0;
}
static int nothing(void *st, const larder_args *args) {
    (void)st, (void)args;
    return 0;
}

/* A stage that changes colours sees padding too, and leaves the sample itself as it is. */
static void stages_may_change_pixels(void **state) {
    (void)state;
    const larder_stage s = {
        .plugin = {"negative", "light becomes dark", NULL, 1}, .init = nothing, .pixels = invert};
    check_ok(larder_register_stage(&s));
    larder__pipeline_conf conf = {.spec = "crop:size=3,pad=1|negative",
                                  .raw = {.h = 1, .w = 1, .c = 3},
                                  .raw_layout = LARDER_NHWC,
                                  .dtype = LARDER_U8,
                                  .layout = LARDER_NHWC};
    larder__pipeline *p = NULL;
    check_ok(larder__pipeline_open(&p, &conf));
    larder__scratch *scratch = NULL;
    check_ok(larder__scratch_open(&scratch));
    const uint8_t sample[3] = {10, 20, 30};
    uint8_t out[27];
    check_ok(larder__pipeline_run(p, scratch, sample, sizeof sample, 1, out));
    for (size_t i = 0; i < sizeof out; i++)
        assert_int_equal(out[i], i / 3 == 4 ? 255 - sample[i % 3] : 255);
    assert_int_equal(sample[0], 10);
    larder__pipeline_close(&p);
    conf.spec = "crop:size=3,pad=1|negative|flip|normalize:mean=0,std=1";
    conf.dtype = LARDER_F32;
    conf.layout = LARDER_NCHW;
    check_ok(larder__pipeline_open(&p, &conf));
    float f[27];
    check_ok(larder__pipeline_run(p, scratch, sample, sizeof sample, 1, f));
    assert_true(f[4] > 244.9 / 255 && f[4] < 245.1 / 255 && f[0] == 1);
    larder__pipeline_close(&p);
    larder__scratch_close(&scratch);
    conf.spec = "normalize:mean=0,std=1|negative";
    refused(larder__pipeline_open(&p, &conf), LARDER_E_ARGS,
            "stage negative stands before normalize");
}

/* ---- structs of other sizes ------------------------------------------------------------------ */

static size_t fetch_nothing(void *st, uint64_t *keys, size_t max) {
    (void)st, (void)keys, (void)max;
    return 0;
}

/* Compiled with an older header: what it does not have is not there, whatever lies behind it. */
static void older_structs_are_taken(void **state) {
    (void)state;
    struct {
        larder_policy p;
        unsigned char behind[16];
    } old = {.p = lru_as("from_before")};
    size_t size = offsetof(larder_policy, brings);
    memset((char *)&old + size, 0xee, sizeof old - size);
    larder_policy_hears hears;
    memset(&hears, 0xee, sizeof hears);
    memset(&hears, 0, offsetof(larder_policy_hears, list));
    old.p.hears = &hears;
    larder_registration r = {LARDER_PLUGIN_ABI, LARDER_SORT_POLICY, size, &old, {0}};
    r.groups[0] = offsetof(larder_policy_hears, list);
    check_ok(larder_register(&r));
    const larder_policy *p = larder__policy_find("from_before");
    assert_true(p && !p->brings && !p->lends && !p->shares && !p->shows);
    assert_true(p->hears && !p->hears->list && !p->hears->epoch);
}

static void newer_structs_are_taken_unless_used(void **state) {
    (void)state;
    struct {
        larder_policy p;
        void (*later)(void);
    } fresh = {.p = lru_as("from_later")};
    struct {
        larder_policy_brings b;
        void *later;
    } group = {.b = {.fetch = fetch_nothing}, .later = &group};
    larder_registration r = {LARDER_PLUGIN_ABI, LARDER_SORT_POLICY, sizeof fresh, &fresh, {0}};
    r.groups[1] = sizeof group;
    fresh.p.brings = &group.b;
    refused(larder_register(&r), LARDER_E_UNSUPPORTED, "does not know yet");
    group.later = NULL;
    memset(&fresh.later, 1, sizeof fresh.later);
    refused(larder_register(&r), LARDER_E_UNSUPPORTED, "\"from_later\": it asks for something");
    memset(&fresh.later, 0, sizeof fresh.later);
    check_ok(larder_register(&r));
    const larder_policy *p = larder__policy_find("from_later");
    assert_true(p && p->brings && p->brings != &group.b && p->brings->fetch == fetch_nothing);
}

/* ---- at once, and too many ------------------------------------------------------------------- */

enum { THREADS = 4, EACH = 5 };

static void *register_some(void *arg) {
    char(*names)[32] = arg;
    for (int i = 0; i < EACH; i++) {
        larder_policy p = lru_as(names[i]);
        if (larder_register_policy(&p) < 0 || !larder__policy_find(names[i]))
            return arg;
    }
    return NULL;
}

static void threads_do_not_disturb_each_other(void **state) {
    (void)state;
    static char names[THREADS][EACH][32];
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) {
        for (int i = 0; i < EACH; i++)
            snprintf(names[t][i], sizeof names[t][i], "at_once_%d_%d", t, i);
        assert_int_equal(pthread_create(&threads[t], NULL, register_some, names[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        void *failed;
        pthread_join(threads[t], &failed);
        assert_null(failed);
    }
}

static void there_is_an_end(void **state) {
    (void)state;
    static char names[LARDER__PLUGINS_MOST][24];
    int rc = 0, n = 0;
    for (; rc == 0 && n < LARDER__PLUGINS_MOST; n++) {
        snprintf(names[n], sizeof names[n], "more_%d", n);
        larder_policy p = lru_as(names[n]);
        rc = larder_register_policy(&p);
    }
    refused(rc, LARDER_E_FULL, "more than 128 of a sort");
    assert_non_null(larder__policy_find(names[n - 2]));
    assert_null(larder__policy_find(names[n - 1]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(versions_are_checked),
        cmocka_unit_test(operations_are_checked),
        cmocka_unit_test(parameters_are_checked),
        cmocka_unit_test(policies_are_whole),
        cmocka_unit_test(samplers_are_whole),
        cmocka_unit_test(signals_are_whole),
        cmocka_unit_test(engines_are_whole),
        cmocka_unit_test(sources_are_whole),
        cmocka_unit_test(recipes_are_whole),
        cmocka_unit_test(without_memory),
        cmocka_unit_test(taken_ones_are_known),
        cmocka_unit_test(stages_may_change_pixels),
        cmocka_unit_test(older_structs_are_taken),
        cmocka_unit_test(newer_structs_are_taken_unless_used),
        cmocka_unit_test(threads_do_not_disturb_each_other),
        cmocka_unit_test(there_is_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
