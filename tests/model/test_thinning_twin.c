/* Which rows are scored when there are too many, against the obvious way: look at every row, pick
 * the one scored longest ago, again and again. And that a saved one goes on the same. */
#include "base/state.h"
#include "check.h"
#include "loader/feedback/thinning.h"

#include <math.h>
#include <stdlib.h>

enum { N = 90, ROWS = 24, ROUNDS = 400 };

typedef struct twin {
    uint32_t scored[N], reports;
} twin;

/* Ids of the rows that are kept, in the order of the report. */
static size_t pick(twin *t, const uint64_t *ids, uint32_t stride, uint64_t *out, uint64_t *fresh) {
    bool keep[ROWS] = {false}, twice[ROWS] = {false};
    size_t want = (ROWS + stride - 1) / stride, n = 0;
    for (int i = 0; i < ROWS; i++)
        for (int j = i + 1; j < ROWS; j++)
            twice[i] = twice[i] || ids[i] == ids[j];
    for (size_t k = 0; k < want; k++) {
        int best = -1;
        for (int pass = 0; pass < 2 && best < 0;
             pass++) /* repeats only when nothing else is left */
            for (int i = 0; i < ROWS; i++)
                if (!keep[i] && twice[i] == pass &&
                    (best < 0 || (!pass && t->scored[ids[i]] < t->scored[ids[best]])))
                    best = i;
        keep[best] = true;
    }
    *fresh = 0;
    t->reports++;
    for (int i = 0; i < ROWS; i++)
        *fresh += !keep[i] && !twice[i] && t->scored[ids[i]] == 0;
    for (int i = 0; i < ROWS; i++)
        if (keep[i]) {
            out[n++] = ids[i];
            if (!twice[i])
                t->scored[ids[i]] = t->reports;
        }
    return n;
}

static void rows_are_those_of_the_twin(void **state) {
    (void)state;
    larder__thinning t = {0};
    twin slow = {0};
    larder_rng rng;
    larder_rng_seed(&rng, 8, 8);
    check_ok(larder__thinning_open(&t, N));
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t ids[ROWS], asked[ROWS], want[ROWS], fresh, slow_fresh;
        int64_t labels[ROWS];
        float x[2 * ROWS];
        for (int i = 0; i < ROWS; i++) {
            ids[i] = asked[i] = larder_rng_below(&rng, round % 2 ? N : N / 3);
            labels[i] = (int64_t)ids[i] + 1000;
            x[2 * i] = (float)ids[i], x[2 * i + 1] = (float)i;
        }
        larder_report r = {.n = ROWS, .dim = 2, .ids = ids, .labels = labels, .embeddings = x};
        uint32_t stride = 1 + larder_rng_below(&rng, LARDER__STRIDE_MOST);
        size_t n = pick(&slow, asked, stride, want, &slow_fresh);
        check_ok(larder__thinning_keep(&t, &r, stride, &fresh));
        assert_int_equal(r.n, n);
        assert_int_equal(fresh, slow_fresh);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(ids[i], want[i]);
            assert_int_equal(labels[i], (int64_t)ids[i] + 1000);
            assert_true(fabsf(x[2 * i] - (float)ids[i]) < 0.5f);
            assert_int_equal(asked[(int)x[2 * i + 1]], ids[i]);
        }
        assert_memory_equal(t.scored, slow.scored, sizeof slow.scored);
        if (round % 50)
            continue;
        larder_writer w = {0};
        larder__thinning_save(&t, &w);
        larder__thinning_close(&t);
        check_ok(larder__thinning_open(&t, N));
        larder_reader in = {.at = w.bytes, .end = w.bytes + w.size};
        check_ok(larder__thinning_load(&t, &in));
        larder__writer_free(&w);
    }
    larder__thinning_close(&t);
}

static void more_waiting_means_less_kept(void **state) {
    (void)state;
    assert_int_equal(larder__thinning_stride(0), 1);
    for (uint32_t w = 1; w < 8; w++)
        assert_true(larder__thinning_stride(w) >= larder__thinning_stride(w - 1));
    assert_int_equal(larder__thinning_stride(7), LARDER__STRIDE_MOST);
    assert_int_equal(larder__thinning_stride(8), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_those_of_the_twin),
                                       cmocka_unit_test(more_waiting_means_less_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
