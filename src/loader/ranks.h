/* Ranks that decide together. Where the ranks of a job share a cache, each of them decides for the
 * whole global batch, as one process with that batch would, and fills its slice of it: slices are
 * contiguous, in the order of ranks, and as equal as they can be. Where there are fewer rows than
 * ranks, those left empty-handed take one of them once more, so that all have as many batches. */
#ifndef LARDER_LOADER_RANKS_H
#define LARDER_LOADER_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct larder__ranks {
    uint32_t rank, world; /* world 0: nothing is shared, all rows are ours */
} larder__ranks;

typedef struct larder__slice {
    size_t from, n;
    bool again; /* a row that is another rank's */
} larder__slice;

typedef struct larder__decided { /* a row of any rank, as far as it has to be known later */
    uint64_t id, key, mark;      /* asked for, served; as in larder__ticket */
    float weight;
    uint8_t substitute, form;
} larder__decided;

larder__slice larder__ranks_slice(const larder__ranks *, size_t rows);
/* As slice, of entries that nobody has to have: some ranks may get none. */
larder__slice larder__ranks_share(const larder__ranks *, size_t entries);
/* Rows of this rank in an epoch of so many, with batches of `batch` of all ranks. */
uint64_t larder__ranks_length(const larder__ranks *, uint64_t rows, uint64_t batch);

#endif
