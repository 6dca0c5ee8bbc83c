#include "base/sha256.h"

#include <string.h>

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, int n) { return x >> n | x << (32 - n); }

static uint32_t word(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void mix_block(uint32_t state[8], const unsigned char *block) {
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = word(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[i - 7] +
               (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t one = s[7] + (turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25)) +
                       ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
        uint32_t two = (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22)) +
                       ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

void larder__sha256_begin(larder__sha256 *x) {
    *x = (larder__sha256){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void larder__sha256_add(larder__sha256 *x, const void *bytes, size_t n) {
    const unsigned char *from = bytes;
    while (n > 0) {
        size_t at = x->bytes % LARDER__SHA256_BLOCK, room = LARDER__SHA256_BLOCK - at;
        size_t now = n < room ? n : room;
        memcpy(x->block + at, from, now);
        x->bytes += now;
        from += now;
        n -= now;
        if (now == room)
            mix_block(x->h, x->block);
    }
}

void larder__sha256_end(larder__sha256 *x, unsigned char out[LARDER__SHA256]) {
    static const unsigned char padding[LARDER__SHA256_BLOCK] = {0x80};
    unsigned char length[8];
    uint64_t bits = x->bytes * 8;
    size_t at = x->bytes % LARDER__SHA256_BLOCK;
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    larder__sha256_add(x, padding, at < 56 ? 56 - at : 120 - at);
    larder__sha256_add(x, length, sizeof length);
    for (int i = 0; i < LARDER__SHA256; i++)
        out[i] = (unsigned char)(x->h[i / 4] >> (24 - 8 * (i % 4)));
}

void larder__hmac_sha256(const void *key, size_t key_size, const void *bytes, size_t n,
                         unsigned char out[LARDER__SHA256]) {
    unsigned char inner[LARDER__SHA256_BLOCK] = {0}, outer[LARDER__SHA256_BLOCK];
    larder__sha256 x;
    if (key_size > sizeof inner) {
        larder__sha256_begin(&x);
        larder__sha256_add(&x, key, key_size);
        larder__sha256_end(&x, inner);
    } else if (key_size) {
        memcpy(inner, key, key_size);
    }
    for (size_t i = 0; i < sizeof inner; i++) {
        outer[i] = inner[i] ^ 0x5c;
        inner[i] ^= 0x36;
    }
    larder__sha256_begin(&x);
    larder__sha256_add(&x, inner, sizeof inner);
    larder__sha256_add(&x, bytes, n);
    larder__sha256_end(&x, out);
    larder__sha256_begin(&x);
    larder__sha256_add(&x, outer, sizeof outer);
    larder__sha256_add(&x, out, LARDER__SHA256);
    larder__sha256_end(&x, out);
}

void larder__sha256_hex(const unsigned char in[LARDER__SHA256], char out[2 * LARDER__SHA256 + 1]) {
    for (int i = 0; i < 2 * LARDER__SHA256; i++)
        out[i] = "0123456789abcdef"[in[i / 2] >> (i % 2 ? 0 : 4) & 15];
    out[2 * LARDER__SHA256] = 0;
}
