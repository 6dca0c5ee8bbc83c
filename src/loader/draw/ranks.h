/* Ranks that decide together. Where the ranks of a job share a cache, each of them decides for the
 * whole global batch, as one process with that batch would, and fills its slice of it. Rows are
 * dealt out one by one, so slices are as equal as they can be, and so is every run of rows:
 * samplers that put residents in front give no rank more than one of them more than another, and
 * the reads that follow are as even. Who begins moves on by a rank each batch, so that the one more
 * is not always the same rank's: row i of batch b is rank (i + b) % world's.
 *
 * In short batches rank 0 begins, so that it is known beforehand how much of an epoch each rank
 * has; and where a rank has one row of a batch, so that short batches need not be told from full
 * ones by whoever joins parts. Where there are fewer rows than ranks, those left empty-handed take
 * one of them once more, so that all have as many batches. */
#ifndef LARDER_LOADER_DRAW_RANKS_H
#define LARDER_LOADER_DRAW_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct larder__ranks {
    uint32_t rank, world; /* world 0: nothing is shared, all rows are ours */
    uint64_t batch;       /* rows of a full batch, of all ranks */
} larder__ranks;

typedef struct larder__slice { /* rows from, from + step, from + 2 step ... */
    size_t from, step, n;
    bool again; /* a row that is another rank's */
} larder__slice;

static inline size_t larder__slice_row(const larder__slice *s, size_t i) {
    return s->from + i * s->step;
}

typedef struct larder__decided { /* a row of any rank, as far as it has to be known later */
    uint64_t id, key, mark;      /* asked for, served; as in larder__ticket */
    float weight;
    uint8_t substitute, form;
} larder__decided;

/* The rank whose row 0 of a batch is. */
uint32_t larder__ranks_first(const larder__ranks *, uint64_t number, size_t rows);
larder__slice larder__ranks_slice(const larder__ranks *, uint64_t number, size_t rows);
bool larder__slice_has(const larder__slice *, size_t row); /* and it is nobody else's */
/* Of entries that nobody has to have: some ranks may get none. A stretch of them, so that what lies
 * together is read together. */
larder__slice larder__ranks_share(const larder__ranks *, uint64_t number, size_t entries);
/* Rows of this rank in an epoch of so many of all ranks. */
uint64_t larder__ranks_length(const larder__ranks *, uint64_t rows);

#endif
