/* Every id once, in storage order: validation, and reading at full speed. */
#include "sample/shard.h"

typedef struct sequential {
    const larder_draw_env *env;
    larder__shard shard;
    uint64_t at;
} sequential;

static int init(void *st, const larder_draw_env *env, const larder_args *args) {
    (void)args;
    sequential *q = st;
    q->env = env;
    larder__shard_init(&q->shard, env->n, env);
    return 0;
}

static int epoch(void *st, uint64_t e) {
    (void)e;
    sequential *q = st;
    larder__shard_init(&q->shard, q->env->n, q->env);
    q->at = 0;
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
    larder__shard_save(&((const sequential *)st)->shard, ((const sequential *)st)->at, w);
}

static int load(void *st, larder_reader *r) {
    sequential *q = st;
    return larder__shard_load(&q->shard, q->env->n, q->env, &q->at, r);
}

static int divide(void *st, larder_reader *r, uint64_t taken) {
    sequential *q = st;
    larder_read_u64(r);
    larder_read_u64(r);
    if (taken >= q->env->n)
        return larder_read_reject(r, "its epoch is longer than this one");
    larder__shard_divide(&q->shard, q->env->n, q->env, taken);
    return larder_read_status(r);
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
    .divide = divide,
};
