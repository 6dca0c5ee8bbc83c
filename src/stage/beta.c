#include "stage/beta.h"

#include <math.h>

static double normal(larder_rng *rng) {
    double u = 1 - larder_rng_unit(rng), v = larder_rng_unit(rng);
    return sqrt(-2 * log(u)) * cos(6.28318530717958647692 * v);
}

/* The logarithm of a gamma number (Marsaglia and Tsang), as those of a small alpha underflow. */
static double log_gamma(double alpha, larder_rng *rng) {
    if (alpha < 1) {
        double u = 1 - larder_rng_unit(rng);
        return log_gamma(alpha + 1, rng) + log(u) / alpha;
    }
    const double d = alpha - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = normal(rng), v = 1 + c * x;
        if (v <= 0)
            continue;
        v = v * v * v;
        if (log(1 - larder_rng_unit(rng)) < 0.5 * x * x + d - d * v + d * log(v))
            return log(d * v);
    }
}

double larder__beta_draw(double alpha, larder_rng *rng) {
    double a = log_gamma(alpha, rng), b = log_gamma(alpha, rng);
    return 1 / (1 + exp(b - a));
}
