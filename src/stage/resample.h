/* Resampling. Bilinear with antialias, as Pillow and torchvision (antialias=True) define it: a
 * triangle as wide as the larger of source and target pixel, cut off at the box and renormalised.
 * First down, then across; one rounding at the end. No multiply-add is fused, so that every
 * machine gives the same pixels. */
#ifndef LARDER_STAGE_RESAMPLE_H
#define LARDER_STAGE_RESAMPLE_H

#include "stage/codec.h"
#include "stage/scratch.h"

#include <larder/plugin.h>

/* One axis: the box [in0, in1) of the source becomes `full` pixels, of which first..last-1 are
 * wanted. Source pixels outside lo..hi-1 do not exist. */
typedef struct larder__axis {
    double in0, in1;
    int64_t lo, hi, full, first, last;
    larder_filter filter;
    bool aliased; /* no antialias: however many source pixels there are */
} larder__axis;

/* The source pixels that these outputs look at. */
void larder__axis_reach(const larder__axis *, int64_t *from, int64_t *to);

/* Output i is the sum of weight[i * width + k] * source[from[i] + k], k < count[i]. */
typedef struct larder__taps {
    size_t n, width;
    int32_t *from, *count; /* from counts from `origin` */
    float *weight;
    int32_t each; /* after larder__taps_even: all counts */
} larder__taps;

int larder__taps_build(larder__taps *, larder__scratch *, larder__block, const larder__axis *,
                       int64_t origin);
/* The same count for all, so that a loop over them has no surprises for the processor: weights of 0
 * are added. `end` is the source's, counted from `origin`; nobody reaches past it. */
void larder__taps_even(larder__taps *, int32_t end);

/* `in` has 4 bytes a pixel and covers the reach of both axes. The first by the filter of the axes;
 * the others are its parts. */
int larder__resample(larder__scratch *, const larder__picture *in, const larder__axis *x,
                     const larder__axis *y, larder__picture *out);

int larder__resample_nearest(larder__scratch *, const larder__picture *in, const larder__axis *x,
                             const larder__axis *y, larder__picture *out);
int larder__resample_sharp(larder__scratch *, const larder__picture *in, const larder__axis *x,
                           const larder__axis *y, larder__picture *out);

#endif
