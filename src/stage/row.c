/* Writing into a finished row of a batch. */
#include "base/half.h"
#include "stage/stage.h"

static void put(const larder_row *r, size_t i, double v) {
    float f = (float)v;
    if (r->dtype == LARDER_F32)
        ((float *)r->at)[i] = f;
    else if (r->dtype == LARDER_U8)
        ((uint8_t *)r->at)[i] = (uint8_t)(v * 255 < 0 ? 0 : v >= 1 ? 255 : v * 255 + 0.5);
    else
        ((uint16_t *)r->at)[i] =
            r->dtype == LARDER_F16 ? larder__f16_of_float(f) : larder__bf16_of_float(f);
}

void larder_row_put(const larder_row *r, uint32_t x, uint32_t y, const double *values) {
    const larder_shape *s = &r->shape;
    for (uint32_t c = 0; c < s->c; c++) {
        size_t i = r->layout == LARDER_NHWC ? ((size_t)y * s->w + x) * s->c + c
                                            : ((size_t)c * s->h + y) * s->w + x;
        put(r, i, values[c] * r->scale[c] + r->bias[c]);
    }
}
