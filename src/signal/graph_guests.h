/* Guests of an index: rows that lie between two classes, in the frame of the other one. See
 * graph_index.h for what they are good for. */
#ifndef LARDER_SIGNAL_GRAPH_GUESTS_H
#define LARDER_SIGNAL_GRAPH_GUESTS_H

#include "signal/graph_index.h"

int larder__graph_guests_open(larder__graph_index *);
void larder__graph_guests_close(larder__graph_index *);
/* A row was entered into its own class's frame, this share of it lies outside. It may become a
 * guest, now or with the next flush. */
int larder__graph_guests_consider(larder__graph_index *, uint32_t id, uint32_t class,
                                  const float *x, float outside);
int larder__graph_guests_flush(larder__graph_index *);
size_t larder__graph_guests_bytes(const larder__graph_index *);
/* Follows the frames and the short codes. */
int larder__graph_guests_load(larder__graph_index *, larder_reader *);

#endif
