/* Trains on the harder part of the data: choose.h says who is kept. Every `full_every`-th epoch,
 * the first one included, trains on everything, so that no loss grows too old. */
#include "sample/choose.h"

typedef struct selector {
    larder__choose choose; /* first: as choose.h wants it */
    uint64_t full_every;
} selector;

static const larder_param params[] = {LARDER__CHOOSE_PARAMS, {0}};

static int init(void *st, const larder_draw_env *env, const larder_args *args) {
    selector *s = st;
    s->full_every = (uint64_t)larder_args_number(args, "full_every");
    return larder__choose_open(&s->choose, env, args);
}

static void fini(void *st) { larder__choose_close(&((selector *)st)->choose); }

static int epoch(void *st, uint64_t e) {
    selector *s = st;
    larder__choose_epoch(&s->choose, e, e == 0 || (s->full_every && e % s->full_every == 0));
    return 0;
}

const larder_sampler larder__sampler_select = {
    .plugin = {.name = "select",
               .summary = "each id at most once; kept with a chance that grows with its loss",
               .params = params,
               .state_size = sizeof(selector)},
    .repeats = true,
    .uneven = true,
    .init = init,
    .fini = fini,
    .epoch = epoch,
    .draw = larder__choose_draw,
    .length = larder__choose_length,
    .save = larder__choose_save,
    .load = larder__choose_load,
    .tags = larder__choose_tags,
};
