/* A colour stage as a plug-in from outside: colours grow stronger or weaker at random, as
 * saturation in torchvision's ColorJitter.
 *
 *     larder --plugin ./tint.so train photos --augment "rrc:size=224|flip|tint:most=0.4" */
#include <larder/plugin.h>

typedef struct tint {
    double most;
} tint;

static const larder_param params[] = {
    {"most", "float", "0.4", "colours become 1 - most to 1 + most times as strong", 0, 1},
    {0},
};

static int init(void *st, const larder_args *args) {
    ((tint *)st)->most = larder_args_number(args, "most");
    return 0;
}

static uint8_t clamped(double v) { return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v + 0.5); }

static int pixels(const void *st, const larder_pixels *px, larder_rng *rng) {
    double most = ((const tint *)st)->most;
    double strength = rng ? 1 - most + 2 * most * larder_rng_unit(rng) : 1;
    uint8_t *p = px->at;
    if (px->c < 3)
        return 0; /* grey stays grey */
    for (size_t i = 0; i < (size_t)px->w * px->h; i++, p += px->c) {
        double grey = 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2];
        for (int c = 0; c < 3; c++)
            p[c] = clamped(grey + strength * (p[c] - grey));
    }
    return 0;
}

static const larder_stage tint_stage = {
    .plugin = {"tint", "colours stronger or weaker at random", params, sizeof(tint)},
    .random = true,
    .init = init,
    .pixels = pixels,
};

int larder_plugin_load(void) { return larder_register_stage(&tint_stage); }
