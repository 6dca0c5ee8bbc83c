/* The row accesses of a training run, recorded: which kernel rows each round asked for, in order,
 * and what the solver said about rows that left its working set. Written by the trainer
 * (svm-train --record FILE), read by `larder sim --access FILE` and by tests.
 *
 * A file is "LARDROWS", a version and the number of rows (u32 each, little-endian), then records
 * that begin with a byte: a round (how many values of each row, how many rows, their ids), rows
 * that left (how many; id and f32 each), scores (the upper half of an f32 for each row asked for so
 * far, by rising id), the begin of another solver (its number), and the end with the sum of
 * accesses (u64). Counts and ids are LEB128: an id below a million costs three bytes. */
#ifndef LARDER_SVM_ACCESS_H
#define LARDER_SVM_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- writing: one thread at a time ----------------------------------------------------------- */

typedef struct larder__access_log larder__access_log;

/* The file is there whole, under its name, after close, or not at all. `path` is kept until then.
 */
int larder__access_log_open(larder__access_log **out, const char *path, uint64_t rows);
/* The rows that a round asks its cache for, in order. `length`: values wanted of each, counted
 * from its beginning; 0: all of them. */
int larder__access_log_round(larder__access_log *, const uint32_t *ids, size_t n, uint32_t length);
/* Rows that leave the working set, before the round that takes their places: how far each is from
 * being selected again (policy kkt; not NAN). */
int larder__access_log_leave(larder__access_log *, const uint32_t *ids, const float *dist,
                             size_t n);
/* How far every row is from being selected, by id, as of the coming round. Rows that were asked for
 * so far are written, two bytes each. Optional: a recording without it cannot be replayed under
 * kkt as the real cache would decide. */
int larder__access_log_scores(larder__access_log *, const float *dist);
/* What follows belongs to this solver of a multi-output task; 0 unless said. */
int larder__access_log_solver(larder__access_log *, uint32_t number);
/* `rc` negative: the run failed, no file is left. Returns rc, or why it could not be written. */
int larder__access_log_close(larder__access_log **, int rc);

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct larder__access_round {
    uint64_t begin, end;               /* its accesses in `ids` */
    uint64_t left_begin, left_end;     /* rows that left before it, in `left` */
    uint64_t scored_begin, scored_end; /* scores before it, in `scored` */
    uint32_t length;                   /* values of each row; 0: all */
    uint32_t solver;
} larder__access_round;

typedef struct larder__access_notes {
    uint64_t count;
    uint32_t *ids;
    float *dist;
} larder__access_notes;

typedef struct larder__accesses {
    uint64_t rows; /* ids are 0..rows-1 */
    uint64_t count;
    uint32_t *ids;
    uint64_t rounds;
    larder__access_round *round;
    larder__access_notes left, scored; /* either may have none */
} larder__accesses;

int larder__accesses_read(larder__accesses *out, const char *path);
/* The same from memory; `where` is the name in messages. */
int larder__accesses_parse(larder__accesses *out, const unsigned char *bytes, size_t size,
                           const char *where);
void larder__accesses_free(larder__accesses *);
/* Does the file begin as these do? Else it may be plain u32 ids. */
bool larder__accesses_probe(const char *path);

#endif
