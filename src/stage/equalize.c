/* Levels spread evenly, as torchvision's RandomEqualize. */
#include "stage/recolour.h"
#include "stage/stage.h"

typedef struct equalize_state {
    double p;
} equalize_state;

static int equalize_init(void *st, const larder_args *args) {
    equalize_state *s = st;
    s->p = larder_args_number(args, "p");
    return 0;
}

static int equalize_canvas(const void *st, larder_canvas *k, larder_rng *rng) {
    const equalize_state *s = st;
    if (larder_canvas_colours(k) && larder__happens(s->p, rng))
        larder__equalize(k);
    return 0;
}

static const larder_param params[] = {LARDER__CHANCE_PARAM("0.5"), {0}};

const larder_stage larder__stage_equalize = {
    .plugin = {"equalize", "levels spread so that each occurs as often, at random", params,
               sizeof(equalize_state)},
    .random = true,
    .init = equalize_init,
    .canvas = equalize_canvas};
