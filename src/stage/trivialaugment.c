/* One operation of any magnitude, as torchvision's TrivialAugmentWide. */
#include "stage/augment_ops.h"

typedef struct trivialaugment_state {
    uint32_t bins;
    larder__op_look look;
} trivialaugment_state;

static int trivialaugment_init(void *st, const larder_args *args) {
    trivialaugment_state *s = st;
    s->bins = (uint32_t)larder_args_number(args, "bins");
    return larder__op_look_read(&s->look, "trivialaugment", args);
}

static int trivialaugment_canvas(const void *st, larder_canvas *k, larder_rng *rng) {
    const trivialaugment_state *s = st;
    if (!rng)
        return 0;
    larder__op_of op = (larder__op_of)larder_rng_below(rng, LARDER__OPS_DRAWN);
    uint32_t bin = larder_rng_below(rng, s->bins);
    return larder__op_apply(k, op, &larder__op_wide, bin, s->bins, larder_rng_below(rng, 2) == 1,
                            &s->look);
}

static const larder_param params[] = {{"bins", "int", "31", "strengths there are", 2, 1001},
                                      LARDER__FILTER_PARAM("nearest"),
                                      LARDER__FILL_PARAM,
                                      {0}};

const larder_stage larder__stage_trivialaugment = {
    .plugin = {"trivialaugment", "TrivialAugmentWide: one operation of random strength", params,
               sizeof(trivialaugment_state)},
    .random = true,
    .init = trivialaugment_init,
    .canvas = trivialaugment_canvas};
