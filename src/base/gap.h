/* What reuse memorises: the loss of samples that were not trained on lately beside the loss of
 * those that were, both as reported for the very batch, so before training on it.
 *
 * Losses fall while training goes on, and the two sorts need not come evenly over an epoch: nothing
 * is reused before a cache has filled, and in plain training what comes back soon comes early in an
 * epoch. So only losses of about the same time are set against each other. In each block (1/64 of
 * an epoch) with f fresh and r reused samples both means count with weight f r / (f + r), by which
 * the difference has the smallest variance; blocks that have one sort alone say nothing. A loss
 * that depends on time alone, or on the sample alone in an even draw, then makes no gap. */
#ifndef LARDER_BASE_GAP_H
#define LARDER_BASE_GAP_H

#include "base/state.h"

enum { LARDER__SERVED_FRESH = 0, LARDER__SERVED_REUSED = 1 }; /* indices of pairs */

typedef struct larder__losses { /* finite ones, of one report or of one block */
    uint64_t block;
    uint64_t count[2];
    double sum[2];
} larder__losses;

typedef struct larder__gap { /* zeroed: nothing yet */
    larder__losses open;     /* of the block under way */
    double rows[2];          /* in blocks before it that count */
    double weight, means[2]; /* of these; means times weight */
    uint64_t begun;          /* losses in the first reports of all; 0: none yet */
    double first;            /* their mean */
} larder__gap;

/* Earlier blocks fade to `keep` with each block that goes by; 1: they stay. */
void larder__gap_add(larder__gap *, const larder__losses *, double keep);
larder_memorised larder__gap_read(const larder__gap *);

void larder__losses_save(const larder__losses *, larder_writer *);
int larder__losses_load(larder__losses *, larder_reader *);
enum { LARDER__GAP_BYTES = 12 * 8 }; /* saved */
void larder__gap_save(const larder__gap *, larder_writer *);
int larder__gap_load(larder__gap *, larder_reader *);

#endif
