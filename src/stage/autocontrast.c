/* Levels stretched over all there are, as torchvision's RandomAutocontrast. */
#include "stage/recolour.h"
#include "stage/stage.h"

typedef struct autocontrast_state {
    double p;
} autocontrast_state;

static int autocontrast_init(void *st, const larder_args *args) {
    autocontrast_state *s = st;
    s->p = larder_args_number(args, "p");
    return 0;
}

static int autocontrast_canvas(const void *st, larder_canvas *k, larder_rng *rng) {
    const autocontrast_state *s = st;
    if (larder_canvas_colours(k) && larder__happens(s->p, rng))
        larder__autocontrast(k);
    return 0;
}

static const larder_param params[] = {LARDER__CHANCE_PARAM("0.5"), {0}};

const larder_stage larder__stage_autocontrast = {
    .plugin = {"autocontrast", "levels stretched to all of 0 to 255, at random", params,
               sizeof(autocontrast_state)},
    .random = true,
    .init = autocontrast_init,
    .canvas = autocontrast_canvas};
