/* Up and down change places, with a given probability. */
#include "stage/stage.h"

typedef struct vflip_state {
    double p;
} vflip_state;

static int vflip_init(void *st, const larder_args *args) {
    ((vflip_state *)st)->p = larder_args_number(args, "p");
    return 0;
}

static int vflip_place(const void *st, larder_view *v, larder_rng *rng) {
    if (rng && larder_rng_unit(rng) < ((const vflip_state *)st)->p)
        v->upended = !v->upended;
    return 0;
}

static const larder_param params[] = {{"p", "float", "0.5", "probability", 0, 1}, {0}};

const larder_stage larder__stage_vflip = {
    .plugin = {"vflip", "mirror up and down at random", params, sizeof(vflip_state)},
    .random = true,
    .init = vflip_init,
    .place = vflip_place};
