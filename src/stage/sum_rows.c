#include "stage/sum_rows.h"

#include "base/clones.h"

#include <stdbool.h>
#include <string.h>

#define TOGETHER 4 /* rows summed in one go */

typedef struct group { /* of rows; one short of TOGETHER repeats its last row with weight 0 */
    const uint8_t *row[TOGETHER];
    float weight[TOGETHER];
    int32_t rows;
} group;

LARDER__INLINE void take_group(group *g, const uint8_t *row, ptrdiff_t stride, const float *weight,
                               int32_t left) {
    g->rows = left < TOGETHER ? left : TOGETHER;
    for (int32_t j = 0; j < TOGETHER; j++) {
        g->row[j] = j == 0 ? row : j < left ? g->row[j - 1] + stride : g->row[j - 1];
        g->weight[j] = j < left ? weight[j] : 0;
    }
}

enum { BESIDE = LARDER__ROWS_BESIDE, APART = 4 * BESIDE, AT_ONCE = 4 };

/* The last of all groups lays its pixels apart, those before it leave theirs in `part`. */
static void rows_plain(float *restrict line, float *restrict part, const uint8_t *row,
                       ptrdiff_t stride, size_t n, const float *weight, int32_t count) {
    group g;
    for (int32_t k = 0; k < count; k += TOGETHER, row += TOGETHER * stride) {
        take_group(&g, row, stride, weight + k, count - k);
        const uint8_t *restrict r0 = g.row[0], *restrict r1 = g.row[1];
        const uint8_t *restrict r2 = g.row[2], *restrict r3 = g.row[3];
        float w0 = g.weight[0], w1 = g.weight[1], w2 = g.weight[2], w3 = g.weight[3];
        for (size_t i = 0; i < n; i++) {
            float sum = (float)r0[i] * w0 + (float)r1[i] * w1;
            if (g.rows > 2)
                sum += (float)r2[i] * w2 + (float)r3[i] * w3;
            part[i] = k > 0 ? part[i] + sum : sum;
        }
    }
    for (size_t i = 0; i < n; i += 4)
        memcpy(line + i * BESIDE, part + i, 4 * sizeof *part);
}

static void columns_plain(uint8_t *const row[BESIDE], const float *line, const larder__taps *t) {
    for (size_t i = 0; i < t->n; i++) {
        const float *w = t->weight + i * t->width, *at = line + (size_t)t->from[i] * APART;
        float sum[APART];
        for (size_t c = 0; c < APART; c++)
            sum[c] = 0.5f; /* for the rounding that follows */
        for (int32_t k = 0; k < t->each; k++, at += APART)
            for (size_t c = 0; c < APART; c++)
                sum[c] += at[c] * w[k];
        for (size_t c = 0; c < APART; c++) {
            float v = sum[c] < 0 ? 0 : sum[c];
            row[c / 4][i * 4 + c % 4] = (uint8_t)(int32_t)(v > 255 ? 255 : v);
        }
    }
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(LARDER__LANES_CHECKED)

#include <immintrin.h>

#define FOR_AVX512 __attribute__((target("avx512f,avx512bw")))
#define FOR_AVX2 __attribute__((target("avx2")))

FOR_AVX512 LARDER__INLINE __m512 sixteen(const uint8_t *at) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)at)));
}

FOR_AVX2 LARDER__INLINE __m256 eight(const uint8_t *at) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)at)));
}

FOR_AVX512 LARDER__INLINE void lay_four(float *to, __m512 pixels) {
    _mm_storeu_ps(to, _mm512_castps512_ps128(pixels));
    _mm_storeu_ps(to + APART, _mm512_extractf32x4_ps(pixels, 1));
    _mm_storeu_ps(to + 2 * APART, _mm512_extractf32x4_ps(pixels, 2));
    _mm_storeu_ps(to + 3 * APART, _mm512_extractf32x4_ps(pixels, 3));
}

FOR_AVX2 LARDER__INLINE void lay_two(float *to, __m256 pixels) {
    _mm_storeu_ps(to, _mm256_castps256_ps128(pixels));
    _mm_storeu_ps(to + APART, _mm256_extractf128_ps(pixels, 1));
}

/* The same with vectors of either size. */
#define ROWS_WITH(name, target, vec, lanes, widen, set, load, store, lay)                          \
    target static void name(float *restrict line, float *restrict part, const uint8_t *row,        \
                            ptrdiff_t stride, size_t n, const float *weight, int32_t count) {      \
        group g;                                                                                   \
        for (int32_t k = 0; k < count; k += TOGETHER, row += TOGETHER * stride) {                  \
            take_group(&g, row, stride, weight + k, count - k);                                    \
            const vec w0 = set(g.weight[0]), w1 = set(g.weight[1]);                                \
            const vec w2 = set(g.weight[2]), w3 = set(g.weight[3]);                                \
            for (size_t i = 0; i < n; i += (lanes)) {                                              \
                vec sum = widen(g.row[0] + i) * w0 + widen(g.row[1] + i) * w1;                     \
                if (g.rows > 2)                                                                    \
                    sum += widen(g.row[2] + i) * w2 + widen(g.row[3] + i) * w3;                    \
                if (k > 0)                                                                         \
                    sum += load(part + i);                                                         \
                if (k + TOGETHER < count)                                                          \
                    store(part + i, sum);                                                          \
                else                                                                               \
                    lay(line + i * BESIDE, sum);                                                   \
            }                                                                                      \
        }                                                                                          \
    }

ROWS_WITH(rows_avx512, FOR_AVX512, __m512, 16, sixteen, _mm512_set1_ps, _mm512_loadu_ps,
          _mm512_storeu_ps, lay_four)
ROWS_WITH(rows_avx2, FOR_AVX2, __m256, 8, eight, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps,
          lay_two)

/* Where the columns of output i begin: of those beyond the last one, its own. */
LARDER__INLINE size_t place_of(const larder__taps *t, size_t i) { return i < t->n ? i : t->n - 1; }

/* `taps` is a constant wherever it is small, so that these loops are unrolled. */
FOR_AVX512 LARDER__INLINE __m512i column_512(const float *line, const larder__taps *t, size_t i,
                                             int32_t taps) {
    i = place_of(t, i);
    const float *w = t->weight + i * t->width, *at = line + (size_t)t->from[i] * APART;
    __m512 sum = _mm512_set1_ps(0.5f); /* for the rounding that follows */
    for (int32_t k = 0; k < taps; k++)
        sum += _mm512_loadu_ps(at + k * APART) * _mm512_set1_ps(w[k]);
    return _mm512_cvttps_epi32(sum);
}

FOR_AVX512 LARDER__INLINE void columns_512(uint8_t *const row[BESIDE], const float *line,
                                           const larder__taps *t, int32_t taps) {
    for (size_t i = 0; i < t->n; i += AT_ONCE) {
        __m512i two =
            _mm512_packus_epi32(column_512(line, t, i, taps), column_512(line, t, i + 1, taps));
        __m512i more =
            _mm512_packus_epi32(column_512(line, t, i + 2, taps), column_512(line, t, i + 3, taps));
        __m512i four = _mm512_packus_epi16(two, more);
        _mm_storeu_si128((void *)(row[0] + i * 4), _mm512_castsi512_si128(four));
        _mm_storeu_si128((void *)(row[1] + i * 4), _mm512_extracti32x4_epi32(four, 1));
        _mm_storeu_si128((void *)(row[2] + i * 4), _mm512_extracti32x4_epi32(four, 2));
        _mm_storeu_si128((void *)(row[3] + i * 4), _mm512_extracti32x4_epi32(four, 3));
    }
}

/* Two of the four rows. */
FOR_AVX2 LARDER__INLINE __m256i column_256(const float *line, const larder__taps *t, size_t i,
                                           int32_t taps) {
    i = place_of(t, i);
    const float *w = t->weight + i * t->width, *at = line + (size_t)t->from[i] * APART;
    __m256 sum = _mm256_set1_ps(0.5f);
    for (int32_t k = 0; k < taps; k++)
        sum += _mm256_loadu_ps(at + k * APART) * _mm256_set1_ps(w[k]);
    return _mm256_cvttps_epi32(sum);
}

FOR_AVX2 LARDER__INLINE void columns_256(uint8_t *const row[BESIDE], const float *line,
                                         const larder__taps *t, int32_t taps) {
    for (size_t i = 0; i < t->n; i += AT_ONCE)
        for (size_t half = 0; half < 2; half++) {
            const float *of = line + half * 8;
            __m256i two =
                _mm256_packus_epi32(column_256(of, t, i, taps), column_256(of, t, i + 1, taps));
            __m256i more =
                _mm256_packus_epi32(column_256(of, t, i + 2, taps), column_256(of, t, i + 3, taps));
            __m256i four = _mm256_packus_epi16(two, more);
            _mm_storeu_si128((void *)(row[2 * half] + i * 4), _mm256_castsi256_si128(four));
            _mm_storeu_si128((void *)(row[2 * half + 1] + i * 4),
                             _mm256_extracti128_si256(four, 1));
        }
}

#define COLUMNS_WITH(name, target, columns)                                                        \
    target static void name(uint8_t *const row[BESIDE], const float *line,                         \
                            const larder__taps *t) {                                               \
        if (t->each == 2)                                                                          \
            columns(row, line, t, 2);                                                              \
        else if (t->each == 3)                                                                     \
            columns(row, line, t, 3);                                                              \
        else if (t->each == 4)                                                                     \
            columns(row, line, t, 4);                                                              \
        else if (t->each == 5)                                                                     \
            columns(row, line, t, 5);                                                              \
        else                                                                                       \
            columns(row, line, t, t->each);                                                        \
    }

COLUMNS_WITH(columns_avx512, FOR_AVX512, columns_512)
COLUMNS_WITH(columns_avx2, FOR_AVX2, columns_256)

static const larder__sums sorts[] = {{"avx512", rows_avx512, columns_avx512},
                                     {"avx2", rows_avx2, columns_avx2},
                                     {"plain", rows_plain, columns_plain}};

static bool can_run(const larder__sums *s) {
    return s->rows == rows_avx512
               ? __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
           : s->rows == rows_avx2 ? __builtin_cpu_supports("avx2") != 0
                                  : true;
}

#else

static const larder__sums sorts[] = {{"plain", rows_plain, columns_plain}};

static bool can_run(const larder__sums *s) { return s->rows == rows_plain; }

#endif

enum { SORTS = sizeof sorts / sizeof *sorts };

const larder__sums *larder__sums_best(void) {
    size_t i = 0;
    while (i + 1 < SORTS && !can_run(&sorts[i]))
        i++;
    return &sorts[i];
}

const larder__sums *larder__sums_named(const char *name) {
    for (size_t i = 0; i < SORTS; i++)
        if (strcmp(sorts[i].name, name) == 0)
            return can_run(&sorts[i]) ? &sorts[i] : NULL;
    return NULL;
}
