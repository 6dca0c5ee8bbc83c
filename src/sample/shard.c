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

void larder__shard_divide(larder__shard *s, uint64_t n, const larder_draw_env *env, uint64_t from) {
    larder__shard_init(s, n - from, env);
    s->from = from;
}

void larder__shard_save(const larder__shard *s, uint64_t at, larder_writer *w) {
    larder_write_u64(w, at);
    larder_write_u64(w, s->from);
}

int larder__shard_load(larder__shard *s, uint64_t n, const larder_draw_env *env, uint64_t *at,
                       larder_reader *r) {
    *at = larder_read_u64(r);
    uint64_t from = larder_read_u64(r);
    if (from < n)
        larder__shard_divide(s, n, env, from);
    if (from < n && *at <= larder__shard_length(s))
        return larder_read_status(r);
    *at = 0;
    return larder_read_reject(r, "its epoch is longer than this one");
}
