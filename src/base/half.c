#include "base/half.h"

#include "base/clones.h"

LARDER__CLONES
void larder__floats_of_bf16(float *out, const uint16_t *in, size_t n) {
    for (size_t i = 0; i < n; i++)
        out[i] = larder__float_of_bf16(in[i]);
}

LARDER__CLONES
void larder__floats_of_f16(float *out, const uint16_t *in, size_t n) {
    for (size_t i = 0; i < n; i++)
        out[i] = larder__float_of_f16(in[i]);
}
