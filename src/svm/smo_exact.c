/* SMO with kernel values in doubles, and steps of all free variables in between. Slower a step than
 * larder__smo_run; runs where floats cannot tell the gap, which is where steps of two are slow too.
 */
#include "svm/smo_exact.h"

#include "base/clones.h"

#include <math.h>

enum { FEW = 64, MANY = 100000, LOOK = 512 };
static const double flat = 1e-12;        /* as in smo.c */
static const double no_progress = 1e-13; /* of what was gained so far */

typedef struct ends { /* of one group */
    double lowest, highest;
    size_t rise;
} ends;

/* Unused slots can neither rise nor fall. */
static bool in_group(const larder__smo *s, unsigned g, size_t i) {
    return s->groups == 1 || (s->in_group[g][i / 8] >> i % 8 & 1);
}

static ends find_ends(larder__smo *s, unsigned g) {
    ends e = {INFINITY, -INFINITY, SIZE_MAX};
    for (size_t i = 0; i < s->n; i++) {
        if (s->beta[i] < s->hi[i] && s->f[i] < e.lowest && in_group(s, g, i))
            e.lowest = s->f[i], e.rise = i;
        if (s->beta[i] > s->lo[i] && s->f[i] > e.highest && in_group(s, g, i))
            e.highest = s->f[i];
    }
    s->lowest[g] = e.lowest, s->highest[g] = e.highest;
    return e;
}

static double curve(const larder__smo_exact *x, size_t i, size_t j) {
    double a = x->k[i * x->stride + j];
    double eta = (x->diagonal[i] - a) - (a - x->diagonal[j]);
    return eta > flat ? eta : flat;
}

static size_t partner(const larder__smo_exact *x, unsigned g, const ends *e, double *most) {
    const larder__smo *s = x->smo;
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < s->n; i++) {
        double b = s->f[i] - e->lowest; /* of an empty slot: anything */
        if (!(s->beta[i] > s->lo[i]) || !(b > 0) || !in_group(s, g, i))
            continue;
        double eta = curve(x, e->rise, i), squared = b * b;
        if (squared > *most * eta) /* a division only where it wins */
            *most = squared / eta, best = i;
    }
    return best;
}

LARDER__CLONES static void move(double *f, double t, const double *rise, const double *fall,
                                size_t n) {
    for (size_t i = 0; i < n; i++)
        f[i] += t * (rise[i] - fall[i]);
}

static void step(larder__smo_exact *x, size_t i, size_t j) {
    larder__smo *s = x->smo;
    double eta = curve(x, i, j), slope = s->f[j] - s->f[i], t = slope / eta;
    double rise = s->hi[i] - s->beta[i], fall = s->beta[j] - s->lo[j];
    t = fmin(t, fmin(rise, fall));
    s->beta[i] = t == rise ? s->hi[i] : s->beta[i] + t;
    s->beta[j] = t == fall ? s->lo[j] : s->beta[j] - t;
    x->gained += t * (slope - t * eta / 2);
    move(s->f, t, x->k + i * x->stride, x->k + j * x->stride, s->n);
}

/* One step of the pair that gains most; false where the gap is below the tolerance. */
static bool one_step(larder__smo_exact *x, double tolerance) {
    size_t rise = SIZE_MAX, fall = SIZE_MAX;
    double most = -1;
    x->gap = 0;
    for (unsigned g = 0; g < x->smo->groups; g++) {
        ends e = find_ends(x->smo, g);
        x->gap = fmax(x->gap, e.highest - e.lowest);
        if (!(e.highest > e.lowest))
            continue;
        larder__smo_want(x->smo, e.rise);
        size_t best = partner(x, g, &e, &most);
        if (best != SIZE_MAX)
            rise = e.rise, fall = best;
    }
    if (!(x->gap >= tolerance) || rise == SIZE_MAX)
        return false;
    larder__smo_want(x->smo, fall);
    step(x, rise, fall);
    return true;
}

/* Neither the gap nor the objective moves any more: what is left is the rounding of doubles. */
static bool stands(larder__smo_exact *x) {
    bool still = !(x->gap < 0.99 * x->best_gap) && x->gained <= no_progress * x->total;
    x->total += x->gained;
    x->gained = 0;
    x->best_gap = fmin(x->best_gap, x->gap);
    return still;
}

uint64_t larder__smo_exact_run(larder__smo_exact *x, double tolerance, double share,
                               uint64_t most) {
    uint64_t done = 0, block = FEW;
    x->best_gap = INFINITY;
    x->gained = x->total = 0;
    for (unsigned g = 0; g < x->smo->groups; g++) {
        ends e = find_ends(x->smo, g);
        tolerance = fmax(tolerance, share * (e.highest - e.lowest));
    }
    for (uint64_t turn = 1; done < most; turn++) {
        uint64_t end = most - done < block ? most : done + block;
        while (done < end && one_step(x, tolerance))
            done++;
        if (done < end || (turn % LOOK == 0 && stands(x)))
            break;
        for (size_t i = 0; i < x->smo->n; i++)
            if (x->smo->beta[i] > x->smo->lo[i] && x->smo->beta[i] < x->smo->hi[i])
                larder__smo_want(x->smo, i);
        done += larder__face_descend(&x->face, x->smo, x->k, x->stride, tolerance);
        x->gained += x->face.gained;
        double next = x->face.work / (8 * (double)x->smo->n);
        block = next < FEW ? FEW : next > MANY ? MANY : (uint64_t)next;
    }
    return done;
}
