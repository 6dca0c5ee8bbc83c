/* Every way of summing rows and columns that this machine can run gives the bits of the obvious
 * loop. */
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

static const char *const names[] = {"avx512", "avx2", "plain"};

static void all_sum_rows_the_same(void **state) {
    (void)state;
    uint8_t pixels[ROWS * STRIDE];
    float weights[ROWS], line[WIDE * LARDER__ROWS_BESIDE], part[WIDE];
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
            const larder__sums *sums = larder__sums_named(names[k]);
            if (!sums)
                continue;
            ran++;
            sums->rows(line, part, pixels, STRIDE, n, weights, count);
            for (size_t i = 0; i < n; i++) {
                float want = obvious(pixels + i, weights, count);
                float is = line[i / 4 * 4 * LARDER__ROWS_BESIDE + i % 4];
                if (memcmp(&want, &is, sizeof want) != 0)
                    fail_msg("%s, %d rows, byte %zu: %.9g, not %.9g", names[k], count, i,
                             (double)is, (double)want);
            }
        }
    }
    assert_true(ran >= 60);
    assert_non_null(larder__sums_named("plain"));
    assert_null(larder__sums_named("abacus"));
}

enum { FROM = 40, TO = 23, TAPS = 9, LINE = 4 * LARDER__ROWS_BESIDE };

/* Some sums lie outside of what a byte holds. */
static uint8_t obvious_column(const float *line, const larder__taps *t, size_t i, size_t lane) {
    float sum = 0.5f;
    for (int32_t k = 0; k < t->each; k++)
        sum += line[(size_t)(t->from[i] + k) * LINE + lane] * t->weight[i * t->width + (size_t)k];
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static void all_sum_columns_the_same(void **state) {
    (void)state;
    float line[FROM * LINE], weights[TO * TAPS];
    int32_t from[TO];
    uint8_t made[LARDER__ROWS_BESIDE][(TO + 3) / 4 * 16];
    uint8_t *const rows[LARDER__ROWS_BESIDE] = {made[0], made[1], made[2], made[3]};
    larder_rng rng;
    larder_rng_seed(&rng, 5, 5);
    for (int round = 0; round < 90; round++) {
        larder__taps t = {.n = 1 + larder_rng_below(&rng, TO),
                          .width = TAPS,
                          .from = from,
                          .weight = weights,
                          .each = 1 + round % TAPS};
        for (size_t i = 0; i < FROM * LINE; i++)
            line[i] = (float)larder_rng_unit(&rng) * 255;
        for (size_t i = 0; i < TO * TAPS; i++)
            weights[i] = ((float)larder_rng_unit(&rng) * 1.6f - 0.3f) / (float)t.each;
        for (size_t i = 0; i < TO; i++)
            from[i] = (int32_t)larder_rng_below(&rng, FROM - TAPS);
        for (int k = 0; k < 3; k++) {
            const larder__sums *sums = larder__sums_named(names[k]);
            if (!sums)
                continue;
            sums->columns(rows, line, &t);
            for (size_t i = 0; i < t.n * LINE; i++) {
                uint8_t is = made[i % LINE / 4][i / LINE * 4 + i % 4];
                uint8_t want = obvious_column(line, &t, i / LINE, i % LINE);
                if (is != want)
                    fail_msg("%s, %d taps, column %zu: %d, not %d", names[k], t.each, i / LINE, is,
                             want);
            }
        }
    }
}

static void the_best_is_one_of_them(void **state) {
    (void)state;
    const larder__sums *best = larder__sums_best();
    assert_true(best == larder__sums_named("avx512") || best == larder__sums_named("avx2") ||
                best == larder__sums_named("plain"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_sum_rows_the_same),
                                       cmocka_unit_test(all_sum_columns_the_same),
                                       cmocka_unit_test(the_best_is_one_of_them)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
