/* Numbers of 16 bits, as networks compute with: IEEE half (f16) and the upper half of a float
 * (bf16), made floats exactly, infinities and NaN included. */
#ifndef LARDER_BASE_HALF_H
#define LARDER_BASE_HALF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline float larder__float_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline float larder__float_of_bf16(uint16_t b) {
    return larder__float_of_bits((uint32_t)b << 16);
}

/* Without branches, so that loops over it vectorise: the exponent is moved by a multiplication,
 * which is exact and gets subnormal numbers right as well. */
static inline float larder__float_of_f16(uint16_t h) {
    uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16, bits;
    float moved = larder__float_of_bits(magnitude) * 0x1p112f;
    memcpy(&bits, &moved, sizeof bits);
    uint32_t special = magnitude >= 0x0f800000u ? 0x7f800000u : 0; /* infinity or NaN */
    return larder__float_of_bits(bits | special | sign);
}

void larder__floats_of_bf16(float *out, const uint16_t *in, size_t n);
void larder__floats_of_f16(float *out, const uint16_t *in, size_t n);

#endif
