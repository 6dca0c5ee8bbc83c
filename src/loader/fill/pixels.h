/* Memory of batches. A block holds the pixels of one batch and has room for what else belongs to
 * it; it is counted by references, so that a batch may outlive the loader that made it. Blocks come
 * from a pool that keeps those given back, pinned as they are, for the next batch. */
#ifndef LARDER_LOADER_FILL_PIXELS_H
#define LARDER_LOADER_FILL_PIXELS_H

#include "stage/column.h"

typedef struct larder__pool larder__pool;
typedef struct larder__pixel_block larder__pixel_block;

typedef struct larder__pool_conf {
    size_t rows, row_bytes; /* of a block */
    uint32_t own;           /* blocks the ring has at once */
    uint32_t most;          /* beside these; 0: a quarter of memory */
    int (*pin)(void *memory, size_t bytes, unsigned flags);
    int (*unpin)(void *memory);
    const larder__columns *columns; /* for the time of the call; NULL: none */
    /* Something that each block has beside its memory; NULL: nothing. `done` when all are gone. */
    void *(*beside)(void *arg);
    void (*beside_end)(void *arg, void *);
    void (*done)(void *arg);
    void *arg;
} larder__pool_conf;

int larder__pool_open(larder__pool **out, const larder__pool_conf *);
/* Blocks that are still out keep what they need of it. */
void larder__pool_close(larder__pool **);

int larder__pixel_block_take(larder__pool *,
                             larder__pixel_block **out); /* one reference; any thread */
unsigned char *larder__pixel_block_pixels(const larder__pixel_block *);
void *larder__pixel_block_beside(const larder__pixel_block *);
/* One that belongs to no place of the ring and is not counted among those on hold. */
int larder__pixel_block_add(larder__pool *, larder__pixel_block **out);

/* Columns, of a block that is being filled: where a row of one goes (NULL: it has pieces); a piece,
 * and the memory it lies in, of which the block gets the caller's reference; a row moved up. */
const larder_column *larder__pixel_block_columns(larder__pixel_block *, const int64_t *y);
void *larder__pixel_block_cell(const larder__pixel_block *, size_t column, size_t row);
void larder__pixel_block_put(larder__pixel_block *, size_t column, size_t row, const larder_piece *,
                             larder_buf *in);
void larder__pixel_block_move(larder__pixel_block *, size_t to, size_t from);
/* Lets go of what the pieces lie in. */
void larder__pixel_block_clear(larder__pixel_block *);
bool larder__pixel_block_shared(const larder__pixel_block *); /* somebody beside the ring has it */
/* One more reference, as this batch, which lies in the block; and back from there. */
const larder_batch *larder__pixel_block_hold(larder__pixel_block *, const larder_batch *);
larder__pixel_block *larder__pixel_block_of(const larder_batch *held);
void larder__pixel_block_unref(larder__pixel_block **); /* takes NULL, also from any thread */

double larder__pool_out(const void *pool); /* blocks beside the ring's that are held */
double larder__pool_unpinned(const void *pool);

#endif
