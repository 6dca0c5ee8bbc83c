/* A run that goes on with another number of processes: together they serve what was left of the
 * epoch, each id once, in the same global order; then whole epochs as if nothing had happened. */
#include "loader_kit.h"
#include "look_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 500
#define SOURCE "mem:?n=500&h=8&w=8&c=3"

typedef struct group {
    uint32_t world;
    larder_loader *l[8];
} group;

static larder_loader_conf conf_of(const char *recipe, size_t batch, uint32_t rank, uint32_t world) {
    larder_loader_conf c = kit_conf(SOURCE, recipe);
    c.batch = batch;
    c.rank = rank;
    c.world = world;
    c.prefetch = 3;
    return c;
}

static void open_group(group *g, const char *recipe, size_t batch, uint32_t world, bool drop) {
    g->world = world;
    for (uint32_t r = 0; r < world; r++) {
        larder_loader_conf c = conf_of(recipe, batch, r, world);
        c.drop_last = drop;
        g->l[r] = NULL;
        check_ok(larder_loader_open(&g->l[r], &c));
    }
}

static void close_group(group *g) {
    for (uint32_t r = 0; r < g->world; r++)
        larder_loader_close(&g->l[r]);
}

/* Up to `steps` global batches of one epoch; ids in global order. True: the epoch ended. */
static bool run_group(group *g, size_t steps, uint64_t epoch, uint64_t *ids, size_t *count) {
    for (size_t k = 0; k < steps; k++)
        for (uint32_t r = 0; r < g->world; r++) {
            const larder_batch *b;
            int rc = larder_loader_next(g->l[r], &b);
            check_ok(rc);
            if (rc == LARDER_END_EPOCH) {
                for (uint32_t o = 1; o < g->world; o++)
                    assert_int_equal(larder_loader_next(g->l[o], &b), LARDER_END_EPOCH);
                return true;
            }
            assert_int_equal(rc, 0);
            assert_int_equal(b->epoch, epoch);
            for (size_t i = 0; i < b->n; i++)
                ids[(*count)++] = b->ids[i];
            check_ok(larder_loader_done(g->l[r], b));
        }
    return false;
}

static void restore_group(group *g, const void *bytes, size_t size) {
    for (uint32_t r = 0; r < g->world; r++)
        check_ok(larder_loader_restore(g->l[r], LARDER_STATE, bytes, size));
}

/* World by world in the same epoch, a save each time, by any rank. */
static void check_chain(const char *recipe, const uint32_t *worlds, const size_t *batches, size_t n,
                        size_t steps) {
    uint64_t want[N], got[2 * N];
    size_t count = 0, all = 0;
    group g;
    open_group(&g, recipe, 20, 1, false);
    run_group(&g, 1, 0, want, &all);
    check_ok(larder_loader_begin(g.l[0], 1));
    all = 0;
    assert_true(run_group(&g, 1000, 1, want, &all)); /* epoch 1 of one process */
    assert_int_equal(all, N);
    close_group(&g);
    void *bytes = NULL;
    size_t size = 0;
    for (size_t k = 0; k < n; k++) {
        open_group(&g, recipe, batches[k], worlds[k], false);
        if (bytes)
            restore_group(&g, bytes, size);
        else
            for (uint32_t r = 0; r < g.world; r++)
                check_ok(larder_loader_begin(g.l[r], 1));
        larder_free(bytes);
        bool last = k + 1 == n;
        assert_int_equal(run_group(&g, last ? 1000 : steps, 1, got, &count), last);
        check_ok(larder_loader_save(g.l[k % g.world], LARDER_STATE, &bytes, &size));
        if (last)
            for (uint32_t r = 0; r < g.world; r++) {
                if (N % (batches[k] * worlds[k]) >= worlds[k])
                    assert_int_equal(look_audit(g.l[r]), 0);
                size_t served = 0;
                uint64_t next[2 * N];
                group one = {.world = 1, .l = {g.l[r]}};
                assert_true(run_group(&one, 1000, 2, next, &served)); /* a whole share again */
                assert_true(served >= N / worlds[k] - batches[k]);
            }
        close_group(&g);
    }
    larder_free(bytes);
    assert_true(count >= N && count < N + worlds[n - 1]); /* who got nothing repeats one */
    if (memcmp(got, want, N * sizeof *got) != 0)
        fail_msg("%s: not the order of one process", recipe);
}

static void other_worlds(void **state) {
    (void)state;
    static const struct {
        uint32_t worlds[3];
        size_t batches[3];
    } chains[] = {{{2, 1, 4}, {20, 20, 20}}, {{1, 2, 3}, {20, 10, 7}}, {{4, 3, 2}, {5, 8, 30}},
                  {{2, 2, 2}, {20, 20, 20}}, {{8, 1, 8}, {4, 60, 4}},  {{1, 1, 5}, {16, 20, 4}}};
    static const char *recipes[] = {"lru", "minio", "minio:sampler=sequential", "nopfs",
                                    "minio:policy=hilo"}; /* which may lend, and does not */
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++)
        for (size_t c = 0; c < sizeof chains / sizeof *chains; c++)
            for (size_t steps = 1; steps <= 3; steps += 2)
                check_chain(recipes[r], chains[c].worlds, chains[c].batches, 3, steps);
}

/* Saved when the ranks had drawn into the next epoch already. */
static void near_the_end(void **state) {
    (void)state;
    for (size_t left = 0; left < 5; left++) {
        uint64_t ids[2 * N];
        size_t count = 0;
        group g;
        open_group(&g, "lru", 25, 2, false);
        run_group(&g, 10 - left, 0, ids, &count);
        void *bytes;
        size_t size;
        check_ok(larder_loader_save(g.l[1], LARDER_STATE, &bytes, &size));
        close_group(&g);
        open_group(&g, "lru", 20, 3, false);
        restore_group(&g, bytes, size);
        larder_free(bytes);
        if (left)
            assert_true(run_group(&g, 1000, 0, ids, &count));
        else
            for (uint32_t r = 0; r < 3; r++) {
                const larder_batch *b;
                assert_int_equal(larder_loader_next(g.l[r], &b), LARDER_END_EPOCH);
            }
        assert_true(count >= N && count < N + 3);
        uint8_t seen[N] = {0};
        for (size_t i = 0; i < N; i++)
            assert_int_equal(seen[ids[i]]++, 0);
        close_group(&g);
    }
}

static void nothing_left_for_drop_last(void **state) {
    (void)state;
    uint64_t ids[2 * N];
    size_t count = 0;
    group g;
    open_group(&g, "lru", 50, 1, true);
    run_group(&g, 9, 0, ids, &count);
    void *bytes;
    size_t size;
    check_ok(larder_loader_save(g.l[0], LARDER_STATE, &bytes, &size));
    close_group(&g);
    open_group(&g, "lru", 50, 2, true); /* 50 are left, 100 are wanted: the next epoch comes */
    restore_group(&g, bytes, size);
    larder_free(bytes);
    count = 0;
    assert_true(run_group(&g, 1000, 1, ids, &count));
    assert_int_equal(count, N);
    close_group(&g);
}

static void orders_of_their_own(void **state) {
    (void)state;
    static const char *recipes[] = {"quiver", "rotate:h=0.5", "icache", "shade", "seneca"};
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        uint64_t ids[2 * N];
        size_t count = 0;
        group g;
        open_group(&g, recipes[r], 20, 2, false);
        run_group(&g, 3, 0, ids, &count);
        void *bytes;
        size_t size;
        check_ok(larder_loader_save(g.l[0], LARDER_STATE, &bytes, &size));
        close_group(&g);
        larder_loader_conf c = conf_of(recipes[r], 20, 0, 1);
        larder_loader *l = NULL;
        check_ok(larder_loader_open(&l, &c));
        assert_int_equal(larder_loader_restore(l, LARDER_STATE, bytes, size), LARDER_E_FORMAT);
        assert_non_null(strstr(larder_errmsg(), "rank 0 of 2"));
        larder_loader_close(&l);
        larder_free(bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_worlds),
        cmocka_unit_test(near_the_end),
        cmocka_unit_test(nothing_left_for_drop_last),
        cmocka_unit_test(orders_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
