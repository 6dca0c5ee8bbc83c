/* Residents that are taken without asking (unix/pins.h): while others bring in and throw out, the
 * bytes somebody holds stay what they were; who dies holds nothing; whatever a client writes into
 * its pins, the daemon stays sound. */
#include "base/clock.h"
#include "base/mem.h"
#include "daemon_kit.h"
#include "unix/attach.h"
#include "unix/pinned_blocks.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KEYS = 400, SIZE = 2000, BATCH = 8 };

/* ---- the daemon's half alone ----------------------------------------------------------------- */

typedef struct world {
    larder__arena *arena;
    larder__pinned pinned;
    _Atomic larder__block_place places[KEYS];
    larder__pins *pins[2];
} world;

static void open_world(world *w) {
    *w = (world){0};
    check_ok(larder__arena_open(&w->arena, 1 << 20, NULL, false));
    check_ok(larder__pinned_open(&w->pinned, w->arena, w->places, 2));
    for (uint32_t j = 0; j < 2; j++) {
        int fd;
        check_ok(larder__pinned_join(&w->pinned, j, &fd));
        w->pins[j] = mmap(NULL, sizeof **w->pins, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_true(w->pins[j] != MAP_FAILED);
    }
}

static void close_world(world *w) {
    larder__pinned_close(&w->pinned);
    assert_int_equal(larder__arena_taken(w->arena), 0);
    assert_true(larder__arena_sound(w->arena));
    larder__arena_close(&w->arena);
    for (uint32_t j = 0; j < 2; j++)
        munmap(w->pins[j], sizeof **w->pins);
}

static larder__arena_block bring_in(world *w, uint64_t key) {
    larder__arena_block b = larder__pinned_take(&w->pinned, SIZE);
    assert_int_not_equal(b, LARDER__NO_BLOCK);
    larder__pinned_publish(&w->pinned, key, larder__arena_offset(w->arena, b), LARDER_ENCODED,
                           SIZE);
    return b;
}

static void hold(world *w, uint32_t job, uint32_t pin, uint64_t key) {
    assert_int_not_equal(w->places[key], 0);
    w->pins[job]->at[pin] = larder__block_place_pin(w->places[key]);
    if (w->pins[job]->used <= pin)
        w->pins[job]->used = pin + 1;
}

static void test_pinned_blocks_wait(void **st) {
    (void)st;
    world *w = malloc(sizeof *w);
    open_world(w);
    larder__arena_block a = bring_in(w, 1), b = bring_in(w, 2);
    uint64_t each = larder__arena_length(w->arena, a);
    hold(w, 0, 5, 1);
    hold(w, 1, 0, 1);
    larder__pinned_give(&w->pinned, a, 1);
    larder__pinned_give(&w->pinned, b, 2);
    assert_int_equal(w->places[1], 0);
    larder__pinned_sweep(&w->pinned);
    assert_int_equal(larder__arena_taken(w->arena), each);
    w->pins[0]->at[5] = 0;
    larder__pinned_sweep(&w->pinned);
    assert_int_equal(larder__arena_taken(w->arena), each);
    larder__pinned_leave(&w->pinned, 1); /* as when its process has died */
    assert_int_equal(larder__arena_taken(w->arena), 0);
    close_world(w);
    free(w);
}

static void test_room_comes_from_pinned_blocks(void **st) {
    (void)st;
    world *w = malloc(sizeof *w);
    open_world(w);
    larder__arena_block all[KEYS];
    size_t n = 0;
    larder__arena_block first = bring_in(w, 0);
    hold(w, 0, 0, 0);
    while (n < KEYS - 1 && (all[n] = larder__pinned_take(&w->pinned, 100000)) != LARDER__NO_BLOCK)
        n++;
    assert_in_range(n, 2, 12);
    for (size_t i = 0; i < n; i++)
        larder__pinned_give(&w->pinned, all[i], i + 1);
    larder__arena_block again = larder__pinned_take(&w->pinned, 300000); /* nobody pins those */
    assert_int_not_equal(again, LARDER__NO_BLOCK);
    larder__pinned_give(&w->pinned, again, 1);
    larder__pinned_give(&w->pinned, first, 0);
    close_world(w);
    free(w);
}

/* Entries for which there is no block cost a look at all pins each, up to a point. */
static void test_looks_come_to_an_end(void **st) {
    (void)st;
    enum { HALF = 500000, LESS = 300000, IN_VAIN = 1000 };
    world *w = malloc(sizeof *w);
    open_world(w);
    larder__arena_block waits = larder__pinned_take(&w->pinned, HALF);
    larder__arena_block stays = larder__pinned_take(&w->pinned, HALF);
    larder__pinned_publish(&w->pinned, 1, larder__arena_offset(w->arena, waits), LARDER_ENCODED,
                           HALF);
    hold(w, 0, 0, 1);
    w->pins[0]->used = LARDER__PINS;
    larder__pinned_give(&w->pinned, waits, 1);
    for (int i = 0; i < IN_VAIN; i++)
        assert_int_equal(larder__pinned_take(&w->pinned, LESS), LARDER__NO_BLOCK);
    w->pins[0]->at[0] = 0;
    assert_int_equal(larder__pinned_take(&w->pinned, LESS), LARDER__NO_BLOCK); /* not looked at */
    larder__pinned_begin(&w->pinned);
    larder__arena_block again = larder__pinned_take(&w->pinned, LESS);
    assert_int_not_equal(again, LARDER__NO_BLOCK);
    larder__pinned_give(&w->pinned, again, 1);
    larder__pinned_give(&w->pinned, stays, 2);
    close_world(w);
    free(w);
}

/* Places without a pin are looked at as well: not all of them for every few blocks. */
static void test_pins_full_of_nothing(void **st) {
    (void)st;
    world *w = malloc(sizeof *w);
    open_world(w);
    larder__arena_block all[KEYS];
    for (size_t i = 0; i < KEYS; i++)
        all[i] = bring_in(w, i);
    for (int j = 0; j < 2; j++)
        w->pins[j]->used = LARDER__PINS;
    larder__pinned_begin(&w->pinned);
    uint64_t before = w->pinned.looks;
    for (size_t i = 0; i < KEYS; i++)
        larder__pinned_give(&w->pinned, all[i], i);
    assert_in_range(before - w->pinned.looks, 1, 2 * LARDER__PINS + KEYS);
    close_world(w);
    free(w);
}

static void test_pins_full_of_lies(void **st) {
    (void)st;
    world *w = malloc(sizeof *w);
    larder_rng rng;
    larder_rng_seed(&rng, 1, 0);
    open_world(w);
    larder__arena_block held[64];
    for (int round = 0; round < 50; round++) {
        size_t n = 0;
        for (; n < 64; n++)
            held[n] = bring_in(w, n);
        w->pins[0]->used = round % 2 ? UINT32_MAX : larder_rng_below(&rng, LARDER__PINS);
        for (uint32_t i = 0; i < LARDER__PINS; i++)
            w->pins[0]->at[i] = round % 3 ? (uint32_t)larder_rng_next(&rng) : UINT32_MAX;
        while (n-- > 0)
            larder__pinned_give(&w->pinned, held[n], n);
        assert_true(larder__arena_sound(w->arena));
        memset(w->pins[0], 0, sizeof **w->pins);
        larder__pinned_sweep(&w->pinned);
        assert_int_equal(larder__arena_taken(w->arena), 0);
    }
    close_world(w);
    free(w);
}

/* ---- a daemon and its clients ---------------------------------------------------------------- */

static char folder[32], path[64];

/* No time passes: nobody loses patience with who gets no processor for seconds. */
static pid_t start_daemon(void) {
    snprintf(folder, sizeof folder, "/tmp/larder-pins-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/s", folder);
    larder__server_conf conf = {.socket = path, .mode = 0600, .cache = 8 << 20, .clients = 64};
    kit_clock_stop(NULL);
    return kit_daemon_start(&conf, kit_clock_stop, NULL);
}

static void end_daemon(pid_t pid) {
    char lock[80];
    kit_daemon_kill(pid);
    kit_clock_go_on();
    snprintf(lock, sizeof lock, "%s.lock", path);
    unlink(path);
    unlink(lock);
    rmdir(folder);
}

static larder__cache *join(larder__stats *stats) {
    larder__attach_conf conf = {.door = larder__door_at(path),
                                .stats = stats,
                                .hello = {.batch = BATCH,
                                          .identity = 3,
                                          .about.keys = KEYS,
                                          .payload = KEYS * SIZE,
                                          .about.share = {1},
                                          .budget = "30%",
                                          .about.policy = "lru",
                                          .name = "test"}};
    larder__cache *c = NULL;
    for (int i = 0; !c && i < 1000; i++)
        if (larder__attach_open(&c, &conf) < 0)
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    return c;
}

static int make(void *arg, const larder_access *want, larder_buf *have, larder_buf **out) {
    (void)arg, (void)have;
    *out = larder_buf_new(want->size);
    if (*out)
        memset(larder_buf_data(*out), (int)(want->key % 251), want->size);
    return *out ? 0 : LARDER_E_NOMEM;
}

static bool is_of(larder_buf *b, uint64_t key) {
    const unsigned char *at = larder_buf_data(b);
    for (size_t i = 0; i < larder_buf_size(b); i++)
        if (at[i] != key % 251)
            return false;
    return larder_buf_size(b) == SIZE;
}

/* Batches of which most are in a corner of the data set, which stays, and some are not. Every one
 * is looked at when it comes and again when it goes, twenty batches later. */
enum { HELD = 20 };
typedef struct reader {
    pthread_t thread;
    uint64_t seed, batches;
    double unasked;
    bool wrong;
} reader;

static double unasked(larder__stats *s) {
    larder_stat_value v = {.size = sizeof v};
    for (size_t i = 0; larder__stat_read(s, i, &v) == 0; i++)
        if (strcmp(v.name, "daemon_unasked") == 0)
            return v.value;
    return 0;
}

static void *read_on(void *arg) {
    reader *r = arg;
    larder_rng rng;
    larder_buf *held[HELD][BATCH] = {0};
    uint64_t keys[HELD][BATCH];
    larder__stats *stats = NULL;
    r->wrong = larder__stats_open(&stats) < 0;
    larder__cache *c = r->wrong ? NULL : join(stats);
    r->wrong = !c;
    larder_rng_seed(&rng, r->seed, 0);
    for (uint64_t n = 0; !r->wrong && n < r->batches; n++) {
        larder_access a[BATCH];
        larder_buf **now = held[n % HELD];
        uint64_t *of = keys[n % HELD];
        uint32_t among = larder_rng_below(&rng, 4) ? 60 : KEYS;
        for (size_t i = 0; i < BATCH; i++) {
            r->wrong |= now[i] && !is_of(now[i], of[i]);
            larder_buf_unref(&now[i]);
            of[i] = (larder_rng_below(&rng, among / BATCH) * BATCH + i) % KEYS;
            a[i] = (larder_access){.key = of[i], .size = SIZE, .score = NAN};
        }
        r->wrong |= larder__cache_get(c, a, BATCH, make, NULL, now, NULL) < 0;
        for (size_t i = 0; i < BATCH && !r->wrong; i++)
            r->wrong = !is_of(now[i], of[i]);
    }
    for (size_t i = 0; i < HELD * BATCH; i++)
        larder_buf_unref(&held[i / BATCH][i % BATCH]);
    if (stats)
        r->unasked = unasked(stats);
    larder__cache_close(&c);
    larder__stats_close(&stats);
    return NULL;
}

static void test_bytes_stay(void **st) {
    (void)st;
    enum { READERS = 3 };
    reader r[READERS];
    pid_t daemon = start_daemon();
    double taken = 0;
    for (size_t i = 0; i < READERS; i++) {
        r[i] = (reader){.seed = i, .batches = getenv("LARDER_LONG") ? 20000 : 4000};
        assert_int_equal(pthread_create(&r[i].thread, NULL, read_on, &r[i]), 0);
    }
    for (size_t i = 0; i < READERS; i++) {
        pthread_join(r[i].thread, NULL);
        assert_false(r[i].wrong);
        taken += r[i].unasked;
    }
    printf("%.0f samples without asking\n", taken);
    assert_true(taken > 0);
    end_daemon(daemon);
}

static uint64_t figure(const char *name) {
    char *json = NULL, key[40];
    uint64_t value = UINT64_MAX;
    larder__door door = larder__door_at(path);
    snprintf(key, sizeof key, "\"%s\"", name);
    if (larder__attach_status(&door, &json) == 0) {
        const char *at = strstr(json, key);
        if (at)
            value = strtoull(at + strlen(key) + strspn(at + strlen(key), ": "), NULL, 10);
    }
    larder__free(json);
    return value;
}

/* A client that holds a batch and is killed: what it held is free again at once. */
static void test_killed_holder(void **st) {
    (void)st;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t daemon = start_daemon(), holder = fork();
    assert_true(holder >= 0);
    larder_access a[BATCH];
    larder_buf *out[BATCH];
    if (holder == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        larder__cache *c = join(NULL);
        enum { ROUNDS = 20 }; /* from the second on without asking; then its leases are back */
        for (int round = 0; round < ROUNDS; round++) {
            for (size_t i = 0; i < BATCH; i++)
                a[i] = (larder_access){.key = i, .size = SIZE, .score = NAN};
            if (!c || larder__cache_get(c, a, BATCH, make, NULL, out, NULL) < 0)
                _exit(1);
            for (size_t i = 0; i < BATCH && round < ROUNDS - 1; i++)
                larder_buf_unref(&out[i]);
        }
        if (write(ready[1], "", 1) != 1)
            _exit(1);
        pause();
        _exit(0);
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    larder__cache *c = join(NULL);
    assert_non_null(c);
    for (uint64_t k = 0; k < KEYS; k += BATCH) { /* all that the holder has is thrown out */
        for (size_t i = 0; i < BATCH; i++)
            a[i] = (larder_access){.key = (k + i + BATCH) % KEYS, .size = SIZE, .score = NAN};
        if (k + 2 * BATCH <= KEYS)
            check_ok(larder__cache_get(c, a, BATCH, make, NULL, out, NULL));
        for (size_t i = 0; i < BATCH && k + 2 * BATCH <= KEYS; i++)
            larder_buf_unref(&out[i]);
    }
    assert_true(figure("limbo_blocks") >= BATCH);
    kill(holder, SIGKILL);
    assert_int_equal(waitpid(holder, NULL, 0), holder);
    while (figure("limbo_blocks")) /* the runner's time limit ends a test that waits in vain */
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    larder__cache_close(&c);
    close(ready[0]);
    close(ready[1]);
    end_daemon(daemon);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pinned_blocks_wait),
        cmocka_unit_test(test_room_comes_from_pinned_blocks),
        cmocka_unit_test(test_looks_come_to_an_end),
        cmocka_unit_test(test_pins_full_of_nothing),
        cmocka_unit_test(test_pins_full_of_lies),
        cmocka_unit_test(test_bytes_stay),
        cmocka_unit_test(test_killed_holder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
