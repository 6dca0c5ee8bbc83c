/* Every kernel this machine can run counts the same on the same codes: those of a slow sum. */
#include "check.h"
#include "signal/graph_kernel.h"

#include <larder/plugin.h>
#include <stdlib.h>

typedef struct tile {
    uint32_t groups, dims;
    uint8_t *codes; /* as the kernels have them */
    int32_t consts[LARDER__CHUNK_ROWS] __attribute__((aligned(64)));
    int32_t bounds[LARDER__TILE_QUERIES];
    int8_t *queries; /* 6 x dims */
} tile;

static uint8_t code_at(const tile *t, uint32_t row, uint32_t dim) {
    return t->codes[(dim / 4 * LARDER__CHUNK_ROWS + row) * 4 + dim % 4];
}

static int32_t slow_dot(const tile *t, uint32_t row, int query) {
    int32_t sum = 0;
    for (uint32_t i = 0; i < t->dims; i++)
        sum += code_at(t, row, i) * t->queries[(uint32_t)query * t->dims + i];
    return sum;
}

/* Extreme codes and queries, so that anything that saturates shows. */
static void make_tile(tile *t, larder_rng *rng, uint32_t groups, int extreme) {
    *t = (tile){.groups = groups, .dims = groups * 4};
    size_t bytes = (size_t)groups * 4 * LARDER__CHUNK_ROWS;
    t->codes = aligned_alloc(64, bytes);
    t->queries = malloc((size_t)LARDER__TILE_QUERIES * t->dims);
    assert_true(t->codes && t->queries);
    for (size_t i = 0; i < bytes; i++)
        t->codes[i] =
            extreme ? (larder_rng_below(rng, 4) ? 255 : 0) : (uint8_t)larder_rng_next(rng);
    for (uint32_t i = 0; i < LARDER__TILE_QUERIES * t->dims; i++) {
        int8_t edge = larder_rng_below(rng, 4) ? (extreme == 1 ? 127 : -128) : 0;
        t->queries[i] = extreme ? edge : (int8_t)larder_rng_next(rng);
    }
    for (int k = 0; k < LARDER__TILE_QUERIES; k++) {
        t->bounds[k] = (int32_t)larder_rng_below(rng, 2000) - 1000;
        for (uint32_t i = 0; i < LARDER__CHUNK_ROWS; i++) { /* near the bound, on both sides */
            if (i % LARDER__TILE_QUERIES != (uint32_t)k)
                continue;
            int32_t off = (int32_t)larder_rng_below(rng, 3) - 1;
            t->consts[i] = i == 13 ? LARDER__ROW_ABSENT : slow_dot(t, i, k) - t->bounds[k] + off;
        }
    }
}

static void slow_count(const tile *t, uint32_t *counts) {
    for (int k = 0; k < LARDER__TILE_QUERIES; k++)
        for (uint32_t i = 0; i < LARDER__CHUNK_ROWS; i++)
            counts[k] += slow_dot(t, i, k) - t->consts[i] >= t->bounds[k];
}

static void check_kernel(const larder__graph_kernel *kernel, const tile *t, const uint32_t *want) {
    size_t bytes = (kernel->packed_bytes(t->dims) + 63) & ~(size_t)63;
    char *packed = aligned_alloc(64, LARDER__TILE_QUERIES * bytes);
    const void *queries[LARDER__TILE_QUERIES];
    uint32_t counts[LARDER__TILE_QUERIES] = {0};
    assert_non_null(packed);
    for (int k = 0; k < LARDER__TILE_QUERIES; k++) {
        queries[k] = packed + (size_t)k * bytes;
        kernel->pack(t->queries + (uint32_t)k * t->dims, t->dims, packed + (size_t)k * bytes);
    }
    kernel->count(t->codes, t->consts, t->groups, queries, t->bounds, counts);
    for (int k = 0; k < LARDER__TILE_QUERIES; k++)
        if (counts[k] != want[k])
            fail_msg("%s: query %d of %u groups: %u, not %u", kernel->name, k, t->groups, counts[k],
                     want[k]);
    free(packed);
    int32_t dots[LARDER__CHUNK_ROWS];
    kernel->dots(t->codes, t->groups, t->queries, dots);
    for (uint32_t i = 0; i < LARDER__CHUNK_ROWS; i++)
        if (dots[i] != slow_dot(t, i, 0))
            fail_msg("%s: row %u of %u groups: %d", kernel->name, i, t->groups, dots[i]);
}

static void all_count_the_same(void **state) {
    (void)state;
    static const char *const names[] = {"vnni", "avx2", "plain"};
    static const uint32_t groups[] = {1, 2, 7, 16, 32, 128, 1024};
    larder_rng rng;
    larder_rng_seed(&rng, 3, 3);
    for (int round = 0; round < 7 * 3; round++) {
        tile t;
        uint32_t want[LARDER__TILE_QUERIES] = {0};
        make_tile(&t, &rng, groups[round % 7], round / 7);
        slow_count(&t, want);
        for (int k = 0; k < 3; k++) {
            const larder__graph_kernel *kernel = larder__graph_kernel_named(names[k]);
            if (kernel)
                check_kernel(kernel, &t, want);
        }
        free(t.codes);
        free(t.queries);
    }
}

static void the_best_can_run(void **state) {
    (void)state;
    const larder__graph_kernel *best = larder__graph_kernel_best();
    assert_ptr_equal(larder__graph_kernel_named(best->name), best);
    assert_null(larder__graph_kernel_named("abacus"));
    assert_non_null(larder__graph_kernel_named("plain"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_count_the_same),
        cmocka_unit_test(the_best_can_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
