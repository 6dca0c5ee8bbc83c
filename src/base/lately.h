/* Who was served lately. A sample that comes again within an epoch's worth of served samples is
 * reused, any other is fresh: by what training saw, wherever the bytes lay. In plain training half
 * of all come again within that time; where a share h of each batch is drawn from a cache of a
 * share c of the data, a resident comes again after c/h epochs, so whatever reuse goes beyond the
 * cache's own share (h > c) counts as such. What is fresh was not trained on for an epoch at least.
 *
 * Time is counted in services, in steps of 1/64 epoch, so the boundary is blurred by that much
 * (data sets of up to 64 samples: not at all). An id that comes twice in a batch is what it was
 * before the batch, as its losses are. Takes a byte an id. */
#ifndef LARDER_BASE_LATELY_H
#define LARDER_BASE_LATELY_H

#include "base/state.h"

typedef struct larder__lately {
    uint64_t n;           /* ids */
    uint64_t step, reach; /* services in a step; steps in which an id comes again as reused */
    uint64_t services;    /* so far */
    uint64_t now, swept;  /* steps: of the last batch; when times out of reach were taken out */
    uint8_t *times;       /* by id: the step in which it was served last, + 1, once around */
} larder__lately;

/* `share`: services in an epoch's worth. */
int larder__lately_open(larder__lately *, uint64_t n, uint64_t share);
void larder__lately_close(larder__lately *);
/* A batch of these ids is served; which of them are reused? Answers the step, which is the block of
 * base/gap.h. */
uint64_t larder__lately_serve(larder__lately *, const uint32_t *ids, size_t n, uint8_t *reused);
double larder__lately_keep(const larder__lately *); /* of larder__gap_add: fades over an epoch */

void larder__lately_clear(larder__lately *);
void larder__lately_save(const larder__lately *, larder_writer *);
int larder__lately_load(larder__lately *, larder_reader *);

#endif
