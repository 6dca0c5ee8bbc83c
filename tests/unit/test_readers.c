/* Reads in flight: many at once on storage that answers late, none of which changes a result; and
 * an end that does not wait for it. */
#include "loader_kit.h"
#include "look_kit.h"

#include "source/source.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SAMPLES "mem:?n=500&h=8&w=8&c=3"
#define BAD SAMPLES "&bad=3/77/400"
enum { MANY = 200 };

typedef struct depth {
    uint32_t threads, inflight, ahead;
} depth;

static larder_loader *open_loader(const larder_loader_conf *c) {
    larder_loader *l = NULL;
    check_ok(larder_loader_open(&l, c));
    return l;
}

static double stat_value(larder_loader *l, const char *name) {
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++)
        if (strcmp(v.name, name) == 0)
            return v.value;
    fail_msg("no figure %s", name);
    return 0;
}

static size_t run(const char *source, const char *recipe, depth d, uint64_t *got, double *readers,
                  larder_figures *f) {
    larder_loader_conf c = kit_conf(source, recipe);
    c.threads = d.threads;
    c.inflight = d.inflight;
    c.prefetch = 3;
    c.ahead = d.ahead;
    c.lag = 20;
    c.epochs = 2;
    c.on_bad = LARDER_BAD_REPLACE;
    larder_loader *l = open_loader(&c);
    size_t n = kit_run(l, got, MANY);
    check_ok(look_figures(l, 1, f));
    f->requests = 0; /* measured: whoever waits for another's read makes none */
    *readers = stat_value(l, "readers");
    larder_loader_close(&l);
    return n;
}

static void depth_never_changes_a_result(void **state) {
    (void)state;
    static const char *const recipes[] = {"lru", "lfu:signal=loss", "rotate:h=0.5", "icache"};
    static const depth depths[] = {{1, 1, 3}, {2, 0, 3}, {2, 5, 16}, {1, 0, 16}, {8, 40, 19}};
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        uint64_t first[MANY], got[MANY];
        double readers;
        larder_figures a = {.size = sizeof a}, b = a;
        size_t n = run(BAD, recipes[r], (depth){1, 1, 3}, first, &readers, &a);
        assert_true(n > 60);
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++) {
            assert_int_equal(
                run("slow:latency=300us:" BAD, recipes[r], depths[d], got, &readers, &b), n);
            assert_memory_equal(got, first, n * sizeof *got);
            assert_memory_equal(&a, &b, sizeof a);
        }
    }
}

static void late_storage_is_asked_by_many(void **state) {
    (void)state;
    uint64_t got[MANY];
    larder_figures f = {.size = sizeof f};
    double readers = 0;
    /* One that comes back before the next is called reads again: it takes several tries where
     * threads are not let run for as long as storage takes. */
    for (int i = 0; i < 50 && readers < 8; i++)
        run("slow:latency=20ms:" SAMPLES, "lru", (depth){1, 0, 16}, got, &readers, &f);
    assert_true(readers >= 8);
    run("slow:latency=20ms:" SAMPLES, "lru", (depth){1, 5, 16}, got, &readers, &f);
    assert_true(readers >= 1 && readers <= 5);
}

static void *cancel_soon(void *l) {
    usleep(20000);
    larder_loader_cancel(l);
    return NULL;
}

/* An hour of latency: a close that waited for it would run into the test's time limit. */
static void close_does_not_wait_for_storage(void **state) {
    (void)state;
    for (uint32_t threads = 1; threads <= 4; threads *= 4) {
        larder_loader_conf c = kit_conf("slow:latency=3600s:" SAMPLES, "minio");
        c.threads = threads;
        larder_loader *l = open_loader(&c);
        const larder_batch *b;
        pthread_t t;
        pthread_create(&t, NULL, cancel_soon, l);
        assert_int_equal(larder_loader_next(l, &b), LARDER_E_CANCELLED);
        pthread_join(t, NULL);
        larder_loader_close(&l);
    }
}

static void an_interrupted_source_says_so(void **state) {
    (void)state;
    larder__data *d;
    uint64_t id = 1;
    larder_read out;
    check_ok(larder__data_open(&d, "slow:latency=3600s:" SAMPLES));
    larder__data_interrupt(d);
    assert_int_equal(larder__data_read(d, &id, 1, &out), LARDER_E_CANCELLED);
    larder__data_close(&d);
    check_ok(larder__data_open(&d, SAMPLES));
    larder__data_interrupt(d); /* nothing to give up: reads go on */
    check_ok(larder__data_read(d, &id, 1, &out));
    larder_buf_unref(&out.buf);
    larder__data_close(&d);
}

static void batches_are_held_as_far_as_promised(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf(SAMPLES, "lru");
    c.prefetch = 2;
    c.ahead = 9;
    larder_loader *l = open_loader(&c);
    const larder_batch *b[3];
    check_ok(larder_loader_next(l, &b[0]));
    check_ok(larder_loader_next(l, &b[1]));
    uint64_t digest = kit_digest(b[0]);
    assert_int_equal(larder_loader_next(l, &b[2]), LARDER_E_STATE);
    assert_non_null(strstr(larder_errmsg(), "batch 0 is still held"));
    check_ok(larder_loader_done(l, b[1])); /* out of order: batch 3 may be prepared, not 2 */
    assert_int_equal(larder_loader_next(l, &b[2]), LARDER_E_STATE);
    assert_true(digest == kit_digest(b[0]));
    check_ok(larder_loader_done(l, b[0]));
    check_ok(larder_loader_next(l, &b[2]));
    assert_int_equal(b[2]->number, 2);
    larder_loader_close(&l);
}

static void depths_that_make_no_sense_are_refused(void **state) {
    (void)state;
    larder_loader *l;
    larder_loader_conf c = kit_conf(SAMPLES, "lru");
    c.prefetch = 8;
    c.ahead = 4;
    assert_int_equal(larder_loader_open(&l, &c), LARDER_E_ARGS);
    assert_non_null(strstr(larder_errmsg(), "only 4 read ahead"));
    c.ahead = 40;
    c.lag = 40;
    assert_int_equal(larder_loader_open(&l, &c), LARDER_E_ARGS);
    c.lag = 0;
    c.inflight = 5000;
    assert_int_equal(larder_loader_open(&l, &c), LARDER_E_ARGS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depth_never_changes_a_result),
        cmocka_unit_test(late_storage_is_asked_by_many),
        cmocka_unit_test(close_does_not_wait_for_storage),
        cmocka_unit_test(an_interrupted_source_says_so),
        cmocka_unit_test(batches_are_held_as_far_as_promised),
        cmocka_unit_test(depths_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
