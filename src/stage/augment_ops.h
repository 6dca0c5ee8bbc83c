/* The operations that RandAugment, TrivialAugment and AutoAugment draw from, in torchvision's
 * definition. */
#ifndef LARDER_STAGE_AUGMENT_OPS_H
#define LARDER_STAGE_AUGMENT_OPS_H

#include "stage/stage.h"

typedef enum { /* the first fourteen are what RandAugment and TrivialAugment draw from */
               LARDER__OP_IDENTITY,
               LARDER__OP_SHEAR_X,
               LARDER__OP_SHEAR_Y,
               LARDER__OP_TRANSLATE_X,
               LARDER__OP_TRANSLATE_Y,
               LARDER__OP_ROTATE,
               LARDER__OP_BRIGHTNESS,
               LARDER__OP_COLOR,
               LARDER__OP_CONTRAST,
               LARDER__OP_SHARPNESS,
               LARDER__OP_POSTERIZE,
               LARDER__OP_SOLARIZE,
               LARDER__OP_AUTOCONTRAST,
               LARDER__OP_EQUALIZE,
               LARDER__OP_INVERT
} larder__op_of;
enum { LARDER__OPS_DRAWN = 14 };

typedef struct larder__op_reach { /* the largest of each magnitude; the smallest is 0 */
    float shear, rotate, blend;
    float translate;         /* share of the side, or, above 1, pixels */
    uint32_t posterize_bits; /* that are taken away at most */
} larder__op_reach;
extern const larder__op_reach larder__op_usual; /* of RandAugment and AutoAugment */
extern const larder__op_reach larder__op_wide;  /* of TrivialAugmentWide */

typedef struct larder__op_look { /* of operations that move pixels */
    larder_filter filter;
    uint8_t fill[LARDER_CHANNELS_MAX];
} larder__op_look;
int larder__op_look_read(larder__op_look *, const char *stage, const larder_args *);

bool larder__op_signed(larder__op_of);
/* Magnitude number `bin` of 0..bins-1; `negative` where the operation is signed. */
int larder__op_apply(larder_canvas *, larder__op_of, const larder__op_reach *, uint32_t bin,
                     uint32_t bins, bool negative, const larder__op_look *);

#endif
