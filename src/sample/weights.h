/* What all weighted draws ask of weights: finite, not negative, not all zero. */
#ifndef LARDER_SAMPLE_WEIGHTS_H
#define LARDER_SAMPLE_WEIGHTS_H

#include "base/err.h"

#include <larder/plugin.h>

typedef struct larder__weights_sum {
    double total;
    uint64_t largest; /* id of the largest weight, the first of several */
} larder__weights_sum;

int larder__weights_check(const float *weights, uint64_t n, larder__weights_sum *out);

#endif
