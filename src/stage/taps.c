#include "base/err.h"
#include "stage/resample.h"

#include <math.h>
#include <string.h>

/* Half the width of the triangle, in source pixels. */
static double support_of(const larder__axis *a) {
    double scale = (a->in1 - a->in0) / (double)a->full;
    return scale > 1 ? scale : 1;
}

static void reach_of(const larder__axis *a, int64_t i, int64_t *from, int64_t *to, double *centre) {
    double support = support_of(a);
    *centre = a->in0 + ((double)i + 0.5) * ((a->in1 - a->in0) / (double)a->full);
    *from = (int64_t)floor(*centre - support + 0.5);
    *to = (int64_t)floor(*centre + support + 0.5);
    *from = *from < a->lo ? a->lo : *from > a->hi - 1 ? a->hi - 1 : *from;
    *to = *to > a->hi ? a->hi : *to <= *from ? *from + 1 : *to;
}

void larder__axis_reach(const larder__axis *a, int64_t *from, int64_t *to) {
    int64_t other;
    double centre;
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

int larder__taps_build(larder__taps *t, larder__scratch *s, larder__block block,
                       const larder__axis *a, int64_t origin) {
    double support = support_of(a);
    t->n = (size_t)(a->last - a->first);
    t->width = (size_t)ceil(support) * 2 + 2;
    t->from =
        larder__scratch_take(s, block, t->n * (2 * sizeof *t->from + t->width * sizeof *t->weight));
    if (!t->from)
        return LARDER_E_NOMEM;
    t->count = t->from + t->n;
    t->weight = (float *)(void *)(t->count + t->n);
    for (size_t i = 0; i < t->n; i++) {
        int64_t from, to;
        double centre, sum = 0;
        reach_of(a, a->first + (int64_t)i, &from, &to, &centre);
        float *w = t->weight + i * t->width;
        size_t n = (size_t)(to - from);
        for (size_t k = 0; k < n; k++) {
            double away = fabs(((double)from + (double)k + 0.5 - centre) / support);
            double v = away < 1 ? 1 - away : 0;
            w[k] = (float)v;
            sum += v;
        }
        if (sum <= 0) { /* the box ends inside a shrunk pixel: take what is nearest */
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
