/* Counting the neighbours of a batch among the rows of an index: class by class, chunk by chunk,
 * all queries of a class against a chunk while it is in the cache, heads first (graph_store.h).
 * With a budget a plan says which classes and which chunks a query looks at (graph_plan.h). */
#ifndef LARDER_SIGNAL_GRAPH_SWEEP_H
#define LARDER_SIGNAL_GRAPH_SWEEP_H

#include "signal/graph_index.h"
#include "signal/graph_plan.h"

typedef struct larder__graph_sweeps {
    const larder__graph_kernel *kernel;
    larder__graph_plan plan;
    uint32_t *sizes; /* rows of each class */
    size_t size_room;
    uint64_t batches; /* counted; turns the sample of chunks */
    /* The batch at hand, room for `room` rows. */
    size_t room, packed_bytes;
    const float *x;
    unsigned char *packed;   /* whole queries as the kernel wants them */
    int32_t *bounds, *heads; /* and their bounds, of all and of the head */
    uint32_t *chunk_of, *lane_of, *classes;
} larder__graph_sweeps;

void larder__graph_sweeps_open(larder__graph_sweeps *, const larder__graph_index *);
void larder__graph_sweeps_close(larder__graph_sweeps *);
/* The rows were just entered. */
int larder__graph_sweeps_count(larder__graph_sweeps *, const larder__graph_index *,
                               const larder_engine_rows *, double radius, larder_engine_count *out);

#endif
