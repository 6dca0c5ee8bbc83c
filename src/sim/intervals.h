/* How rows are asked for again: the reuse intervals of an access sequence and how access counts
 * change from one quarter of the run to the next (what the HCST paper shows in its figures 1-3). */
#ifndef LARDER_SIM_INTERVALS_H
#define LARDER_SIM_INTERVALS_H

#include <stdint.h>

enum { LARDER__QUARTERS = 4, LARDER__LEVELS = 4, LARDER__CHANGES = 5 };

typedef struct larder__reuse_intervals {
    uint64_t accesses;
    uint64_t first;                 /* never asked for before */
    uint64_t level[LARDER__LEVELS]; /* interval below 1, 2, 3 times `step`, and more */
} larder__reuse_intervals;

typedef struct larder__intervals {
    uint64_t step; /* accesses */
    larder__reuse_intervals run, quarter[LARDER__QUARTERS];
    /* Ids whose count differs by 0, 1, 2, 3, more between a quarter and the next. */
    uint64_t change[LARDER__QUARTERS - 1][LARDER__CHANGES];
    uint64_t keys;
} larder__intervals;

/* `ends`: where each quarter ends in ids; the last is their number. */
int larder__intervals_find(larder__intervals *out, const uint32_t *ids, uint64_t keys,
                           const uint64_t ends[LARDER__QUARTERS], uint64_t step);

#endif
