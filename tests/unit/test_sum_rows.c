/* Every way of summing rows that this machine can run gives the bits of the obvious loop. */
#include "base/clones.h"
#include "check.h"
#include "stage/sum_rows.h"

#include <larder/plugin.h>
#include <stdlib.h>

enum { WIDE = 112, ROWS = 19, STRIDE = 192 };

/* Rows by fours, each four summed as pairs: the order that the header promises. */
static float obvious(const uint8_t *at, const float *weight, int32_t count) {
    float sum = 0;
    for (int32_t k = 0; k < count; k += 4) {
        float part[4] = {0};
        for (int32_t j = 0; j < 4 && k + j < count; j++)
            part[j] = (float)at[(k + j) * STRIDE] * weight[k + j];
        float pair = part[0] + part[1];
        if (count - k > 2)
            pair = pair + (part[2] + part[3]);
        sum = k ? sum + pair : pair;
    }
    return sum;
}

static void all_sum_the_same(void **state) {
    (void)state;
    static const char *const names[] = {"avx512", "avx2", "plain"};
    uint8_t pixels[ROWS * STRIDE];
    float weights[ROWS], line[WIDE];
    larder_rng rng;
    larder_rng_seed(&rng, 4, 4);
    int ran = 0;
    for (int round = 0; round < 60; round++) {
        for (size_t i = 0; i < sizeof pixels; i++)
            pixels[i] = (uint8_t)larder_rng_next(&rng);
        for (int i = 0; i < ROWS; i++)
            weights[i] = (float)larder_rng_unit(&rng) - 0.2f;
        int32_t count = 1 + round % ROWS;
        size_t n = LARDER__ROW_LANES * (1 + larder_rng_below(&rng, WIDE / LARDER__ROW_LANES));
        for (int k = 0; k < 3; k++) {
            larder__sum_rows *sum = larder__sum_rows_named(names[k]);
            if (!sum)
                continue;
            ran++;
            sum(line, pixels, STRIDE, n, weights, count);
            for (size_t i = 0; i < n; i++) {
                float want = obvious(pixels + i, weights, count);
                if (memcmp(&want, &line[i], sizeof want) != 0)
                    fail_msg("%s, %d rows, byte %zu: %.9g, not %.9g", names[k], count, i,
                             (double)line[i], (double)want);
            }
        }
    }
    assert_true(ran >= 60);
    assert_non_null(larder__sum_rows_named("plain"));
    assert_null(larder__sum_rows_named("abacus"));
}

static void the_best_is_one_of_them(void **state) {
    (void)state;
    larder__sum_rows *best = larder__sum_rows_best();
    assert_true(best == larder__sum_rows_named("avx512") ||
                best == larder__sum_rows_named("avx2") || best == larder__sum_rows_named("plain"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_sum_the_same),
                                       cmocka_unit_test(the_best_is_one_of_them)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
