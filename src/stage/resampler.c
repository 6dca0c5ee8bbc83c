#include "base/err.h"
#include "base/mem.h"
#include "stage/sound.h"

#include <math.h>

enum { CROSSINGS = 32, MOST_TAPS = 4 << 20 };
#define PI 3.14159265358979323846
#define ROLL_OFF 0.91 /* the cut lies so far below half the rate: what fades is gone by there */
#define BETA 9.0      /* of Kaiser's window */

static double bessel(double x) {
    double sum = 1, term = 1;
    for (int k = 1; k < 60 && term > 1e-12 * sum; k++) {
        term *= x / (2 * k) * (x / (2 * k));
        sum += term;
    }
    return sum;
}

/* The filter at t input samples from its middle; `cut` is a share of half the input's rate, `most`
 * what Kaiser's window is in the middle. */
static double filter_at(double t, double cut, double half, double most) {
    double r = t / half, x = PI * t * cut;
    if (r <= -1 || r >= 1)
        return 0;
    return cut * (fabs(x) < 1e-9 ? 1 : sin(x) / x) * bessel(BETA * sqrt(1 - r * r)) / most;
}

static uint32_t divisor(uint32_t a, uint32_t b) { return b ? divisor(b, a % b) : a; }

/* One row of taps for each place between two input samples; each lets a constant pass as it is. A
 * file says which rate it has: each tap is worked out once, in a row of its own. */
static void fill_taps(larder__resampler *r, double cut, double *row) {
    size_t n = 2 * (size_t)r->half;
    const double most = bessel(BETA);
    for (uint32_t phase = 0; phase < r->up; phase++) {
        float *to = r->taps + phase * n;
        double sum = 0;
        for (size_t k = 0; k < n; k++) {
            double t = (double)k - (double)(r->half - 1) - (double)phase / r->up;
            row[k] = filter_at(t, cut, r->half, most);
            sum += row[k];
        }
        for (size_t k = 0; k < n; k++)
            to[k] = (float)(row[k] / sum);
    }
}

int larder__resampler_open(larder__resampler *r, uint32_t from, uint32_t to) {
    uint32_t common = divisor(from, to);
    *r = (larder__resampler){0};
    if (from == 0 || to == 0)
        return larder__fail(LARDER_E_RANGE, "sound: a rate of nothing");
    double shrink = from > to ? (double)from / to : 1;
    *r = (larder__resampler){.from = from, .to = to, .up = to / common, .down = from / common};
    r->half = (uint32_t)ceil(CROSSINGS * shrink / ROLL_OFF) + 1;
    uint64_t taps = 2 * (uint64_t)r->half * r->up;
    if (taps > MOST_TAPS)
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "sound: from %u to %u samples a second: rates without a common measure "
                            "of some size",
                            from, to);
    r->taps = larder__malloc(taps * sizeof *r->taps);
    double *row = larder__malloc(2 * (size_t)r->half * sizeof *row);
    if (r->taps && row)
        fill_taps(r, ROLL_OFF / shrink, row);
    larder__free(row);
    return r->taps && row ? 0 : LARDER_E_NOMEM;
}

void larder__resampler_close(larder__resampler *r) {
    larder__free(r->taps);
    *r = (larder__resampler){0};
}

void larder__resampler_run(const larder__resampler *r, const float *in, size_t before, float *out,
                           size_t n) {
    size_t taps = 2 * (size_t)r->half;
    for (size_t i = 0; i < n; i++) {
        uint64_t at = (uint64_t)i * r->down;
        const float *x = in + before + at / r->up - (r->half - 1);
        const float *h = r->taps + at % r->up * taps;
        float sum[8] = {0};
        size_t k = 0;
        for (; k + 8 <= taps; k += 8)
            for (size_t j = 0; j < 8; j++)
                sum[j] += x[k + j] * h[k + j];
        for (; k < taps; k++)
            sum[0] += x[k] * h[k];
        out[i] = (sum[0] + sum[4]) + (sum[1] + sum[5]) + (sum[2] + sum[6]) + (sum[3] + sum[7]);
    }
}
