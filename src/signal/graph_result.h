/* What the signal `graph` hands from its heavy half to its light half: scores by id, and a few hubs
 * with the ids they may stand in for. One block of memory of a size known beforehand. */
#ifndef LARDER_SIGNAL_GRAPH_RESULT_H
#define LARDER_SIGNAL_GRAPH_RESULT_H

#include <larder/plugin.h>

typedef struct larder__graph_shape { /* of all results of one signal */
    uint64_t n;                      /* samples of the data set */
    uint32_t hubs, list;             /* at most so many hubs, of so many ids each */
} larder__graph_shape;

typedef struct larder__graph_hub {
    uint64_t key, count;
    uint64_t ids[]; /* room for shape.list */
} larder__graph_hub;

typedef struct larder__graph_scored {
    uint64_t id;
    float score;
    uint32_t zero; /* so that saved results are equal when they mean the same */
} larder__graph_scored;

typedef struct larder__graph_result {
    uint64_t room; /* for rows: those of the report */
    uint32_t rows, hubs;
    larder__graph_scored scored[]; /* room of them; the hubs follow */
} larder__graph_result;

/* `shape`: a larder__graph_shape, or the state of a signal, whose first member is one. */
size_t larder__graph_result_size(const void *shape, size_t rows);
larder__graph_hub *larder__graph_result_hub(const larder__graph_shape *, larder__graph_result *,
                                            uint32_t i);
/* Do these bytes, of a report of so many rows, keep within their bounds? */
bool larder__graph_result_sound(const void *shape, const void *result, size_t rows);
/* Writes the scores, names the hubs, best first. */
void larder__graph_result_apply(const void *shape, const void *result, float *scores,
                                larder_relation_fn, void *arg);

#endif
