/* Ids in ranges, one after the other: samples of shards, files of classes. */
#ifndef LARDER_SOURCE_RANGES_H
#define LARDER_SOURCE_RANGES_H

#include <stdint.h>

/* The last of n ranges that begins at or before id; empty ones begin where the next one does. */
static inline uint64_t larder__range_of(const uint64_t *firsts, uint64_t n, uint64_t id) {
    uint64_t low = 0, high = n;
    while (high - low > 1) {
        uint64_t mid = low + (high - low) / 2;
        if (firsts[mid] <= id)
            low = mid;
        else
            high = mid;
    }
    return low;
}

#endif
