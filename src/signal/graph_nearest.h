/* The nearest neighbours of one sample within its class, as an index has them. */
#ifndef LARDER_SIGNAL_GRAPH_NEAREST_H
#define LARDER_SIGNAL_GRAPH_NEAREST_H

#include "signal/graph_index.h"

/* At most cap ids of those within the radius, nearest first, of a row that is entered. */
size_t larder__graph_nearest(const larder__graph_index *, const larder_engine_rows *, size_t row,
                             double radius, uint64_t *ids, size_t cap);

#endif
