/* Product quantisation: a vector is cut into parts, each replaced by the number of the nearest of
 * 256 centres learnt for it. Distances between two codes are sums from a table. */
#ifndef LARDER_HNSW_PQ_H
#define LARDER_HNSW_PQ_H

#include <larder/plugin.h>

typedef struct pq {
    uint32_t dim, parts; /* parts <= dim */
    float *centres;      /* 256 x dim: those of a part together, part after part */
    float *table;        /* parts x 256 x 256 squared distances */
    bool learnt;
} pq;

int pq_open(pq *, uint32_t dim, uint32_t parts);
void pq_close(pq *);
/* Centres by k-means from n >= 1 vectors; repeats from the seed. */
int pq_learn(pq *, const float *x, size_t n, uint64_t seed);
void pq_encode(const pq *, const float *x, uint8_t *code);
/* Squared distance of two codes; `book` is a pq. */
float pq_distance(const void *a, const void *b, const void *book);
void pq_save(const pq *, larder_writer *);
int pq_load(pq *, larder_reader *);

#endif
