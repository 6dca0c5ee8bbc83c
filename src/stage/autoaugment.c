/* Pairs of operations that were learned on a data set, as torchvision's AutoAugment. */
#include "stage/augment_ops.h"

enum { PAIRS = 25, BINS = 10 };

typedef struct chosen {
    larder__op_of op;
    uint8_t tenths; /* probability */
    uint8_t bin;    /* magnitude */
} chosen;
typedef chosen pair[2];

static const pair imagenet[PAIRS] = {{{LARDER__OP_POSTERIZE, 4, 8}, {LARDER__OP_ROTATE, 6, 9}},
                                     {{LARDER__OP_SOLARIZE, 6, 5}, {LARDER__OP_AUTOCONTRAST, 6, 0}},
                                     {{LARDER__OP_EQUALIZE, 8, 0}, {LARDER__OP_EQUALIZE, 6, 0}},
                                     {{LARDER__OP_POSTERIZE, 6, 7}, {LARDER__OP_POSTERIZE, 6, 6}},
                                     {{LARDER__OP_EQUALIZE, 4, 0}, {LARDER__OP_SOLARIZE, 2, 4}},
                                     {{LARDER__OP_EQUALIZE, 4, 0}, {LARDER__OP_ROTATE, 8, 8}},
                                     {{LARDER__OP_SOLARIZE, 6, 3}, {LARDER__OP_EQUALIZE, 6, 0}},
                                     {{LARDER__OP_POSTERIZE, 8, 5}, {LARDER__OP_EQUALIZE, 10, 0}},
                                     {{LARDER__OP_ROTATE, 2, 3}, {LARDER__OP_SOLARIZE, 6, 8}},
                                     {{LARDER__OP_EQUALIZE, 6, 0}, {LARDER__OP_POSTERIZE, 4, 6}},
                                     {{LARDER__OP_ROTATE, 8, 8}, {LARDER__OP_COLOR, 4, 0}},
                                     {{LARDER__OP_ROTATE, 4, 9}, {LARDER__OP_EQUALIZE, 6, 0}},
                                     {{LARDER__OP_EQUALIZE, 0, 0}, {LARDER__OP_EQUALIZE, 8, 0}},
                                     {{LARDER__OP_INVERT, 6, 0}, {LARDER__OP_EQUALIZE, 10, 0}},
                                     {{LARDER__OP_COLOR, 6, 4}, {LARDER__OP_CONTRAST, 10, 8}},
                                     {{LARDER__OP_ROTATE, 8, 8}, {LARDER__OP_COLOR, 10, 2}},
                                     {{LARDER__OP_COLOR, 8, 8}, {LARDER__OP_SOLARIZE, 8, 7}},
                                     {{LARDER__OP_SHARPNESS, 4, 7}, {LARDER__OP_INVERT, 6, 0}},
                                     {{LARDER__OP_SHEAR_X, 6, 5}, {LARDER__OP_EQUALIZE, 10, 0}},
                                     {{LARDER__OP_COLOR, 4, 0}, {LARDER__OP_EQUALIZE, 6, 0}},
                                     {{LARDER__OP_EQUALIZE, 4, 0}, {LARDER__OP_SOLARIZE, 2, 4}},
                                     {{LARDER__OP_SOLARIZE, 6, 5}, {LARDER__OP_AUTOCONTRAST, 6, 0}},
                                     {{LARDER__OP_INVERT, 6, 0}, {LARDER__OP_EQUALIZE, 10, 0}},
                                     {{LARDER__OP_COLOR, 6, 4}, {LARDER__OP_CONTRAST, 10, 8}},
                                     {{LARDER__OP_EQUALIZE, 8, 0}, {LARDER__OP_EQUALIZE, 6, 0}}};

static const pair cifar10[PAIRS] = {
    {{LARDER__OP_INVERT, 1, 0}, {LARDER__OP_CONTRAST, 2, 6}},
    {{LARDER__OP_ROTATE, 7, 2}, {LARDER__OP_TRANSLATE_X, 3, 9}},
    {{LARDER__OP_SHARPNESS, 8, 1}, {LARDER__OP_SHARPNESS, 9, 3}},
    {{LARDER__OP_SHEAR_Y, 5, 8}, {LARDER__OP_TRANSLATE_Y, 7, 9}},
    {{LARDER__OP_AUTOCONTRAST, 5, 0}, {LARDER__OP_EQUALIZE, 9, 0}},
    {{LARDER__OP_SHEAR_Y, 2, 7}, {LARDER__OP_POSTERIZE, 3, 7}},
    {{LARDER__OP_COLOR, 4, 3}, {LARDER__OP_BRIGHTNESS, 6, 7}},
    {{LARDER__OP_SHARPNESS, 3, 9}, {LARDER__OP_BRIGHTNESS, 7, 9}},
    {{LARDER__OP_EQUALIZE, 6, 0}, {LARDER__OP_EQUALIZE, 5, 0}},
    {{LARDER__OP_CONTRAST, 6, 7}, {LARDER__OP_SHARPNESS, 6, 5}},
    {{LARDER__OP_COLOR, 7, 7}, {LARDER__OP_TRANSLATE_X, 5, 8}},
    {{LARDER__OP_EQUALIZE, 3, 0}, {LARDER__OP_AUTOCONTRAST, 4, 0}},
    {{LARDER__OP_TRANSLATE_Y, 4, 3}, {LARDER__OP_SHARPNESS, 2, 6}},
    {{LARDER__OP_BRIGHTNESS, 9, 6}, {LARDER__OP_COLOR, 2, 8}},
    {{LARDER__OP_SOLARIZE, 5, 2}, {LARDER__OP_INVERT, 0, 0}},
    {{LARDER__OP_EQUALIZE, 2, 0}, {LARDER__OP_AUTOCONTRAST, 6, 0}},
    {{LARDER__OP_EQUALIZE, 2, 0}, {LARDER__OP_EQUALIZE, 6, 0}},
    {{LARDER__OP_COLOR, 9, 9}, {LARDER__OP_EQUALIZE, 6, 0}},
    {{LARDER__OP_AUTOCONTRAST, 8, 0}, {LARDER__OP_SOLARIZE, 2, 8}},
    {{LARDER__OP_BRIGHTNESS, 1, 3}, {LARDER__OP_COLOR, 7, 0}},
    {{LARDER__OP_SOLARIZE, 4, 5}, {LARDER__OP_AUTOCONTRAST, 9, 0}},
    {{LARDER__OP_TRANSLATE_Y, 9, 9}, {LARDER__OP_TRANSLATE_Y, 7, 9}},
    {{LARDER__OP_AUTOCONTRAST, 9, 0}, {LARDER__OP_SOLARIZE, 8, 3}},
    {{LARDER__OP_EQUALIZE, 8, 0}, {LARDER__OP_INVERT, 1, 0}},
    {{LARDER__OP_TRANSLATE_Y, 7, 9}, {LARDER__OP_AUTOCONTRAST, 9, 0}}};

static const pair svhn[PAIRS] = {{{LARDER__OP_SHEAR_X, 9, 4}, {LARDER__OP_INVERT, 2, 0}},
                                 {{LARDER__OP_SHEAR_Y, 9, 8}, {LARDER__OP_INVERT, 7, 0}},
                                 {{LARDER__OP_EQUALIZE, 6, 0}, {LARDER__OP_SOLARIZE, 6, 6}},
                                 {{LARDER__OP_INVERT, 9, 0}, {LARDER__OP_EQUALIZE, 6, 0}},
                                 {{LARDER__OP_EQUALIZE, 6, 0}, {LARDER__OP_ROTATE, 9, 3}},
                                 {{LARDER__OP_SHEAR_X, 9, 4}, {LARDER__OP_AUTOCONTRAST, 8, 0}},
                                 {{LARDER__OP_SHEAR_Y, 9, 8}, {LARDER__OP_INVERT, 4, 0}},
                                 {{LARDER__OP_SHEAR_Y, 9, 5}, {LARDER__OP_SOLARIZE, 2, 6}},
                                 {{LARDER__OP_INVERT, 9, 0}, {LARDER__OP_AUTOCONTRAST, 8, 0}},
                                 {{LARDER__OP_EQUALIZE, 6, 0}, {LARDER__OP_ROTATE, 9, 3}},
                                 {{LARDER__OP_SHEAR_X, 9, 4}, {LARDER__OP_SOLARIZE, 3, 3}},
                                 {{LARDER__OP_SHEAR_Y, 8, 8}, {LARDER__OP_INVERT, 7, 0}},
                                 {{LARDER__OP_EQUALIZE, 9, 0}, {LARDER__OP_TRANSLATE_Y, 6, 6}},
                                 {{LARDER__OP_INVERT, 9, 0}, {LARDER__OP_EQUALIZE, 6, 0}},
                                 {{LARDER__OP_CONTRAST, 3, 3}, {LARDER__OP_ROTATE, 8, 4}},
                                 {{LARDER__OP_INVERT, 8, 0}, {LARDER__OP_TRANSLATE_Y, 0, 2}},
                                 {{LARDER__OP_SHEAR_Y, 7, 6}, {LARDER__OP_SOLARIZE, 4, 8}},
                                 {{LARDER__OP_INVERT, 6, 0}, {LARDER__OP_ROTATE, 8, 4}},
                                 {{LARDER__OP_SHEAR_Y, 3, 7}, {LARDER__OP_TRANSLATE_X, 9, 3}},
                                 {{LARDER__OP_SHEAR_X, 1, 6}, {LARDER__OP_INVERT, 6, 0}},
                                 {{LARDER__OP_SOLARIZE, 7, 2}, {LARDER__OP_TRANSLATE_Y, 6, 7}},
                                 {{LARDER__OP_SHEAR_Y, 8, 4}, {LARDER__OP_INVERT, 8, 0}},
                                 {{LARDER__OP_SHEAR_X, 7, 9}, {LARDER__OP_TRANSLATE_Y, 8, 3}},
                                 {{LARDER__OP_SHEAR_Y, 8, 5}, {LARDER__OP_AUTOCONTRAST, 7, 0}},
                                 {{LARDER__OP_SHEAR_X, 7, 2}, {LARDER__OP_INVERT, 1, 0}}};

typedef struct autoaugment_state {
    const pair *pairs;
    larder__op_look look;
} autoaugment_state;

static int autoaugment_init(void *st, const larder_args *args) {
    autoaugment_state *s = st;
    const char *policy = larder_args_text(args, "policy");
    s->pairs = strcmp(policy, "cifar10") == 0 ? cifar10
               : strcmp(policy, "svhn") == 0  ? svhn
                                              : imagenet;
    return larder__op_look_read(&s->look, "autoaugment", args);
}

static int autoaugment_canvas(const void *st, larder_canvas *k, larder_rng *rng) {
    const autoaugment_state *s = st;
    int rc = 0;
    if (!rng)
        return 0;
    const chosen *both = s->pairs[larder_rng_below(rng, PAIRS)];
    for (int i = 0; i < 2 && rc == 0; i++) {
        bool happens = larder_rng_unit(rng) < both[i].tenths / 10.0;
        bool negative = larder_rng_below(rng, 2) == 0;
        if (happens)
            rc = larder__op_apply(k, both[i].op, &larder__op_usual, both[i].bin, BINS, negative,
                                  &s->look);
    }
    return rc;
}

static const larder_param params[] = {
    {"policy", "imagenet|cifar10|svhn", "imagenet", "the data set it was learned on", 0, 0},
    LARDER__FILTER_PARAM("nearest"),
    LARDER__FILL_PARAM,
    {0}};

const larder_stage larder__stage_autoaugment = {
    .plugin = {"autoaugment", "AutoAugment: pairs of operations that were learned", params,
               sizeof(autoaugment_state)},
    .random = true,
    .init = autoaugment_init,
    .canvas = autoaugment_canvas};
