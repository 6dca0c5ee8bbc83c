/* Data echoing (Choi et al. 2019): every sample that is read goes through a shuffle buffer and is
 * served `factor` times in all, so a share 1 - 1/factor of each batch comes from the buffer, all of
 * it equally likely. The buffer is the cache; under the policy fifo it is the paper's. */
#include "sample/reuse.h"

typedef struct echo {
    larder__reuse reuse; /* first: what init, save and load see */
    double share;
} echo;

static const larder_param params[] = {
    {"factor", "float", "2", "how many times a sample that was read is served in all", 1, 1000},
    {"fill", "float", "1", "share of the cache to fill before anything is served again", 0, 1},
    {0}};

static int init(void *st, const larder_draw_env *env, const larder_args *args) {
    echo *e = st;
    e->share = 1 - 1 / larder_args_number(args, "factor");
    larder__reuse_conf conf = {.fill = larder_args_number(args, "fill")};
    return larder__reuse_init(&e->reuse, env, &conf);
}

static void fini(void *st) { larder__reuse_fini(&((echo *)st)->reuse); }

static int epoch(void *st, uint64_t e) {
    (void)e;
    larder__reuse_epoch(&((echo *)st)->reuse);
    return 0;
}

static size_t draw(void *st, larder_pick *out, size_t want) {
    echo *e = st;
    return larder__reuse_draw(&e->reuse, e->share, out, want);
}

const larder_sampler larder__sampler_echo = {
    .plugin = {.name = "echo",
               .summary = "serves what was read factor times, from a buffer of all residents",
               .params = params,
               .state_size = sizeof(echo)},
    .repeats = true,
    .init = init,
    .fini = fini,
    .epoch = epoch,
    .draw = draw,
    .length = larder__reuse_length,
    .save = larder__reuse_save,
    .load = larder__reuse_load,
};
