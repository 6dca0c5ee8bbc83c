/* hnswlib (a C++ header library) as a few C functions: an index of items of a fixed size under
 * numbers 0..n-1, with a distance that the caller brings. Built only where hnswlib was found.
 * Its memory comes from C++'s allocator; running out of it is an answer, not an exception. */
#ifndef LARDER_SIGNAL_GRAPH_HNSW_SHIM_H
#define LARDER_SIGNAL_GRAPH_HNSW_SHIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct larder__hnsw larder__hnsw;
typedef float (*larder__hnsw_distance)(const void *a, const void *b, const void *arg);

typedef struct larder__hnsw_conf {
    size_t n, item_bytes;
    larder__hnsw_distance distance;
    const void *arg;     /* of distance; kept */
    size_t links, width; /* M and ef_construction */
    size_t seed;
} larder__hnsw_conf;

/* 0, or -1 when there is no memory. */
int larder__hnsw_open(larder__hnsw **out, const larder__hnsw_conf *);
void larder__hnsw_close(larder__hnsw **);
int larder__hnsw_put(larder__hnsw *, uint32_t id, const void *item); /* new, or moved */
/* The nearest k, in no order; returns how many. */
size_t larder__hnsw_search(larder__hnsw *, const void *item, size_t k, size_t ef, uint32_t *ids,
                           float *distances);
/* Its item, or NULL when there is none of this number. */
const void *larder__hnsw_item(const larder__hnsw *, uint32_t id);
size_t larder__hnsw_bytes(const larder__hnsw *);

#ifdef __cplusplus
}
#endif
#endif
