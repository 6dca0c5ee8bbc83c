/* Every id once, in storage order: validation, and reading at full speed. */
#include "sample/shard.h"

typedef struct sequential {
    larder__shard shard;
    uint64_t at;
} sequential;

static int init(void *st, const larder_draw_env *env, const larder_args *args) {
    (void)args;
    larder__shard_init(&((sequential *)st)->shard, env->n, env);
    return 0;
}

static int epoch(void *st, uint64_t e) {
    (void)e;
    ((sequential *)st)->at = 0;
    return 0;
}

static uint64_t length(const void *st) {
    return larder__shard_length(&((const sequential *)st)->shard);
}

static size_t draw(void *st, larder_pick *out, size_t want) {
    sequential *q = st;
    uint64_t left = length(q) - q->at;
    size_t n = want < left ? want : (size_t)left;
    for (size_t i = 0; i < n; i++)
        out[i].id = larder__shard_at(&q->shard, q->at + i);
    q->at += n;
    return n;
}

static void save(const void *st, larder_writer *w) {
    larder_write_u64(w, ((const sequential *)st)->at);
}

static int load(void *st, larder_reader *r) {
    sequential *q = st;
    q->at = larder_read_u64(r);
    return q->at <= length(q) ? larder_read_status(r)
                              : larder_read_reject(r, "its epoch is longer than this one");
}

const larder_sampler larder__sampler_sequential = {
    .plugin = {.name = "sequential",
               .summary = "every id once, in storage order",
               .state_size = sizeof(sequential)},
    .fixed_order = true,
    .init = init,
    .epoch = epoch,
    .draw = draw,
    .length = length,
    .save = save,
    .load = load,
};
