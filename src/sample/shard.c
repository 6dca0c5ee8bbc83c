#include "sample/shard.h"

void larder__shard_init(larder__shard *s, uint64_t n, const larder_draw_env *env) {
    *s = (larder__shard){.n = n,
                         .batch = env->batch,
                         .global = env->batch * env->world,
                         .rank = env->rank,
                         .world = env->world};
    uint64_t batches = n / s->global, left = n % s->global;
    s->full = batches * s->batch;
    if (left == 0 || env->drop_last)
        return;
    uint64_t each = left / s->world, more = left % s->world;
    s->tail = each + (s->rank < more);
    s->tail_at = batches * s->global + each * s->rank + (s->rank < more ? s->rank : more);
    if (s->tail == 0) { /* fewer ids than ranks: the empty-handed repeat one from the front */
        s->tail = 1;
        s->tail_at = n + s->rank - left;
    }
}
