/* Light levels turned over, as torchvision's RandomSolarize. */
#include "stage/recolour.h"
#include "stage/stage.h"

typedef struct solarize_state {
    double p;
    double by;
} solarize_state;

static int solarize_init(void *st, const larder_args *args) {
    solarize_state *s = st;
    s->p = larder_args_number(args, "p");
    s->by = larder_args_number(args, "threshold");
    return 0;
}

static int solarize_canvas(const void *st, larder_canvas *k, larder_rng *rng) {
    const solarize_state *s = st;
    if (larder_canvas_colours(k) && larder__happens(s->p, rng))
        larder__solarize(k, s->by);
    return 0;
}

static const larder_param params[] = {
    {"threshold", "float", "128", "levels from this one on", 0, 256},
    LARDER__CHANCE_PARAM("0.5"),
    {0}};

const larder_stage larder__stage_solarize = {
    .plugin = {"solarize", "levels from a threshold on turned over, at random", params,
               sizeof(solarize_state)},
    .random = true,
    .init = solarize_init,
    .canvas = solarize_canvas};
