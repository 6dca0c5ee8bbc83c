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

/* The same of bytes that come piece by piece: so many in all, going on from `h`. */
typedef struct larder__hashing {
    uint64_t h;
    unsigned char held[512];
    size_t used;
} larder__hashing;

static inline void larder__hashing_begin(larder__hashing *s, uint64_t h, uint64_t all) {
    s->h = h ^ (all * 0x9e3779b97f4a7c15u);
    s->used = 0;
}

static inline void larder__hashing_words(larder__hashing *s) {
    size_t at = 0;
    for (; at + 8 <= s->used; at += 8) {
        uint64_t w;
        memcpy(&w, s->held + at, 8);
        s->h = larder__mix64(s->h ^ w) + 0x9e3779b97f4a7c15u;
    }
    memmove(s->held, s->held + at, s->used - at);
    s->used -= at;
}

static inline void larder__hashing_add(larder__hashing *s, const void *bytes, size_t n) {
    for (const unsigned char *p = bytes; n > 0;) {
        size_t room = sizeof s->held - s->used, some = n < room ? n : room;
        memcpy(s->held + s->used, p, some);
        s->used += some;
        p += some;
        n -= some;
        if (s->used == sizeof s->held)
            larder__hashing_words(s);
    }
}

static inline uint64_t larder__hashing_end(larder__hashing *s) {
    uint64_t tail = 0;
    larder__hashing_words(s);
    memcpy(&tail, s->held, s->used);
    return larder__mix64(s->h ^ tail);
}

/* A checksum of much: four at a time, which takes a third of the time. */
static inline uint64_t larder__check_bytes(const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    uint64_t lane[4] = {1, 2, 3, 4};
    size_t at = 0;
    for (; n - at >= 32; at += 32)
        for (int i = 0; i < 4; i++) {
            uint64_t w;
            memcpy(&w, p + at + 8 * i, 8);
            lane[i] = larder__mix64(lane[i] ^ w) + 0x9e3779b97f4a7c15u;
        }
    return larder__hash_bytes(larder__hash_bytes(n, lane, sizeof lane), p + at, n - at);
}

#endif
