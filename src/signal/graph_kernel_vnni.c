/* The counting kernel for AVX-512 VNNI. One vpdpbusd multiplies four dimensions of 16 rows by a
 * query, exactly. A tile is 4 x 16 rows by 6 queries: 24 sums, 4 rows and a broadcast stay in
 * registers, ten loads feed 24 multiplications. The sums are variables with names of their own:
 * given an array, gcc 12 keeps it in memory and the loop runs at half the speed. */
#include "signal/graph_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

static size_t packed_bytes(uint32_t dims) { return dims; }

static void pack(const int8_t *query, uint32_t dims, void *packed) { memcpy(packed, query, dims); }

#define FOR_QUERIES(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5)

#define SUMS(k)                                                                                    \
    const int32_t *q##k = packed[k];                                                               \
    __m512i a##k = _mm512_setzero_si512(), b##k = a##k, c##k = a##k, d##k = a##k;

/* sum += rows x query. As an instruction by name, because through the intrinsic gcc 12 copies and
 * stores each sum every time. */
#define DOT(sum, rows) __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(rows), "v"(q))

#define MULTIPLY(k)                                                                                \
    q = _mm512_set1_epi32(q##k[at]);                                                               \
    DOT(a##k, ra);                                                                                 \
    DOT(b##k, rb);                                                                                 \
    DOT(c##k, rc);                                                                                 \
    DOT(d##k, rd);

#define WITHIN(sum, row, t) _mm512_cmpge_epi32_mask(_mm512_sub_epi32(sum, row), t)

#define COUNT(k)                                                                                   \
    t = _mm512_set1_epi32(bounds[k]);                                                              \
    counts[k] += (uint32_t)__builtin_popcountll(                                                   \
        (uint64_t)WITHIN(a##k, ra, t) | (uint64_t)WITHIN(b##k, rb, t) << 16 |                      \
        (uint64_t)WITHIN(c##k, rc, t) << 32 | (uint64_t)WITHIN(d##k, rd, t) << 48);

#define ROWS(from)                                                                                 \
    ra = _mm512_load_si512(from);                                                                  \
    rb = _mm512_load_si512((from) + 64);                                                           \
    rc = _mm512_load_si512((from) + 128);                                                          \
    rd = _mm512_load_si512((from) + 192);

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vnni,popcnt")))

TARGET static void count(const uint8_t *codes, const int32_t *row_const, uint32_t groups,
                         const void *const *packed, const int32_t *bounds, uint32_t *counts) {
    __m512i ra, rb, rc, rd, q, t;
    FOR_QUERIES(SUMS)
    for (uint32_t at = 0; at < groups; at++, codes += 4 * LARDER__CHUNK_ROWS) {
        ROWS(codes)
        FOR_QUERIES(MULTIPLY)
    }
    const uint8_t *constants = (const uint8_t *)row_const;
    ROWS(constants)
    FOR_QUERIES(COUNT)
}

TARGET static void dots_of(const uint8_t *codes, uint32_t groups, const int8_t *query,
                           int32_t *dots) {
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a, ra, rb, rc, rd, q;
    for (uint32_t at = 0; at < groups; at++, codes += 4 * LARDER__CHUNK_ROWS) {
        int32_t four;
        memcpy(&four, query + (size_t)at * 4, sizeof four);
        q = _mm512_set1_epi32(four);
        ROWS(codes)
        DOT(a, ra);
        DOT(b, rb);
        DOT(c, rc);
        DOT(d, rd);
    }
    _mm512_storeu_si512(dots, a);
    _mm512_storeu_si512(dots + 16, b);
    _mm512_storeu_si512(dots + 32, c);
    _mm512_storeu_si512(dots + 48, d);
}

const larder__graph_kernel larder__graph_kernel_vnni = {.name = "vnni",
                                                        .macs = 1.9e11,
                                                        .packed_bytes = packed_bytes,
                                                        .pack = pack,
                                                        .count = count,
                                                        .dots = dots_of};
#endif
