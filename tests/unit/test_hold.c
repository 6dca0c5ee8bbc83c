/* What a front end in another language needs: configurations of other versions, batches on hold and
 * pinned, epochs by number, samples by id, waits that look up, feedback that comes late. */
#include "loader_kit.h"
#include "look_kit.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/parcel.h"
#include "loader/inside.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOURCE "mem:?n=203&h=8&w=8&c=3"

static larder_loader *open_loader(const larder_loader_conf *c) {
    larder_loader *l = NULL;
    check_ok(larder_loader_open(&l, c));
    return l;
}

static const larder_batch *take(larder_loader *l) {
    const larder_batch *b;
    int rc = larder_loader_next(l, &b);
    check_ok(rc);
    assert_int_equal(rc, 0);
    return b;
}

/* ---- batches on hold ------------------------------------------------------------------------- */

enum { HELD = 12 };

static void batches_on_hold(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf(SOURCE, "lru");
    c.prefetch = 2;
    larder_loader *l = open_loader(&c);
    const larder_batch *holds[HELD], *again;
    uint64_t digests[HELD];
    for (int i = 0; i < HELD; i++) {
        const larder_batch *b = take(l);
        check_ok(larder_loader_hold(l, b, &holds[i]));
        check_ok(larder_loader_hold(l, b, &again)); /* twice is two references */
        digests[i] = kit_digest(b);
        check_ok(larder_loader_done(l, b));
        assert_int_equal(kit_digest(again), digests[i]);
        larder_batch_release(&again);
        assert_int_equal(larder_loader_hold(l, b, &again), LARDER_E_STATE);
        assert_null(again);
    }
    larder_loader_close(&l);
    for (int i = 0; i < HELD; i++) {
        assert_int_equal(kit_digest(holds[i]), digests[i]);
        larder_batch_release(&holds[i]);
        assert_null(holds[i]);
    }
    larder_batch_release(&holds[0]);
}

static double stat_of(larder_loader *l, const char *name) {
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder_loader_stat(l, i, &v) == 0; i++)
        if (strcmp(v.name, name) == 0)
            return v.value;
    return -1;
}

static void holds_have_a_limit(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf(SOURCE, "lru");
    c.prefetch = 2;
    c.hold_most = 3;
    larder_loader *l = open_loader(&c);
    const larder_batch *holds[HELD] = {0};
    int rc = 0, n = 0;
    while (rc == 0) {
        const larder_batch *b = take(l);
        check_ok(larder_loader_hold(l, b, &holds[n++]));
        assert_true(stat_of(l, "batches_on_hold") <= 3);
        rc = larder_loader_done(l, b);
    }
    assert_int_equal(rc, LARDER_E_FULL);
    assert_int_equal(n, 4);
    assert_non_null(strstr(larder_errmsg(), "hold_most"));
    for (int i = 0; i < n; i++)
        larder_batch_release(&holds[i]);
    larder_loader_close(&l);
}

/* Storage that does not answer until it is told to. */
static _Atomic bool shut;
static int read_gated(void *arg, const uint64_t *ids, size_t n, larder_read *out) {
    (void)arg;
    while (shut)
        usleep(1000);
    for (size_t i = 0; i < n; i++) {
        larder__field id = {LARDER__FIELD_ARRAY, LARDER_I64, 0, {0}, "id", 2, (void *)&ids[i], 8};
        out[i] = (larder_read){0};
        out[i].code = larder__parcel_make(&out[i].buf, &id, 1);
    }
    return 0;
}

static _Atomic int heard; /* 0: it waits */
static void *wait_for_next(void *arg) {
    const larder_batch *b;
    heard = larder_loader_next(arg, &b);
    return NULL;
}

static bool waits(larder_loader *l) {
    pthread_mutex_lock(&l->lock);
    bool waiting = l->stall.waiting; /* said by who is about to wait, without letting go */
    pthread_mutex_unlock(&l->lock);
    return waiting;
}

/* Where one thread gives a batch back and so ends the run, another that waits for one hears of it:
 * nobody goes on to prepare what it waits for. */
static void a_failure_wakes_who_waits(void **state) {
    (void)state;
    const larder_own_source own = {.size = sizeof own, .count = 203, .read = read_gated};
    larder_loader_conf c = kit_conf(NULL, "lru");
    c.own = &own;
    c.augment = NULL;
    c.prefetch = 2;
    c.hold_most = 1;
    shut = false;
    heard = 0;
    larder_loader *l = open_loader(&c);
    const larder_batch *holds[2];
    const larder_batch *first = take(l), *second = take(l);
    check_ok(larder_loader_hold(l, first, &holds[0]));
    check_ok(larder_loader_hold(l, second, &holds[1]));
    shut = true;
    check_ok(larder_loader_done(l, first));
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, wait_for_next, l), 0);
    while (!waits(l))
        usleep(1000);
    assert_int_equal(larder_loader_done(l, second), LARDER_E_FULL);
    for (int i = 0; i < 60000 && !heard; i++)
        usleep(1000);
    assert_int_equal(heard, LARDER_E_FULL);
    pthread_join(other, NULL);
    shut = false;
    larder_loader_close(&l);
    larder_batch_release(&holds[0]);
    larder_batch_release(&holds[1]);
}

/* What was drawn ahead and nobody reads any more: whoever asks for it by id does not wait for it.
 */
static void by_id_when_it_is_over(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf("slow:latency=20ms:" SOURCE, "lru");
    c.cache = "100%";
    c.threads = 1;
    c.batch = 40;
    c.prefetch = 4;
    c.hold_most = 1;
    c.inflight = 1;
    c.ahead = 5;
    larder_loader *l = open_loader(&c);
    const larder_batch *holds[2], *b;
    unsigned char x[192];
    int64_t y;
    for (int i = 0; i < 2; i++) {
        b = take(l);
        check_ok(larder_loader_hold(l, b, &holds[i]));
        assert_int_equal(larder_loader_done(l, b), i ? LARDER_E_FULL : 0);
    }
    for (uint64_t id = 0; id < 203; id++) {
        int rc = larder_loader_get(l, &id, 1, NULL, x, &y);
        if (rc == LARDER_E_CANCELLED) /* it waited when the last thread ended */
            rc = larder_loader_get(l, &id, 1, NULL, x, &y);
        check_ok(rc);
    }
    for (int i = 0; i < 2; i++)
        larder_batch_release(&holds[i]);
    larder_loader_close(&l);
}

/* Memory comes back: one batch held at a time needs no new one after the first few. */
static int pins, unpins, refuse;
static int pin(void *memory, size_t bytes, unsigned flags) {
    assert_int_equal((uintptr_t)memory % 4096, 0);
    assert_int_equal(bytes % 4096, 0);
    assert_int_equal(flags, 1);
    pins++;
    return refuse;
}
static int unpin(void *memory) {
    assert_non_null(memory);
    unpins++;
    return 0;
}

static void pinned_memory(void **state) {
    (void)state;
    for (refuse = 0; refuse < 2; refuse++) {
        pins = unpins = 0;
        larder_loader_conf c = kit_conf(SOURCE, "lru");
        c.prefetch = 2;
        c.pin = pin;
        c.unpin = unpin;
        larder_loader *l = open_loader(&c);
        assert_int_equal(pins, 2);
        const larder_batch *last = NULL;
        for (int i = 0; i < 10; i++) {
            const larder_batch *b = take(l);
            const larder_batch *h;
            check_ok(larder_loader_hold(l, b, &h));
            larder_batch_release(&last);
            last = h;
            check_ok(larder_loader_done(l, b));
        }
        assert_true(pins <= 4);
        assert_true(stat_of(l, "batches_not_pinned") == (refuse ? pins : 0));
        larder_loader_close(&l);
        assert_true(unpins == (refuse ? 0 : pins - 1));
        larder_batch_release(&last); /* the last one frees what is left */
        assert_int_equal(unpins, refuse ? 0 : pins);
    }
}

static void hold_in_a_child(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf(SOURCE, "lru");
    larder_loader *l = open_loader(&c);
    const larder_batch *b = take(l);
    const larder_batch *h;
    check_ok(larder_loader_hold(l, b, &h));
    uint64_t digest = kit_digest(b);
    pid_t child = fork();
    if (child == 0) {
        int fine = kit_digest(h) == digest;
        larder_batch_release(&h); /* a copy of the parent's memory: left alone */
        larder_loader_close(&l);
        _exit(fine ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    check_ok(larder_loader_done(l, b));
    assert_int_equal(kit_digest(h), digest);
    larder_batch_release(&h);
    larder_loader_close(&l);
}

/* ---- epochs ---------------------------------------------------------------------------------- */

static size_t ids_of_epoch(larder_loader *l, uint64_t *ids) {
    size_t n = 0;
    const larder_batch *b;
    int rc;
    while ((rc = larder_loader_next(l, &b)) == 0) {
        memcpy(ids + n, b->ids, b->n * sizeof *ids);
        n += b->n;
        check_ok(larder_loader_done(l, b));
    }
    assert_int_equal(rc, LARDER_END_EPOCH);
    return n;
}

static void epochs_by_number(void **state) {
    (void)state;
    uint64_t want[4][203], got[203];
    larder_loader_conf c = kit_conf(SOURCE, "lru");
    larder_loader *l = open_loader(&c);
    for (uint64_t e = 0; e < 4; e++) {
        assert_int_equal(look_about(l).epoch, e);
        assert_int_equal(ids_of_epoch(l, want[e]), 203);
    }
    static const uint64_t order[] = {2, 3, 0, 0, 1};
    for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
        check_ok(larder_loader_begin(l, order[k]));
        assert_int_equal(look_about(l).epoch, order[k]);
        assert_int_equal(ids_of_epoch(l, got), 203);
        assert_memory_equal(got, want[order[k]], sizeof got);
        assert_int_equal(look_audit(l), 0);
        larder_figures f = {.size = sizeof f};
        check_ok(larder_loader_figures(l, order[k], &f));
        assert_int_equal(f.served, 203);
    }
    const larder_batch *b = take(l);
    assert_int_equal(larder_loader_begin(l, 1), LARDER_E_STATE);
    check_ok(larder_loader_done(l, b));
    uint64_t number = b->number; /* in the middle: the rest is given up */
    check_ok(larder_loader_begin(l, 1));
    b = take(l);
    assert_int_equal(b->epoch, 1);
    assert_true(b->number > number);
    check_ok(larder_loader_done(l, b));
    larder_loader_close(&l);
    c.epochs = 2;
    l = open_loader(&c);
    assert_int_equal(larder_loader_begin(l, 2), LARDER_E_RANGE);
    check_ok(larder_loader_begin(l, 1));
    assert_int_equal(ids_of_epoch(l, got), 203);
    assert_memory_equal(got, want[1], sizeof got);
    assert_int_equal(larder_loader_next(l, &b), LARDER_END);
    larder_loader_close(&l);
}

/* All recipes, broken off everywhere, with feedback under way; then a save that goes on. */
static void begin_in_the_middle(void **state) {
    (void)state;
    static const char *recipes[] = {"lru",    "quiver", "seneca", "rotate:h=0.5",
                                    "echo",   "shade",  "icache", "spider:scoring=wait",
                                    "impact", "nopfs",  "hilo",   "lru:sampler=sequential"};
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        larder_loader_conf c = kit_conf(SOURCE, recipes[r]);
        c.prefetch = 3;
        larder_loader *l = open_loader(&c);
        uint64_t digests[64], whole[8], again[8];
        for (uint64_t e = 0; e < 9; e++) {
            kit_run(l, digests, 1 + e);
            check_ok(larder_loader_begin(l, e + 1));
        }
        kit_run(l, digests, 2);
        void *bytes;
        size_t size;
        check_ok(larder_loader_save(l, LARDER_STATE, &bytes, &size));
        kit_run(l, whole, 8);
        larder_loader_close(&l);
        l = open_loader(&c);
        check_ok(larder_loader_restore(l, LARDER_STATE, bytes, size));
        kit_run(l, again, 8);
        if (memcmp(whole, again, sizeof whole) != 0)
            fail_msg("%s: not the same after a save", recipes[r]);
        larder_free(bytes);
        larder_loader_close(&l);
    }
}

/* ---- waiting, looking ahead, late feedback --------------------------------------------------- */

static void a_wait_that_looks_up(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf("slow:latency=3600s:" SOURCE, "lru");
    larder_loader *none;
    c.patience = -1;
    assert_int_equal(larder_loader_open(&none, &c), LARDER_E_ARGS);
    c.patience = 0.01;
    larder_loader *l = open_loader(&c);
    const larder_batch *b;
    const larder_batch *seen;
    int rc;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(larder_loader_next(l, &b), LARDER_NOT_YET);
        assert_null(b);
    }
    larder_loader_close(&l);
    c.source = "slow:latency=50ms:" SOURCE;
    l = open_loader(&c);
    while ((rc = larder_loader_next(l, &b)) == LARDER_NOT_YET)
        assert_null(b);
    assert_int_equal(rc, 0);
    check_ok(larder_loader_done(l, b));
    while (larder_loader_peek(l, &seen) == LARDER_NOT_YET)
        usleep(1000);
    uint64_t digest = kit_digest(seen);
    b = take(l);
    assert_int_equal(kit_digest(b), digest);
    assert_ptr_equal(b, seen);
    larder_loader_close(&l);
}

static void late_feedback(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf(SOURCE, "shade");
    uint64_t want[60], got[60];
    larder_loader *l = open_loader(&c);
    kit_run(l, want, 60);
    larder_loader_close(&l);
    l = open_loader(&c);
    uint64_t last = 0;
    const larder_batch *holds[60] = {0};
    size_t told = 0, given = 0;
    for (size_t at = 0; at < 60; at++) {
        const larder_batch *b;
        int rc = larder_loader_next(l, &b);
        check_ok(rc);
        if (rc == LARDER_END_EPOCH) {
            got[at] = 1;
            continue;
        }
        got[at] = kit_digest(b);
        check_ok(larder_loader_hold(l, b, &holds[given]));
        last = b->number;
        given++;
        for (; told + 2 < given; told++) { /* lag is ahead + 2: the last moment */
            const larder_batch *old = holds[told];
            float losses[16];
            for (size_t i = 0; i < old->n; i++)
                losses[i] = kit_loss(old->served[i], old->epoch);
            larder_feedback fb = {.size = sizeof fb, .loss = losses};
            fb.rows = LARDER_ROWS_ALL;
            check_ok(larder_loader_report(l, old, &fb));
            assert_int_equal(larder_loader_report(l, old, &fb), LARDER_E_STATE); /* twice */
            larder_batch_release(&holds[told]);
        }
        check_ok(larder_loader_done(l, b));
    }
    assert_memory_equal(got, want, sizeof got);
    const uint64_t beyond = 203;
    const int64_t label = 0;
    float loss = 1;
    larder_feedback fb = {.size = sizeof fb, .loss = &loss, .rows = LARDER_ROWS_ALL};
    larder_batch named = {
        .size = sizeof named, .number = last, .n = 1, .served = &beyond, .y = &label};
    assert_int_equal(larder_loader_report(l, &named, &fb), LARDER_E_RANGE);
    named.number = 1000, named.n = 0;
    assert_int_equal(larder_loader_report(l, &named, &fb), LARDER_E_STATE);
    for (size_t i = 0; i < 60; i++)
        larder_batch_release(&holds[i]);
    larder_loader_close(&l);
}

/* ---- by id ----------------------------------------------------------------------------------- */

static void by_id(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf(SOURCE, "lru");
    larder_loader *l = open_loader(&c);
    enum { ROW = 8 * 8 * 3 };
    uint64_t ids[203], chance[203];
    int64_t y[203];
    unsigned char *x = malloc(203 * ROW), *z = malloc(203 * ROW);
    for (uint64_t i = 0; i < 203; i++) {
        ids[i] = (i * 7) % 203;
        chance[i] = larder__mix64(i);
    }
    check_ok(larder_loader_get(l, ids, 203, chance, x, y));
    for (int twice = 0; twice < 2; twice++) /* one by one, from memory or storage: the same */
        for (uint64_t i = 0; i < 203; i++) {
            int64_t label;
            check_ok(larder_loader_get(l, &ids[i], 1, &chance[i], z, &label));
            assert_memory_equal(z, x + i * ROW, ROW);
            assert_int_equal(label, y[i]);
        }
    check_ok(larder_loader_get(l, ids, 203, NULL, x, y));
    check_ok(larder_loader_get(l, ids, 203, NULL, z, y));
    assert_memory_equal(x, z, 203 * ROW);
    for (uint64_t i = 0; i < 203; i += 50) {
        larder_item item = {.size = sizeof item};
        check_ok(larder_loader_item(l, ids[i], LARDER_DECODED, &item));
        assert_int_equal(item.shape.h * item.shape.w * item.shape.c, ROW);
        assert_int_equal(item.bytes, ROW);
        assert_int_equal(item.label, y[i]);
        larder_buf_unref(&item.buf);
        char name[64];
        check_ok(larder_loader_says(l, LARDER_SAYS_SAMPLE, ids[i], name, sizeof name));
    }
    ids[1] = 203;
    assert_int_equal(larder_loader_get(l, ids, 2, NULL, x, y), LARDER_E_RANGE);
    larder_item none = {.size = sizeof none};
    assert_int_equal(larder_loader_item(l, 203, LARDER_ENCODED, &none), LARDER_E_RANGE);
    assert_int_equal(larder_loader_item(l, 0, LARDER_AUGMENTED, &none), LARDER_E_ARGS);
    larder_loader_close(&l);
    c.recipe = "spider"; /* serves others */
    l = open_loader(&c);
    assert_int_equal(larder_loader_get(l, ids, 1, NULL, x, y), LARDER_E_ARGS);
    larder_loader_close(&l);
    c.source = SOURCE "&bad=5";
    c.recipe = "lru";
    l = open_loader(&c);
    ids[0] = 5;
    assert_true(larder_loader_get(l, ids, 1, NULL, x, y) < 0);
    assert_non_null(strstr(larder_errmsg(), "sample 5"));
    assert_true(larder_loader_item(l, 5, LARDER_ENCODED, &none) < 0);
    assert_null(none.buf);
    larder_loader_close(&l);
    free(x);
    free(z);
}

typedef struct asker {
    larder_loader *l;
    uint64_t seed;
    int bad;
} asker;

static void *ask(void *arg) {
    asker *a = arg;
    enum { ROW = 8 * 8 * 3, N = 20 };
    unsigned char x[N * ROW];
    int64_t y[N];
    for (uint64_t k = 0; k < 40; k++) {
        uint64_t ids[N];
        for (uint64_t i = 0; i < N; i++)
            ids[i] = larder__mix64(a->seed * 1000 + k * N + i) % 203;
        a->bad += larder_loader_get(a->l, ids, N, NULL, x, y) < 0;
        larder_item item = {.size = sizeof item};
        a->bad += larder_loader_item(a->l, ids[0], LARDER_DECODED, &item) < 0;
        larder_buf_unref(&item.buf);
    }
    return NULL;
}

/* From several threads, beside batches, with a cache of other forms as well. */
static void by_id_from_threads(void **state) {
    (void)state;
    static const char *caches[] = {"20%", "40%:30/30/40", "0"};
    for (size_t k = 0; k < 3; k++) {
        larder_loader_conf c = kit_conf(SOURCE, "lru");
        c.cache = caches[k];
        larder_loader *l = open_loader(&c);
        pthread_t threads[3];
        asker askers[3];
        for (uint64_t i = 0; i < 3; i++) {
            askers[i] = (asker){l, i, 0};
            pthread_create(&threads[i], NULL, ask, &askers[i]);
        }
        uint64_t digests[30];
        kit_run(l, digests, 30);
        for (int i = 0; i < 3; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(askers[i].bad, 0);
        }
        larder_loader_close(&l);
    }
}

/* ---- the order alone ------------------------------------------------------------------------- */

static void order_without_pixels(void **state) {
    (void)state;
    static const char *recipes[] = {"lru", "quiver", "seneca", "rotate:h=0.5", "shade", "icache"};
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        larder_loader_conf c = kit_conf(SOURCE, recipes[r]);
        larder_loader *l = open_loader(&c), *o = NULL;
        c.order_only = true;
        o = open_loader(&c);
        assert_int_equal(look_about(o).payload, 203 * 8 * 8 * 3);
        for (int i = 0; i < 40; i++) {
            const larder_batch *a, *b;
            int rc = larder_loader_next(l, &a);
            check_ok(rc);
            assert_int_equal(larder_loader_next(o, &b), rc);
            if (rc == LARDER_END_EPOCH)
                continue;
            assert_null(b->x);
            assert_int_equal(a->n, b->n);
            assert_memory_equal(a->ids, b->ids, a->n * 8);
            assert_memory_equal(a->served, b->served, a->n * 8);
            assert_memory_equal(a->kind, b->kind, a->n);
            assert_memory_equal(a->y, b->y, a->n * 8);
            float losses[16];
            for (size_t k = 0; k < a->n; k++)
                losses[k] = kit_loss(a->served[k], a->epoch);
            larder_feedback fb = {.size = sizeof fb, .loss = losses};
            check_ok(larder_loader_report(l, a, &fb));
            check_ok(larder_loader_report(o, b, &fb));
            check_ok(larder_loader_done(l, a));
            check_ok(larder_loader_done(o, b));
        }
        larder_figures f = {.size = sizeof f}, g = f;
        check_ok(larder_loader_figures(l, 1, &f));
        check_ok(larder_loader_figures(o, 1, &g));
        f.requests = g.requests = 0; /* measured in one, decided in the other */
        assert_memory_equal(&f, &g, sizeof f);
        assert_true(stat_of(o, "storage_reads") == 0);
        uint64_t id = 0;
        int64_t y;
        assert_int_equal(larder_loader_get(o, &id, 1, NULL, &id, &y), LARDER_E_STATE);
        larder_loader_close(&l);
        larder_loader_close(&o);
    }
}

/* Every allocation fails once: nothing leaks, nothing hangs, and the loader still closes. */
static void memory_that_fails(void **state) {
    (void)state;
    larder_loader_conf c = kit_conf(SOURCE, "lru");
    c.prefetch = 1;
    c.threads = 1;
    for (uint64_t at = 1; at < 40; at++) {
        larder_loader *l = open_loader(&c);
        const larder_batch *b = take(l);
        const larder_batch *h = NULL;
        check_ok(larder_loader_hold(l, b, &h));
        uint64_t ids[3] = {1, 2, 3};
        int64_t y[3];
        unsigned char x[3 * 8 * 8 * 3];
        larder_item item = {.size = sizeof item};
        larder__mem_fail_at(at, 0);
        if (larder_loader_get(l, ids, 3, NULL, x, y) == 0 &&
            larder_loader_item(l, 9, LARDER_DECODED, &item) == 0)
            larder_buf_unref(&item.buf);
        larder_loader_done(l, b);
        larder__mem_fail_at(0, 0);
        larder_batch_release(&h);
        larder_loader_close(&l);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_on_hold),
        cmocka_unit_test(holds_have_a_limit),
        cmocka_unit_test(a_failure_wakes_who_waits),
        cmocka_unit_test(by_id_when_it_is_over),
        cmocka_unit_test(pinned_memory),
        cmocka_unit_test(hold_in_a_child),
        cmocka_unit_test(epochs_by_number),
        cmocka_unit_test(begin_in_the_middle),
        cmocka_unit_test(a_wait_that_looks_up),
        cmocka_unit_test(late_feedback),
        cmocka_unit_test(by_id),
        cmocka_unit_test(by_id_from_threads),
        cmocka_unit_test(memory_that_fails),
        cmocka_unit_test(order_without_pixels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
