/* Epochs of N draws by score, with replacement: what samplers of that sort share. The functions fit
 * into a larder_sampler whose state begins with this struct. */
#ifndef LARDER_SAMPLE_PADS_H
#define LARDER_SAMPLE_PADS_H

#include "sample/alias.h"
#include "sample/shard.h"

enum { LARDER__PADS_KEPT = 4 }; /* accuracies: three changes */

typedef struct larder__pads {
    const larder_draw_env *env;
    larder__shard shard;
    larder__alias alias;
    uint32_t repeat;
    bool hits_first;
    double correct;
    uint32_t *list, *drawn; /* the epoch's ids; the draws */
    float *weights;         /* by id: while drawing its score, afterwards 1/(N q)^correct */
    uint64_t at;            /* ids of this rank drawn in this epoch */
    double accuracies[LARDER__PADS_KEPT]; /* oldest first */
    uint32_t known;
} larder__pads;

/* `repeat`, `hits_first` and `correct` are set by the caller. */
int larder__pads_open(larder__pads *, const larder_draw_env *);
void larder__pads_fini(void *st);
int larder__pads_epoch(void *st, uint64_t epoch);
uint64_t larder__pads_length(const void *st);
size_t larder__pads_draw(void *st, larder_pick *out, size_t want);
void larder__pads_save(const void *st, larder_writer *);
int larder__pads_load(void *st, larder_reader *);

#endif
