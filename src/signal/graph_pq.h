/* Product quantisation: a vector is cut into parts, each replaced by the number of the nearest of
 * 256 centres learnt for it. Distances between two codes are sums from a table. */
#ifndef LARDER_SIGNAL_GRAPH_PQ_H
#define LARDER_SIGNAL_GRAPH_PQ_H

#include <larder/plugin.h>

typedef struct larder__pq {
    uint32_t dim, parts; /* parts <= dim */
    float *centres;      /* 256 x dim: those of a part together, part after part */
    float *table;        /* parts x 256 x 256 squared distances */
    bool learnt;
} larder__pq;

int larder__pq_open(larder__pq *, uint32_t dim, uint32_t parts);
void larder__pq_close(larder__pq *);
/* Centres by k-means from n >= 1 vectors; repeats from the seed. */
int larder__pq_learn(larder__pq *, const float *x, size_t n, uint64_t seed);
void larder__pq_encode(const larder__pq *, const float *x, uint8_t *code);
/* Squared distance of two codes; `pq` is a larder__pq. */
float larder__pq_distance(const void *a, const void *b, const void *pq);
void larder__pq_save(const larder__pq *, larder_writer *);
int larder__pq_load(larder__pq *, larder_reader *);

#endif
