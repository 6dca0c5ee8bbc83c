/* The loader as a user sees it: order, ids, figures, bad samples, misuse, clean ends. */
#include "loader_kit.h"
#include "look_kit.h"

#include "base/mem.h"
#include "source/source.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOURCE "mem:?n=500&h=8&w=8&c=3"
enum { MANY = 400 };

static larder_loader *open_loader(const larder_loader_conf *c) {
    larder_loader *l = NULL;
    check_ok(larder_loader_open(&l, c));
    return l;
}

/* ---- order ----------------------------------------------------------------------------------- */

static void threads_never_change_the_order(void **state) {
    (void)state;
    static const char *const recipes[] = {"lru", "minio", "quiver", "lfu:signal=loss", "random"};
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        uint64_t first[MANY];
        size_t count = 0;
        for (uint32_t threads = 1; threads <= 8; threads *= 2) {
            larder_loader_conf c = kit_conf(SOURCE, recipes[r]);
            c.threads = threads;
            c.prefetch = 1 + threads;
            c.lag = 12;
            c.epochs = 3;
            uint64_t got[MANY];
            larder_loader *l = open_loader(&c);
            size_t n = kit_run(l, got, MANY);
            larder_loader_close(&l);
            assert_int_equal(n, 3 * (32 + 1));
            if (threads == 1)
                memcpy(first, got, sizeof got);
            count = threads == 1 ? n : count;
            assert_int_equal(n, count);
            assert_memory_equal(got, first, n * sizeof *got);
        }
    }
}

static void seeds_and_epochs_differ(void **state) {
    (void)state;
    uint64_t a[MANY], b[MANY];
    larder_loader_conf c = kit_conf(SOURCE, "lru");
    c.epochs = 2;
    larder_loader *l = open_loader(&c);
    kit_run(l, a, MANY);
    larder_loader_close(&l);
    c.seed = 8;
    l = open_loader(&c);
    kit_run(l, b, MANY);
    larder_loader_close(&l);
    assert_int_not_equal(a[0], b[0]);
    assert_int_not_equal(a[0], a[33]);
}

/* ---- ids travel with the data ---------------------------------------------------------------- */

static void rows_are_the_served_samples(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf(SOURCE, "quiver");
    c.augment = NULL;
    c.layout = LARDER_NHWC;
    c.epochs = 2;
    larder__data *data;
    check_ok(larder__data_open(&data, SOURCE));
    bool hwc = larder__data_about(data)->layout == LARDER_NHWC;
    larder_loader *l = open_loader(&c);
    const larder_batch *b;
    int rc;
    size_t compared = 0;
    while ((rc = larder_loader_next(l, &b)) == 0 || rc == LARDER_END_EPOCH) {
        if (rc == LARDER_END_EPOCH)
            continue;
        for (size_t i = 0; i < b->n; i++) {
            larder_read read = {0};
            larder_sample s;
            check_ok(larder__data_read(data, &b->served[i], 1, &read));
            check_ok(larder__data_stat(data, b->served[i], &s));
            assert_int_equal(b->y[i], s.label);
            const uint8_t *raw = larder_buf_data(read.buf);
            const uint8_t *row = (const uint8_t *)b->x + i * 192;
            for (size_t k = 0; k < 64; k++)
                for (size_t ch = 0; ch < 3; ch++)
                    assert_int_equal(row[k * 3 + ch], raw[hwc ? k * 3 + ch : ch * 64 + k]);
            larder_buf_unref(&read.buf);
            compared++;
        }
        check_ok(larder_loader_done(l, b));
    }
    assert_int_equal(rc, LARDER_END);
    assert_int_equal(compared, 1000);
    larder_loader_close(&l);
    larder__data_close(&data);
}

/* ---- figures --------------------------------------------------------------------------------- */

static void figures_meet_the_closed_forms(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf(SOURCE, "minio");
    c.cache = "20%";
    c.epochs = 3;
    c.prefetch = 1; /* no two batches under way at once: no read is shared */
    uint64_t got[MANY];
    larder_loader *l = open_loader(&c);
    assert_true(look_audit(l) < 0);
    kit_run(l, got, MANY);
    for (uint64_t e = 0; e < 3; e++) {
        larder_figures f = {.size = sizeof f};
        check_ok(look_figures(l, e, &f));
        assert_int_equal(f.served, 500);
        assert_int_equal(f.hits, e ? 100 : 0);
        assert_int_equal(f.misses, 500 - f.hits);
        assert_int_equal(f.substitutes + f.repeats + f.bad + f.background_reads, 0);
        assert_int_equal(f.storage_bytes, f.misses * 192);
        assert_true(f.touched == 1);
    }
    assert_int_equal(look_audit(l), 0);
    larder_figures f = {.size = sizeof f};
    assert_int_equal(look_figures(l, 9, &f), LARDER_E_RANGE);
    assert_int_equal(look_about(l).batches, 32);
    assert_int_equal(look_about(l).samples, 500);
    larder_loader_close(&l);
}

static double stat_value(larder_loader *l, const char *name) {
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++)
        if (strcmp(v.name, name) == 0)
            return v.type == 'h' ? (double)v.count : v.value;
    fail_msg("no figure %s", name);
    return 0;
}

static void statistics_agree_with_the_ledger(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf(SOURCE, "lru");
    c.epochs = 2;
    c.prefetch = 1;
    uint64_t got[MANY];
    larder_loader *l = open_loader(&c);
    kit_run(l, got, MANY);
    larder_figures f[2];
    check_ok(look_figures(l, 0, &f[0]));
    check_ok(look_figures(l, 1, &f[1]));
    assert_true(stat_value(l, "samples") == 1000);
    assert_true(stat_value(l, "batches") == 64);
    assert_true(stat_value(l, "storage_reads") == (double)(f[0].misses + f[1].misses));
    assert_true(stat_value(l, "reports") == 64);
    assert_true(stat_value(l, "stall_seconds") >= 64);
    assert_true(stat_value(l, "cache_resident_bytes") <= stat_value(l, "cache_budget_bytes"));
    assert_true(stat_value(l, "cache_loaned_bytes") == 0);
    larder_loader_close(&l);
}

/* ---- the last batch, and ranks --------------------------------------------------------------- */

static void the_last_short_batch_is_served(void **state) {
    (void)state;
    for (int drop = 0; drop < 2; drop++) {
        larder_loader_conf c = kit_conf("mem:?n=50&h=8&w=8&c=3", "lru");
        c.drop_last = drop;
        c.epochs = 1;
        larder_loader *l = open_loader(&c);
        const larder_batch *b;
        size_t sizes[8] = {0}, n = 0;
        while (larder_loader_next(l, &b) == 0) {
            sizes[n++] = b->n;
            check_ok(larder_loader_done(l, b));
        }
        assert_int_equal(n, drop ? 3 : 4);
        assert_int_equal(sizes[n - 1], drop ? 16 : 2);
        larder_loader_close(&l);
    }
}

static void ranks_share_the_data(void **state) {
    (void)state;
    uint32_t seen[500] = {0};
    size_t batches[3];
    for (uint32_t rank = 0; rank < 3; rank++) {
        larder_loader_conf c = kit_conf(SOURCE, "lru");
        c.rank = rank;
        c.world = 3;
        c.epochs = 1;
        larder_loader *l = open_loader(&c);
        const larder_batch *b;
        batches[rank] = 0;
        while (larder_loader_next(l, &b) == 0) {
            batches[rank]++;
            for (size_t i = 0; i < b->n; i++)
                seen[b->served[i]]++;
            check_ok(larder_loader_done(l, b));
        }
        assert_int_equal(look_audit(l), 0);
        larder_loader_close(&l);
    }
    assert_int_equal(batches[0], batches[1]);
    assert_int_equal(batches[0], batches[2]);
    for (int i = 0; i < 500; i++)
        assert_int_equal(seen[i], 1);
}

/* ---- bad samples ----------------------------------------------------------------------------- */

#define BAD "mem:?n=500&h=8&w=8&c=3&bad=3/77/400"

static void a_bad_sample_fails_the_run(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf(BAD, "lru");
    larder_loader *l = open_loader(&c);
    const larder_batch *b;
    int rc;
    while ((rc = larder_loader_next(l, &b)) == 0)
        check_ok(larder_loader_done(l, b));
    assert_true(rc < 0);
    assert_non_null(strstr(larder_errmsg(), "sample"));
    char why[512];
    snprintf(why, sizeof why, "%s", larder_errmsg());
    assert_int_equal(larder_loader_next(l, &b), rc); /* and it stays failed */
    assert_string_equal(larder_errmsg(), why);
    void *bytes; /* what came before it can still be saved */
    size_t size;
    check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
    larder_free(bytes);
    larder_loader_close(&l);
}

/* The bytes of the ledger are those that storage gave, also when rows are left out or replaced. */
static void bad_samples_cost_what_was_read_for_them(void **state) {
    (void)state;
    for (int replace = 0; replace < 2; replace++) {
        larder_loader_conf c = kit_conf(BAD, "lru");
        c.on_bad = replace ? LARDER_BAD_REPLACE : LARDER_BAD_SKIP;
        c.epochs = 1;
        uint64_t got[MANY];
        larder_loader *l = open_loader(&c);
        kit_run(l, got, MANY);
        larder_figures f = {.size = sizeof f};
        check_ok(look_figures(l, 0, &f));
        assert_int_equal(f.storage_bytes, (replace ? 500 : 497) * 192);
        assert_true(stat_value(l, "storage_bytes") == (double)f.storage_bytes);
        larder_loader_close(&l);
    }
}

/* Running out of memory must not pass for a bad sample. */
static void no_memory_is_no_bad_sample(void **state) {
    (void)state;
    for (uint64_t n = 1; n < 200; n++) {
        larder_loader_conf c = kit_conf("mem:?n=40&h=8&w=8&c=3", "lru");
        c.on_bad = LARDER_BAD_SKIP;
        c.threads = 1;
        c.epochs = 1;
        larder_loader *l = open_loader(&c);
        const larder_batch *b;
        int rc;
        size_t served = 0;
        larder__mem_fail_at(n, 0);
        while ((rc = larder_loader_next(l, &b)) == 0) {
            served += b->n;
            check_ok(larder_loader_done(l, b));
        }
        larder__mem_fail_at(0, 0);
        assert_true(rc == LARDER_E_NOMEM || served == 40);
        larder_bad bad = {.size = sizeof bad};
        assert_int_equal(larder_loader_bad(l, 0, &bad), LARDER_E_RANGE);
        larder_loader_close(&l);
    }
}

static void bad_samples_are_skipped_or_replaced(void **state) {
    (void)state;
    for (int replace = 0; replace < 2; replace++) {
        uint64_t digest[2] = {0};
        for (uint32_t threads = 1; threads <= 4; threads += 3) {
            larder_loader_conf c = kit_conf(BAD, "lru");
            c.on_bad = replace ? LARDER_BAD_REPLACE : LARDER_BAD_SKIP;
            c.epochs = 2;
            c.threads = threads;
            larder_loader *l = open_loader(&c);
            const larder_batch *b;
            int rc;
            size_t served = 0;
            while ((rc = larder_loader_next(l, &b)) == 0 || rc == LARDER_END_EPOCH) {
                if (rc)
                    continue;
                digest[threads > 1] = digest[threads > 1] * 31 + kit_digest(b);
                served += b->n;
                for (size_t i = 0; i < b->n; i++) {
                    assert_true(b->served[i] != 3 && b->served[i] != 77 && b->served[i] != 400);
                    assert_int_equal(b->kind[i] == LARDER_REPLACED, b->ids[i] != b->served[i]);
                }
                check_ok(larder_loader_done(l, b));
            }
            assert_int_equal(rc, LARDER_END);
            assert_int_equal(served, replace ? 1000 : 994);
            larder_figures f = {.size = sizeof f};
            check_ok(look_figures(l, 1, &f));
            assert_int_equal(f.bad, 3);
            assert_int_equal(f.substitutes, replace ? 3 : 0);
            assert_int_equal(look_audit(l) > 0, 1);
            larder_bad bad = {.size = sizeof bad};
            for (size_t i = 0; i < 6; i++) {
                check_ok(larder_loader_bad(l, i, &bad));
                assert_true(bad.id == 3 || bad.id == 77 || bad.id == 400);
                assert_true(bad.code < 0 && bad.why[0]);
            }
            assert_int_equal(larder_loader_bad(l, 6, &bad), LARDER_E_RANGE);
            larder_loader_close(&l);
        }
        assert_int_equal(digest[0], digest[1]);
    }
}

static void nothing_but_bad_samples_is_an_error(void **state) {
    (void)state;
    for (int replace = 0; replace < 2; replace++) {
        larder_loader_conf c = kit_conf("mem:?n=3&h=8&w=8&c=3&bad=0/1/2", "lru");
        c.on_bad = replace ? LARDER_BAD_REPLACE : LARDER_BAD_SKIP;
        larder_loader *l = open_loader(&c);
        const larder_batch *b;
        assert_true(larder_loader_next(l, &b) < 0);
        larder_loader_close(&l);
    }
}

/* ---- misuse ---------------------------------------------------------------------------------- */

static void wrong_configurations_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *source, *recipe, *cache, *augment;
    } wrong[] = {
        {NULL, "lru", "20%", NULL},
        {"mem:?n=0", "lru", "20%", NULL},
        {SOURCE, "lruu", "20%", NULL},
        {SOURCE, "lru:x=1", "20%", NULL},
        {SOURCE, "quiver:factor=0", "20%", NULL},
        {SOURCE, "lru", "-1", NULL},
        {SOURCE, "lru", "20%%", NULL},
        {SOURCE, "lru", "1e99GiB", NULL},
        {SOURCE, "lru", "900TiB", NULL},
        {SOURCE, "belady", "20%", NULL},
        {SOURCE, "lru", "20%", "nonsense"},
        {"mem:?n=5&bytes=100", "lru", "20%", NULL},
        {"nosuch:thing", "lru", "20%", NULL},
        {"/no/such/place", "lru", "20%", NULL},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        larder_loader_conf c = kit_conf(wrong[i].source, wrong[i].recipe);
        c.cache = wrong[i].cache;
        c.augment = wrong[i].augment;
        larder_loader *l = NULL;
        int rc = larder_loader_open(&l, &c);
        if (rc >= 0)
            fail_msg("case %zu was accepted", i);
        assert_null(l);
        assert_true(strlen(larder_errmsg()) > 8);
    }
    larder_loader_conf c = kit_conf(SOURCE, "lru");
    larder_loader *l = NULL;
    c.rank = 2, c.world = 2;
    assert_true(larder_loader_open(&l, &c) < 0);
    c = kit_conf(SOURCE, "lru");
    c.prefetch = 8, c.lag = 8;
    assert_true(larder_loader_open(&l, &c) < 0);
    c = kit_conf(SOURCE, "lru");
    c.drop_last = true, c.batch = 501;
    assert_true(larder_loader_open(&l, &c) < 0);
    c = kit_conf(SOURCE, "lru");
    char long_recipe[400] = "lru:sampler=";
    memset(long_recipe + 12, 'x', 380);
    c.recipe = long_recipe;
    assert_int_equal(larder_loader_open(&l, &c), LARDER_E_ARGS);
    assert_int_equal(larder_loader_open(&l, NULL), LARDER_E_ARGS);
    larder_loader_close(&l); /* takes NULL */
}

static void no_loader_is_an_error_and_no_crash(void **state) {
    (void)state;
    const larder_batch *b;
    larder_figures f = {.size = sizeof f};
    larder_feedback fb = {.size = sizeof fb};
    larder_loader_cancel(NULL);
    assert_int_equal(larder_loader_next(NULL, &b), LARDER_E_ARGS);
    assert_int_equal(larder_loader_done(NULL, NULL), LARDER_E_ARGS);
    assert_int_equal(larder_loader_report(NULL, NULL, &fb), LARDER_E_ARGS);
    assert_int_equal(look_figures(NULL, 0, &f), LARDER_E_ARGS);
    larder_loader_conf c = kit_conf(SOURCE, "lru");
    larder_loader *l = open_loader(&c);
    check_ok(larder_loader_next(l, &b));
    assert_int_equal(larder_loader_report(l, b, NULL), LARDER_E_ARGS);
    assert_int_equal(larder_loader_done(l, NULL), LARDER_E_STATE);
    larder_loader_close(&l);
}

/* The end is the end, also for those who still hold the last batches. */
static void the_end_comes_while_batches_are_held(void **state) {
    (void)state;
    for (uint32_t prefetch = 1; prefetch < 4; prefetch++) {
        larder_loader_conf c = kit_conf("mem:?n=32&h=8&w=8&c=3", "lru");
        c.epochs = 1;
        c.batch = prefetch == 1 ? 32 : 16;
        c.prefetch = prefetch;
        larder_loader *l = open_loader(&c);
        const larder_batch *b;
        int rc;
        while ((rc = larder_loader_next(l, &b)) == 0) {
        }
        assert_int_equal(rc, LARDER_END_EPOCH);
        assert_int_equal(larder_loader_next(l, &b), LARDER_END);
        assert_int_equal(larder_loader_next(l, &b), LARDER_END);
        larder_loader_close(&l);
    }
}

/* A child has the memory but not the threads: it is told so instead of waiting for ever. */
static void a_forked_child_is_told(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf(SOURCE, "lru");
    larder_loader *l = open_loader(&c);
    const larder_batch *b;
    check_ok(larder_loader_next(l, &b));
    pid_t child = fork();
    if (child == 0) {
        int rc = larder_loader_next(l, &b);
        larder_loader_close(&l);
        _exit(rc == LARDER_E_STATE && strstr(larder_errmsg(), "fork") ? 0 : 1);
    }
    int status = 1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
    check_ok(larder_loader_done(l, b));
    check_ok(larder_loader_next(l, &b));
    larder_loader_close(&l);
}

static void a_batch_is_reported_once_and_given_back_once(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf(SOURCE, "lru:signal=loss");
    c.prefetch = 3;
    larder_loader *l = open_loader(&c);
    const larder_batch *b[4];
    float loss[16] = {0};
    larder_feedback fb = {.size = sizeof fb, .loss = loss};
    assert_int_equal(larder_loader_validate(l, 0.5), LARDER_E_STATE);
    for (int i = 0; i < 3; i++)
        check_ok(larder_loader_next(l, &b[i]));
    assert_int_equal(larder_loader_next(l, &b[3]), LARDER_E_STATE); /* all are held */
    check_ok(larder_loader_report(l, b[0], &fb));
    assert_int_equal(larder_loader_report(l, b[0], &fb), LARDER_E_STATE);
    larder_feedback no_classes = {.size = sizeof no_classes, .logits = loss};
    assert_int_equal(larder_loader_report(l, b[1], &no_classes), LARDER_E_ARGS);
    check_ok(larder_loader_done(l, b[0]));
    assert_int_equal(larder_loader_done(l, b[0]), LARDER_E_STATE);
    assert_int_equal(larder_loader_report(l, b[0], &fb), LARDER_E_STATE);
    check_ok(larder_loader_done(l, b[2])); /* in any order */
    check_ok(larder_loader_done(l, b[1]));
    check_ok(larder_loader_next(l, &b[3]));
    assert_int_equal(larder_loader_validate(l, 1.5), LARDER_E_ARGS);
    check_ok(larder_loader_validate(l, 0.5));
    larder_loader_close(&l);
}

static double stat_of(larder_loader *l, const char *name) {
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++)
        if (strcmp(v.name, name) == 0)
            return v.value;
    fail_msg("no figure %s", name);
    return 0;
}

/* Feedback names a batch, and its ids are the loader's own: nobody can give any for another id. A
 * batch of one's own making is refused and counted, and no score changes. */
static void feedback_for_ids_not_served_is_refused(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf(SOURCE, "shade");
    larder_loader *l = open_loader(&c);
    const larder_batch *b;
    float loss[16] = {0};
    uint64_t ids[16] = {1, 2, 3};
    larder_feedback fb = {.size = sizeof fb, .loss = loss};
    check_ok(larder_loader_next(l, &b));
    larder_batch forged = *b;
    forged.served = ids;
    assert_int_equal(larder_loader_report(l, &forged, &fb), LARDER_E_STATE);
    assert_int_equal(larder_loader_report(l, NULL, &fb), LARDER_E_STATE);
    assert_true(stat_of(l, "reports_refused") == 2 && stat_of(l, "reports") == 0);
    check_ok(larder_loader_report(l, b, &fb));
    assert_int_equal(larder_loader_report(l, b, &fb), LARDER_E_STATE);
    assert_true(stat_of(l, "reports_refused") == 3 && stat_of(l, "reports") == 1);
    check_ok(larder_loader_done(l, b));
    larder_loader_close(&l);
}

/* ---- clean ends ------------------------------------------------------------------------------ */

static void *cancel_soon(void *l) {
    usleep(50000); /* by then it waits; if not, that is fine too */
    larder_loader_cancel(l);
    return NULL;
}

static void cancel_wakes_a_waiting_next(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf("slow:latency=3600s:" SOURCE, "lru");
    larder_loader *l = open_loader(&c);
    pthread_t t;
    pthread_create(&t, NULL, cancel_soon, l);
    const larder_batch *b;
    assert_int_equal(larder_loader_next(l, &b), LARDER_E_CANCELLED);
    pthread_join(t, NULL);
    larder_loader_close(&l);
}

static void close_at_any_moment(void **state) {
    (void)state;
    for (size_t taken = 0; taken < 40; taken += 3) {
        larder_loader_conf c = kit_conf(SOURCE, taken % 2 ? "quiver" : "lru");
        c.threads = 4;
        c.prefetch = 6;
        larder_loader *l = open_loader(&c);
        const larder_batch *b;
        for (size_t i = 0; i < taken; i++)
            if (larder_loader_next(l, &b) == 0 && i + 2 < taken) /* some stay lent */
                check_ok(larder_loader_done(l, b));
        larder_loader_close(&l);
    }
}

/* Rows that repeat within a batch wait for each other's bytes: closing gives both up, and that is
 * not what the user asks about. */
static void close_keeps_the_sentence(void **unused) {
    (void)unused;
    larder_loader_conf c = kit_conf("slow:latency=50ms:mem:?n=4&h=4&w=4&c=3", "shade");
    larder_loader *l;
    const larder_batch *b;
    c.batch = 16;
    c.patience = 1e-9;
    check_ok(larder_loader_open(&l, &c));
    assert_int_equal(larder_loader_next(l, &b), LARDER_NOT_YET); /* threads are at it */
    assert_int_equal(larder_loader_validate(l, 7), LARDER_E_ARGS);
    larder_loader_close(&l);
    assert_non_null(strstr(larder_errmsg(), "not a fraction of 1"));
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    bool failed = true;
    for (uint64_t n = 1; failed && n < 4000; n += n < 250 ? 1 : 7) {
        larder_loader_conf c = kit_conf("mem:?n=40&h=8&w=8&c=3", "quiver:signal=loss");
        c.threads = 1;
        c.prefetch = 2;
        c.epochs = 1;
        larder_loader *l = NULL;
        larder__mem_fail_at(n, 0);
        int rc = larder_loader_open(&l, &c);
        const larder_batch *b;
        while (rc == 0 && (rc = larder_loader_next(l, &b)) == 0) {
            float loss[16] = {0};
            larder_feedback fb = {.size = sizeof fb, .loss = loss};
            rc = larder_loader_report(l, b, &fb);
            void *bytes = NULL;
            size_t size;
            if (rc == 0)
                rc = larder_loader_save(l, LARDER_STATE, &bytes, &size);
            larder_free(bytes);
            if (rc == 0)
                rc = larder_loader_done(l, b);
        }
        failed = larder__mem_failed();
        larder__mem_fail_at(0, 0);
        if (!failed)
            assert_true(rc == LARDER_END_EPOCH);
        larder_loader_close(&l);
    }
    assert_false(failed); /* the countdown went past the last allocation */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_never_change_the_order),
        cmocka_unit_test(seeds_and_epochs_differ),
        cmocka_unit_test(rows_are_the_served_samples),
        cmocka_unit_test(figures_meet_the_closed_forms),
        cmocka_unit_test(statistics_agree_with_the_ledger),
        cmocka_unit_test(the_last_short_batch_is_served),
        cmocka_unit_test(ranks_share_the_data),
        cmocka_unit_test(a_bad_sample_fails_the_run),
        cmocka_unit_test(bad_samples_are_skipped_or_replaced),
        cmocka_unit_test(bad_samples_cost_what_was_read_for_them),
        cmocka_unit_test(no_memory_is_no_bad_sample),
        cmocka_unit_test(no_loader_is_an_error_and_no_crash),
        cmocka_unit_test(the_end_comes_while_batches_are_held),
        cmocka_unit_test(a_forked_child_is_told),
        cmocka_unit_test(nothing_but_bad_samples_is_an_error),
        cmocka_unit_test(wrong_configurations_are_refused),
        cmocka_unit_test(a_batch_is_reported_once_and_given_back_once),
        cmocka_unit_test(feedback_for_ids_not_served_is_refused),
        cmocka_unit_test(cancel_wakes_a_waiting_next),
        cmocka_unit_test(close_at_any_moment),
        cmocka_unit_test(close_keeps_the_sentence),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
