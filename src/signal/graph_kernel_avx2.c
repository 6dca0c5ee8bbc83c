/* The counting kernel for AVX2. vpmaddubsw would saturate on u8 x s8, so rows are widened to 16
 * bits on the way (even bytes by a mask, odd ones by a shift) and multiplied by vpmaddwd, which is
 * exact. Queries are packed to match: the 16-bit pairs (0, 2) and (1, 3) of each four. */
#include "signal/graph_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

static size_t packed_bytes(uint32_t dims) { return 2 * (size_t)dims; }

static void pack(const int8_t *query, uint32_t dims, void *packed) {
    int16_t *to = packed;
    for (uint32_t g = 0; g < dims / 4; g++, query += 4, to += 4)
        to[0] = query[0], to[1] = query[2], to[2] = query[1], to[3] = query[3];
}

#define SUMS(k)                                                                                    \
    const int32_t *q##k = packed[k];                                                               \
    __m256i a##k = _mm256_setzero_si256(), b##k = a##k;

#define MULTIPLY(k)                                                                                \
    even = _mm256_set1_epi32(q##k[2 * at]);                                                        \
    odd = _mm256_set1_epi32(q##k[2 * at + 1]);                                                     \
    a##k = _mm256_add_epi32(                                                                       \
        a##k, _mm256_add_epi32(_mm256_madd_epi16(ae, even), _mm256_madd_epi16(ao, odd)));          \
    b##k = _mm256_add_epi32(                                                                       \
        b##k, _mm256_add_epi32(_mm256_madd_epi16(be, even), _mm256_madd_epi16(bo, odd)));

/* row - bound' > sum is "outside", without >= : outside if bound > sum - row. */
#define OUTSIDE(sum, row, t) _mm256_cmpgt_epi32(t, _mm256_sub_epi32(sum, row))
#define BITS(mask) (uint32_t) _mm256_movemask_ps(_mm256_castsi256_ps(mask))

#define COUNT(k)                                                                                   \
    odd = _mm256_set1_epi32(bounds[k]);                                                            \
    counts[k] += 16 - (uint32_t)__builtin_popcount(BITS(OUTSIDE(a##k, ae, odd)) |                  \
                                                   BITS(OUTSIDE(b##k, be, odd)) << 8);

#define THREE(DO) DO(0) DO(1) DO(2)
#define LOAD(from) _mm256_load_si256((const __m256i *)(const void *)(from))
#define TARGET __attribute__((target("avx2,popcnt")))

TARGET static void count_16x3(const uint8_t *codes, const int32_t *row_const, uint32_t groups,
                              const void *const *packed, const int32_t *bounds, uint32_t *counts) {
    const __m256i low = _mm256_set1_epi16(0xff);
    __m256i ae, ao, be, bo, even, odd;
    THREE(SUMS)
    for (uint32_t at = 0; at < groups; at++, codes += 4 * LARDER__CHUNK_ROWS) {
        ao = LOAD(codes);
        bo = LOAD(codes + 32);
        ae = _mm256_and_si256(ao, low), ao = _mm256_srli_epi16(ao, 8);
        be = _mm256_and_si256(bo, low), bo = _mm256_srli_epi16(bo, 8);
        THREE(MULTIPLY)
    }
    ae = LOAD(row_const);
    be = LOAD(row_const + 8);
    THREE(COUNT)
}

static void count(const uint8_t *codes, const int32_t *row_const, uint32_t groups,
                  const void *const *packed, const int32_t *bounds, uint32_t *counts) {
    for (int rows = 0; rows < LARDER__CHUNK_ROWS; rows += 16)
        for (int k = 0; k < LARDER__TILE_QUERIES; k += 3)
            count_16x3(codes + 4 * rows, row_const + rows, groups, packed + k, bounds + k,
                       counts + k);
}

TARGET static void dots_of(const uint8_t *codes, uint32_t groups, const int8_t *query,
                           int32_t *dots) {
    const __m256i low = _mm256_set1_epi16(0xff);
    for (int rows = 0; rows < LARDER__CHUNK_ROWS; rows += 8) {
        const uint8_t *from = codes + 4 * rows;
        const int8_t *q = query;
        __m256i sum = _mm256_setzero_si256();
        for (uint32_t at = 0; at < groups; at++, from += 4 * LARDER__CHUNK_ROWS, q += 4) {
            __m256i row = LOAD(from);
            __m256i even = _mm256_set1_epi32((uint16_t)q[0] | (int32_t)q[2] * 65536);
            __m256i odd = _mm256_set1_epi32((uint16_t)q[1] | (int32_t)q[3] * 65536);
            sum = _mm256_add_epi32(
                sum, _mm256_add_epi32(_mm256_madd_epi16(_mm256_and_si256(row, low), even),
                                      _mm256_madd_epi16(_mm256_srli_epi16(row, 8), odd)));
        }
        _mm256_storeu_si256((__m256i *)(void *)(dots + rows), sum);
    }
}

const larder__graph_kernel larder__graph_kernel_avx2 = {.name = "avx2",
                                                        .macs = 4.6e10,
                                                        .packed_bytes = packed_bytes,
                                                        .pack = pack,
                                                        .count = count,
                                                        .dots = dots_of};
#endif
