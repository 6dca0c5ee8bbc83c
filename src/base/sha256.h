/* SHA-256 (FIPS 180-4) and HMAC (RFC 2104), for signing requests. Bytes come in pieces. */
#ifndef LARDER_BASE_SHA256_H
#define LARDER_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { LARDER__SHA256 = 32, LARDER__SHA256_BLOCK = 64 };

typedef struct larder__sha256 {
    uint32_t h[8];
    uint64_t bytes; /* taken so far */
    unsigned char block[LARDER__SHA256_BLOCK];
} larder__sha256;

void larder__sha256_begin(larder__sha256 *);
void larder__sha256_add(larder__sha256 *, const void *bytes, size_t n);
void larder__sha256_end(larder__sha256 *, unsigned char out[LARDER__SHA256]);

void larder__hmac_sha256(const void *key, size_t key_size, const void *bytes, size_t n,
                         unsigned char out[LARDER__SHA256]);
/* 64 lower-case digits and a zero byte. */
void larder__sha256_hex(const unsigned char in[LARDER__SHA256], char out[2 * LARDER__SHA256 + 1]);

#endif
