/* Samples that the program using larder gives itself (larder_own_source): a data set like any
 * other, but for sizes, which are known only when a sample has been read. */
#ifndef LARDER_SOURCE_OWN_H
#define LARDER_SOURCE_OWN_H

#include "source/source.h"

/* A few samples spread over the data set are read, for what samples reserve in a cache: what the
 * largest of these came to. *probes and *bytes: how many, and all they came to. */
int larder__data_open_own(larder__data **out, const larder_own_source *, uint64_t *probes,
                          uint64_t *bytes);
bool larder__data_is_own(const larder__data *);
/* What this sample came to when it was last read; 0: it was not, or the data set is another's. */
uint32_t larder__data_came_to(const larder__data *, uint64_t id);

#endif
