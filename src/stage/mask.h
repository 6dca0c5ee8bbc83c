/* What lies on a picture goes where its pixels go: masks, a number a pixel, and boxes. */
#ifndef LARDER_STAGE_MASK_H
#define LARDER_STAGE_MASK_H

#include "stage/pipeline.h"

typedef struct larder__plane { /* a byte a pixel, row after row */
    const uint8_t *at;
    uint32_t w, h;
} larder__plane;

/* Of a picture's bytes: grey levels as they are, of a PNG with a palette the numbers and not the
 * colours, of others red. In the scratch until its next use. */
int larder__plane_decode(larder__plane *out, larder__scratch *, const void *bytes, size_t size);
/* As the pipeline would make a picture of w x h with this seed, but for geometry alone, of the
 * nearest pixel; `out` has a byte a pixel of the pipeline's shape. */
int larder__pipeline_mask(const larder__pipeline *, const larder__plane *, uint32_t w, uint32_t h,
                          uint64_t seed, uint8_t fill, uint8_t *out);
/* A box x0 y0 x1 y1 (`sides`: x y w h) of the source as it is in the view, corners, clipped. */
void larder__box_move(const larder_view *, float box[4], bool sides);

#endif
