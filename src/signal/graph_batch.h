/* A report as engines want it: the last row of each id, finite and of unit length, classes as dense
 * numbers. */
#ifndef LARDER_SIGNAL_GRAPH_BATCH_H
#define LARDER_SIGNAL_GRAPH_BATCH_H

#include "signal/graph_engine.h"

enum { LARDER__GRAPH_SPARE = 64 }; /* rows that may be put behind those of the report */

typedef struct larder__graph_batch {
    larder_engine_rows rows; /* points at the arrays below */
    size_t room;             /* rows; there are as many more as LARDER__GRAPH_SPARE */
    uint32_t *ids, *classes;
    float *x;
    larder_engine_count *counts;
    float *totals;   /* a count a row, for the radius */
    uint64_t *order; /* id and row, to find repeats */
    uint64_t bad;    /* rows left out so far: not finite, or no such sample */
} larder__graph_batch;

int larder__graph_batch_fill(larder__graph_batch *, const larder_report *, uint64_t n,
                             bool normalise);
void larder__graph_batch_free(larder__graph_batch *);

#endif
