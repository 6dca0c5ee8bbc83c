/* Which places of the global order belong to this rank.
 *
 * The order is cut into global batches of world x batch ids, and rank r takes the r-th part of
 * each, so all ranks together draw what one process with the global batch would. The last, short
 * global batch is shared out evenly; ranks that would get nothing repeat an id from the front, so
 * that every rank has the same number of batches. With drop_last it is left out. */
#ifndef LARDER_SAMPLE_SHARD_H
#define LARDER_SAMPLE_SHARD_H

#include <larder/plugin.h>

typedef struct larder__shard {
    uint64_t n, batch, global; /* ids in all, per rank and batch, per global batch */
    uint32_t rank, world;
    uint64_t from;          /* places before this one were taken before it was divided anew */
    uint64_t full;          /* ids of this rank in full global batches */
    uint64_t tail, tail_at; /* ids of this rank in the short one, and where they start */
} larder__shard;

void larder__shard_init(larder__shard *, uint64_t n, const larder_draw_env *);
/* The same order from place `from` on, shared out as if it began there. */
void larder__shard_divide(larder__shard *, uint64_t n, const larder_draw_env *, uint64_t from);
/* Its part of a sampler's state: ids drawn, and `from`. */
void larder__shard_save(const larder__shard *, uint64_t at, larder_writer *);
int larder__shard_load(larder__shard *, uint64_t n, const larder_draw_env *, uint64_t *at,
                       larder_reader *);
static inline uint64_t larder__shard_length(const larder__shard *s) { return s->full + s->tail; }

/* The global place of this rank's i-th id. */
static inline uint64_t larder__shard_at(const larder__shard *s, uint64_t i) {
    if (s->world == 1)
        return s->from + i;
    if (i < s->full)
        return s->from + i / s->batch * s->global + s->rank * s->batch + i % s->batch;
    return s->from + (s->tail_at + (i - s->full)) % s->n; /* past the end: from the front again */
}

#endif
