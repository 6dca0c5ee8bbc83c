/* The latest code of every sample, laid out for the counting kernels: chunks of 64 rows, each of
 * one class, so that "same class" is a property of a chunk and rows of a class lie together. Rows
 * stand in the order in which their samples were first seen, hence any chunk of a shuffled training
 * is a random sample of its class. Only the last chunk of a class may have room.
 *
 * The first dimensions are the head of a row. Heads that are too far apart sort out most pairs for
 * a part of the work, and never one that counts: a row's second constant is such
 * that what the kernel counts on heads is never less than on whole rows.
 *
 * Memory: a code (a byte a dimension) and 12 or 16 bytes a row, 4 bytes a sample for the map, and
 * less than a chunk a class for what is not filled. Used by one thread at a time, except that
 * readers may share. */
#ifndef LARDER_SIGNAL_GRAPH_STORE_H
#define LARDER_SIGNAL_GRAPH_STORE_H

#include "signal/graph_kernel.h"

#include <larder/plugin.h>

#define LARDER__NO_CHUNK UINT32_MAX
#define LARDER__NO_PLACE UINT32_MAX
enum { LARDER__DIM_MAX = 4096, LARDER__CLASSES_MAX = (1 << 20) + 1 };

typedef struct larder__graph_class {
    uint32_t first, last; /* chunks */
    uint32_t rows;
} larder__graph_class;

typedef struct larder__graph_chunk {
    uint32_t next; /* of the same class */
    uint32_t class;
} larder__graph_chunk;

typedef struct larder__graph_store {
    uint64_t n;      /* ids are 0..n-1 */
    uint32_t groups; /* of four bytes a row */
    uint32_t dims;   /* of a row: a multiple of 4 */
    uint32_t head;   /* groups of a head; 0: rows are too short to have one */
    bool hides;      /* rows have a third constant, see larder__graph_store_hide */
    uint32_t chunk_count, chunk_room, class_count;
    uint32_t rows; /* samples seen */
    size_t stride; /* bytes of a chunk: codes, constants, ids; constants of heads; of strangers */
    size_t kept;   /* of these, the ones that are saved: the first three */
    uint32_t *place;
    uint32_t spare;         /* chunks that were dropped, linked by next */
    uint32_t held;          /* chunks that have memory */
    unsigned char **memory; /* of each chunk */
    larder__graph_chunk *chunks;
    larder__graph_class *classes;
} larder__graph_store;

/* `head`: eighths of a row. */
int larder__graph_store_open(larder__graph_store *, uint64_t n, uint32_t dims, uint32_t head,
                             bool hides);
void larder__graph_store_close(larder__graph_store *);
/* Enters or replaces a sample's row: dims codes, a byte each. Its class is the one it came with
 * first. */
int larder__graph_store_put(larder__graph_store *, uint32_t id, uint32_t class,
                            const uint8_t *codes, int32_t row_const);
/* Forgets a sample, if it is there. */
void larder__graph_store_remove(larder__graph_store *, uint32_t id);
/* From now on, until it is put again, only those who look at chunk_consts count it, not those who
 * look at chunk_outer. */
void larder__graph_store_hide(larder__graph_store *, uint32_t id);
/* The bound of a query's head: codes as of a row, `bound` of the whole query. */
int32_t larder__graph_store_head_bound(const larder__graph_store *, const uint8_t *codes,
                                       int32_t bound);
/* Lets `map` write every row anew. */
typedef void (*larder__graph_map_fn)(const void *arg, uint8_t *codes, int32_t *row_const);
void larder__graph_store_rewrite(larder__graph_store *, larder__graph_map_fn, const void *arg);
void larder__graph_store_rewrite_class(larder__graph_store *, uint32_t class, larder__graph_map_fn,
                                       const void *arg);
/* Forgets all samples of a class. */
void larder__graph_store_drop(larder__graph_store *, uint32_t class);
/* Makes room for classes 0..count-1. */
int larder__graph_store_classes(larder__graph_store *, uint32_t count);
void larder__graph_store_save(const larder__graph_store *, larder_writer *);
int larder__graph_store_load(larder__graph_store *, larder_reader *); /* into an empty one */
size_t larder__graph_store_bytes(const larder__graph_store *);

static inline bool larder__graph_store_holds(const larder__graph_store *s, uint32_t id) {
    return s->place[id] != LARDER__NO_PLACE;
}
static inline uint32_t larder__graph_store_class(const larder__graph_store *s, uint32_t id) {
    return s->chunks[s->place[id] / LARDER__CHUNK_ROWS].class;
}
static inline uint8_t *larder__chunk_codes(const larder__graph_store *s, uint32_t chunk) {
    return s->memory[chunk];
}
static inline int32_t *larder__chunk_consts(const larder__graph_store *s, uint32_t chunk) {
    return (int32_t *)(void *)(larder__chunk_codes(s, chunk) +
                               (size_t)s->groups * 4 * LARDER__CHUNK_ROWS);
}
static inline uint32_t *larder__chunk_ids(const larder__graph_store *s, uint32_t chunk) {
    return (uint32_t *)(void *)(larder__chunk_consts(s, chunk) + LARDER__CHUNK_ROWS);
}
static inline int32_t *larder__chunk_heads(const larder__graph_store *s, uint32_t chunk) {
    return (int32_t *)(void *)(larder__chunk_ids(s, chunk) + LARDER__CHUNK_ROWS);
}
static inline int32_t *larder__chunk_outer(const larder__graph_store *s, uint32_t chunk) {
    return s->hides ? larder__chunk_heads(s, chunk) + LARDER__CHUNK_ROWS
                    : larder__chunk_consts(s, chunk);
}
/* Rows in use of a chunk. */
static inline uint32_t larder__chunk_used(const larder__graph_store *s, uint32_t chunk) {
    const larder__graph_class *c = &s->classes[s->chunks[chunk].class];
    uint32_t tail = c->rows % LARDER__CHUNK_ROWS;
    return chunk == c->last && tail ? tail : LARDER__CHUNK_ROWS;
}
/* One row's codes out of, and into, the interleaved form. */
void larder__chunk_get(const larder__graph_store *, uint32_t chunk, uint32_t lane, uint8_t *codes);
void larder__chunk_set(larder__graph_store *, uint32_t chunk, uint32_t lane, const uint8_t *codes,
                       int32_t row_const);

#endif
