#include "svm/smo.h"

#include <math.h>
#include <string.h>

/* MSan would have every lane set, also those that a mask leaves out. */
#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
#define NARROW_SMO 1
#endif
#endif
#if defined(__x86_64__) && (defined(__clang__) || __GNUC__ >= 9) && !NARROW_SMO
#define WIDE_SMO 1
#include <immintrin.h>
#define WIDE_TARGET __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw")))
#endif

enum { NOBODY = -1 };
static const float flat = 1e-12f; /* curvature of a pair without any (indefinite kernels) */

typedef struct ends { /* of one group: who should rise most, and how far the others lie above */
    double lowest, highest;
    int rise;
} ends;

typedef struct partner {
    float gain;
    int fall;
} partner;

static bool bit(const uint8_t *bits, size_t i) { return bits[i / 8] >> i % 8 & 1; }

static void put_bit(uint8_t *bits, size_t i, bool on) {
    uint8_t mask = (uint8_t)(1u << i % 8);
    bits[i / 8] = (uint8_t)(on ? bits[i / 8] | mask : bits[i / 8] & ~mask);
}

/* ---- any processor --------------------------------------------------------------------------- */

static void move_any(larder__smo *s, double t, const float *rise, const float *fall) {
    for (size_t i = 0; i < s->n; i++)
        s->f[i] += t * ((double)rise[i] - (double)fall[i]);
}

static ends ends_any(const larder__smo *s, const uint8_t *members) {
    ends e = {INFINITY, -INFINITY, NOBODY};
    for (size_t i = 0; i < s->n; i++) {
        if (!bit(members, i))
            continue;
        if (bit(s->up, i) && s->f[i] < e.lowest)
            e.lowest = s->f[i], e.rise = (int)i;
        if (bit(s->low, i) && s->f[i] > e.highest)
            e.highest = s->f[i];
    }
    return e;
}

static partner partner_any(const larder__smo *s, const uint8_t *members, const ends *e) {
    partner p = {-1, NOBODY};
    const float *k = larder__smo_row(s, (size_t)e->rise);
    float own = s->diagonal[e->rise];
    for (size_t i = 0; i < s->n; i++) {
        float b = (float)(s->f[i] - e->lowest);
        if (!bit(members, i) || !bit(s->low, i) || !(b > 0))
            continue;
        float eta = own + s->diagonal[i] - 2 * k[i];
        float gain = b * b / (eta > flat ? eta : flat);
        if (gain > p.gain)
            p = (partner){gain, (int)i};
    }
    return p;
}

static void advance_any(larder__smo *s, double t, const float *rise, const float *fall, ends *e) {
    move_any(s, t, rise, fall);
    for (unsigned g = 0; g < s->groups; g++)
        e[g] = ends_any(s, s->in_group[g]);
}

/* ---- AVX-512 --------------------------------------------------------------------------------- */

#if WIDE_SMO
WIDE_TARGET static void move_wide(larder__smo *s, double t, const float *rise, const float *fall) {
    __m512d step = _mm512_set1_pd(t);
    for (size_t i = 0; i < s->n; i += 8) {
        __m512d d = _mm512_sub_pd(_mm512_cvtps_pd(_mm256_loadu_ps(rise + i)),
                                  _mm512_cvtps_pd(_mm256_loadu_ps(fall + i)));
        _mm512_storeu_pd(s->f + i, _mm512_fmadd_pd(step, d, _mm512_loadu_pd(s->f + i)));
    }
}

typedef struct wide_ends { /* eight lanes of `ends` */
    __m512d lowest, highest;
    __m512i rise; /* of lane 0; lane k: k more */
} wide_ends;

WIDE_TARGET static inline wide_ends nothing_wide(void) {
    return (wide_ends){_mm512_set1_pd(INFINITY), _mm512_set1_pd(-INFINITY),
                       _mm512_set1_epi64(NOBODY)};
}

WIDE_TARGET static inline void see_wide(wide_ends *e, __m512d f, __mmask8 up, __mmask8 low,
                                        size_t i) {
    __mmask8 less = _mm512_mask_cmp_pd_mask(up, f, e->lowest, _CMP_LT_OQ);
    e->lowest = _mm512_mask_mov_pd(e->lowest, less, f);
    e->rise = _mm512_mask_mov_epi64(e->rise, less, _mm512_set1_epi64((long long)i));
    e->highest = _mm512_mask_max_pd(e->highest, low, e->highest, f);
}

/* Of equal ones the first. */
WIDE_TARGET static inline ends sum_up_wide(const wide_ends *a, const wide_ends *b) {
    ends e = {_mm512_reduce_min_pd(_mm512_min_pd(a->lowest, b->lowest)),
              _mm512_reduce_max_pd(_mm512_max_pd(a->highest, b->highest)), NOBODY};
    if (!(e.lowest < INFINITY))
        return e;
    __m512d lowest = _mm512_set1_pd(e.lowest);
    __m512i lane = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), far = _mm512_set1_epi64(INT32_MAX);
    __mmask8 in_a = _mm512_cmp_pd_mask(a->lowest, lowest, _CMP_EQ_OQ);
    __mmask8 in_b = _mm512_cmp_pd_mask(b->lowest, lowest, _CMP_EQ_OQ);
    __m512i first = _mm512_min_epi64(_mm512_mask_add_epi64(far, in_a, a->rise, lane),
                                     _mm512_mask_add_epi64(far, in_b, b->rise, lane));
    e.rise = (int)_mm512_reduce_min_epi64(first);
    return e;
}

WIDE_TARGET static ends ends_wide(const larder__smo *s, const uint8_t *members) {
    wide_ends e = nothing_wide(), none = nothing_wide();
    for (size_t i = 0; i < s->n; i += 8)
        see_wide(&e, _mm512_loadu_pd(s->f + i), members[i / 8] & s->up[i / 8],
                 members[i / 8] & s->low[i / 8], i);
    return sum_up_wide(&e, &none);
}

/* As move and ends, in one pass; what is slow there is waiting for the comparison before, so two
 * of them run side by side. */
WIDE_TARGET static void advance_wide(larder__smo *s, double t, const float *rise, const float *fall,
                                     ends *e) {
    if (s->groups > 1) {
        move_wide(s, t, rise, fall);
        e[0] = ends_wide(s, s->in_group[0]);
        e[1] = ends_wide(s, s->in_group[1]);
        return;
    }
    wide_ends seen[2] = {nothing_wide(), nothing_wide()};
    const uint8_t *members = s->in_group[0];
    __m512d step = _mm512_set1_pd(t);
    for (size_t i = 0; i < s->n; i += 16)
        for (size_t k = 0; k < 2; k++) {
            size_t at = i + 8 * k;
            __m512d d = _mm512_sub_pd(_mm512_cvtps_pd(_mm256_loadu_ps(rise + at)),
                                      _mm512_cvtps_pd(_mm256_loadu_ps(fall + at)));
            __m512d f = _mm512_fmadd_pd(step, d, _mm512_loadu_pd(s->f + at));
            _mm512_storeu_pd(s->f + at, f);
            see_wide(&seen[k], f, members[at / 8] & s->up[at / 8], members[at / 8] & s->low[at / 8],
                     at);
        }
    e[0] = sum_up_wide(&seen[0], &seen[1]);
}

WIDE_TARGET static partner partner_wide(const larder__smo *s, const uint8_t *members,
                                        const ends *e) {
    const float *k = larder__smo_row(s, (size_t)e->rise);
    __m512d from = _mm512_set1_pd(e->lowest);
    __m512 own = _mm512_set1_ps(s->diagonal[e->rise]), best = _mm512_set1_ps(-1);
    __m512i where = _mm512_set1_epi32(NOBODY), at = _mm512_setzero_si512();
    for (size_t i = 0; i < s->n; i += 16) {
        __mmask16 low = (__mmask16)((members[i / 8] & s->low[i / 8]) |
                                    (members[i / 8 + 1] & s->low[i / 8 + 1]) << 8);
        __m256 b0 = _mm512_cvtpd_ps(_mm512_sub_pd(_mm512_loadu_pd(s->f + i), from));
        __m256 b1 = _mm512_cvtpd_ps(_mm512_sub_pd(_mm512_loadu_pd(s->f + i + 8), from));
        __m512 b = _mm512_insertf32x8(_mm512_castps256_ps512(b0), b1, 1);
        __m512 eta = _mm512_add_ps(own, _mm512_loadu_ps(s->diagonal + i));
        eta = _mm512_fnmadd_ps(_mm512_set1_ps(2), _mm512_loadu_ps(k + i), eta);
        eta = _mm512_max_ps(eta, _mm512_set1_ps(flat));
        low = _mm512_mask_cmp_ps_mask(low, b, _mm512_setzero_ps(), _CMP_GT_OQ);
        __m512 gain = _mm512_maskz_div_ps(low, _mm512_mul_ps(b, b), eta);
        __mmask16 more = _mm512_mask_cmp_ps_mask(low, gain, best, _CMP_GT_OQ);
        best = _mm512_mask_mov_ps(best, more, gain);
        where = _mm512_mask_mov_epi32(where, more, at);
        at = _mm512_add_epi32(at, _mm512_set1_epi32(16));
    }
    partner p = {_mm512_reduce_max_ps(best), NOBODY};
    if (p.gain >= 0) {
        __mmask16 same = _mm512_cmp_ps_mask(best, _mm512_set1_ps(p.gain), _CMP_EQ_OQ);
        __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        p.fall = (int)_mm512_mask_reduce_min_epi32(same, _mm512_add_epi32(where, lane));
    }
    return p;
}
#endif

typedef struct steps {
    void (*advance)(larder__smo *, double, const float *, const float *, ends *);
    ends (*ends)(const larder__smo *, const uint8_t *);
    partner (*partner)(const larder__smo *, const uint8_t *, const ends *);
} steps;

static steps steps_for_cpu(void) {
#if WIDE_SMO
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        return (steps){advance_wide, ends_wide, partner_wide};
#endif
    return (steps){advance_any, ends_any, partner_any};
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void mark(larder__smo *s, size_t i) {
    put_bit(s->up, i, s->beta[i] < s->hi[i]);
    put_bit(s->low, i, s->beta[i] > s->lo[i]);
}

/* Along the pair until its minimum or a bound; a bound is hit exactly. */
static double step(larder__smo *s, size_t i, size_t j) {
    const float *k = larder__smo_row(s, i);
    double eta = (double)s->diagonal[i] + (double)s->diagonal[j] - 2 * (double)k[j];
    double t = (s->f[j] - s->f[i]) / (eta > (double)flat ? eta : (double)flat);
    double rise = s->hi[i] - s->beta[i], fall = s->beta[j] - s->lo[j];
    t = t < rise ? t : rise;
    t = t < fall ? t : fall;
    s->beta[i] = t == rise ? s->hi[i] : s->beta[i] + t;
    s->beta[j] = t == fall ? s->lo[j] : s->beta[j] - t;
    mark(s, i);
    mark(s, j);
    return t;
}

uint64_t larder__smo_run(larder__smo *s, double tolerance, double share, uint64_t most) {
    steps cpu = steps_for_cpu();
    uint64_t done = 0;
    for (size_t i = 0; i < s->n; i++)
        mark(s, i);
    ends e[2];
    for (unsigned g = 0; g < s->groups; g++)
        e[g] = cpu.ends(s, s->in_group[g]);
    for (; done < most; done++) {
        partner best = {-1, NOBODY};
        int rise = NOBODY;
        double gap = 0;
        for (unsigned g = 0; g < s->groups; g++) {
            gap = fmax(gap, e[g].highest - e[g].lowest);
            s->lowest[g] = e[g].lowest, s->highest[g] = e[g].highest;
        }
        if (done == 0)
            tolerance = fmax(tolerance, share * gap);
        if (!(gap >= tolerance))
            break;
        for (unsigned g = 0; g < s->groups; g++) {
            if (!(e[g].highest > e[g].lowest))
                continue;
            larder__smo_want(s, (size_t)e[g].rise);
            partner p = cpu.partner(s, s->in_group[g], &e[g]);
            if (p.fall != NOBODY && p.gain > best.gain)
                best = p, rise = e[g].rise;
        }
        if (rise == NOBODY)
            break;
        larder__smo_want(s, (size_t)best.fall);
        double t = step(s, (size_t)rise, (size_t)best.fall);
        cpu.advance(s, t, larder__smo_row(s, (size_t)rise), larder__smo_row(s, (size_t)best.fall),
                    e);
    }
    return done;
}
