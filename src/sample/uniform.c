/* Every id exactly once an epoch: in a fresh random order that depends on seed and epoch alone, or
 * in storage order, for validation and for reading at full speed. */
#include "base/mem.h"
#include "sample/permute.h"
#include "sample/shard.h"

typedef struct once {
    const larder_draw_env *env;
    larder__shard shard;
    uint32_t *order; /* NULL: storage order */
    uint64_t at;     /* ids drawn in this epoch */
} once;

static int init_sequential(void *st, const larder_draw_env *env, const larder_args *args) {
    (void)args;
    once *u = st;
    u->env = env;
    larder__shard_init(&u->shard, env->n, env);
    return 0;
}

static int init_uniform(void *st, const larder_draw_env *env, const larder_args *args) {
    once *u = st;
    init_sequential(u, env, args);
    u->order = larder__malloc(env->n * sizeof *u->order);
    return u->order ? 0 : LARDER_E_NOMEM;
}

static void fini(void *st) { larder__free(((once *)st)->order); }

static int epoch(void *st, uint64_t e) {
    once *u = st;
    if (u->order)
        larder__permute(u->order, (uint32_t)u->env->n, u->env->seed, e);
    larder__shard_init(&u->shard, u->env->n, u->env);
    u->at = 0;
    return 0;
}

static uint64_t length(const void *st) { return larder__shard_length(&((const once *)st)->shard); }

static size_t draw(void *st, larder_pick *out, size_t want) {
    once *u = st;
    uint64_t left = length(u) - u->at;
    size_t n = want < left ? want : (size_t)left;
    for (size_t i = 0; i < n; i++) {
        uint64_t at = larder__shard_at(&u->shard, u->at + i);
        out[i].id = u->order ? u->order[at] : at;
    }
    u->at += n;
    return n;
}

static void save(const void *st, larder_writer *w) {
    larder__shard_save(&((const once *)st)->shard, ((const once *)st)->at, w);
}

static int load(void *st, larder_reader *r) {
    once *u = st;
    return larder__shard_load(&u->shard, u->env->n, u->env, &u->at, r);
}

static int divide(void *st, larder_reader *r, uint64_t taken) {
    once *u = st;
    larder_read_u64(r);
    larder_read_u64(r);
    if (taken >= u->env->n)
        return larder_read_reject(r, "its epoch is longer than this one");
    larder__shard_divide(&u->shard, u->env->n, u->env, taken);
    return larder_read_status(r);
}

#define ONCE_OPS                                                                                   \
    .fixed_order = true, .fini = fini, .epoch = epoch, .draw = draw, .length = length,             \
    .save = save, .load = load, .divide = divide

const larder_sampler larder__sampler_uniform = {
    .plugin = {.name = "uniform",
               .summary = "every id once an epoch, in a fresh random order",
               .state_size = sizeof(once)},
    .init = init_uniform,
    ONCE_OPS,
};
const larder_sampler larder__sampler_sequential = {
    .plugin = {.name = "sequential",
               .summary = "every id once, in storage order",
               .state_size = sizeof(once)},
    .init = init_sequential,
    ONCE_OPS,
};
