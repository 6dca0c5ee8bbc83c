/* How much a decoded sample reserves in the cache, from a few samples of the data set. */
#ifndef LARDER_LOADER_DRAW_RESERVE_H
#define LARDER_LOADER_DRAW_RESERVE_H

#include <stddef.h>
#include <stdint.h>

typedef struct larder__probe {
    double encoded, decoded; /* bytes */
} larder__probe;

/* So many times its encoded size, or so many bytes; the other is 0. */
void larder__reserve_choose(const larder__probe *, size_t n, double *ratio, uint32_t *bytes);
/* What a mean one of them reserves then. */
double larder__reserve_mean(const larder__probe *, size_t n);

#endif
