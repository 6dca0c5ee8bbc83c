/* Light becomes dark, as torchvision's RandomInvert. */
#include "stage/recolour.h"
#include "stage/stage.h"

typedef struct invert_state {
    double p;
} invert_state;

static int invert_init(void *st, const larder_args *args) {
    invert_state *s = st;
    s->p = larder_args_number(args, "p");
    return 0;
}

static int invert_canvas(const void *st, larder_canvas *k, larder_rng *rng) {
    const invert_state *s = st;
    if (larder_canvas_colours(k) && larder__happens(s->p, rng))
        larder__invert(k);
    return 0;
}

static const larder_param params[] = {LARDER__CHANCE_PARAM("0.5"), {0}};

const larder_stage larder__stage_invert = {
    .plugin = {"invert", "light becomes dark at random", params, sizeof(invert_state)},
    .random = true,
    .init = invert_init,
    .canvas = invert_canvas};
