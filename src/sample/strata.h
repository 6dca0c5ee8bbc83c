/* The order of a sweep in which every class is spread evenly: of each class about as many in any
 * stretch of it as its share of the data. So a cache that holds such a stretch holds all classes as
 * the data has them, where chance alone would leave some out (docs/results/rotate.md).
 *
 * The samples of a class stand at (r + u) / count of the way, r = 0, 1, … in random order, u random
 * in [0, 1). Places are told apart to 64; within that the order is a random one. A sample without a
 * class is of a class of its own kind. O(n) time, 6 bytes a sample. */
#ifndef LARDER_SAMPLE_STRATA_H
#define LARDER_SAMPLE_STRATA_H

#include <larder/plugin.h>

enum { LARDER__STRATUM = 64 };

typedef struct larder__strata {
    const larder_draw_env *env;
    uint32_t classes; /* and one more for those without; 0: no classes to speak of */
    uint32_t *count;  /* class: its samples, then how many of them were passed */
    uint32_t *ends;   /* stretch: where its part of the order begins */
    uint32_t *other;  /* room for an order */
    uint16_t *known;  /* id: its class, when the order was made; NULL: there are too many */
} larder__strata;

/* Also fine where classes are not known, or nearly every sample has its own. */
int larder__strata_open(larder__strata *, const larder_draw_env *);
void larder__strata_close(larder__strata *);
/* From a random order of all ids; *order may be another block of memory afterwards. */
void larder__strata_spread(larder__strata *, uint32_t **order, uint64_t seed, uint64_t sweep);

#endif
