/* In which order `exact` keeps the dimensions of a row: those in which rows differ most come first,
 * so that heads (graph_store.h) sort out more. Distances do not depend on it, nor do counts.
 *
 * What rows differ in changes as training goes on: it is looked at whenever as many rows have come
 * as at the look before, or as there are samples. The order changes where the head would gain, and
 * all rows are written anew then. It goes by rows entered, so a run repeats. */
#ifndef LARDER_SIGNAL_GRAPH_ORDER_H
#define LARDER_SIGNAL_GRAPH_ORDER_H

#include "signal/graph_store.h"

typedef struct larder__graph_order {
    uint32_t dim;
    uint16_t *at;         /* place k holds dimension at[k]; NULL: as they come */
    double *sum, *square; /* of the values seen since the last look, halved at each */
    double rows;          /* as many, halved too */
    uint64_t seen, next;  /* rows since the last look; the look comes after so many */
} larder__graph_order;

int larder__graph_order_open(larder__graph_order *, uint32_t dim, uint64_t samples);
void larder__graph_order_close(larder__graph_order *);
/* The codes of a row, as they come, into the order. */
void larder__graph_order_put(const larder__graph_order *, uint8_t *codes);
/* Takes note of a batch of rows. Where another order is due, writes `store` anew. */
void larder__graph_order_follow(larder__graph_order *, larder__graph_store *store, const float *x,
                                size_t rows);
size_t larder__graph_order_bytes(const larder__graph_order *);
void larder__graph_order_save(const larder__graph_order *, larder_writer *);
int larder__graph_order_load(larder__graph_order *, larder_reader *);

#endif
