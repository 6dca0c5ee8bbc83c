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

static void sum_plain(float *restrict line, const uint8_t *row, ptrdiff_t stride, size_t n,
                      const float *weight, int32_t count) {
    group g;
    for (int32_t k = 0; k < count; k += TOGETHER, row += TOGETHER * stride) {
        take_group(&g, row, stride, weight + k, count - k);
        const uint8_t *restrict r0 = g.row[0], *restrict r1 = g.row[1];
        const uint8_t *restrict r2 = g.row[2], *restrict r3 = g.row[3];
        float w0 = g.weight[0], w1 = g.weight[1], w2 = g.weight[2], w3 = g.weight[3];
        if (g.rows <= 2 && k == 0)
            for (size_t i = 0; i < n; i++)
                line[i] = (float)r0[i] * w0 + (float)r1[i] * w1;
        else if (k == 0)
            for (size_t i = 0; i < n; i++)
                line[i] = ((float)r0[i] * w0 + (float)r1[i] * w1) +
                          ((float)r2[i] * w2 + (float)r3[i] * w3);
        else
            for (size_t i = 0; i < n; i++)
                line[i] += ((float)r0[i] * w0 + (float)r1[i] * w1) +
                           ((float)r2[i] * w2 + (float)r3[i] * w3);
    }
}

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define FOR_AVX512 __attribute__((target("avx512f")))
#define FOR_AVX2 __attribute__((target("avx2")))

FOR_AVX512 LARDER__INLINE __m512 sixteen(const uint8_t *at) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)at)));
}

FOR_AVX2 LARDER__INLINE __m256 eight(const uint8_t *at) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)at)));
}

/* The same with vectors of either size. */
#define SUM_WITH(name, target, vec, lanes, widen, set, load, store)                                \
    target static void name(float *restrict line, const uint8_t *row, ptrdiff_t stride, size_t n,  \
                            const float *weight, int32_t count) {                                  \
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
                    sum += load(line + i);                                                         \
                store(line + i, sum);                                                              \
            }                                                                                      \
        }                                                                                          \
    }

SUM_WITH(sum_avx512, FOR_AVX512, __m512, 16, sixteen, _mm512_set1_ps, _mm512_loadu_ps,
         _mm512_storeu_ps)
SUM_WITH(sum_avx2, FOR_AVX2, __m256, 8, eight, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps)

static const struct sort {
    const char *name;
    larder__sum_rows *sum;
} sorts[] = {{"avx512", sum_avx512}, {"avx2", sum_avx2}, {"plain", sum_plain}};

static bool can_run(const struct sort *s) {
    return s->sum == sum_avx512 ? __builtin_cpu_supports("avx512f") != 0
           : s->sum == sum_avx2 ? __builtin_cpu_supports("avx2") != 0
                                : true;
}

#else

static const struct sort {
    const char *name;
    larder__sum_rows *sum;
} sorts[] = {{"plain", sum_plain}};

static bool can_run(const struct sort *s) { return s->sum == sum_plain; }

#endif

enum { SORTS = sizeof sorts / sizeof *sorts };

larder__sum_rows *larder__sum_rows_best(void) {
    size_t i = 0;
    while (i + 1 < SORTS && !can_run(&sorts[i]))
        i++;
    return sorts[i].sum;
}

larder__sum_rows *larder__sum_rows_named(const char *name) {
    for (size_t i = 0; i < SORTS; i++)
        if (strcmp(sorts[i].name, name) == 0)
            return can_run(&sorts[i]) ? sorts[i].sum : NULL;
    return NULL;
}
