#include "base/err.h"
#include "stage/resample.h"

#include <math.h>
#include <string.h>

/* How far a filter reaches, in pixels of the coarser side. */
static double radius_of(const larder__axis *a) { return a->filter == LARDER_BICUBIC ? 2 : 1; }

/* Source pixels a unit of the filter is wide. */
static double width_of(const larder__axis *a) {
    double scale = (a->in1 - a->in0) / (double)a->full;
    return scale > 1 && !a->aliased ? scale : 1;
}

/* The source pixel nearest to output i. Pillow adds up steps from the first one, so whoever lies
 * between two pixels goes where its rounding sends it. */
static int64_t nearest_to(const larder__axis *a, int64_t i, double *sum, int64_t *at) {
    double step = (a->in1 - a->in0) / (double)a->full, whole = floor(a->in0);
    if (*at < 0) {
        *sum = (a->in0 - whole) + step * 0.5;
        *at = 0;
    }
    for (; *at < i; ++*at)
        *sum += step;
    int64_t from = (int64_t)(whole + floor(*sum));
    return from < a->lo ? a->lo : from > a->hi - 1 ? a->hi - 1 : from;
}

static void reach_of(const larder__axis *a, int64_t i, int64_t *from, int64_t *to, double *centre) {
    double support = radius_of(a) * width_of(a);
    *centre = a->in0 + ((double)i + 0.5) * ((a->in1 - a->in0) / (double)a->full);
    *from = (int64_t)floor(*centre - support + 0.5);
    *to = (int64_t)floor(*centre + support + 0.5);
    *from = *from < a->lo ? a->lo : *from > a->hi - 1 ? a->hi - 1 : *from;
    *to = *to > a->hi ? a->hi : *to <= *from ? *from + 1 : *to;
}

void larder__axis_reach(const larder__axis *a, int64_t *from, int64_t *to) {
    int64_t other, at = -1;
    double centre, sum = 0;
    if (a->filter == LARDER_NEAREST) {
        *from = nearest_to(a, a->first, &sum, &at);
        *to = nearest_to(a, a->last - 1, &sum, &at) + 1;
        return;
    }
    reach_of(a, a->first, from, &other, &centre);
    reach_of(a, a->last - 1, &other, to, &centre);
}

void larder__taps_even(larder__taps *t, int32_t end) {
    t->each = 0;
    for (size_t i = 0; i < t->n; i++)
        t->each = t->count[i] > t->each ? t->count[i] : t->each;
    for (size_t i = 0; i < t->n; i++) {
        float *w = t->weight + i * t->width;
        int32_t n = t->count[i], shift = t->from[i] + t->each - end;
        shift = shift > 0 ? shift : 0;
        memmove(w + shift, w, (size_t)n * sizeof *w);
        memset(w, 0, (size_t)shift * sizeof *w);
        memset(w + shift + n, 0, (size_t)(t->each - n - shift) * sizeof *w);
        t->from[i] -= shift;
        t->count[i] = t->each;
    }
}

/* Weight at a distance. Cubic convolution as Pillow has it, and as PyTorch's without antialias. */
static double weight_at(const larder__axis *a, double away) {
    if (a->filter != LARDER_BICUBIC)
        return away < 1 ? 1 - away : 0;
    const double k = a->aliased ? -0.75 : -0.5;
    if (away < 1)
        return ((k + 2) * away - (k + 3)) * away * away + 1;
    return away < 2 ? (((away - 5) * away + 8) * away - 4) * k : 0;
}

/* Without antialias the pixel at the edge stands for those beyond it; with it they are left out and
 * the rest makes up for them. */
static double weigh(const larder__axis *a, double centre, int64_t from, int64_t to, float *w) {
    double width = width_of(a), sum = 0;
    for (int64_t k = from; k < to; k++) {
        double v = weight_at(a, fabs(((double)k + 0.5 - centre) / width));
        w[k - from] = (float)v;
        sum += v;
    }
    if (!a->aliased || a->filter != LARDER_BICUBIC)
        return sum;
    for (int64_t k = (int64_t)floor(centre - 1.5); k < from; k++)
        w[0] += (float)weight_at(a, fabs((double)k + 0.5 - centre));
    for (int64_t k = (int64_t)floor(centre + 2.5) - 1; k >= to; k--)
        w[to - from - 1] += (float)weight_at(a, fabs((double)k + 0.5 - centre));
    return 1;
}

int larder__taps_build(larder__taps *t, larder__scratch *s, larder__block block,
                       const larder__axis *a, int64_t origin) {
    t->n = (size_t)(a->last - a->first);
    t->width = (size_t)ceil(radius_of(a) * width_of(a)) * 2 + 2;
    t->from =
        larder__scratch_take(s, block, t->n * (2 * sizeof *t->from + t->width * sizeof *t->weight));
    if (!t->from)
        return LARDER_E_NOMEM;
    t->count = t->from + t->n;
    t->weight = (float *)(void *)(t->count + t->n);
    int64_t at = -1;
    double walked = 0;
    for (size_t i = 0; i < t->n && a->filter == LARDER_NEAREST; i++)
        t->from[i] = (int32_t)(nearest_to(a, a->first + (int64_t)i, &walked, &at) - origin);
    for (size_t i = 0; i < t->n && a->filter != LARDER_NEAREST; i++) {
        int64_t from, to;
        double centre;
        reach_of(a, a->first + (int64_t)i, &from, &to, &centre);
        float *w = t->weight + i * t->width;
        size_t n = (size_t)(to - from);
        double sum = weigh(a, centre, from, to, w);
        if (!(fabs(sum) > 1e-9)) { /* the box ends inside a shrunk pixel: take what is nearest */
            w[0] = 1;
            sum = 1;
        }
        for (size_t k = 0; k < n; k++)
            w[k] = (float)(w[k] / sum);
        t->from[i] = (int32_t)(from - origin);
        t->count[i] = (int32_t)n;
    }
    return 0;
}
