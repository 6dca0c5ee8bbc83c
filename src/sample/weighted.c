/* Plain importance sampling: epoch 0 is a random permutation, later ones are N draws with
 * replacement, each id as likely as its score was when the epoch began. Ids without a score count
 * as the highest known one. Nobody is repeated on purpose, whoever is in the cache. */
#include "sample/pads.h"

static const larder_param params[] = {
    {"correct", "float", "1", "exponent of the weights 1/(N p); 0: all are 1, as the paper", 0, 1},
    {0}};

static int init(void *st, const larder_draw_env *env, const larder_args *args) {
    larder__pads *p = st;
    p->repeat = 1;
    p->correct = larder_args_number(args, "correct");
    return larder__pads_open(p, env);
}

const larder_sampler larder__sampler_weighted = {
    .plugin = {.name = "weighted",
               .summary = "draws by score with replacement; what was never seen comes first",
               .params = params,
               .state_size = sizeof(larder__pads)},
    .repeats = true,
    .uneven = true,
    .init = init,
    .fini = larder__pads_fini,
    .epoch = larder__pads_epoch,
    .draw = larder__pads_draw,
    .length = larder__pads_length,
    .save = larder__pads_save,
    .load = larder__pads_load,
};
