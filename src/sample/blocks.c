/* Blocks of neighbours are read whole, in random order, into the cache as a shuffle window; samples
 * are drawn from all of it (sample/window.h). For data that lies where random reads are slow or
 * cost money. */
#include "sample/window.h"

static const larder_param params[] = {
    {"block", "size", "8MiB", "neighbours in a file of so many bytes at least are read together", 0,
     0},
    {0}};

static int init(void *st, const larder_draw_env *env, const larder_args *args) {
    return larder__window_open(st, env, (uint64_t)larder_args_number(args, "block"));
}

static void fini(void *st) { larder__window_close(st); }

static int epoch(void *st, uint64_t e) {
    larder__window_begin(st, e);
    return 0;
}

static uint64_t length(const void *st) { return larder__window_length(st); }

static size_t draw(void *st, larder_pick *out, size_t want) {
    return larder__window_draw(st, out, want);
}

static size_t brings(void *st, uint64_t *ids) { return larder__window_bring(st, ids); }
static size_t brings_most(const void *st) { return larder__window_most(st); }
static void save(const void *st, larder_writer *w) { larder__window_save(st, w); }
static int load(void *st, larder_reader *r) { return larder__window_load(st, r); }

const larder_sampler larder__sampler_blocks = {
    .plugin = {.name = "blocks",
               .summary = "every id once; whole blocks come in, samples are drawn from all of them",
               .params = params,
               .state_size = sizeof(larder__window)},
    .init = init,
    .fini = fini,
    .epoch = epoch,
    .draw = draw,
    .length = length,
    .save = save,
    .load = load,
    .brings = brings,
    .brings_most = brings_most,
};
