/* Draws with replacement, each id as likely as its weight says: an alias table. Building it is one
 * pass over the weights, a draw is one look into the table. Weights are finite and not negative,
 * at least one is above zero; ids of weight zero are never drawn. A weight below 2^-32 of the mean
 * counts as zero. The right tool when many ids are drawn before a weight changes. */
#ifndef LARDER_SAMPLE_ALIAS_H
#define LARDER_SAMPLE_ALIAS_H

#include <larder/plugin.h>

typedef struct larder__alias_cell { /* a cell stands for one id and, above `keep`, for another */
    uint32_t keep, other;           /* keep: share of the cell in units of 2^-32 */
} larder__alias_cell;

typedef struct larder__alias {
    uint32_t n;
    larder__alias_cell *cells;
    uint32_t *order; /* while building: light ids from the front, heavy ones from the back */
} larder__alias;

int larder__alias_open(larder__alias *, uint64_t n); /* room for n ids, n < 2^32 */
void larder__alias_close(larder__alias *);
int larder__alias_build(larder__alias *, const float *weights);
/* After a build that succeeded. */
void larder__alias_draw(const larder__alias *, larder_rng *, uint32_t *out, size_t count);

#endif
