/* Batches of two parts: a share h drawn from the residents of the cache, and the rest from a stream
 * that passes through every id of this rank once a sweep, in random order.
 *
 * - The residents come first in the batch. All ids of a batch are claimed in order, so what was
 *   resident when it was drawn is still there when it is asked for, whoever later ids push out.
 * - No id comes twice in one batch. When a sweep ends inside a batch, ids of the new sweep that are
 *   already in it wait for the next one.
 * - Nothing is drawn from residents until the cache has filled up for the first time: a few early
 *   samples would be served over and over.
 * - Sweeps go on over the ends of epochs; an epoch serves as many samples as the rank has ids.
 * - Jobs that share a cache may share the stream (larder_draw_env.stream): who comes later goes on
 *   where the others are, in their order, so that what one has read the others find. */
#ifndef LARDER_SAMPLE_REUSE_H
#define LARDER_SAMPLE_REUSE_H

#include "sample/shard.h"
#include "sample/strata.h"

#include <larder/plugin.h>

typedef struct larder__reuse_conf {
    bool skips;  /* the stream passes over residents that were served in this sweep */
    bool strata; /* the stream has every class evenly spread (sample/strata.h) */
    bool shares; /* the stream is that of all jobs that share the cache */
    double fill; /* of the cache's budget that must be used before residents are drawn */
} larder__reuse_conf;

typedef struct larder__reuse {
    const larder_draw_env *env;
    larder__reuse_conf conf;
    larder__shard shard;
    larder__strata strata;
    uint32_t *order;  /* of this sweep */
    uint64_t *served; /* one bit an id: served in this sweep */
    uint64_t *inside; /* one bit an id: in the batch being drawn */
    uint32_t *late;   /* ids of this sweep that wait for the next batch; room for one batch */
    uint32_t waiting;
    uint64_t seed;      /* of the orders: this job's, or that of those it shares a cache with */
    uint64_t sweep, at; /* sweeps done; ids of this rank passed in this one */
    uint64_t taken;     /* ids drawn in this epoch */
    bool filled;        /* the cache was full once */
    double owed;        /* residents still to be drawn: the rounding of h x batch carried on */
    double fresh;       /* share of the stream's recent samples that had to be read */
    larder_rng rng;
} larder__reuse;

int larder__reuse_init(larder__reuse *, const larder_draw_env *, const larder__reuse_conf *);
void larder__reuse_fini(larder__reuse *);
void larder__reuse_epoch(larder__reuse *);
/* Has the cache filled up, so that residents are drawn? */
bool larder__reuse_filled(larder__reuse *);
/* The next batch, with a share h of residents where there are enough. */
size_t larder__reuse_draw(larder__reuse *, double h, larder_pick *out, size_t want);
/* As in larder_sampler, whose state begins with a larder__reuse. */
uint64_t larder__reuse_length(const void *);
void larder__reuse_save(const void *, larder_writer *);
int larder__reuse_load(void *, larder_reader *);

#endif
