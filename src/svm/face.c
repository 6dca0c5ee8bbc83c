#include "svm/face.h"

#include "base/clones.h"
#include "base/err.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

/* A pivot below this share of the largest is rounding. */
static const double no_pivot = 2e-14;
static const double most_work = 4e8; /* a call; a larger system gets one factorisation anyhow */

int larder__face_open(larder__face *f, size_t room) {
    *f = (larder__face){.room = room};
    f->factor = larder__malloc((room + 4) * (room + 1) * sizeof *f->factor);
    f->free = larder__malloc(3 * (room + 1) * sizeof *f->free);
    if (!f->factor || !f->free) {
        larder__face_close(f);
        return larder__fail(LARDER_E_NOMEM, "no memory for a system of %zu variables", room);
    }
    f->left = f->factor + room * room; /* in one block: many small problems want it */
    f->slope = f->left + room;
    f->along = f->slope + room;
    f->solved = f->along + room;
    f->order = f->free + room + 1;
    f->base = f->order + room + 1;
    return 0;
}

void larder__face_close(larder__face *f) {
    larder__free(f->factor);
    larder__free(f->free);
    *f = (larder__face){0};
}

/* ---- the system ------------------------------------------------------------------------------ */

typedef struct system {
    larder__face *f;
    larder__smo *s;
    const double *k;
    size_t stride;
    size_t n, rank; /* variables that move freely, and those that are independent */
} system;

static double room_of(const larder__smo *s, size_t i) {
    return fmin(s->beta[i] - s->lo[i], s->hi[i] - s->beta[i]);
}

static bool in_group(const larder__smo *s, unsigned g, size_t i) {
    return s->in_group[g][i / 8] >> i % 8 & 1;
}

/* Free variables, but for one of each group, which balances the others: the one with most room. */
static void list_free(system *y) {
    larder__smo *s = y->s;
    y->n = 0;
    for (unsigned g = 0; g < s->groups; g++) {
        size_t base = SIZE_MAX;
        for (size_t i = 0; i < s->n; i++)
            if (in_group(s, g, i) && room_of(s, i) > 0 &&
                (base == SIZE_MAX || room_of(s, i) > room_of(s, base)))
                base = i;
        for (size_t i = 0; i < s->n; i++)
            if (in_group(s, g, i) && room_of(s, i) > 0 && i != base) {
                y->f->free[y->n] = (uint32_t)i;
                y->f->base[y->n++] = (uint32_t)base;
            }
    }
}

/* Curvature between raising a and lowering its base, and the same of b. */
static double bend(const system *y, size_t a, size_t b) {
    const double *i = y->k + y->f->free[a] * y->stride, *p = y->k + y->f->base[a] * y->stride;
    uint32_t j = y->f->free[b], q = y->f->base[b];
    return (i[j] - p[j]) - (i[q] - p[q]);
}

LARDER__CLONES static double dot(const double *a, const double *b, size_t n) {
    double sum[8] = {0}, rest = 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t k = 0; k < 8; k++)
            sum[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        rest += a[i] * b[i];
    return rest + ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

static double *row(const system *y, size_t at) {
    return y->f->factor + y->f->order[at] * y->f->room;
}

static size_t next_pivot(const system *y, size_t from) {
    const larder__face *f = y->f;
    size_t best = from;
    for (size_t i = from + 1; i < y->n; i++)
        if (f->left[f->order[i]] > f->left[f->order[best]])
            best = i;
    return best;
}

/* Cholesky with pivots: variables that depend on those before, as far as doubles can tell, stay
 * behind y->rank. */
static void factorise(system *y) {
    larder__face *f = y->f;
    double most = 0;
    for (size_t i = 0; i < y->n; i++) {
        f->order[i] = (uint32_t)i;
        f->left[i] = bend(y, i, i);
        most = fmax(most, f->left[i]);
    }
    for (y->rank = 0; y->rank < y->n; y->rank++) {
        size_t j = y->rank, at = next_pivot(y, j);
        uint32_t pivot = f->order[at];
        if (!(f->left[pivot] > no_pivot * most))
            break;
        f->order[at] = f->order[j];
        f->order[j] = pivot;
        double *own = row(y, j);
        own[j] = sqrt(f->left[pivot]);
        for (size_t i = j + 1; i < y->n; i++) {
            double *other = row(y, i);
            other[j] = (bend(y, f->order[i], pivot) - dot(other, own, j)) / own[j];
            f->left[f->order[i]] -= other[j] * other[j];
        }
    }
    f->work += (double)y->n * (double)y->n * (double)(y->rank + 1);
}

/* x of L' x = x. */
static void solve_back(const system *y, double *x) {
    for (size_t i = y->rank; i-- > 0;) {
        const double *own = row(y, i);
        x[i] /= own[i];
        for (size_t j = 0; j < i; j++)
            x[j] -= own[j] * x[i];
    }
}

static void find_slopes(const system *y) {
    for (size_t i = 0; i < y->n; i++)
        y->f->slope[i] = y->s->f[y->f->free[i]] - y->s->f[y->f->base[i]];
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void add_along(const system *y, size_t i, double by) {
    y->f->along[y->f->free[i]] += by;
    y->f->along[y->f->base[i]] -= by;
}

/* As far along as bounds allow, at most `far`. Returns whether a bound was met. */
static bool go(const system *y, double far) {
    larder__smo *s = y->s;
    const double *d = y->f->along;
    double step = far;
    size_t first = SIZE_MAX; /* to meet a bound, which it hits exactly */
    for (size_t i = 0; i < s->n; i++) {
        double room = d[i] > 0 ? s->hi[i] - s->beta[i] : s->lo[i] - s->beta[i];
        if (d[i] != 0 && room / d[i] <= step)
            step = room / d[i], first = i;
    }
    if (!isfinite(step))
        return false;
    double before = 0, after = 0;
    for (size_t i = 0; i < s->n; i++)
        before += d[i] * s->f[i];
    for (size_t i = 0; i < s->n; i++) {
        if (d[i] == 0)
            continue;
        double b = s->beta[i] + step * d[i];
        bool met = i == first || b >= s->hi[i] || b <= s->lo[i];
        s->beta[i] = !met ? b : d[i] > 0 ? s->hi[i] : s->lo[i];
        const double *k = y->k + i * y->stride;
        for (size_t j = 0; j < s->n; j++)
            s->f[j] += step * d[i] * k[j];
        y->f->work += (double)s->n;
    }
    for (size_t i = 0; i < s->n; i++)
        after += d[i] * s->f[i];
    y->f->gained -= step * (before + after) / 2;
    return first != SIZE_MAX;
}

/* To the least value over the independent ones. */
static bool go_down(const system *y) {
    larder__face *f = y->f;
    double *x = f->solved, slope = 0;
    for (size_t i = 0; i < y->rank; i++)
        x[i] = (-f->slope[f->order[i]] - dot(row(y, i), x, i)) / row(y, i)[i];
    solve_back(y, x);
    memset(f->along, 0, y->s->n * sizeof *f->along);
    for (size_t i = 0; i < y->rank; i++) {
        add_along(y, f->order[i], x[i]);
        slope += f->slope[f->order[i]] * x[i];
    }
    return slope < 0 && go(y, 1);
}

/* Along a direction without curvature, that of a dependent variable, up to a bound. */
static bool go_across(const system *y, double tolerance) {
    larder__face *f = y->f;
    size_t best = y->n;
    find_slopes(y);
    for (size_t i = y->rank; i < y->n; i++) {
        double slope = fabs(f->slope[f->order[i]]);
        if (slope > tolerance && (best == y->n || slope > fabs(f->slope[f->order[best]])))
            best = i;
    }
    if (best == y->n)
        return false;
    memcpy(f->solved, row(y, best), y->rank * sizeof *f->solved);
    solve_back(y, f->solved);
    memset(f->along, 0, y->s->n * sizeof *f->along);
    double side = f->slope[f->order[best]] > 0 ? -1 : 1, curve = f->left[f->order[best]];
    add_along(y, f->order[best], side);
    for (size_t i = 0; i < y->rank; i++)
        add_along(y, f->order[i], -side * f->solved[i]);
    return go(y, curve > 0 ? fabs(f->slope[f->order[best]]) / curve : INFINITY);
}

uint64_t larder__face_descend(larder__face *f, larder__smo *s, const double *k, size_t stride,
                              double tolerance) {
    system y = {.f = f, .s = s, .k = k, .stride = stride};
    uint64_t steps = 0;
    f->work = f->gained = 0;
    do {
        list_free(&y);
        if (y.n == 0)
            break;
        factorise(&y);
        find_slopes(&y);
        steps++;
    } while ((go_down(&y) || go_across(&y, tolerance / 2)) && f->work < most_work);
    return steps;
}
