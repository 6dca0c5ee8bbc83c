/* Batches that may still be reported: which of their rows were reused (base/lately.h), and what a
 * report's losses come to. Batches are noted as they are decided: what is given up later, or read
 * instead of a bad sample, is few.
 *
 * Takes a byte a sample, and 5 bytes a row of these batches. Thread-safe: one draws, any thread
 * reports. */
#ifndef LARDER_LOADER_DRAW_RECENT_H
#define LARDER_LOADER_DRAW_RECENT_H

#include "base/gap.h"
#include "base/lately.h"
#include "cache/local.h"
#include "loader/draw/ranks.h"

typedef struct larder__recent larder__recent;

typedef struct larder__recent_conf {
    uint64_t n;       /* samples of the data set */
    uint64_t share;   /* services in an epoch's worth: those of who decides */
    uint64_t batch;   /* rows at most */
    uint32_t batches; /* remembered for their reports */
} larder__recent_conf;

int larder__recent_open(larder__recent **out, const larder__recent_conf *);
void larder__recent_close(larder__recent **);
uint64_t larder__recent_bytes(const larder__recent *);

/* Batch `number` serves the keys of these. Numbers go up. */
void larder__recent_serve(larder__recent *, uint64_t number, const larder__ticket *, size_t n);

/* The loss of row i of a report, NAN where it has none. From logits of more than 64 classes it is
 * made for one sample in classes/64 alone, since whoever reports waits for it: a step of 256 x 1000
 * logits would wait some ms. Which ones follows from sample and batch, whoever reports the row. */
float larder__recent_loss(const larder_report *, size_t i);

/* What a report says of rows of its batch: of this rank's (`ranks`), or of all with ranks {0}. The
 * report may have fewer rows (bad samples left out) or more (those of other ranks, too), in order;
 * rows that are none of the batch's count for nothing. Nothing of batches that are forgotten. */
void larder__recent_tell(larder__recent *, const larder__ranks *, const larder_report *,
                         larder__losses *out);
/* As tell, once a batch: nothing the second time. */
void larder__recent_tell_once(larder__recent *, const larder__ranks *, const larder_report *,
                              larder__losses *out);
/* Was row i of a batch, as it was decided, reused? False with rows that are forgotten. */
bool larder__recent_reused(larder__recent *, uint64_t number, size_t row);

double larder__recent_keep(const larder__recent *); /* of larder__gap_add: fades over an epoch */

void larder__recent_save(larder__recent *, larder_writer *);
int larder__recent_load(larder__recent *, larder_reader *);
/* What another rank or one with other batches saved: read over, and nothing is recent. */
int larder__recent_skip(larder__recent *, larder_reader *);

#endif
