/* Fewer dimensions, the same distances on average: a random orthonormal projection, scaled by
 * sqrt(dim / dims) (Johnson-Lindenstrauss). It depends on the seed alone, so codes of different
 * ages can always be compared; directions learnt from the data would have to be learnt again as
 * training moves it, and what lies outside of them is not the same for near neighbours. */
#ifndef LARDER_SIGNAL_GRAPH_PROJECT_H
#define LARDER_SIGNAL_GRAPH_PROJECT_H

#include <stddef.h>
#include <stdint.h>

/* In *out, in a form of its own; free with larder__free. */
int larder__graph_projection(float **out, uint32_t dim, uint32_t dims, uint64_t seed);
/* y (n x dims) = x (n x dim) times the projection; dim is at most LARDER__DIM_MAX. */
void larder__graph_project(const float *projection, uint32_t dim, uint32_t dims, const float *x,
                           size_t n, float *y);

#endif
