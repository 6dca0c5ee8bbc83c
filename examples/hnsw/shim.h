/* hnswlib (a C++ header library) as a few C functions: an index of items of a fixed size under
 * numbers 0..n-1, with a distance that the caller brings. Built only where hnswlib was found.
 * Its memory comes from C++'s allocator; running out of it is an answer, not an exception. */
#ifndef LARDER_HNSW_SHIM_H
#define LARDER_HNSW_SHIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hnsw_index hnsw_index;
typedef float (*hnsw_index_distance)(const void *a, const void *b, const void *arg);

typedef struct hnsw_index_conf {
    size_t n, item_bytes;
    hnsw_index_distance distance;
    const void *arg;     /* of distance; kept */
    size_t links, width; /* M and ef_construction */
    size_t seed;
} hnsw_index_conf;

/* 0, or -1 when there is no memory. */
int hnsw_index_open(hnsw_index **out, const hnsw_index_conf *);
void hnsw_index_close(hnsw_index **);
int hnsw_index_put(hnsw_index *, uint32_t id, const void *item); /* new, or moved */
/* The nearest k, in no order; returns how many. */
size_t hnsw_index_search(hnsw_index *, const void *item, size_t k, size_t ef, uint32_t *ids,
                         float *distances);
/* Its item, or NULL when there is none of this number. */
const void *hnsw_index_item(const hnsw_index *, uint32_t id);
size_t hnsw_index_bytes(const hnsw_index *);

#ifdef __cplusplus
}
#endif
#endif
