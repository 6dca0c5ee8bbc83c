/* The own product and the build's one against the schoolbook, over sizes around every block edge.
 */
#include "check.h"

#include "base/gemm.h"

#include <larder/plugin.h>
#include <math.h>
#include <stdlib.h>

static void fill(larder_rng *rng, float *at, size_t n) {
    for (size_t i = 0; i < n; i++)
        at[i] = (float)(larder_rng_unit(rng) * 2 - 1);
}

static double element(larder__matrix m, size_t i, size_t j) {
    return (double)(m.flip ? m.at[j * m.stride + i] : m.at[i * m.stride + j]);
}

typedef void product(size_t, size_t, size_t, larder__matrix, larder__matrix, bool, float *, size_t);

static void one(product *multiply, larder_rng *rng, size_t m, size_t n, size_t k, unsigned mode) {
    bool flip_a = mode & 1, flip_b = mode & 2, add = mode & 4;
    size_t stride_a = (flip_a ? m : k) + 3, stride_b = (flip_b ? k : n) + 1, stride = n + 2;
    float *a = calloc((flip_a ? k : m) * stride_a + 1, sizeof *a);
    float *b = calloc((flip_b ? n : k) * stride_b + 1, sizeof *b);
    float *c = calloc(m * stride, sizeof *c), *before = calloc(m * stride, sizeof *c);
    assert_true(a && b && c && before);
    fill(rng, a, (flip_a ? k : m) * stride_a);
    fill(rng, b, (flip_b ? n : k) * stride_b);
    fill(rng, c, m * stride);
    for (size_t i = 0; i < m * stride; i++)
        before[i] = c[i];
    larder__matrix ma = {a, stride_a, flip_a}, mb = {b, stride_b, flip_b};
    multiply(m, n, k, ma, mb, add, c, stride);
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            double want = add ? (double)before[i * stride + j] : 0;
            for (size_t p = 0; p < k; p++)
                want += element(ma, i, p) * element(mb, p, j);
            assert_true(fabs(want - (double)c[i * stride + j]) < 1e-5 * (double)(k + 10));
        }
        for (size_t j = n; j < stride; j++) /* nothing is written between the rows */
            assert_true(c[i * stride + j] == before[i * stride + j]);
    }
    free(a), free(b), free(c), free(before);
}

static void sizes(product *multiply) {
    static const size_t side[] = {1, 5, 6, 7, 16, 17, 40}, depth[] = {1, 9, 255, 256, 257, 520};
    larder_rng rng;
    larder_rng_seed(&rng, 5, 0);
    for (size_t i = 0; i < sizeof side / sizeof *side; i++)
        for (size_t j = 0; j < sizeof side / sizeof *side; j++)
            for (unsigned mode = 0; mode < 8; mode++)
                one(multiply, &rng, side[i], side[j], depth[(i + j + mode) % 6], mode);
}

static void test_own_kernel(void **state) {
    (void)state;
    sizes(larder__gemm_plain);
}

static void test_build_kernel(void **state) {
    (void)state;
    larder__gemm_threads(1);
    sizes(larder__gemm);
}

static void test_empty_depth_clears(void **state) {
    (void)state;
    float none[1] = {0}, c[4] = {1, 2, 3, 4};
    larder__matrix m = {none, 1, false};
    larder__gemm_plain(2, 2, 0, m, m, true, c, 2);
    assert_true(c[3] == 4);
    larder__gemm_plain(2, 2, 0, m, m, false, c, 2);
    assert_true(c[0] == 0 && c[1] == 0 && c[2] == 0 && c[3] == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_kernel),
        cmocka_unit_test(test_build_kernel),
        cmocka_unit_test(test_empty_depth_clears),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
