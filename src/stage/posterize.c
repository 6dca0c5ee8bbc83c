/* Fewer bits a level, as torchvision's RandomPosterize. */
#include "stage/recolour.h"
#include "stage/stage.h"

typedef struct posterize_state {
    double p;
    double by;
} posterize_state;

static int posterize_init(void *st, const larder_args *args) {
    posterize_state *s = st;
    s->p = larder_args_number(args, "p");
    s->by = larder_args_number(args, "bits");
    return 0;
}

static int posterize_canvas(const void *st, larder_canvas *k, larder_rng *rng) {
    const posterize_state *s = st;
    if (larder_canvas_colours(k) && larder__happens(s->p, rng))
        larder__posterize(k, (unsigned)s->by);
    return 0;
}

static const larder_param params[] = {
    {"bits", "int", "4", "bits that stay", 0, 8}, LARDER__CHANCE_PARAM("0.5"), {0}};

const larder_stage larder__stage_posterize = {
    .plugin = {"posterize", "fewer bits a level at random", params, sizeof(posterize_state)},
    .random = true,
    .init = posterize_init,
    .canvas = posterize_canvas};
