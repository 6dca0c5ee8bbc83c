/* Turning, shearing and moving a canvas: each pixel of the result comes from one place of it. */
#ifndef LARDER_STAGE_WARP_H
#define LARDER_STAGE_WARP_H

#include <larder/plugin.h>

/* Where the point x, y of the result lies in the picture: at[0] x + at[1] y + at[2], and with the
 * last three the other coordinate. */
typedef struct larder__warp {
    double at[6];
    uint32_t w, h; /* of the result */
    larder_filter filter;
    const uint8_t *fill; /* beyond the picture's edge */
} larder__warp;

/* As Pillow's transform. */
int larder__warp_run(larder_canvas *, const larder__warp *);

typedef struct larder__turn { /* as torchvision's affine has it */
    double angle, shear[2];   /* degrees */
    double move[2], scale;    /* pixels */
    double centre[2];
} larder__turn;
void larder__warp_affine(larder__warp *, const larder__turn *);
/* Around the middle, counter-clockwise, as Pillow's rotate; `expand`: the result has room for all
 * of it. w and h are the picture's. */
void larder__warp_rotate(larder__warp *, double degrees, bool expand);

#endif
