/* From floats to codes of eight bits: one offset and one step for all dimensions, so that
 * distances between codes are distances. The range follows the embeddings as training changes them;
 * when it moves, the codes that are there are written anew.
 *
 * A code's rounding error e adds |e|^2 to every squared distance, on average and for each of the
 * two ends. That much is known when a row is coded, so it is taken off in the row's constant (see
 * graph_kernel.h). What stays is the part that averages out. */
#ifndef LARDER_SIGNAL_GRAPH_SCALE_H
#define LARDER_SIGNAL_GRAPH_SCALE_H

#include "signal/graph_store.h"

typedef struct larder__graph_scale {
    float low, step;   /* value = low + step x code; step 0: nothing seen yet */
    uint64_t batches;  /* looked at */
    uint32_t narrower; /* looks in a row that found the range twice as wide as needed */
} larder__graph_scale;

/* Looks at the values of a batch and moves the range if many fall outside, or if it has been far
 * too wide for long; rewrites `store` then. `space` holds count floats. */
void larder__graph_scale_follow(larder__graph_scale *, larder__graph_store *store,
                                const float *values, size_t count, float *space);
/* Codes one row: `dims` values into `padded` codes. */
void larder__graph_scale_code(const larder__graph_scale *, const float *values, uint32_t dims,
                              uint32_t padded, uint8_t *codes, int32_t *row_const);
/* And back. */
void larder__graph_scale_values(const larder__graph_scale *, const uint8_t *codes, uint32_t dims,
                                float *values);
/* Half the squared radius in units of the codes. */
int32_t larder__graph_scale_half(const larder__graph_scale *, double radius);
/* The bound of a query that is the row (codes, row_const), see graph_kernel.h. */
int32_t larder__graph_scale_bound(const uint8_t *codes, uint32_t dims, int32_t row_const,
                                  int32_t half);
void larder__graph_scale_save(const larder__graph_scale *, larder_writer *);
int larder__graph_scale_load(larder__graph_scale *, larder_reader *);

#endif
