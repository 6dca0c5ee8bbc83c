/* Exactly-once, but the cache has a say in the order: of the next factor x batch ids of a random
 * order, those that are resident come first. What was passed over stays in front of the window, so
 * nothing is served twice or forgotten, and the tail of an epoch is mostly misses. */
#include "base/mem.h"
#include "sample/permute.h"
#include "sample/shard.h"

typedef struct quiver {
    const larder_draw_env *env;
    larder__shard shard;
    uint32_t *order;
    uint32_t *window; /* ids drawn from the order, not yet served; oldest first */
    uint64_t at;      /* ids moved into the window in this epoch */
    uint32_t size, cap;
} quiver;

static const larder_param params[] = {
    {"factor", "int", "10", "how many times the batch is looked at for residents", 1, 1000}, {0}};

static int init(void *st, const larder_draw_env *env, const larder_args *args) {
    quiver *q = st;
    q->env = env;
    larder__shard_init(&q->shard, env->n, env);
    uint64_t window = (uint64_t)larder_args_number(args, "factor") * env->batch;
    q->cap = (uint32_t)(window < env->n ? window : env->n);
    q->order = larder__malloc(env->n * sizeof *q->order);
    q->window = larder__malloc((q->cap + 1u) * sizeof *q->window);
    return q->order && q->window ? 0 : LARDER_E_NOMEM;
}

static void fini(void *st) {
    larder__free(((quiver *)st)->order);
    larder__free(((quiver *)st)->window);
}

static int epoch(void *st, uint64_t e) {
    quiver *q = st;
    larder__permute(q->order, (uint32_t)q->env->n, q->env->seed, e);
    q->at = 0;
    q->size = 0;
    return 0;
}

static uint64_t length(const void *st) {
    return larder__shard_length(&((const quiver *)st)->shard);
}

static size_t draw(void *st, larder_pick *out, size_t want) {
    quiver *q = st;
    while (q->size < q->cap && q->at < length(q))
        q->window[q->size++] = q->order[larder__shard_at(&q->shard, q->at++)];
    size_t n = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < q->size; i++) {
        uint32_t id = q->window[i];
        if (n < want && q->env->resident(q->env->resident_arg, id))
            out[n++].id = id;
        else
            q->window[kept++] = id;
    }
    uint32_t fill = 0; /* the rest of the batch: the longest waiting ones */
    while (n < want && fill < kept)
        out[n++].id = q->window[fill++];
    q->size = kept - fill;
    memmove(q->window, q->window + fill, q->size * sizeof *q->window);
    return n;
}

static void save(const void *st, larder_writer *w) {
    const quiver *q = st;
    larder_write_u64(w, q->at);
    larder_write_u32(w, q->size);
    for (uint32_t i = 0; i < q->size; i++)
        larder_write_u32(w, q->window[i]);
}

static int load(void *st, larder_reader *r) {
    quiver *q = st;
    q->at = larder_read_u64(r);
    q->size = larder_read_u32(r);
    if (q->at > length(q) || q->size > q->cap || q->size > q->at) {
        q->size = 0;
        return larder_read_reject(r, "its window does not fit this epoch");
    }
    for (uint32_t i = 0; i < q->size; i++)
        q->window[i] = larder_read_index(r, q->env->n, false);
    return larder_read_status(r);
}

const larder_sampler larder__sampler_quiver = {
    .plugin = {.name = "quiver",
               .summary = "every id once; of the next factor x batch ids, residents first",
               .params = params,
               .state_size = sizeof(quiver)},
    .init = init,
    .fini = fini,
    .epoch = epoch,
    .draw = draw,
    .length = length,
    .save = save,
    .load = load,
};
