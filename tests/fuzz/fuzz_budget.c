/* Sizes, times, percentages and numbers as people might type them. */
#include "base/spec.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[256];
    size_t n = size < sizeof text - 1 ? size : sizeof text - 1;
    if (n)
        memcpy(text, data, n);
    text[n] = 0;
    larder__budget b;
    uint64_t u;
    double d;
    if (larder__parse_budget(text, &b) == 0 &&
        (b.relative ? !(b.fraction >= 0 && b.fraction <= 1) : b.bytes > (uint64_t)1 << 62))
        abort();
    if (larder__parse_seconds(text, &d) == 0 && !(d >= 0))
        abort();
    if (larder__parse_u64("it", text, 1000, &u) == 0 && u > 1000)
        abort();
    if (larder__parse_f64("it", text, &d) == 0 && !isfinite(d))
        abort();
    return 0;
}
