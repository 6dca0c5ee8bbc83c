/* What stages do to colours, as Pillow and torchvision do it: each level of the result follows from
 * the same arithmetic, roundings included. On a canvas with pixels; grey ones (one channel or two)
 * have no colours to change. */
#ifndef LARDER_STAGE_RECOLOUR_H
#define LARDER_STAGE_RECOLOUR_H

#include <larder/plugin.h>

/* What is done to each pixel by itself (contrast: knowing the mean), as a list, for a machine that
 * does it elsewhere. A canvas that notes (larder__canvas.noted) has no pixels: what is asked of the
 * first eight calls below is written down there. */
typedef enum {
    LARDER__BRIGHTEN,
    LARDER__CONTRAST,
    LARDER__SATURATE,
    LARDER__HUE, /* by: added to a hue of 8 bits */
    LARDER__TO_GREY,
    LARDER__INVERT,
    LARDER__MASK,    /* by: bits that stay */
    LARDER__SOLARIZE /* by: levels above it are inverted */
} larder__recolour;

enum { LARDER__RECOLOURS_MOST = 16 };
typedef struct larder__recolours {
    uint32_t count; /* above the limit: some were lost */
    struct {
        int32_t op; /* larder__recolour */
        float by;
    } each[LARDER__RECOLOURS_MOST];
} larder__recolours;

void larder__brighten(const larder_canvas *, double factor);
void larder__contrast(const larder_canvas *, double factor);
void larder__saturate(const larder_canvas *, double factor);
void larder__turn_hue(const larder_canvas *, double turn); /* -0.5 to 0.5 of the circle */
void larder__grey(const larder_canvas *);
void larder__invert(const larder_canvas *);
void larder__posterize(const larder_canvas *, unsigned bits);
void larder__solarize(const larder_canvas *, double threshold);
void larder__equalize(const larder_canvas *);
void larder__autocontrast(const larder_canvas *);
int larder__sharpen(larder_canvas *, double factor);
/* Sums of a Gaussian over kernel_w x kernel_h pixels, mirrored at the edges. */
int larder__blur(larder_canvas *, uint32_t kernel_w, uint32_t kernel_h, double sigma);

#endif
