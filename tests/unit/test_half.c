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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_number)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
