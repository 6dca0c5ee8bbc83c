/* Trains on the harder part of the data: choose.h says who is kept. Every `full_every`-th epoch,
 * the first one included, trains on everything, so that no loss grows too old. */
#include "sample/choose.h"

typedef struct selector {
    larder__choose choose;
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

static size_t draw(void *st, larder_pick *out, size_t want) {
    return larder__choose_draw(&((selector *)st)->choose, out, want);
}

static uint64_t length(const void *st) { return ((const selector *)st)->choose.count; }
static const uint8_t *tags(const void *st) { return ((const selector *)st)->choose.tags; }

static void save(const void *st, larder_writer *w) {
    larder__choose_save(&((const selector *)st)->choose, w);
}

static int load(void *st, larder_reader *r) {
    return larder__choose_load(&((selector *)st)->choose, r);
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
    .draw = draw,
    .length = length,
    .save = save,
    .load = load,
    .tags = tags,
};
