#include "svm/smo.h"

#include "base/clones.h"
#include "svm/kernel.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__) && (defined(__clang__) || __GNUC__ >= 9) && !defined(LARDER__LANES_CHECKED)
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

static void mark(larder__smo *s, size_t i) {
    put_bit(s->up, i, s->beta[i] < s->hi[i]);
    put_bit(s->low, i, s->beta[i] > s->lo[i]);
}

/* ---- any processor --------------------------------------------------------------------------- */

static void mark_any(larder__smo *s) {
    for (size_t i = 0; i < s->n; i++)
        mark(s, i);
}

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

/* Bits of those that are in a violating pair, or free; how many. */
static size_t wanted_any(const larder__smo *s, const uint8_t *members, const ends *e,
                         uint8_t *bits) {
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        bool in = bit(members, i) && ((bit(s->up, i) && s->f[i] < e->highest) ||
                                      (bit(s->low, i) && s->f[i] > e->lowest));
        if (in)
            put_bit(bits, i, true);
        n += in;
    }
    return n;
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

WIDE_TARGET static size_t wanted_wide(const larder__smo *s, const uint8_t *members, const ends *e,
                                      uint8_t *bits) {
    __m512d highest = _mm512_set1_pd(e->highest), lowest = _mm512_set1_pd(e->lowest);
    size_t n = 0;
    for (size_t i = 0; i < s->n; i += 8) {
        __m512d f = _mm512_loadu_pd(s->f + i);
        __mmask8 in = _mm512_mask_cmp_pd_mask(s->up[i / 8], f, highest, _CMP_LT_OQ) |
                      _mm512_mask_cmp_pd_mask(s->low[i / 8], f, lowest, _CMP_GT_OQ);
        in &= members[i / 8];
        bits[i / 8] |= in;
        n += (size_t)__builtin_popcount(in);
    }
    return n;
}

WIDE_TARGET static void mark_wide(larder__smo *s) {
    for (size_t i = 0; i < s->n; i += 8) {
        __m512d beta = _mm512_loadu_pd(s->beta + i);
        s->up[i / 8] = _mm512_cmp_pd_mask(beta, _mm512_loadu_pd(s->hi + i), _CMP_LT_OQ);
        s->low[i / 8] = _mm512_cmp_pd_mask(beta, _mm512_loadu_pd(s->lo + i), _CMP_GT_OQ);
    }
}
#endif

typedef struct steps {
    void (*mark)(larder__smo *); /* all of them */
    void (*advance)(larder__smo *, double, const float *, const float *, ends *);
    ends (*ends)(const larder__smo *, const uint8_t *);
    partner (*partner)(const larder__smo *, const uint8_t *, const ends *);
    size_t (*wanted)(const larder__smo *, const uint8_t *, const ends *, uint8_t *);
} steps;

static steps steps_for_cpu(void) {
#if WIDE_SMO
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        return (steps){mark_wide, advance_wide, ends_wide, partner_wide, wanted_wide};
#endif
    return (steps){mark_any, advance_any, ends_any, partner_any, wanted_any};
}

/* ---- the loop -------------------------------------------------------------------------------- */

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

static void find_ends(const steps *cpu, const larder__smo *s, ends *e) {
    for (unsigned g = 0; g < s->groups; g++)
        e[g] = cpu->ends(s, s->in_group[g]);
}

/* ---- some of the slots ----------------------------------------------------------------------- */

/* Whoever lies this share of the gap beyond it may be chosen soon. */
enum { LOOK_STEPS = 32 };
static const double near_share = 0.5;

static void write_back(larder__smo *s) {
    const larder__smo_part *p = s->part;
    for (size_t i = 0; i < p->smo.n; i++)
        if (p->slot[i] != UINT32_MAX)
            s->f[p->slot[i]] = p->smo.f[i], s->beta[p->slot[i]] = p->smo.beta[i];
}

/* A row of the part, from the one of all slots. */
static void make_copy(void *arg, size_t at) {
    larder__smo *s = arg;
    larder__smo_part *p = s->part;
    size_t slot = p->slot[at];
    if (s->made && !s->made[slot]) {
        write_back(s);
        s->make(s->make_arg, slot);
    }
    p->smo.place[at] = p->placed++;
    float *to = larder__smo_row(&p->smo, at);
    const float *row = larder__smo_row(s, slot);
    for (size_t i = 0; i < p->smo.n; i++)
        to[i] = row[p->slot[i] == UINT32_MAX ? 0 : p->slot[i]];
    p->smo.made[at] = true;
}

static void copy_slot(const larder__smo *s, larder__smo_part *p, size_t at, size_t slot) {
    larder__smo *to = &p->smo;
    p->slot[at] = (uint32_t)slot;
    to->f[at] = s->f[slot], to->diagonal[at] = s->diagonal[slot];
    to->beta[at] = p->before[at] = s->beta[slot], to->lo[at] = s->lo[slot],
    to->hi[at] = s->hi[slot];
    for (unsigned g = 0; g < s->groups; g++)
        put_bit(to->in_group[g], at, bit(s->in_group[g], slot));
}

/* Leaves out whoever cannot be chosen as things stand, if they are many. */
static bool narrow(const steps *cpu, larder__smo *s, const ends *e) {
    larder__smo_part *p = s->part;
    size_t n = 0, at = 0;
    memset(p->wanted, 0, s->n / 8);
    for (unsigned g = 0; g < s->groups; g++) {
        double slack = near_share * (e[g].highest - e[g].lowest);
        ends around = {e[g].lowest - slack, e[g].highest + slack, NOBODY};
        n += cpu->wanted(s, s->in_group[g], &around, p->wanted);
    }
    if (n > p->room)
        return false;
    larder__smo *to = &p->smo;
    to->n = (n + 15) / 16 * 16, to->groups = s->groups, to->stride = to->n + 16;
    to->make = make_copy, to->make_arg = s;
    p->placed = 0;
    memset(to->made, false, to->n);
    for (size_t i = 0; i < s->n; i++)
        if (bit(p->wanted, i))
            copy_slot(s, p, at++, i);
    for (; at < to->n; at++) {
        p->slot[at] = UINT32_MAX;
        to->f[at] = to->beta[at] = to->lo[at] = to->hi[at] = 0, to->diagonal[at] = 0;
        for (unsigned g = 0; g < s->groups; g++)
            put_bit(to->in_group[g], at, false);
    }
    cpu->mark(to);
    return true;
}

/* All slots again, with what those that were left out have missed. */
static void widen(const steps *cpu, larder__smo *s) {
    const larder__smo_part *p = s->part;
    for (size_t i = 0; i < p->smo.n; i++)
        if (p->slot[i] != UINT32_MAX && p->smo.beta[i] != p->before[i])
            larder__add_row(s->f, larder__smo_row(s, p->slot[i]), p->smo.beta[i] - p->before[i],
                            s->n);
    write_back(s);
    cpu->mark(s);
}

/* ---- the run --------------------------------------------------------------------------------- */

/* One step of the pair that gains most; false: there is none. */
static bool one_step(const steps *cpu, larder__smo *s, ends *e) {
    partner best = {-1, NOBODY};
    int rise = NOBODY;
    for (unsigned g = 0; g < s->groups; g++) {
        if (!(e[g].highest > e[g].lowest))
            continue;
        larder__smo_want(s, (size_t)e[g].rise);
        partner p = cpu->partner(s, s->in_group[g], &e[g]);
        if (p.fall != NOBODY && p.gain > best.gain)
            best = p, rise = e[g].rise;
    }
    if (rise == NOBODY)
        return false;
    larder__smo_want(s, (size_t)best.fall);
    double t = step(s, (size_t)rise, (size_t)best.fall);
    cpu->advance(s, t, larder__smo_row(s, (size_t)rise), larder__smo_row(s, (size_t)best.fall), e);
    return true;
}

/* The gap, known to whoever makes rows for all slots. */
static double gap_of(larder__smo *s, const ends *e) {
    double gap = 0;
    for (unsigned g = 0; g < s->groups; g++) {
        gap = fmax(gap, e[g].highest - e[g].lowest);
        s->lowest[g] = e[g].lowest, s->highest[g] = e[g].highest;
    }
    return gap;
}

uint64_t larder__smo_run(larder__smo *s, double tolerance, double share, uint64_t most) {
    steps cpu = steps_for_cpu();
    larder__smo *at = s; /* or its part */
    uint64_t done = 0, look = LOOK_STEPS;
    ends e[2];
    cpu.mark(s);
    find_ends(&cpu, s, e);
    tolerance = fmax(tolerance, share * gap_of(s, e));
    while (done < most) {
        bool goes_on = gap_of(s, e) >= tolerance && one_step(&cpu, at, e);
        done += goes_on;
        if (!goes_on && at == s)
            break;
        if (!goes_on) {
            widen(&cpu, s);
            at = s;
            find_ends(&cpu, s, e);
            look = done + LOOK_STEPS;
        } else if (at == s && s->part && done >= look) {
            look = done + LOOK_STEPS;
            if (narrow(&cpu, s, e)) {
                at = &s->part->smo;
                find_ends(&cpu, at, e);
            }
        }
    }
    if (at != s)
        widen(&cpu, s);
    return done;
}
