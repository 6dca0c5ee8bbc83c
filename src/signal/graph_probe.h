/* An even sample of the indexed ids, to judge the radius by. Batches are no such sample: importance
 * draws fill them with the isolated, and hubs stand in for the crowded, so their median says more
 * about the sampler than about the data.
 *
 * Of all ids ever entered, those with the HELD smallest hashes are held, with the embedding they
 * were entered with last: every id is as likely to be among them as any other, however often each
 * was drawn, and no counter or random state is needed. Each batch a few of them, one after the
 * other by hash, are counted along with it. */
#ifndef LARDER_SIGNAL_GRAPH_PROBE_H
#define LARDER_SIGNAL_GRAPH_PROBE_H

#include "signal/graph_batch.h"

enum {
    LARDER__PROBE_HELD = 1024,
    LARDER__PROBE_LEAST = 16, /* counted with a batch */
    LARDER__PROBE_MOST = LARDER__GRAPH_SPARE,
};

typedef struct larder__graph_probe {
    uint32_t ids[LARDER__PROBE_HELD], classes[LARDER__PROBE_HELD]; /* by rising hash of the id */
    uint16_t row[LARDER__PROBE_HELD];                              /* of x */
    uint32_t count, next;            /* held; who is counted next, a place */
    float *x;                        /* HELD x dim */
    uint32_t asked;                  /* places counted with this batch */
    uint32_t at[LARDER__PROBE_MOST]; /* which row of the batch's counts each has */
} larder__graph_probe;

int larder__graph_probe_open(larder__graph_probe *, uint32_t dim);
void larder__graph_probe_close(larder__graph_probe *);
/* Takes note of a batch that was entered. */
void larder__graph_probe_enter(larder__graph_probe *, const larder_engine_rows *, uint32_t dim);
/* Puts the next few behind the batch's rows, which has room for MOST; those that are in the batch
 * already are not put there twice. `reported`: rows of the report; an eighth as many are asked.
 * Returns the rows to count. */
larder_engine_rows larder__graph_probe_ask(larder__graph_probe *, larder__graph_batch *,
                                           uint32_t dim, size_t reported);
void larder__graph_probe_save(const larder__graph_probe *, uint32_t dim, larder_writer *);
int larder__graph_probe_load(larder__graph_probe *, uint32_t dim, uint64_t n, larder_reader *);

#endif
