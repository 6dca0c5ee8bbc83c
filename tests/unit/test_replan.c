/* plan=auto: when the split changes and when it does not, that budgets and exactly-once hold over a
 * change, and that a run repeats from its record. */
#include "check.h"
#include "look_kit.h"

#include "base/hash.h"
#include "loader/figures/shown.h"

#include <larder/plugin.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the rule -------------------------------------------------------------------------------- */

enum { EPOCH = 320 }; /* batches; a look every tenth */

/* Storage so slow that it is all that counts: encoded holds most samples. */
static const larder_pace storage_bound = {
    .read_seconds = 1e-2, .step_seconds = 1e-5, .decode_seconds = 1e-4, .augment_seconds = 2e-5};
/* Processors are: decoded saves most of their time. */
static const larder_pace processor_bound = {
    .read_seconds = 1e-6, .step_seconds = 1e-5, .decode_seconds = 1e-2, .augment_seconds = 1e-4};

static larder__replan open_rule(larder_split start) {
    larder_rates r;
    larder__replan p;
    larder__rates_defaults(&r);
    r.n_total = 1e5, r.s_data = 1e4, r.m = 8, r.m_decoded = 4, r.s_cache = 8e8, r.jobs = 1;
    larder__replan_open(&p, &r, start, 2, EPOCH);
    return p;
}

/* Batches from..to-1 at this pace: how often the split changed, and at which batch last. */
static size_t pass(larder__replan *p, uint64_t from, uint64_t to, const larder_pace *pace,
                   uint64_t *last) {
    size_t changes = 0;
    for (uint64_t k = from; k < to; k++)
        if (larder__replan_next(p, k, pace)) {
            changes++;
            *last = k;
        }
    return changes;
}

static void test_first_plan(void **st) {
    (void)st;
    uint64_t at = 0;
    larder__replan p = open_rule((larder_split){0, 0, 100});
    const larder_pace unknown = {.read_seconds = 1, .step_seconds = 1, .decode_seconds = 1};
    assert_int_equal(pass(&p, 0, 100, &unknown, &at), 0); /* nothing is known of pixels */
    larder__replan_close(&p);
    p = open_rule((larder_split){0, 0, 100});
    assert_int_equal(pass(&p, 0, 1000, &storage_bound, &at), 1);
    assert_int_equal(at, 20); /* the first look from batch 16 on */
    assert_int_equal(p.split.encoded, 100);
    assert_int_equal(p.turns.at[0].held_up_by, LARDER_RESOURCE_STORAGE);
    assert_true(p.turns.at[0].expected >= 1.02 * p.turns.at[0].before);
    larder__replan_close(&p);
    p = open_rule((larder_split){100, 0, 0}); /* as planned: nothing to change */
    assert_int_equal(pass(&p, 0, 1000, &storage_bound, &at), 0);
    larder__replan_close(&p);
}

static void test_hysteresis(void **st) {
    (void)st;
    uint64_t at = 0;
    larder__replan p = open_rule((larder_split){0, 0, 100});
    larder_pace nearly = storage_bound;
    assert_int_equal(pass(&p, 0, 30, &storage_bound, &at), 1);
    nearly.decode_seconds *= 1.2, nearly.read_seconds /= 1.2; /* less than a quarter */
    assert_int_equal(pass(&p, 30, 1000, &nearly, &at), 0);
    nearly.step_seconds *= 4; /* drifts, but nothing better follows from it */
    assert_int_equal(pass(&p, 1000, 2000, &nearly, &at), 0);
    assert_int_equal(larder__replan_next(&p, 2000, &processor_bound), false); /* one look */
    assert_int_equal(larder__replan_next(&p, 2010, &nearly), false);          /* not in a row */
    assert_int_equal(pass(&p, 2020, 3000, &processor_bound, &at), 1);
    assert_int_equal(at, 2030);
    assert_true(p.split.decoded > 0);
    /* Back and forth: half an epoch lies between two changes at least. */
    uint64_t before = at, changes = 0;
    for (uint64_t k = 3000; k < 9000; k++)
        if (larder__replan_next(&p, k, k / 100 % 2 ? &processor_bound : &storage_bound)) {
            assert_true(k - before > EPOCH / 2);
            before = k;
            changes++;
        }
    assert_true(changes > 0);
    larder__replan_close(&p);
}

static void test_state_and_follow(void **st) {
    (void)st;
    uint64_t at = 0;
    larder__replan p = open_rule((larder_split){0, 0, 100}), q = open_rule(p.split);
    pass(&p, 0, 30, &storage_bound, &at);
    pass(&p, 30, 1000, &processor_bound, &at);
    assert_int_equal(p.turns.count, 2);
    larder_writer w = {0};
    larder__replan_save(&p, &w);
    larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
    check_ok(larder__replan_follow(&q, &r));
    const larder_pace none = {0};
    size_t changes = 0;
    for (uint64_t k = 0; k < 1000; k++)
        changes += larder__replan_next(&q, k, k % 2 ? &none : &processor_bound);
    assert_int_equal(changes, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(q.turns.at[i].batch, p.turns.at[i].batch);
        assert_int_equal(q.turns.at[i].encoded, p.turns.at[i].encoded);
        assert_int_equal(q.turns.at[i].decoded, p.turns.at[i].decoded);
        assert_true(q.turns.at[i].expected == p.turns.at[i].expected);
    }
    larder__replan_close(&q);
    q = open_rule((larder_split){0, 0, 100});
    r = (larder_reader){.at = w.bytes, .end = w.bytes + w.size};
    check_ok(larder__replan_past(&q, &r));
    assert_memory_equal(&q.split, &p.split, sizeof p.split);
    assert_true(q.then.t_da == p.then.t_da);
    for (size_t cut = 0; cut < w.size; cut++) { /* hostile: cut short, and bytes turned */
        larder__replan broken = open_rule(q.split);
        r = (larder_reader){.at = w.bytes, .end = w.bytes + cut};
        assert_true(larder__replan_past(&broken, &r) < 0);
        larder__replan_close(&broken);
        broken = open_rule(q.split);
        w.bytes[cut] ^= 0xff;
        r = (larder_reader){.at = w.bytes, .end = w.bytes + w.size};
        larder__replan_past(&broken, &r);
        assert_int_equal(broken.split.encoded + broken.split.decoded + broken.split.augmented, 100);
        w.bytes[cut] ^= 0xff;
        larder__replan_close(&broken);
    }
    larder__writer_free(&w);
    larder__replan_close(&p);
    larder__replan_close(&q);
}

/* ---- a loader -------------------------------------------------------------------------------- */

/* Begins with rows, which one job has to read again each time, on storage that is slow: the plan
 * can only be to keep samples as they are. */
static uint64_t epochs = 4;

static larder_loader *open_loader(const char *source, const char *recipe, uint32_t threads) {
    larder_loader_conf c = {.size = sizeof c};
    c.source = source;
    c.recipe = recipe;
    c.cache = "60%";
    c.augment = "crop:size=8,pad=1|flip";
    c.batch = 16;
    c.seed = 3;
    c.epochs = epochs;
    c.threads = threads;
    c.drop_last = true;
    larder_loader *l;
    check_ok(larder_loader_open(&l, &c));
    return l;
}

static const char slow[] = "slow:bandwidth=400KiB:mem:?n=800&h=8&w=8&c=3&seed=2";
static const char fast[] = "mem:?n=800&h=8&w=8&c=3&seed=2";
static const char recipe[] = "seneca:plan=auto,split=0/0/100";

static double stat_of(larder_loader *l, const char *name) {
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++)
        if (strcmp(v.name, name) == 0)
            return v.value;
    return NAN;
}

static uint64_t hash_batch(uint64_t h, const larder_batch *b) {
    h = larder__hash_bytes(h, b->ids, b->n * sizeof *b->ids);
    h = larder__hash_bytes(h, b->kind, b->n);
    return larder__hash_bytes(h, b->x, b->n * 8 * 8 * 3 * sizeof(float));
}

/* Up to `most` batches; what they were goes into *hash. */
static size_t take(larder_loader *l, size_t most, uint64_t *hash) {
    const larder_batch *b;
    size_t n = 0;
    int rc = 0;
    while (n < most && (rc = larder_loader_next(l, &b)) != LARDER_END) {
        check_ok(rc);
        if (rc == LARDER_END_EPOCH) {
            assert_int_equal(look_audit(l), 0);
            continue;
        }
        *hash = hash_batch(*hash, b);
        assert_true(stat_of(l, "cache_resident_bytes") <= stat_of(l, "cache_budget_bytes"));
        check_ok(larder_loader_done(l, b));
        n++;
    }
    return n;
}

/* When storage is seen to be all that counts is for the machine to say, which may be busy: until
 * then, and a whole epoch on. */
static void test_loader_plans_and_repeats(void **st) {
    (void)st;
    enum { EPOCHS = 60, BATCHES = 50 };
    epochs = EPOCHS;
    larder_loader *l = open_loader(slow, recipe, 2), *again;
    void *bytes;
    size_t size, n = 0;
    uint64_t first = 1, second = 1;
    while (stat_of(l, "plan_changes") < 1 && n < (EPOCHS - 3) * BATCHES)
        n += take(l, 10, &first);
    uint64_t whole = n / BATCHES + 1;
    n += take(l, (whole + 1) * BATCHES + 1 - n, &first);
    assert_int_equal(n, (whole + 1) * BATCHES + 1);
    larder__plan_turn p;
    check_ok(larder__loader_replan(l, 0, &p));
    assert_int_equal(p.encoded, 100);
    assert_int_equal(p.held_up_by, LARDER_RESOURCE_STORAGE);
    assert_true(p.batch >= 16);
    assert_true(stat_of(l, "plan_encoded") == 100 && stat_of(l, "plan_changes") >= 1);
    assert_true(stat_of(l, "cache_augmented_bytes") == 0);
    larder_figures about = {.size = sizeof about};
    check_ok(larder_loader_figures(l, whole, &about));
    assert_true(about.form_hits[LARDER_ENCODED] > 0 && about.form_hits[LARDER_AUGMENTED] == 0);
    check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
    larder_loader_close(&l);
    again = open_loader(fast, recipe, 1); /* another pace, other threads, the same run */
    check_ok(larder_loader_restore(again, LARDER_DECISIONS, bytes, size));
    assert_int_equal(take(again, n, &second), n);
    assert_true(first == second);
    larder_loader_close(&again);
    larder_free(bytes);
    epochs = 4;
}

static void test_saved_in_the_middle(void **st) {
    (void)st;
    larder_loader *l = open_loader(slow, recipe, 2), *rest;
    void *record, *middle;
    size_t record_size, middle_size;
    uint64_t a = 1, b = 1;
    assert_int_equal(take(l, 1000, &a), 200);
    check_ok(larder_loader_save(l, LARDER_STATE, &record, &record_size));
    larder_loader_close(&l);
    for (size_t cut = 10; cut < 200; cut += 45) {
        a = b = 1;
        l = open_loader(fast, recipe, 2);
        check_ok(larder_loader_restore(l, LARDER_DECISIONS, record, record_size));
        take(l, cut, &a);
        check_ok(larder_loader_save(l, LARDER_STATE, &middle, &middle_size));
        a = 1;
        const larder_batch *batch;
        rest = open_loader(fast, recipe, 1);
        check_ok(larder_loader_restore(rest, LARDER_DECISIONS, record, record_size));
        check_ok(larder_loader_restore(rest, LARDER_STATE, middle, middle_size));
        for (int rc = 0, rd = 0; rc != LARDER_END;) { /* residents are cold: kinds may differ */
            rc = larder_loader_next(l, &batch);
            check_ok(rc);
            if (rc == 0) {
                a = larder__hash_bytes(a, batch->ids, batch->n * sizeof *batch->ids);
                a = larder__hash_bytes(a, batch->x, batch->n * 8 * 8 * 3 * sizeof(float));
                check_ok(larder_loader_done(l, batch));
            }
            rd = larder_loader_next(rest, &batch);
            check_ok(rd);
            assert_int_equal(rc, rd);
            if (rd == 0) {
                b = larder__hash_bytes(b, batch->ids, batch->n * sizeof *batch->ids);
                b = larder__hash_bytes(b, batch->x, batch->n * 8 * 8 * 3 * sizeof(float));
                check_ok(larder_loader_done(rest, batch));
            }
        }
        assert_true(a == b);
        larder_free(middle);
        larder_loader_close(&l);
        larder_loader_close(&rest);
    }
    larder_free(record);
}

static void test_fixed_and_wrong(void **st) {
    (void)st;
    larder__plan_turn p;
    larder_loader *l = open_loader(fast, "seneca", 1);
    assert_int_equal(larder__loader_replan(l, 0, &p), LARDER_E_RANGE);
    assert_true(isnan(stat_of(l, "plan_encoded")));
    larder_loader_close(&l);
    larder_loader_conf c = {.size = sizeof c};
    c.source = fast;
    static const char *const wrong[] = {"seneca:plan=sometimes", "oracle:plan=auto",
                                        "icache:plan=auto,scratch=/tmp"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        c.recipe = wrong[i];
        if (larder_loader_open(&l, &c) != LARDER_E_ARGS)
            fail_msg("%s was taken", wrong[i]);
    }
    l = open_loader(fast, "minio:plan=auto,split=50/25/25", 2); /* any recipe may */
    uint64_t hash = 1;
    assert_int_equal(take(l, 1000, &hash), 200);
    larder_loader_close(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_plan),          cmocka_unit_test(test_hysteresis),
        cmocka_unit_test(test_state_and_follow),    cmocka_unit_test(test_loader_plans_and_repeats),
        cmocka_unit_test(test_saved_in_the_middle), cmocka_unit_test(test_fixed_and_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
