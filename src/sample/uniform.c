/* Every id exactly once an epoch, in a fresh random order that depends on seed and epoch alone. */
#include "base/mem.h"
#include "sample/permute.h"
#include "sample/shard.h"

typedef struct uniform {
    const larder_draw_env *env;
    larder__shard shard;
    uint32_t *order;
    uint64_t at; /* ids drawn in this epoch */
} uniform;

static int init(void *st, const larder_draw_env *env, const larder_args *args) {
    (void)args;
    uniform *u = st;
    u->env = env;
    larder__shard_init(&u->shard, env->n, env);
    u->order = larder__malloc(env->n * sizeof *u->order);
    return u->order ? 0 : LARDER_E_NOMEM;
}

static void fini(void *st) { larder__free(((uniform *)st)->order); }

static int epoch(void *st, uint64_t e) {
    uniform *u = st;
    larder__permute(u->order, (uint32_t)u->env->n, u->env->seed, e);
    larder__shard_init(&u->shard, u->env->n, u->env);
    u->at = 0;
    return 0;
}

static size_t draw(void *st, larder_pick *out, size_t want) {
    uniform *u = st;
    uint64_t left = larder__shard_length(&u->shard) - u->at;
    size_t n = want < left ? want : (size_t)left;
    for (size_t i = 0; i < n; i++)
        out[i].id = u->order[larder__shard_at(&u->shard, u->at + i)];
    u->at += n;
    return n;
}

static uint64_t length(const void *st) {
    return larder__shard_length(&((const uniform *)st)->shard);
}

static void save(const void *st, larder_writer *w) {
    larder__shard_save(&((const uniform *)st)->shard, ((const uniform *)st)->at, w);
}

static int load(void *st, larder_reader *r) {
    uniform *u = st;
    return larder__shard_load(&u->shard, u->env->n, u->env, &u->at, r);
}

static int divide(void *st, larder_reader *r, uint64_t taken) {
    uniform *u = st;
    larder_read_u64(r);
    larder_read_u64(r);
    if (taken >= u->env->n)
        return larder_read_reject(r, "its epoch is longer than this one");
    larder__shard_divide(&u->shard, u->env->n, u->env, taken);
    return larder_read_status(r);
}

const larder_sampler larder__sampler_uniform = {
    .plugin = {.name = "uniform",
               .summary = "every id once an epoch, in a fresh random order",
               .state_size = sizeof(uniform)},
    .fixed_order = true,
    .init = init,
    .fini = fini,
    .epoch = epoch,
    .draw = draw,
    .length = length,
    .save = save,
    .load = load,
    .divide = divide,
};
