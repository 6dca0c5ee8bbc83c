/* Seeded permutations of 0..n-1 as u32: the same for the same seed and epoch, everywhere. */
#ifndef LARDER_SAMPLE_PERMUTE_H
#define LARDER_SAMPLE_PERMUTE_H

#include <larder/plugin.h>

static inline void larder__permute(uint32_t *out, uint32_t n, uint64_t seed, uint64_t epoch) {
    larder_rng rng;
    larder_rng_seed(&rng, seed, 0x0bde0000u + epoch);
    for (uint32_t i = 0; i < n; i++) { /* inside-out Fisher-Yates */
        uint32_t j = larder_rng_below(&rng, i + 1);
        out[i] = out[j];
        out[j] = i;
    }
}

#endif
