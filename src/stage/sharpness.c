/* Edges stronger or weaker, as torchvision's RandomAdjustSharpness. */
#include "stage/recolour.h"
#include "stage/stage.h"

typedef struct sharpness_state {
    double p;
    double by;
} sharpness_state;

static int sharpness_init(void *st, const larder_args *args) {
    sharpness_state *s = st;
    s->p = larder_args_number(args, "p");
    s->by = larder_args_number(args, "factor");
    return 0;
}

static int sharpness_canvas(const void *st, larder_canvas *k, larder_rng *rng) {
    const sharpness_state *s = st;
    if (larder_canvas_colours(k) && larder__happens(s->p, rng))
        return larder__sharpen(k, s->by);
    return 0;
}

static const larder_param params[] = {
    {"factor", "float", "2", "0: smooth, 1: as it is, 2: twice as sharp", 0, 100},
    LARDER__CHANCE_PARAM("0.5"),
    {0}};

const larder_stage larder__stage_sharpness = {
    .plugin = {"sharpness", "edges stronger or weaker at random", params, sizeof(sharpness_state)},
    .random = true,
    .init = sharpness_init,
    .canvas = sharpness_canvas};
