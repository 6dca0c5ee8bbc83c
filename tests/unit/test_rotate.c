/* rotate and echo: what a batch is made of, what a sweep covers, and how h follows the storage. */
#include "check.h"

#include "base/spec.h"
#include "base/state.h"
#include "loader/draw/draw.h"
#include "sample/steer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rig { /* the deciding half over nothing */
    larder__draw *d;
    larder__planned p;
    uint64_t n, batch;
} rig;

/* Some classes are large, one sample in nine has none. */
static uint32_t some_class(void *arg, uint64_t id) {
    (void)arg;
    return id % 9 == 8 ? LARDER_NO_GROUP : (uint32_t)(id % 7 * (id % 5) % 6);
}

static void rig_open(rig *g, const char *recipe, const char *cache, uint64_t n, uint64_t batch,
                     uint64_t seed) {
    larder__cache_text text;
    check_ok(larder__cache_text_parse(&text, cache, ""));
    larder__draw_conf c = {.recipe = recipe,
                           .cache = &text,
                           .store = &larder__store_null,
                           .n = n,
                           .payload = n * 8,
                           .size = 8,
                           .batch = batch,
                           .seed = seed,
                           .group_of = seed & 1 ? some_class : NULL,
                           .world = 1,
                           .lag = 3};
    *g = (rig){.n = n, .batch = batch};
    check_ok(larder__draw_open(&g->d, &c));
    check_ok(larder__planned_open(&g->p, g->d));
}

static void rig_close(rig *g) {
    larder__planned_close(&g->p);
    larder__draw_close(&g->d);
}

/* Any loss will do that differs between samples and changes. */
static void report(rig *g) {
    if (!larder__draw_listens(g->d))
        return;
    float *loss = calloc(g->p.n, sizeof *loss);
    int64_t *labels = calloc(g->p.n, sizeof *labels);
    for (size_t i = 0; i < g->p.n; i++)
        loss[i] = (float)((g->p.ids[i] * 2654435761u + g->p.epoch * 40503u) % 1000) / 100;
    larder_feedback fb = {.size = sizeof fb, .loss = loss};
    check_ok(larder__feedback_note(larder__draw_feedback(g->d), g->p.number, g->p.epoch, g->p.n,
                                   g->p.ids, labels, &fb, NULL, NULL));
    free(loss);
    free(labels);
}

static void rig_step(rig *g) {
    check_ok(larder__draw_next(g->d, &g->p));
    report(g);
}

/* ---- batches --------------------------------------------------------------------------------- */

static void check_no_doubles(const rig *g, uint64_t *stamp) {
    for (size_t i = 0; i < g->p.n; i++) {
        if (stamp[g->p.ids[i]] == g->p.number + 1)
            fail_msg("id %d twice in batch %d of n %d, batch size %d", (int)g->p.ids[i],
                     (int)g->p.number, (int)g->n, (int)g->batch);
        stamp[g->p.ids[i]] = g->p.number + 1;
    }
}

static void run_without_doubles(const char *recipe, const char *cache, uint64_t n, uint64_t batch,
                                uint64_t seed) {
    rig g;
    uint64_t *stamp = calloc(n, sizeof *stamp), served = 0;
    rig_open(&g, recipe, cache, n, batch, seed);
    for (int epochs = 0; epochs < 5;) {
        rig_step(&g);
        check_no_doubles(&g, stamp);
        served += g.p.n;
        assert_true(g.p.last || g.p.n == batch);
        if (g.p.last) {
            assert_int_equal(served, n); /* an epoch is n served samples */
            served = 0;
            epochs++;
        }
    }
    free(stamp);
    rig_close(&g);
}

static void no_id_twice_in_a_batch(void **state) {
    (void)state;
    const char *recipes[] = {"rotate:h=0.8",
                             "rotate:h=0.3,fill=0",
                             "rotate:h=0.99,fill=0",
                             "rotate:h=0",
                             "rotate:h=0.6,policy=lru",
                             "rotate:h=0.9-0.1,epochs=4,policy=minio",
                             "echo:factor=4",
                             "echo:factor=20,fill=0,policy=rotate"};
    const char *caches[] = {"0", "1%", "20%", "75%", "100%"};
    const uint64_t sizes[] = {1, 2, 5, 16, 17, 31, 32, 33, 64, 100, 301};
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++)
        for (size_t c = 0; c < sizeof caches / sizeof *caches; c++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                for (uint64_t seed = 0; seed < 12; seed++)
                    run_without_doubles(recipes[r], caches[c], sizes[i], seed % 3 ? 16 : 7, seed);
}

/* Every id is served at least once in every sweep, as the tags of its requests say, and is passed
 * by the stream at most once. */
static void sweeps_cover_everything(void **state) {
    (void)state;
    enum { N = 333, SWEEPS = 12 };
    static bool seen[SWEEPS][N];
    memset(seen, 0, sizeof seen);
    const char *recipes[] = {"rotate:h=0.7", "rotate:h=0.9,fill=0", "rotate:h=0.2"};
    for (int r = 0; r < 3; r++) {
        rig g;
        rig_open(&g, recipes[r], "20%", N, 16, 9);
        memset(seen, 0, sizeof seen);
        uint64_t newest = 0;
        while (newest < SWEEPS) {
            rig_step(&g);
            for (size_t i = 0; i < g.p.n; i++) {
                uint64_t sweep = (g.p.accesses[i].tag >> 3) - 1;
                newest = sweep > newest ? sweep : newest;
                if (sweep < SWEEPS)
                    seen[sweep][g.p.ids[i]] = true;
            }
        }
        for (int s = 0; s < SWEEPS - 1; s++) /* ids that wait come with the batch after */
            for (int k = 0; k < N; k++)
                if (!seen[s][k])
                    fail_msg("%s: sweep %d leaves out id %d", recipes[r], s, k);
        rig_close(&g);
    }
}

/* h = 0 is exactly-once training, and every epoch after the first hits exactly what fits. */
static void without_reuse_it_is_exactly_once(void **state) {
    (void)state;
    const char *recipes[] = {"rotate:h=0", "rotate"}; /* auto knows no rates here: the same */
    for (int r = 0; r < 2; r++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            enum { N = 1000 };
            rig g;
            rig_open(&g, recipes[r], "20%", N, 32, seed);
            for (int epoch = 0; epoch < 5; epoch++) {
                uint32_t times[N] = {0};
                uint64_t hits = 0;
                do {
                    rig_step(&g);
                    for (size_t i = 0; i < g.p.n; i++) {
                        times[g.p.ids[i]]++;
                        hits += g.p.tickets[i].kind == LARDER_HIT;
                    }
                } while (!g.p.last);
                for (int k = 0; k < N; k++)
                    assert_int_equal(times[k], 1);
                assert_int_equal(hits, epoch ? 200 : 0);
            }
            rig_close(&g);
        }
}

/* The share of each batch that comes from residents, to the rounding, and that all of it hits. */
static void reused_samples_come_first_and_hit(void **state) {
    (void)state;
    enum { N = 4000, BATCH = 50 };
    const double shares[] = {0.25, 0.5, 0.77, 0.9};
    for (int k = 0; k < 4; k++) {
        char recipe[64];
        snprintf(recipe, sizeof recipe, "rotate:h=%g", shares[k]);
        rig g;
        rig_open(&g, recipe, "20%", N, BATCH, 1);
        uint64_t served = 0, hits = 0, misses = 0;
        double owed = 0;
        for (uint64_t b = 0; b < 10 * N / BATCH; b++) {
            rig_step(&g);
            if (b < N / 5 / BATCH) { /* the cache fills up first, by reading alone */
                assert_int_equal(g.p.tickets[0].kind, LARDER_MISS);
                continue;
            }
            owed += shares[k] * BATCH;
            size_t first = (size_t)(owed + 1e-9);
            owed -= (double)first;
            for (size_t i = 0; i < first; i++)
                assert_int_equal(g.p.tickets[i].kind, LARDER_HIT);
            for (size_t i = 0; i < g.p.n; i++)
                hits += g.p.tickets[i].kind == LARDER_HIT;
            served += g.p.n;
        }
        misses = served - hits;
        /* Of the rest, at most a share c is resident and still due. */
        assert_true((double)misses <= (1 - shares[k]) * (double)served + 1);
        assert_true((double)misses >= (1 - shares[k]) * 0.79 * (double)served);
        rig_close(&g);
    }
}

static void echo_serves_what_it_reads_factor_times(void **state) {
    (void)state;
    enum { N = 4000, BATCH = 40 };
    rig g;
    rig_open(&g, "echo:factor=4", "10%", N, BATCH, 5);
    uint64_t served = 0, misses = 0;
    for (uint64_t b = 0; b < 30 * N / BATCH; b++) {
        rig_step(&g);
        for (size_t i = 0; b >= N / BATCH && i < g.p.n; i++) {
            misses += g.p.tickets[i].kind == LARDER_MISS;
            served++;
        }
    }
    double times = (double)served / (double)misses; /* hits of the stream come on top: 4 / .9 */
    assert_true(times > 3.99 && times < 4.5);
    rig_close(&g);
}

static void ranks_share_the_stream(void **state) {
    (void)state;
    enum { N = 1000, WORLD = 4 };
    uint32_t times[N] = {0};
    for (uint32_t rank = 0; rank < WORLD; rank++) {
        larder__cache_text text;
        check_ok(larder__cache_text_parse(&text, "10%", ""));
        larder__draw_conf c = {.recipe = "rotate:h=0",
                               .cache = &text,
                               .store = &larder__store_null,
                               .n = N,
                               .payload = N,
                               .size = 1,
                               .batch = 16,
                               .seed = 2,
                               .rank = rank,
                               .world = WORLD,
                               .lag = 3};
        rig g = {.n = N, .batch = 16};
        check_ok(larder__draw_open(&g.d, &c));
        check_ok(larder__planned_open(&g.p, g.d));
        for (int epoch = 0; epoch < 3; epoch++)
            do {
                rig_step(&g);
                for (size_t i = 0; i < g.p.n; i++)
                    times[g.p.ids[i]]++;
            } while (!g.p.last);
        rig_close(&g);
    }
    for (int k = 0; k < N; k++)
        assert_int_equal(times[k], 3);
}

/* Of the pauses between two services of a resident: their deviation over their mean. */
static double unevenness(const char *recipe) {
    enum { N = 5000, BATCH = 100 };
    rig g;
    uint64_t *last = calloc(N, sizeof *last), count = 0;
    double sum = 0, squares = 0;
    rig_open(&g, recipe, "20%", N, BATCH, 1);
    for (uint64_t b = 1; b < 600; b++) {
        rig_step(&g);
        for (size_t i = 0; i < g.p.n; i++) {
            uint64_t id = g.p.ids[i];
            if (g.p.tickets[i].kind == LARDER_HIT && last[id]) {
                double pause = (double)(b - last[id]);
                sum += pause, squares += pause * pause, count++;
            }
            last[id] = b;
        }
    }
    rig_close(&g);
    free(last);
    double mean = sum / (double)count;
    return sqrt(squares / (double)count - mean * mean) / mean;
}

/* Far more even with rested=8 than by chance, which draws unless told otherwise: so do policies
 * that have nobody to prefer. */
static void services_are_spaced_as_asked(void **state) {
    (void)state;
    double chance = unevenness("rotate:h=0.8"), rest = unevenness("rotate:h=0.8,rested=8");
    double nobody = unevenness("rotate:h=0.8,policy=fifo");
    assert_true(chance > 0.75 && nobody > 0.75 && rest < 0.6 * chance);
}

/* ---- h --------------------------------------------------------------------------------------- */

static void open_steer(larder__steer *s, const char *text, uint64_t batches) {
    larder_args args;
    const larder_plugin *p = &larder__sampler_find("rotate")->plugin;
    check_ok(larder__args_parse(&args, "sampler", p, text, ',', NULL));
    check_ok(larder__steer_init(s, &args, batches));
    larder__args_free(&args);
}

static void h_is_checked(void **state) {
    (void)state;
    const char *bad[] = {"h=1",    "h=-0.1",           "h=",   "h=fast", "h=0.5x", "h=0.9-0.7",
                         "h=0.9-", "h=0.9-2,epochs=3", "h=nan"};
    const larder_plugin *p = &larder__sampler_find("rotate")->plugin;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        larder_args args;
        larder__steer s;
        check_ok(larder__args_parse(&args, "sampler", p, bad[i], ',', NULL));
        assert_true(larder__steer_init(&s, &args, 10) < 0);
        larder__steer_fini(&s);
        larder__args_free(&args);
    }
}

static void h_on_schedule(void **state) {
    (void)state;
    larder__steer s;
    open_steer(&s, "h=0.9-0.5,epochs=4", 100);
    assert_true(larder__steer_next(&s, 0, 1, true) == 0.9);
    assert_true(fabs(larder__steer_next(&s, 1, 1, true) - 0.8) < 1e-12);
    assert_true(fabs(larder__steer_next(&s, 2.5, 1, true) - 0.65) < 1e-12);
    assert_true(larder__steer_next(&s, 7, 1, true) == 0.5);
    larder__steer_fini(&s);
}

/* A whole run of h=auto against storage that takes `read` steps for a sample: the rates are fed as
 * the loader would, what had to be read is counted. Returns reads a sample in the last epoch. */
typedef struct world {
    rig g;
    double read;   /* times of a training step */
    double seen;   /* of it, as measured */
    double decode; /* steps to decode a sample: nothing that reuse could help */
    double h, stall, trained, waited;
} world;

static double run_epoch(world *w) {
    uint64_t misses = 0, served = 0;
    double waited = 0;
    do {
        larder_pace pace = {.read_seconds = w->read * (w->seen > 0 ? w->seen : 1) * 1e-3,
                            .step_seconds = 1e-3,
                            .trained = w->trained,
                            .waited = w->waited};
        larder__draw_pace(w->g.d, &pace);
        rig_step(&w->g);
        uint64_t reads = 0;
        for (size_t i = 0; i < w->g.p.n; i++)
            reads += w->g.p.tickets[i].kind == LARDER_MISS;
        misses += reads;
        served += w->g.p.n;
        double need = fmax((double)reads / (double)w->g.p.n * w->read, w->decode);
        waited += fmax(need - 1, 0) * (double)w->g.p.n;
        w->waited += fmax(need - 1, 0) * (double)w->g.p.n * 1e-3;
        w->trained += (double)w->g.p.n * 1e-3;
        w->h = w->g.p.shown;
    } while (!w->g.p.last);
    w->stall = waited / (waited + (double)served);
    return (double)misses / (double)served;
}

static void auto_follows_the_storage(void **state) {
    (void)state;
    world w = {.read = 4};
    rig_open(&w.g, "rotate", "20%", 20000, 100, 1);
    run_epoch(&w);
    assert_true(w.h > 0.74 && w.h < 0.78); /* settled within the first epoch */
    assert_true(run_epoch(&w) * w.read <= 1);
    w.read = 2; /* storage twice as fast */
    run_epoch(&w);
    assert_true(w.h > 0.4 && w.h < 0.56);
    double used = (run_epoch(&w) + run_epoch(&w) + run_epoch(&w)) / 3 * w.read;
    assert_true(used <= 1 && used > 0.82); /* and h no larger than it must be */
    w.read = 50;                           /* nearly gone */
    run_epoch(&w);
    assert_true(w.h == 0.85);
    w.read = 1.05; /* reading all would be too slow, but a fifth is there: no reuse needed */
    for (int i = 0; i < 3; i++)
        run_epoch(&w);
    assert_true(w.h == 0);
    w.read = 0.01;
    assert_true(fabs(run_epoch(&w) - 0.8) < 0.01 && w.h == 0);
    rig_close(&w.g);
}

/* Reads that take longer in the end than each of them seems to: found out by the waiting. */
static void auto_finds_the_real_price(void **state) {
    (void)state;
    world w = {.read = 4, .seen = 0.7};
    rig_open(&w.g, "rotate", "20%", 20000, 100, 1);
    for (int i = 0; i < 3; i++)
        run_epoch(&w);
    assert_true(w.stall < 0.05);
    assert_true(w.h > 0.72 && w.h < 0.8); /* by the measured times alone: 0.68 */
    rig_close(&w.g);
}

/* Training that waits for decoding is not helped by reuse. */
static void slow_decoding_is_not_slow_storage(void **state) {
    (void)state;
    world w = {.read = 0.8, .decode = 3};
    rig_open(&w.g, "rotate", "20%", 5000, 100, 1);
    for (int i = 0; i < 4; i++)
        run_epoch(&w);
    assert_true(w.stall > 0.5 && w.h == 0);
    rig_close(&w.g);
}

static void fast_storage_never_sees_reuse(void **state) {
    (void)state;
    world w = {.read = 0.5};
    rig_open(&w.g, "rotate", "20%", 5000, 100, 1);
    for (int epoch = 0; epoch < 4; epoch++) {
        double reads = run_epoch(&w);
        assert_true(reads == (epoch ? 0.8 : 1) && w.h == 0);
    }
    rig_close(&w.g);
}

static void sim_takes_rates_as_parameters(void **state) {
    (void)state;
    rig g;
    rig_open(&g, "rotate:read_us=400,step_us=100", "20%", 10000, 100, 1);
    for (int b = 0; b < 200; b++)
        rig_step(&g);
    assert_true(fabs(g.p.shown - (1 - 0.9 / 4)) < 0.01);
    rig_close(&g);
}

static uint64_t digest(rig *g, int batches, double wobble) {
    uint64_t h = 7;
    for (int b = 0; b < batches; b++) {
        larder_pace pace = {.read_seconds = 3 + wobble * sin(b), .step_seconds = 1};
        larder__draw_pace(g->d, &pace);
        rig_step(g);
        for (size_t i = 0; i < g->p.n; i++)
            h = h * 0x100000001b3u + g->p.ids[i];
    }
    return h;
}

/* A run whose h followed the clock repeats to the bit from what it decided, also when it went on
 * from a saved state in the middle; and the run that repeats it has decided the same. */
static void a_measured_run_repeats(void **state) {
    (void)state;
    rig a, b, c, d;
    rig_open(&a, "rotate", "20%", 2000, 20, 3);
    digest(&a, 150, 2);
    larder_writer w = {0}, head = {0}, whole = {0}, again = {0};
    larder__draw_effects(a.d, &head);
    larder__draw_save(a.d, &w);
    assert_int_equal(w.code, 0);
    rig_close(&a);
    rig_open(&b, "rotate", "20%", 2000, 20, 3);
    larder_reader r = {.at = head.bytes, .end = head.bytes + head.size};
    check_ok(larder__draw_past(b.d, &r));
    r = (larder_reader){.at = w.bytes, .end = w.bytes + w.size};
    check_ok(larder__draw_load(b.d, &r));
    assert_int_equal(larder__read_left(&r), 0);
    uint64_t want = digest(&b, 250, 1);
    larder__draw_effects(b.d, &whole);
    const larder_turn *turns;
    assert_true(larder__draw_turns(b.d, &turns) > 20);
    rig_open(&c, "rotate", "20%", 2000, 20, 3);
    rig_open(&d, "rotate", "20%", 2000, 20, 3);
    r = (larder_reader){.at = whole.bytes, .end = whole.bytes + whole.size};
    check_ok(larder__draw_follow(c.d, &r));
    check_ok(larder__draw_follow_turns(d.d, turns, larder__draw_turns(b.d, &turns)));
    rig_close(&b);
    digest(&c, 150, 0);
    digest(&d, 150, 7);
    assert_int_equal(digest(&c, 250, 0), want);
    assert_int_equal(digest(&d, 250, 7), want);
    larder__draw_effects(c.d, &again);
    assert_int_equal(again.size, whole.size);
    assert_memory_equal(again.bytes, whole.bytes, whole.size);
    rig_close(&c);
    rig_close(&d);
    larder__writer_free(&w);
    larder__writer_free(&head);
    larder__writer_free(&whole);
    larder__writer_free(&again);
}

static void turns_are_checked(void **state) {
    (void)state;
    larder__steer s;
    const larder_turn back[] = {{5, 0.5}, {3, 0.6}}, wide[] = {{5, 1.5}}, none[] = {{5, NAN}};
    open_steer(&s, "", 10);
    assert_int_equal(larder__steer_follow(&s, back, 2), LARDER_E_FORMAT);
    assert_int_equal(larder__steer_follow(&s, wide, 1), LARDER_E_FORMAT);
    assert_int_equal(larder__steer_past(&s, none, 1), LARDER_E_FORMAT);
    check_ok(larder__steer_follow(&s, back, 1));
    check_ok(larder__steer_epoch(&s));
    for (int b = 0; b < 9; b++)
        assert_true(larder__steer_next(&s, 0, 1, true) == (b < 5 ? 0 : 0.5));
    larder__steer_fini(&s);
    open_steer(&s, "h=0.5", 10); /* nothing is measured: nothing to be followed */
    assert_int_equal(larder__steer_follow(&s, back, 1), LARDER_E_FORMAT);
    check_ok(larder__steer_follow(&s, NULL, 0));
    assert_true(larder__steer_next(&s, 0, 1, true) == 0.5);
    larder__steer_fini(&s);
}

/* Between two epochs the sweep and the draw's chance must survive too. */
static void resumes_anywhere(void **state) {
    (void)state;
    for (int stop = 0; stop < 40; stop++) {
        rig a, b;
        rig_open(&a, "rotate:h=0.7", "20%", 203, 16, 3); /* 13 batches an epoch */
        rig_open(&b, "rotate:h=0.7", "20%", 203, 16, 3);
        digest(&a, stop, 0);
        larder_writer w = {0};
        larder__draw_save(a.d, &w);
        larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
        check_ok(larder__draw_load(b.d, &r));
        assert_int_equal(larder__read_left(&r), 0);
        assert_int_equal(digest(&a, 40, 0), digest(&b, 40, 0));
        larder__writer_free(&w);
        rig_close(&a);
        rig_close(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_id_twice_in_a_batch),
        cmocka_unit_test(sweeps_cover_everything),
        cmocka_unit_test(without_reuse_it_is_exactly_once),
        cmocka_unit_test(reused_samples_come_first_and_hit),
        cmocka_unit_test(echo_serves_what_it_reads_factor_times),
        cmocka_unit_test(ranks_share_the_stream),
        cmocka_unit_test(services_are_spaced_as_asked),
        cmocka_unit_test(h_is_checked),
        cmocka_unit_test(h_on_schedule),
        cmocka_unit_test(auto_follows_the_storage),
        cmocka_unit_test(auto_finds_the_real_price),
        cmocka_unit_test(slow_decoding_is_not_slow_storage),
        cmocka_unit_test(fast_storage_never_sees_reuse),
        cmocka_unit_test(sim_takes_rates_as_parameters),
        cmocka_unit_test(a_measured_run_repeats),
        cmocka_unit_test(turns_are_checked),
        cmocka_unit_test(resumes_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
