/* The radius within which two samples are neighbours, given or steered.
 *
 * Given: SpiderCache has an edge when exp(-lambda d) > alpha (Eq. 2), so r = -ln(alpha)/lambda,
 * with d the distance or, in its code, the square of it. Steered: the median of all samples'
 * neighbour counts is brought to a target degree, going by a few of an even sample of them with
 * each batch (graph_probe.h): if more of these lie below it than above, the radius grows. Norms and
 * spreads of embeddings drift by factors in the course of a training, and how fast counts grow with
 * the radius is not known beforehand, so only the sign of the deviation is used: the step grows
 * while it stays the same and is halved when it turns. */
#ifndef LARDER_SIGNAL_GRAPH_RADIUS_H
#define LARDER_SIGNAL_GRAPH_RADIUS_H

#include "signal/graph_engine.h"

typedef struct larder__graph_radius {
    bool steered;
    double degree; /* target */
    double radius; /* 0: nothing seen yet */
    double step;   /* of ln(radius) */
    int32_t turn;  /* last direction: -1, 0 or 1 */
} larder__graph_radius;

void larder__graph_radius_auto(larder__graph_radius *, double degree);
/* Before a batch is counted: a first guess from the distances inside it. `space` has room for
 * LARDER__GRAPH_PAIRS floats. */
enum { LARDER__GRAPH_PAIRS = 4096 };
void larder__graph_radius_guess(larder__graph_radius *, const larder_engine_rows *, uint32_t dim,
                                uint64_t rows, float *space);
/* After it was counted: the neighbours of n samples. */
void larder__graph_radius_steer(larder__graph_radius *, const float *totals, size_t n,
                                uint64_t rows);
void larder__graph_radius_save(const larder__graph_radius *, larder_writer *);
int larder__graph_radius_load(larder__graph_radius *, larder_reader *);

#endif
