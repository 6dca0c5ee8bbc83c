/* Kernel values of binary points. The product of two is the number of bits they share, the squared
 * distance the number in which they differ: a whole number below some hundreds, so the kernel
 * function is a table. With AVX-512 sixteen columns are counted at once and the table lies in
 * registers; without, the compiler's popcount and a load. */
#include "svm/kernel.h"

#include <string.h>

#if defined(__x86_64__) && (defined(__clang__) || __GNUC__ >= 9)
#define WIDE_BITS 1
#include <immintrin.h>
#endif

/* ---- any processor --------------------------------------------------------------------------- */

static float value_of(const larder__kernel *k, const uint32_t *row, const larder__panel *right,
                      size_t c) {
    unsigned count = 0;
    const uint32_t *column = right->words + c * k->words;
    for (size_t w = 0; w < k->words; w++)
        count +=
            (unsigned)__builtin_popcount(k->by_distance ? row[w] ^ column[w] : row[w] & column[w]);
    return k->table[count];
}

static void block_any(const larder__kernel *k, const larder__panel *left, size_t r0, size_t r1,
                      const larder__panel *right, size_t c0, size_t c1, float *out, size_t stride) {
    for (size_t r = r0; r < r1; r++)
        for (size_t c = c0; c < c1; c++)
            out[(r - r0) * stride + (c - c0)] = value_of(k, left->words + r * k->words, right, c);
}

static void add_any(const larder__kernel *k, const larder__panel *left, size_t rows,
                    const double *weight, const larder__panel *right, size_t c0, size_t c1,
                    double *sum) {
    for (size_t r = 0; r < rows; r++)
        for (size_t c = c0; c < c1; c++)
            sum[c - c0] += weight[r] * (double)value_of(k, left->words + r * k->words, right, c);
}

/* ---- AVX-512 --------------------------------------------------------------------------------- */

#if WIDE_BITS
#define WIDE_TARGET __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx512vpopcntdq")))
#define WIDE_INLINE WIDE_TARGET static inline __attribute__((always_inline))
enum { LINES = 8, SOME_WORDS = 0 };

typedef struct lookup { /* the table in registers: up to eight lines of sixteen */
    __m512 line[LINES];
    const float *table;
} lookup;

/* `lines` is a constant wherever this is called: 2, 4 or 8 lines, or 0 for a gather. */
WIDE_INLINE __m512 look_up(const lookup *t, __m512i count, int lines) {
    if (lines == 0)
        return _mm512_i32gather_ps(count, t->table, 4);
    __m512 low = _mm512_permutex2var_ps(t->line[0], count, t->line[1]);
    if (lines == 2)
        return low;
    __m512 next = _mm512_permutex2var_ps(t->line[2], count, t->line[3]);
    __mmask16 bit5 = _mm512_test_epi32_mask(count, _mm512_set1_epi32(32));
    low = _mm512_mask_blend_ps(bit5, low, next);
    if (lines == 4)
        return low;
    __m512 high = _mm512_permutex2var_ps(t->line[4], count, t->line[5]);
    next = _mm512_permutex2var_ps(t->line[6], count, t->line[7]);
    high = _mm512_mask_blend_ps(bit5, high, next);
    return _mm512_mask_blend_ps(_mm512_test_epi32_mask(count, _mm512_set1_epi32(64)), low, high);
}

WIDE_INLINE __m512i count_bits(const __m512i *column, const uint32_t *planes, size_t stride,
                               const uint32_t *row, int words, size_t all, bool by_distance) {
    __m512i count = _mm512_setzero_si512();
    size_t n = words == SOME_WORDS ? all : (size_t)words;
    for (size_t w = 0; w < n; w++) {
        __m512i x = _mm512_set1_epi32((int)row[w]);
        __m512i y = words == SOME_WORDS ? _mm512_loadu_si512(planes + w * stride) : column[w];
        x = by_distance ? _mm512_xor_si512(x, y) : _mm512_and_si512(x, y);
        count = _mm512_add_epi32(count, _mm512_popcnt_epi32(x));
    }
    return count;
}

WIDE_INLINE void load_table(lookup *t, const larder__kernel *k, int lines) {
    t->table = k->table;
    for (int i = 0; i < lines; i++)
        t->line[i] = (size_t)(i + 1) * LARDER__LANES <= k->table_n
                         ? _mm512_loadu_ps(k->table + i * LARDER__LANES)
                         : _mm512_setzero_ps();
}

WIDE_INLINE void load_column(__m512i *column, const uint32_t *planes, size_t stride, int words) {
    for (int w = 0; w < words; w++)
        column[w] = _mm512_loadu_si512(planes + (size_t)w * stride);
}

WIDE_INLINE void block_body(const larder__kernel *k, const larder__panel *left, size_t r0,
                            size_t r1, const larder__panel *right, size_t c0, size_t c1, float *out,
                            size_t stride, int words, int lines, bool by_distance) {
    lookup t;
    __m512i column[4];
    load_table(&t, k, lines);
    for (size_t c = c0; c < c1; c += LARDER__LANES) {
        const uint32_t *planes = right->word_planes + c;
        size_t n = c1 - c;
        __mmask16 in = (__mmask16)(n < LARDER__LANES ? (1u << n) - 1 : 0xffffu);
        load_column(column, planes, right->stride, words);
        for (size_t r = r0; r < r1; r++) {
            __m512i count = count_bits(column, planes, right->stride, left->words + r * k->words,
                                       words, k->words, by_distance);
            _mm512_mask_storeu_ps(out + (r - r0) * stride + (c - c0), in,
                                  look_up(&t, count, lines));
        }
    }
}

WIDE_INLINE void add_body(const larder__kernel *k, const larder__panel *left, size_t rows,
                          const double *weight, const larder__panel *right, size_t c0, size_t c1,
                          double *sum, int words, int lines, bool by_distance) {
    lookup t;
    __m512i column[4];
    load_table(&t, k, lines);
    for (size_t c = c0; c < c1; c += LARDER__LANES) {
        const uint32_t *planes = right->word_planes + c;
        __m512d low = _mm512_setzero_pd(), high = low;
        load_column(column, planes, right->stride, words);
        for (size_t r = 0; r < rows; r++) {
            __m512i count = count_bits(column, planes, right->stride, left->words + r * k->words,
                                       words, k->words, by_distance);
            __m512 x = look_up(&t, count, lines);
            __m512d w = _mm512_set1_pd(weight[r]);
            low = _mm512_fmadd_pd(w, _mm512_cvtps_pd(_mm512_castps512_ps256(x)), low);
            high = _mm512_fmadd_pd(w, _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)), high);
        }
        size_t n = c1 - c;
        unsigned in = n < LARDER__LANES ? (1u << n) - 1 : 0xffff;
        double *to = sum + (c - c0);
        __mmask8 first = (__mmask8)(in & 0xff), second = (__mmask8)(in >> 8);
        _mm512_mask_storeu_pd(to, first, _mm512_add_pd(low, _mm512_maskz_loadu_pd(first, to)));
        _mm512_mask_storeu_pd(to + 8, second,
                              _mm512_add_pd(high, _mm512_maskz_loadu_pd(second, to + 8)));
    }
}

/* One copy for each number of words, lines of the table and way of counting: the inner loop then
 * has no branch and everything in registers. */
#define EACH_SHAPE(MAKE)                                                                           \
    MAKE(4, 2) MAKE(4, 4) MAKE(4, 8) MAKE(2, 2) MAKE(2, 4) MAKE(0, 4) MAKE(0, 8) MAKE(0, 0)

#define DEFINE(w, l)                                                                               \
    WIDE_TARGET static void block_##w##_##l(const larder__kernel *k, const larder__panel *left,    \
                                            size_t r0, size_t r1, const larder__panel *right,      \
                                            size_t c0, size_t c1, float *out, size_t stride) {     \
        if (k->by_distance)                                                                        \
            block_body(k, left, r0, r1, right, c0, c1, out, stride, w, l, true);                   \
        else                                                                                       \
            block_body(k, left, r0, r1, right, c0, c1, out, stride, w, l, false);                  \
    }                                                                                              \
    WIDE_TARGET static void add_##w##_##l(                                                         \
        const larder__kernel *k, const larder__panel *left, size_t rows, const double *weight,     \
        const larder__panel *right, size_t c0, size_t c1, double *sum) {                           \
        if (k->by_distance)                                                                        \
            add_body(k, left, rows, weight, right, c0, c1, sum, w, l, true);                       \
        else                                                                                       \
            add_body(k, left, rows, weight, right, c0, c1, sum, w, l, false);                      \
    }
EACH_SHAPE(DEFINE)

#define ROW(w, l) {w, l, block_##w##_##l, add_##w##_##l},
static const struct shape {
    size_t words, lines;
    void (*block)(const larder__kernel *, const larder__panel *, size_t, size_t,
                  const larder__panel *, size_t, size_t, float *, size_t);
    void (*add)(const larder__kernel *, const larder__panel *, size_t, const double *,
                const larder__panel *, size_t, size_t, double *);
} shapes[] = {EACH_SHAPE(ROW)};

static const struct shape *shape_for(const larder__kernel *k) {
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512vpopcntdq"))
        return NULL;
    const struct shape *best = NULL;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const struct shape *s = &shapes[i];
        bool fits = (s->words == 0 || s->words == k->words) &&
                    (s->lines == 0 || s->lines * LARDER__LANES >= k->table_n);
        if (fits &&
            (!best || (s->words && !best->words) ||
             (s->words == best->words && s->lines && (!best->lines || s->lines < best->lines))))
            best = s;
    }
    return best;
}
#endif

/* ---- which ----------------------------------------------------------------------------------- */

void larder__bits_block(const larder__kernel *k, const larder__panel *left, size_t r0, size_t r1,
                        const larder__panel *right, size_t c0, size_t c1, float *out,
                        size_t stride) {
#if WIDE_BITS
    const struct shape *s = shape_for(k);
    if (s) {
        s->block(k, left, r0, r1, right, c0, c1, out, stride);
        return;
    }
#endif
    block_any(k, left, r0, r1, right, c0, c1, out, stride);
}

void larder__bits_add(const larder__kernel *k, const larder__panel *left, size_t rows,
                      const double *weight, const larder__panel *right, size_t c0, size_t c1,
                      double *sum) {
#if WIDE_BITS
    const struct shape *s = shape_for(k);
    if (s) {
        s->add(k, left, rows, weight, right, c0, c1, sum);
        return;
    }
#endif
    add_any(k, left, rows, weight, right, c0, c1, sum);
}
