#include "stage/augment_ops.h"

#include "base/clones.h"
#include "stage/recolour.h"
#include "stage/warp.h"

#include <math.h>

const larder__op_reach larder__op_usual = {0.3f, 30, 0.9f, (float)(150.0 / 331.0), 4};
const larder__op_reach larder__op_wide = {0.99f, 135, 0.99f, 32, 6};

int larder__op_look_read(larder__op_look *o, const char *stage, const larder_args *args) {
    o->filter = larder__filter_read(args);
    return larder__fill_read(o->fill, stage, args);
}

bool larder__op_signed(larder__op_of op) {
    return op >= LARDER__OP_SHEAR_X && op <= LARDER__OP_SHARPNESS;
}

/* torch.linspace(from, to, bins)[bin], in its own arithmetic: from both ends, in floats. */
static double spaced(float from, float to, uint32_t bin, uint32_t bins) {
    if (bins < 2)
        return (double)from;
    float step = (to - from) / (float)(bins - 1);
    return (double)(bin < bins / 2 ? from + step * (float)bin
                                   : to - step * (float)(bins - bin - 1));
}

static int shear(larder_canvas *k, larder__warp *o, double x, double y) {
    const double degrees = 180 / 3.14159265358979323846;
    larder__warp_affine(
        o, &(larder__turn){.shear = {atan(x) * degrees, atan(y) * degrees}, .scale = 1});
    return larder__warp_run(k, o);
}

static int translate(larder_canvas *k, larder__warp *o, double x, double y) {
    larder__warp_affine(o, &(larder__turn){.move = {trunc(x), trunc(y)},
                                           .scale = 1,
                                           .centre = {k->w * 0.5, k->h * 0.5}});
    return larder__warp_run(k, o);
}

static int rotate(larder_canvas *k, larder__warp *o, double degrees) {
    larder__warp_rotate(o, degrees, false);
    return larder__warp_run(k, o);
}

static int move(larder_canvas *k, larder__op_of op, double by, const larder__op_look *look) {
    larder__warp o = {.w = k->w, .h = k->h, .filter = look->filter, .fill = look->fill};
    switch (op) {
    case LARDER__OP_SHEAR_X:
        return shear(k, &o, by, 0);
    case LARDER__OP_SHEAR_Y:
        return shear(k, &o, 0, by);
    case LARDER__OP_TRANSLATE_X:
        return translate(k, &o, by, 0);
    case LARDER__OP_TRANSLATE_Y:
        return translate(k, &o, 0, by);
    default:
        return rotate(k, &o, by);
    }
}

static int recolour(larder_canvas *k, larder__op_of op, double by) {
    switch (op) {
    case LARDER__OP_BRIGHTNESS:
        larder__brighten(k, 1 + by);
        return 0;
    case LARDER__OP_COLOR:
        larder__saturate(k, 1 + by);
        return 0;
    case LARDER__OP_CONTRAST:
        larder__contrast(k, 1 + by);
        return 0;
    case LARDER__OP_SHARPNESS:
        return larder__sharpen(k, 1 + by);
    case LARDER__OP_POSTERIZE:
        larder__posterize(k, (unsigned)by);
        return 0;
    case LARDER__OP_SOLARIZE:
        larder__solarize(k, by);
        return 0;
    case LARDER__OP_AUTOCONTRAST:
        larder__autocontrast(k);
        return 0;
    case LARDER__OP_EQUALIZE:
        larder__equalize(k);
        return 0;
    case LARDER__OP_INVERT:
        larder__invert(k);
        return 0;
    default:
        return 0;
    }
}

static double magnitude(const larder_canvas *k, larder__op_of op, const larder__op_reach *r,
                        uint32_t bin, uint32_t bins) {
    double side = op == LARDER__OP_TRANSLATE_X ? k->w : k->h;
    switch (op) {
    case LARDER__OP_SHEAR_X:
    case LARDER__OP_SHEAR_Y:
        return spaced(0, r->shear, bin, bins);
    case LARDER__OP_TRANSLATE_X:
    case LARDER__OP_TRANSLATE_Y:
        return spaced(0, r->translate > 1 ? r->translate : (float)(150.0 / 331.0 * side), bin,
                      bins);
    case LARDER__OP_ROTATE:
        return spaced(0, r->rotate, bin, bins);
    case LARDER__OP_POSTERIZE: /* halves to even */
        return bins < 2 ? 8
                        : 8 - (double)nearbyintf((float)bin /
                                                 ((float)(bins - 1) / (float)r->posterize_bits));
    case LARDER__OP_SOLARIZE:
        return spaced(255, 0, bin, bins);
    default:
        return spaced(0, r->blend, bin, bins);
    }
}

int larder__op_apply(larder_canvas *k, larder__op_of op, const larder__op_reach *reach,
                     uint32_t bin, uint32_t bins, bool negative, const larder__op_look *look) {
    double by = magnitude(k, op, reach, bin, bins);
    by = negative && larder__op_signed(op) ? -by : by;
    if (op >= LARDER__OP_SHEAR_X && op <= LARDER__OP_ROTATE)
        return move(k, op, by, look);
    return larder_canvas_colours(k) ? recolour(k, op, by) : 0;
}
