#include "sample/weights.h"

#include <math.h>

static int refuse(const float *w, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        if (!(w[i] >= 0 && w[i] <= 3.4028235e38f))
            return larder__fail(LARDER_E_RANGE, "the weight of sample %llu is %g",
                                (unsigned long long)i, (double)w[i]);
    return larder__fail(LARDER_E_RANGE, "all of the %llu weights are zero", (unsigned long long)n);
}

/* Eight running sums, so that the loop is as fast as memory; their order is fixed, so the total
 * does not depend on the machine. */
int larder__weights_check(const float *w, uint64_t n, larder__weights_sum *out) {
    double part[8] = {0};
    float top[8] = {0};
    unsigned bad = 0;
    uint64_t whole = n & ~(uint64_t)7;
    for (uint64_t i = 0; i < whole; i += 8)
        for (int k = 0; k < 8; k++) {
            float v = w[i + (uint64_t)k];
            bad |= !(v >= 0);
            part[k] += (double)v;
            top[k] = v > top[k] ? v : top[k];
        }
    for (uint64_t i = whole; i < n; i++) {
        bad |= !(w[i] >= 0);
        part[i - whole] += (double)w[i];
        top[i - whole] = w[i] > top[i - whole] ? w[i] : top[i - whole];
    }
    double total = 0;
    float most = 0;
    for (int k = 0; k < 8; k++) {
        total += part[k];
        most = top[k] > most ? top[k] : most;
    }
    if (bad || !isfinite(total) || !(total > 0))
        return refuse(w, n);
    *out = (larder__weights_sum){.total = total};
    while (w[out->largest] < most)
        out->largest++;
    return 0;
}
