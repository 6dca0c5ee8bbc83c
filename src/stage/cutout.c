/* Squares around random places are erased, cut off at the edge: Cutout. */
#include "stage/stage.h"

typedef struct cutout_state {
    uint32_t size, holes;
} cutout_state;

static int cutout_init(void *st, const larder_args *args) {
    cutout_state *s = st;
    s->size = (uint32_t)larder_args_number(args, "size");
    s->holes = (uint32_t)larder_args_number(args, "holes");
    return 0;
}

static void cut(const larder_row *r, int64_t x0, int64_t y0, int64_t size) {
    static const double nothing[LARDER_CHANNELS_MAX];
    for (int64_t y = y0 < 0 ? 0 : y0; y < y0 + size && y < r->shape.h; y++)
        for (int64_t x = x0 < 0 ? 0 : x0; x < x0 + size && x < r->shape.w; x++)
            larder_row_put(r, (uint32_t)x, (uint32_t)y, nothing);
}

static int cutout_late(const void *st, const larder_row *r, larder_rng *rng) {
    const cutout_state *s = st;
    for (uint32_t i = 0; rng && i < s->holes; i++) {
        int64_t y = larder_rng_below(rng, r->shape.h), x = larder_rng_below(rng, r->shape.w);
        cut(r, x - s->size / 2, y - s->size / 2, s->size);
    }
    return 0;
}

static const larder_param params[] = {
    {"size", "int", "16", "side of a square in pixels", 1, LARDER__MAX_SIDE},
    {"holes", "int", "1", "squares", 1, 100},
    {0}};

const larder_stage larder__stage_cutout = {
    .plugin = {"cutout", "squares at random places become 0; before normalize or after it", params,
               sizeof(cutout_state)},
    .random = true,
    .init = cutout_init,
    .late = cutout_late};
