/* Ids in ranges, one after the other: samples of shards, files of classes. */
#ifndef LARDER_SOURCE_RANGES_H
#define LARDER_SOURCE_RANGES_H

#include <stdint.h>

/* The last of n ranges that begins at or before id; empty ones begin where the next one does. */
static inline uint64_t larder__range_of(const uint64_t *firsts, uint64_t n, uint64_t id) {
    uint64_t low = 0;
    while (n > 1) { /* without a branch that cannot be foreseen */
        uint64_t half = n / 2;
        low += firsts[low + half] <= id ? half : 0;
        n -= half;
    }
    return low;
}

#endif
