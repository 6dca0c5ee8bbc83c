/* Some operations of one magnitude, drawn at random, as torchvision's RandAugment. */
#include "base/err.h"
#include "stage/augment_ops.h"

typedef struct randaugment_state {
    uint32_t ops, magnitude, bins;
    larder__op_look look;
} randaugment_state;

static int randaugment_init(void *st, const larder_args *args) {
    randaugment_state *s = st;
    s->ops = (uint32_t)larder_args_number(args, "ops");
    s->magnitude = (uint32_t)larder_args_number(args, "magnitude");
    s->bins = (uint32_t)larder_args_number(args, "bins");
    if (s->magnitude >= s->bins)
        return larder__fail(LARDER_E_ARGS, "stage randaugment: magnitude is below bins, %u",
                            s->bins);
    return larder__op_look_read(&s->look, "randaugment", args);
}

static int randaugment_canvas(const void *st, larder_canvas *k, larder_rng *rng) {
    const randaugment_state *s = st;
    int rc = 0;
    for (uint32_t i = 0; rng && i < s->ops && rc == 0; i++) {
        larder__op_of op = (larder__op_of)larder_rng_below(rng, LARDER__OPS_DRAWN);
        rc = larder__op_apply(k, op, &larder__op_usual, s->magnitude, s->bins,
                              larder_rng_below(rng, 2) == 1, &s->look);
    }
    return rc;
}

static const larder_param params[] = {
    {"ops", "int", "2", "operations, one after the other", 0, 16},
    {"magnitude", "int", "9", "how strong they are, below bins", 0, 1000},
    {"bins", "int", "31", "strengths there are", 2, 1001},
    LARDER__FILTER_PARAM("nearest"),
    LARDER__FILL_PARAM,
    {0}};

const larder_stage larder__stage_randaugment = {
    .plugin = {"randaugment", "RandAugment: some operations of one magnitude at random", params,
               sizeof(randaugment_state)},
    .random = true,
    .init = randaugment_init,
    .canvas = randaugment_canvas};
