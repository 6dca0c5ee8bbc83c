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

/* Back, rounded to the nearest, halves to even. Without branches as well. */
static inline uint16_t larder__bf16_of_float(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    uint32_t nan = (bits >> 16) | 0x40; /* stays one */
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

static inline uint16_t larder__f16_of_float(float f) {
    uint32_t bits, sign, small;
    memcpy(&bits, &f, sizeof bits);
    sign = (bits >> 16) & 0x8000;
    bits &= 0x7fffffff;
    /* The exponent is moved down and the mantissa rounded; what is too large becomes infinity. */
    uint32_t usual = (bits - 0x38000000u + 0xfff + ((bits >> 13) & 1)) >> 13;
    uint32_t large = bits > 0x7f800000 ? 0x7e00 : 0x7c00;
    /* Subnormal ones: adding this number rounds them at its last place. */
    float sum = larder__float_of_bits(bits) + 0.5f;
    memcpy(&small, &sum, sizeof small);
    uint32_t out = bits >= 0x47800000 ? large : bits < 0x38800000 ? small - 0x3f000000u : usual;
    return (uint16_t)(sign | out);
}

void larder__floats_of_bf16(float *out, const uint16_t *in, size_t n);
void larder__floats_of_f16(float *out, const uint16_t *in, size_t n);

#endif
