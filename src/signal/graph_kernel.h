/* Counting the rows of a chunk that lie within a radius of some queries: the inner loop of the
 * engines `exact` and `strata`. Several instruction sets, one answer: all arithmetic is on integers
 * that cannot overflow, so every kernel counts the same.
 *
 * A chunk is 64 rows of u8 codes, interleaved [dims/4][64 rows][4 dims]: one 64-byte load holds
 * four dimensions of 16 rows. A query is the same code less 128, as s8. With u the row, v the
 * query, |u - v|^2 <= R^2   <=>   dot(u, v - 128) - row_const >= bound where row_const = |u|^2/2 -
 * 128 sum(u) and bound = (|v|^2 - R^2)/2: squared distances are never formed, and whatever else
 * belongs to the row alone or the query alone fits into the two. "Groups" are four
 * dimensions. */
#ifndef LARDER_SIGNAL_GRAPH_KERNEL_H
#define LARDER_SIGNAL_GRAPH_KERNEL_H

#include <stddef.h>
#include <stdint.h>

enum {
    LARDER__CHUNK_ROWS = 64,
    LARDER__TILE_QUERIES = 6,
    LARDER__ROW_ABSENT = 1 << 30, /* row_const of an empty place: never within any radius */
    LARDER__BOUND_LIMIT = 1 << 29 /* |bound| and |row_const| of real rows stay below */
};

typedef void larder__graph_count_fn(const uint8_t *codes, const int32_t *row_const, uint32_t groups,
                                    const void *const *packed, const int32_t *bounds,
                                    uint32_t *counts);

typedef void larder__graph_dots_fn(const uint8_t *codes, uint32_t groups, const int8_t *query,
                                   int32_t *dots);

typedef struct larder__graph_kernel {
    const char *name;
    double macs; /* multiply-adds a second of one core, as bench_graph measured; for `auto` */
    size_t (*packed_bytes)(uint32_t dims);
    /* Brings a query, dims codes less 128, into the kernel's own form. */
    void (*pack)(const int8_t *query, uint32_t dims, void *packed);
    /* counts[k] += rows of the chunk within the bound of query k, for 6 packed queries. */
    larder__graph_count_fn *count;
    /* dot(u, v - 128) of one query that is not packed with every row of a chunk. */
    larder__graph_dots_fn *dots;
} larder__graph_kernel;

/* The fastest this machine has, or the one of this name; NULL: it cannot run here. */
const larder__graph_kernel *larder__graph_kernel_best(void);
const larder__graph_kernel *larder__graph_kernel_named(const char *name);

extern const larder__graph_kernel larder__graph_kernel_plain;
#if defined(__x86_64__)
extern const larder__graph_kernel larder__graph_kernel_vnni, larder__graph_kernel_avx2;
#endif

#endif
