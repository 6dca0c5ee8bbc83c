/* A shuffle window over blocks: runs of neighbours in one file, of a given size at least, unless
 * the file is shorter. Each sweep takes the blocks in a random order; as many as the cache can hold
 * are in the window, and whoever is served is drawn from all that stand in it and were not served
 * yet. So storage is read block by block, and every id comes once a sweep.
 *
 * - What comes in is brought besides a batch, after its rows: it is drawn from the next batch on.
 *   Only where nothing is left to draw from (the very first batch) rows are asked for before their
 *   blocks are.
 * - Near the end of a sweep the first blocks of the next one come in already, so that storage is
 *   never idle; they are drawn when their sweep begins.
 * - Ranks share the blocks out, not the order in them: each has a stretch of the sweep's blocks,
 * cut where its share of the ids ends. So all of them together read every byte once.
 * - All follows from the seed, the sizes and the budget when a sweep begins. So a state is a few
 *   numbers, and the sweep up to there is gone through again. */
#ifndef LARDER_SAMPLE_WINDOW_H
#define LARDER_SAMPLE_WINDOW_H

#include "sample/shard.h"

typedef struct larder__reach { /* a place among the blocks of a sweep, as a rank has them */
    uint32_t block;            /* so many blocks, or parts of one, lie behind it */
    uint64_t left;             /* ids before the end */
} larder__reach;

typedef struct larder__sweep_window { /* of one sweep */
    uint32_t *order;                  /* of the blocks */
    uint32_t *pool;                   /* ids that stand in the window and were not served */
    uint64_t *in;                     /* one bit an id: in the pool */
    uint32_t size;                    /* of the pool */
    uint32_t at, skip;         /* the rank's stretch begins at order[at], after so many ids */
    larder__reach taken, told; /* blocks put into the pool; those of them that were brought */
} larder__sweep_window;

typedef struct larder__window {
    const larder_draw_env *env;
    larder__shard shard;
    uint32_t *firsts;   /* first id of each block, and the number of ids at the end */
    uint32_t count;     /* blocks */
    uint32_t longest;   /* ids of the longest */
    uint64_t largest;   /* bytes of the largest */
    uint64_t cap, held; /* bytes: room in this sweep; of what stands in both pools */
    uint64_t sweep;
    uint32_t before;             /* blocks of this sweep that had come in when it began */
    size_t fresh;                /* ids that came in since the last batch */
    uint64_t at;                 /* ids of this rank drawn in this sweep */
    bool begun, ahead;           /* is there a sweep; does the next one come in already */
    larder__sweep_window two[2]; /* of this sweep and of the next, by its number */
    larder_rng rng;
} larder__window;

int larder__window_open(larder__window *, const larder_draw_env *, uint64_t block_bytes);
void larder__window_close(larder__window *);
void larder__window_begin(larder__window *, uint64_t sweep);
uint64_t larder__window_length(const larder__window *); /* ids of this rank in a sweep */
/* The next ids, at most `want`; fewer only at the end of the sweep. */
size_t larder__window_draw(larder__window *, larder_pick *out, size_t want);
/* What comes in besides the batch drawn last, at most larder__window_most of them. What is not
 * asked for is told later. */
size_t larder__window_bring(larder__window *, uint64_t *ids);
size_t larder__window_most(const larder__window *);
void larder__window_save(const larder__window *, larder_writer *);
int larder__window_load(larder__window *, larder_reader *);

#endif
