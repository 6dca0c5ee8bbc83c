/* What every registered sampler must keep: every id exactly once an epoch, over all ranks together,
 * unless it says that it repeats; equal batch counts; the same order for the same seed; and exact
 * resume. */
#include "base/mem.h"
#include "base/spec.h"
#include "base/state.h"
#include "check.h"
#include "plugins.h"

#include <stdlib.h>
#include <string.h>

#define each_sampler(q)                                                                            \
    for (size_t at_ = 0; larder__samplers[at_]; at_++)                                             \
        for (const larder_sampler *q = larder__samplers[at_]; q; q = NULL)

/* A third of all ids, the same ones always. */
static bool some_resident(const void *arg, uint64_t id) {
    (void)arg;
    return id * 2654435761u % 97 < 32;
}

/* Blocks of eight, in files of a hundred; the cache has room for 40. */
enum { SAMPLE = 1 << 20, BUDGET = 40 << 20 };
static uint32_t size_of(void *arg, uint64_t id) {
    (void)arg, (void)id;
    return SAMPLE;
}
static int file_of(void *arg, uint64_t id, uint64_t *file) {
    (void)arg;
    *file = id / 100;
    return 0;
}

typedef struct rig { /* one sampler of one rank */
    const larder_sampler *q;
    larder_draw_env env;
    float *scores;
    uint32_t *key_of;
    larder_slots slots;
    void *st;
} rig;

static void rig_open(rig *g, const larder_sampler *q, larder_draw_env env) {
    *g = (rig){.q = q, .env = env};
    g->scores = calloc(env.n + 1, sizeof *g->scores);
    for (uint64_t i = 0; i < env.n; i++)
        g->scores[i] = (float)(i % 10);
    g->key_of = calloc(env.n + 1, sizeof *g->key_of);
    for (uint32_t i = 0; i < env.n; i++)
        if (some_resident(NULL, i))
            g->key_of[g->slots.resident++] = i;
    g->slots = (larder_slots){.keys = env.n,
                              .used = g->slots.resident,
                              .resident = g->slots.resident,
                              .budget = BUDGET,
                              .key_of = g->key_of};
    g->env.scores = g->scores;
    g->env.slots = &g->slots;
    g->env.resident = some_resident;
    g->env.size_of = size_of;
    g->env.file_of = file_of;
    g->st = larder__calloc(1, q->plugin.state_size);
    larder_args args;
    check_ok(larder__args_parse(&args, "sampler", &q->plugin, "", ',', NULL));
    check_ok(q->init(g->st, &g->env, &args));
    larder__args_free(&args);
}

static void rig_close(rig *g) {
    if (g->q->fini)
        g->q->fini(g->st);
    larder__free(g->st);
    free(g->scores);
    free(g->key_of);
}

static size_t rig_draw(rig *g, uint64_t *ids) {
    larder_pick picks[512];
    for (size_t i = 0; i < g->env.batch; i++)
        picks[i] = (larder_pick){.weight = 1};
    size_t n = g->q->draw(g->st, picks, g->env.batch);
    assert_true(n <= g->env.batch);
    for (size_t i = 0; i < n; i++) {
        ids[i] = picks[i].id;
        assert_true(ids[i] < g->env.n);
        assert_true(picks[i].weight > 0);
    }
    return n;
}

/* One epoch of one rank: counts ids, returns the number of batches. */
static uint64_t count_epoch(rig *g, uint64_t epoch, uint32_t *times) {
    uint64_t ids[512], batches = 0, drawn = 0;
    check_ok(g->q->epoch(g->st, epoch));
    for (size_t n; (n = rig_draw(g, ids)) > 0; batches++) {
        for (size_t i = 0; i < n; i++)
            times[ids[i]]++;
        drawn += n;
        if (n < g->env.batch) {
            assert_false(g->env.drop_last);
            assert_int_equal(rig_draw(g, ids), 0); /* short only at the very end */
        }
    }
    assert_int_equal(drawn, g->q->length(g->st));
    return batches;
}

static void check_cover(const larder_sampler *q, uint64_t n, uint64_t batch, uint32_t world,
                        bool drop_last) {
    uint32_t *times = calloc(n + 1, sizeof *times);
    uint64_t batches = 0, total = 0, once = 0;
    for (uint32_t rank = 0; rank < world; rank++) {
        rig g;
        rig_open(&g, q,
                 (larder_draw_env){.n = n,
                                   .seed = 11,
                                   .batch = batch,
                                   .rank = rank,
                                   .world = world,
                                   .drop_last = drop_last});
        uint64_t got = count_epoch(&g, 3, times);
        if (rank)
            assert_int_equal(got, batches);
        batches = got;
        rig_close(&g);
    }
    for (uint64_t i = 0; i < n; i++) {
        total += times[i];
        once += times[i] == 1;
    }
    uint64_t global = batch * world, left = n % global;
    if (!q->repeats && drop_last) {
        assert_int_equal(total, n - left);
        assert_int_equal(once, n - left);
    } else if (!q->repeats) {
        uint64_t extra = left && left < world ? world - left : 0; /* so that nobody idles */
        assert_int_equal(total, n + extra);
        for (uint64_t i = 0; i < n; i++)
            assert_true(times[i] >= 1);
        if (!extra)
            assert_int_equal(once, n);
    }
    assert_int_equal(batches, drop_last ? n / global : (n + global - 1) / global);
    free(times);
}

static void test_ranks_cover_everything(void **st) {
    (void)st;
    const uint64_t sizes[] = {0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 65, 100, 1000, 4097};
    const uint64_t batches[] = {1, 2, 7, 32, 256};
    const uint32_t worlds[] = {1, 2, 3, 4, 8};
    each_sampler(q) for (size_t i = 0; i < sizeof sizes / sizeof *sizes;
                         i++) for (size_t b = 0; b < sizeof batches / sizeof *batches;
                                   b++) for (size_t w = 0; w < sizeof worlds / sizeof *worlds;
                                             w++) for (int drop = 0; drop < 2; drop++)
        check_cover(q, sizes[i], batches[b], worlds[w], drop);
}

static void test_every_epoch_exactly_once(void **st) {
    (void)st;
    each_sampler(q) {
        if (q->repeats)
            continue;
        rig g;
        rig_open(&g, q, (larder_draw_env){.n = 777, .seed = 2, .batch = 10, .world = 1});
        for (uint64_t e = 0; e < 20; e++) {
            uint32_t times[777] = {0};
            assert_int_equal(count_epoch(&g, e, times), 78);
            for (int i = 0; i < 777; i++)
                assert_int_equal(times[i], 1);
        }
        rig_close(&g);
    }
}

static uint64_t order_digest(const larder_sampler *q, uint64_t seed, uint64_t epoch) {
    rig g;
    rig_open(&g, q, (larder_draw_env){.n = 500, .seed = seed, .batch = 32, .world = 1});
    uint64_t ids[64], h = 7;
    for (uint64_t e = 0; e <= epoch; e++) { /* what came before must not matter for fixed orders */
        check_ok(q->epoch(g.st, q->fixed_order ? epoch : e));
        h = 7;
        for (size_t n; (n = rig_draw(&g, ids)) > 0;)
            for (size_t i = 0; i < n; i++)
                h = h * 0x100000001b3u + ids[i];
    }
    rig_close(&g);
    return h;
}

static void test_same_seed_same_order(void **st) {
    (void)st;
    each_sampler(q) {
        assert_int_equal(order_digest(q, 5, 2), order_digest(q, 5, 2));
        if (strcmp(q->plugin.name, "sequential") == 0)
            continue;
        assert_int_not_equal(order_digest(q, 5, 2), order_digest(q, 5, 3));
        assert_int_not_equal(order_digest(q, 5, 2), order_digest(q, 6, 2));
    }
}

static void test_resume_inside_an_epoch(void **st) {
    (void)st;
    each_sampler(q) for (int stop = 0; stop <= 9; stop++) {
        larder_draw_env env = {.n = 300, .seed = 8, .batch = 16, .rank = 1, .world = 2};
        rig g, h;
        rig_open(&g, q, env);
        rig_open(&h, q, env);
        check_ok(q->epoch(g.st, 4));
        uint64_t a[16], b[16];
        for (int i = 0; i < stop; i++)
            rig_draw(&g, a);
        larder_writer w = {0};
        q->save(g.st, &w);
        assert_int_equal(w.code, 0);
        larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
        check_ok(q->epoch(h.st, 4));
        check_ok(q->load(h.st, &r));
        assert_int_equal(larder__read_left(&r), 0);
        for (size_t n = 1; n > 0;) {
            n = rig_draw(&g, a);
            assert_int_equal(rig_draw(&h, b), n);
            assert_memory_equal(a, b, n * sizeof *a);
        }
        larder__writer_free(&w);
        rig_close(&g);
        rig_close(&h);
    }
}

static void test_load_hostile(void **st) {
    (void)st;
    each_sampler(q) {
        larder_draw_env env = {.n = 300, .seed = 8, .batch = 16, .world = 1};
        rig g;
        rig_open(&g, q, env);
        uint64_t ids[16];
        check_ok(q->epoch(g.st, 1));
        rig_draw(&g, ids);
        larder_writer w = {0};
        q->save(g.st, &w);
        for (size_t at = 0; at < w.size; at++)
            for (int v = 0; v < 256; v += 15) {
                unsigned char was = w.bytes[at];
                w.bytes[at] = (unsigned char)v;
                larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
                check_ok(q->epoch(g.st, 1));
                if (q->load(g.st, &r) == 0)
                    for (int i = 0; i < 40; i++) /* ends, and stays within the ids */
                        rig_draw(&g, ids);
                w.bytes[at] = was;
                r = (larder_reader){.at = w.bytes, .end = w.bytes + at};
                check_ok(q->epoch(g.st, 1));
                assert_int_equal(q->load(g.st, &r), LARDER_E_FORMAT);
            }
        larder__writer_free(&w);
        rig_close(&g);
    }
}

/* Each id is equally likely at each place: chi-square over a table of id and place. */
static void test_uniform_places(void **st) {
    (void)st;
    enum { N = 10, EPOCHS = 20000 };
    static uint64_t table[N][N];
    rig g;
    rig_open(&g, larder__sampler_find("uniform"),
             (larder_draw_env){.n = N, .seed = 1, .batch = N, .world = 1});
    for (uint64_t e = 0; e < EPOCHS; e++) {
        uint64_t ids[N];
        check_ok(g.q->epoch(g.st, e));
        assert_int_equal(rig_draw(&g, ids), N);
        for (int i = 0; i < N; i++)
            table[ids[i]][i]++;
    }
    rig_close(&g);
    double chi = 0, expect = (double)EPOCHS / N;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            chi += ((double)table[i][j] - expect) * ((double)table[i][j] - expect) / expect;
    assert_true(chi < 126.1); /* 81 degrees of freedom, p = 0.001 */
    assert_true(chi > 48.0);  /* too even is not random either, p = 0.001 */
}

/* Residents come first in quiver's window, and those passed over are not forgotten. */
static void test_quiver_prefers_residents(void **st) {
    (void)st;
    rig g;
    rig_open(&g, larder__sampler_find("quiver"),
             (larder_draw_env){.n = 2000, .seed = 1, .batch = 20, .world = 1});
    check_ok(g.q->epoch(g.st, 0));
    uint64_t ids[20], resident = 0;
    for (int b = 0; b < 3; b++) {
        assert_int_equal(rig_draw(&g, ids), 20);
        for (int i = 0; i < 20; i++)
            resident += some_resident(NULL, ids[i]);
    }
    assert_int_equal(resident, 60); /* the window of 200 holds about 66 of them to begin with */
    rig_close(&g);
}

static void check_first(const char *name, uint64_t seed, uint64_t epoch, const uint64_t want[8]) {
    rig g;
    rig_open(&g, larder__sampler_find(name),
             (larder_draw_env){.n = 1000, .seed = seed, .batch = 8, .world = 1});
    uint64_t ids[8];
    check_ok(g.q->epoch(g.st, epoch));
    assert_int_equal(rig_draw(&g, ids), 8);
    for (int i = 0; i < 8; i++)
        if (ids[i] != want[i])
            fail_msg("%s, seed %d: first ids %d %d %d %d %d %d %d %d", name, (int)seed, (int)ids[0],
                     (int)ids[1], (int)ids[2], (int)ids[3], (int)ids[4], (int)ids[5], (int)ids[6],
                     (int)ids[7]);
    rig_close(&g);
}

/* An order that changes between versions would break every saved run: change these only with the
 * format of saved state. */
static void test_golden(void **st) {
    (void)st;
    check_first("sequential", 1, 0, (const uint64_t[8]){0, 1, 2, 3, 4, 5, 6, 7});
    check_first("uniform", 1, 0, (const uint64_t[8]){649, 797, 743, 844, 609, 0, 994, 734});
    check_first("uniform", 42, 3, (const uint64_t[8]){402, 821, 926, 35, 353, 308, 490, 2});
    check_first("quiver", 1, 0, (const uint64_t[8]){649, 0, 625, 962, 972, 463, 461, 680});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_cover_everything),
        cmocka_unit_test(test_every_epoch_exactly_once),
        cmocka_unit_test(test_same_seed_same_order),
        cmocka_unit_test(test_resume_inside_an_epoch),
        cmocka_unit_test(test_load_hostile),
        cmocka_unit_test(test_uniform_places),
        cmocka_unit_test(test_quiver_prefers_residents),
        cmocka_unit_test(test_golden),
    };
    check_ok(larder__plugins_from_env()); /* those from outside must keep it too */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
