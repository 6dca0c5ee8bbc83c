/* 64-bit mixing for fingerprints and checksums; not for secrets. */
#ifndef LARDER_BASE_HASH_H
#define LARDER_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t larder__mix64(uint64_t x) {
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ (x >> 32);
}

/* Hash of bytes, going on from `h`. */
static inline uint64_t larder__hash_bytes(uint64_t h, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    h ^= n * 0x9e3779b97f4a7c15u;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        h = larder__mix64(h ^ w) + 0x9e3779b97f4a7c15u;
    }
    uint64_t tail = 0;
    if (n)
        memcpy(&tail, p, n);
    return larder__mix64(h ^ tail);
}

#endif
