/* The last pass: pixels into their place in the batch, with padding, flip, tone, type and layout
 * in one go. */
#ifndef LARDER_STAGE_EMIT_H
#define LARDER_STAGE_EMIT_H

#include "stage/codec.h"

typedef struct larder__emit {
    larder_shape shape; /* of the result */
    larder_dtype dtype;
    larder_layout layout;
    bool flipped;
    larder__rect filled; /* the part of the unflipped result that has pixels; the rest is zero */
    const uint8_t *at;   /* the pixel for (filled.x0, filled.y0) */
    ptrdiff_t row, pixel, channel;
    float scale[4], bias[4]; /* f32 only: scale * value + bias */
} larder__emit;

void larder__emit_run(const larder__emit *, void *out);

#endif
