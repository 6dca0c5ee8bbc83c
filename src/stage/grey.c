/* Colours become grey, as torchvision's RandomGrayscale. */
#include "stage/recolour.h"
#include "stage/stage.h"

typedef struct grey_state {
    double p;
} grey_state;

static int grey_init(void *st, const larder_args *args) {
    grey_state *s = st;
    s->p = larder_args_number(args, "p");
    return 0;
}

static int grey_canvas(const void *st, larder_canvas *k, larder_rng *rng) {
    const grey_state *s = st;
    if (larder_canvas_colours(k) && larder__happens(s->p, rng))
        larder__grey(k);
    return 0;
}

static const larder_param params[] = {LARDER__CHANCE_PARAM("0.1"), {0}};

const larder_stage larder__stage_grey = {
    .plugin = {"grey", "colours become grey at random, in as many channels", params,
               sizeof(grey_state)},
    .random = true,
    .init = grey_init,
    .canvas = grey_canvas};
