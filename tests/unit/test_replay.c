/* A run that measures how much to reuse (rotate, h=auto) and the runs that repeat it: the same ids
 * to the bit from what it decided, at any pace and with any number of threads, from each place that
 * holds the decisions, and from the middle. */
#include "loader_kit.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "tape/tape.h"
#include <larder/plugin.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { N = 320, EPOCHS = 4, BATCHES = EPOCHS * (N / 16) };
/* Storage takes 3 ms a sample, the loop below next to nothing: h rises on any machine. */
#define FAST "mem:?n=320&h=8&w=8&c=3"
#define SLOW "slow:iops=330:" FAST

static char folder[] = "/tmp/larder-replay-XXXXXX";

static const char *in(const char *name) {
    static char path[4][256];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static larder_loader_conf conf_of(const char *source, uint32_t threads) {
    larder_loader_conf c = kit_conf(source, "rotate");
    c.epochs = EPOCHS;
    c.threads = threads;
    return c;
}

/* Takes batches up to number `until` and dozes after each; what was served goes to digests. */
static void run(larder_loader *l, uint64_t until, uint32_t most_us, uint64_t digests[BATCHES]) {
    larder_rng rng;
    larder_rng_seed(&rng, until, most_us);
    const larder_batch *b;
    for (int rc; (rc = larder_loader_next(l, &b)) != LARDER_END;) {
        check_ok(rc);
        if (rc == LARDER_END_EPOCH)
            continue;
        digests[b->number] = larder__hash_bytes(1, b->served, b->n * sizeof *b->served);
        uint64_t number = b->number;
        struct timespec t = {.tv_nsec = most_us ? 1000L * larder_rng_below(&rng, most_us) : 0};
        nanosleep(&t, NULL);
        check_ok(larder_loader_done(l, b));
        if (number + 1 == until)
            return;
    }
}

static uint64_t repeats_of(larder_loader *l) {
    uint64_t sum = 0;
    for (uint64_t e = 0; e < EPOCHS; e++) {
        larder_figures f = {.size = sizeof f};
        check_ok(larder_loader_figures(l, e, &f));
        sum += f.repeats;
    }
    return sum;
}

static uint64_t want[BATCHES];
static void *state_bytes, *list_bytes, *middle_bytes;
static size_t state_size, list_size, middle_size;

/* The run all others are compared with: recorded, and saved in the middle of an epoch. */
static int record(void **unused) {
    (void)unused;
    assert_non_null(mkdtemp(folder));
    larder_loader_conf c = conf_of(SLOW, 2);
    c.record = in("job.tape");
    larder_loader *l;
    check_ok(larder_loader_open(&l, &c));
    run(l, 47, 800, want);
    check_ok(larder_loader_save(l, LARDER_STATE, &middle_bytes, &middle_size));
    run(l, BATCHES + 1, 800, want);
    assert_true(repeats_of(l) > N / 4); /* else there is nothing to be repeated */
    check_ok(larder_loader_save(l, LARDER_STATE, &state_bytes, &state_size));
    check_ok(larder_loader_save(l, LARDER_DECISIONS, &list_bytes, &list_size));
    larder_loader_close(&l);
    check_ok(larder__file_write(in("state"), state_bytes, state_size));
    check_ok(mkdir(in("run"), 0777));
    check_ok(larder__file_write(in("run/decisions"), list_bytes, list_size));
    return 0;
}

static int forget(void **unused) {
    (void)unused;
    const char *files[] = {"job.tape", "again.tape", "state", "run/decisions", "noise"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(in(files[i]));
    rmdir(in("run"));
    rmdir(folder);
    larder_free(state_bytes);
    larder_free(list_bytes);
    larder_free(middle_bytes);
    return 0;
}

static void same(const uint64_t got[BATCHES], uint64_t from, const char *what) {
    for (uint64_t b = from; b < BATCHES; b++)
        if (got[b] != want[b])
            fail_msg("%s: batch %d differs", what, (int)b);
}

static void each_place_repeats_it(void **unused) {
    (void)unused;
    static const char *const places[] = {"job.tape", "state", "run", "run/decisions"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        for (uint32_t threads = 1; threads <= 4; threads += 3) {
            uint64_t got[BATCHES] = {0};
            larder_loader_conf c = conf_of(i % 2 ? FAST : SLOW, threads);
            c.replay = in(places[i]);
            c.ahead = threads * 3 + 1;
            c.prefetch = 4;
            larder_loader *l;
            check_ok(larder_loader_open(&l, &c));
            run(l, BATCHES + 1, i % 2 ? 0 : 3000, got);
            same(got, 0, places[i]);
            void *bytes;
            size_t size;
            check_ok(larder_loader_save(l, LARDER_DECISIONS, &bytes,
                                        &size)); /* it has decided the same */
            if (i && c.ahead == 4) {
                assert_int_equal(size, list_size);
                assert_memory_equal(bytes, list_bytes, size);
            }
            larder_free(bytes);
            larder_loader_close(&l);
        }
}

/* A state from the middle has what was decided so far. Restored alone the rest is measured anew, so
 * that is another run; and its own list then repeats the whole of it from the start. */
static void the_middle_goes_on(void **unused) {
    (void)unused;
    uint64_t got[BATCHES] = {0}, whole[BATCHES] = {0};
    memcpy(whole, want, sizeof whole);
    larder_loader_conf c = conf_of(SLOW, 3);
    larder_loader *l;
    void *bytes;
    size_t size;
    check_ok(larder_loader_open(&l, &c)); /* with the list: the same run */
    check_ok(larder_loader_restore(l, LARDER_DECISIONS, list_bytes, list_size));
    check_ok(larder_loader_restore(l, LARDER_STATE, middle_bytes, middle_size));
    run(l, BATCHES + 1, 2000, got);
    same(got, 47, "restored, with the list");
    larder_loader_close(&l);
    check_ok(larder_loader_open(&l, &c));
    check_ok(larder_loader_restore(l, LARDER_STATE, middle_bytes, middle_size));
    run(l, BATCHES + 1, 0, whole);
    check_ok(larder_loader_save(l, LARDER_DECISIONS, &bytes, &size));
    larder_loader_close(&l);
    c = conf_of(FAST, 1);
    check_ok(larder_loader_open(&l, &c));
    check_ok(larder_loader_restore(l, LARDER_DECISIONS, bytes, size));
    memset(got, 0, sizeof got);
    run(l, BATCHES + 1, 500, got);
    assert_memory_equal(got, whole, sizeof whole);
    larder_loader_close(&l);
    larder_free(bytes);
}

/* A tape of a replayed run is a tape of that run. */
static void tapes_have_h(void **unused) {
    (void)unused;
    uint64_t got[BATCHES] = {0};
    larder_loader_conf c = conf_of(FAST, 1);
    c.replay = in("job.tape");
    c.record = in("again.tape");
    larder_loader *l;
    check_ok(larder_loader_open(&l, &c));
    run(l, BATCHES + 1, 0, got);
    larder_loader_close(&l);
    larder__tape a, b;
    check_ok(larder__tape_read(&a, in("job.tape")));
    check_ok(larder__tape_read(&b, in("again.tape")));
    assert_true(a.turn_count > 0);
    assert_int_equal(a.turn_count, b.turn_count);
    for (uint64_t i = 0; i < a.turn_count; i++)
        assert_true(a.turns[i].batch == b.turns[i].batch && a.turns[i].value == b.turns[i].value);
    larder__tape_free(&a);
    larder__tape_free(&b);
}

static void refused(const larder_loader_conf *c, const char *says) {
    larder_loader *l;
    assert_true(larder_loader_open(&l, c) < 0);
    if (!strstr(larder_errmsg(), says))
        fail_msg("\"%s\" does not say \"%s\"", larder_errmsg(), says);
}

static void other_runs_are_refused(void **unused) {
    (void)unused;
    static const char *const places[] = {"job.tape", "state", "run"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        larder_loader_conf c = conf_of(FAST, 1);
        c.replay = in(places[i]);
        c.seed = 8;
        refused(&c, "another seed");
        c = conf_of("mem:?n=319&h=8&w=8&c=3", 1);
        c.replay = in(places[i]);
        refused(&c, "another data set");
        c = conf_of(FAST, 1);
        c.replay = in(places[i]);
        c.recipe = "rotate:h=0.5";
        refused(&c, "another recipe");
    }
    larder_loader_conf c = conf_of(FAST, 1);
    c.replay = in("nothing");
    refused(&c, "nothing");
    check_ok(larder__file_write(in("noise"), "noise noise noise", 17));
    c.replay = in("noise");
    refused(&c, "not a state");
    larder_loader *l;
    c = conf_of(FAST, 1);
    check_ok(larder_loader_open(&l, &c)); /* a list is not enough to go on from */
    assert_int_equal(larder_loader_restore(l, LARDER_STATE, list_bytes, list_size),
                     LARDER_E_FORMAT);
    larder_loader_close(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_place_repeats_it),
        cmocka_unit_test(the_middle_goes_on),
        cmocka_unit_test(tapes_have_h),
        cmocka_unit_test(other_runs_are_refused),
    };
    return cmocka_run_group_tests(tests, record, forget);
}
