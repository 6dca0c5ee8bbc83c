/* A fuzzer's input as a recipe for damage to a valid state of a loader: how much of it is kept (a
 * byte, 255: all), then edits of four bytes each, three that say where and one what. The checksum
 * at the end is made right again, so that what lies behind it is reached. */
#ifndef LARDER_FUZZ_DAMAGE_H
#define LARDER_FUZZ_DAMAGE_H

#include "base/hash.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A copy, to be freed. */
static inline uint8_t *damaged(const void *valid, size_t *n, const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(*n);
    if (!copy)
        abort();
    memcpy(copy, valid, *n);
    if (size > 0 && data[0] < 255)
        *n = 16 + (*n - 16) * data[0] / 255;
    for (size_t i = 1; i + 3 < size; i += 4)
        copy[((size_t)data[i] << 16 | (size_t)data[i + 1] << 8 | data[i + 2]) % *n] = data[i + 3];
    uint64_t sum = larder__hash_bytes(0, copy, *n - 8);
    for (size_t i = 0; i < 8; i++)
        copy[*n - 8 + i] = (uint8_t)(sum >> (8 * i));
    return copy;
}

#endif
