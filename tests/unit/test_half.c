/* All 65536 numbers of either kind, against the definition. */
#include "base/half.h"
#include "check.h"

#include <math.h>

static double slow_f16(uint32_t h) {
    int exponent = (int)(h >> 10 & 31), mantissa = (int)(h & 1023);
    double v = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    if (exponent == 31)
        v = mantissa ? (double)NAN : (double)INFINITY;
    return h & 0x8000 ? -v : v;
}

static void same(float got, double want, uint32_t bits) {
    if (isnan(want) ? !isnan(got) : (double)got != want || !signbit(got) != !signbit(want))
        fail_msg("%04x: %g, not %g", bits, (double)got, want);
}

static void every_number(void **state) {
    (void)state;
    static uint16_t in[65536];
    static float f16[65536], bf16[65536];
    for (uint32_t i = 0; i < 65536; i++)
        in[i] = (uint16_t)i;
    larder__floats_of_f16(f16, in, 65536);
    larder__floats_of_bf16(bf16, in, 65536);
    for (uint32_t i = 0; i < 65536; i++) {
        same(f16[i], slow_f16(i), i);
        same(larder__float_of_f16((uint16_t)i), slow_f16(i), i);
        uint32_t upper = i << 16;
        float want;
        memcpy(&want, &upper, sizeof want);
        same(bf16[i], (double)want, i);
    }
}

/* The number whose value is nearest, an even one of two. */
static uint16_t slow_back(float f, const float *values, uint32_t most) {
    uint32_t best = 0;
    float size = fabsf(f);
    if (isnan(f))
        return most == 0x7c00 ? 0x7e00 : 0;
    for (uint32_t i = 1; i < most; i++) {
        double was = fabs((double)values[best] - (double)size);
        double now = fabs((double)values[i] - (double)size);
        if (now < was || (now == was && i % 2 == 0))
            best = i;
    }
    double last = (double)values[most - 1], step = last - (double)values[most - 2];
    best = (double)size >= last + step / 2 ? most : best;
    return (uint16_t)(best | (signbit(f) ? 0x8000 : 0));
}

static void back_again(void **state) {
    (void)state;
    static uint16_t in[65536];
    static float f16[65536], bf16[65536];
    for (uint32_t i = 0; i < 65536; i++)
        in[i] = (uint16_t)i;
    larder__floats_of_f16(f16, in, 65536);
    larder__floats_of_bf16(bf16, in, 65536);
    for (uint32_t i = 0; i < 65536; i++)
        if (isnan(f16[i]))
            assert_true(isnan(larder__float_of_f16(larder__f16_of_float(f16[i]))));
        else
            assert_int_equal(larder__f16_of_float(f16[i]), i);
    for (uint32_t i = 0; i < 65536; i++)
        if (isnan(bf16[i]))
            assert_true(isnan(larder__float_of_bf16(larder__bf16_of_float(bf16[i]))));
        else
            assert_int_equal(larder__bf16_of_float(bf16[i]), i);
    uint32_t bits = 12345; /* and between them */
    for (int i = 0; i < 300; i++) {
        bits = bits * 1664525u + 1013904223u;
        float f = ldexpf((float)(bits >> 8) / 16777216.0f, (int)(bits % 44) - 26);
        f = bits & 64 ? -f : f;
        assert_int_equal(larder__f16_of_float(f), slow_back(f, f16, 0x7c00));
        assert_int_equal(larder__bf16_of_float(f), slow_back(f, bf16, 0x7f80));
        uint32_t k = bits % 0x7bff; /* the middle of two: to the even one */
        float middle = (f16[k] + f16[k + 1]) / 2;
        assert_int_equal(larder__f16_of_float(middle), k % 2 ? k + 1 : k);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_number),
                                       cmocka_unit_test(back_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
