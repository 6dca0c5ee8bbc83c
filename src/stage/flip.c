/* Left and right change places, with a given probability. */
#include "stage/stage.h"

typedef struct flip_state {
    double p;
} flip_state;

static int flip_init(void *st, const larder_args *args) {
    ((flip_state *)st)->p = larder_args_number(args, "p");
    return 0;
}

static int flip_place(const void *st, larder_view *v, larder_rng *rng) {
    if (rng && larder_rng_unit(rng) < ((const flip_state *)st)->p)
        v->flipped = !v->flipped;
    return 0;
}

static const larder_param params[] = {{"p", "float", "0.5", "probability", 0, 1}, {0}};

const larder_stage larder__stage_flip = {
    .plugin = {"flip", "mirror left and right at random", params, sizeof(flip_state)},
    .random = true,
    .init = flip_init,
    .place = flip_place};
