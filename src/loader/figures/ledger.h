/* The honest book: what was served in each epoch, how it came, what it cost in storage reads, and
 * whether every id came exactly once. Written when a batch is handed out, in order. Not
 * thread-safe; its owner holds the lock. */
#ifndef LARDER_LOADER_FIGURES_LEDGER_H
#define LARDER_LOADER_FIGURES_LEDGER_H

#include "base/gap.h"
#include "base/state.h"

typedef struct larder__ledger larder__ledger;

int larder__ledger_open(larder__ledger **out, uint64_t n, uint32_t world);
void larder__ledger_close(larder__ledger **);

/* From now on it keeps how much each id counted, 4 bytes an id. */
int larder__ledger_weigh(larder__ledger *);
/* Kish's effective size of what was served in the newest epoch so far, as a share of this rank's
 * part of all samples: an id whose rows have weights that add up to w pulls with w, and all ids
 * pulling alike make 1. A substitute counts for the id that was served. NAN: not weighed. */
double larder__ledger_ess(const larder__ledger *);

/* A new epoch that should serve `expected` ids; nothing if it is the newest one already, unless its
 * first batch comes (again): then what was there of it is another page. */
int larder__ledger_begin(larder__ledger *, uint64_t epoch, uint64_t expected, bool first);
/* form[i]: larder_form of what came from memory, with LARDER__FRONT if the tier in front had it.
 * read_bytes[i]: what storage gave for this request; 0 for hits. weights[i]: of the row; NULL: 1.
 */
enum { LARDER__FRONT = 0x80 };
void larder__ledger_record(larder__ledger *, const uint64_t *served, const uint8_t *kind,
                           const uint8_t *form, const uint32_t *read_bytes, const float *weights,
                           size_t n);
void larder__ledger_bad(larder__ledger *, size_t n);
void larder__ledger_background(larder__ledger *, uint64_t reads, uint64_t bytes);
void larder__ledger_evaluation(larder__ledger *, uint64_t samples, uint64_t reads, uint64_t bytes);
/* Asked of storage since the last call, for whatever of the above. */
void larder__ledger_requests(larder__ledger *, uint64_t n);
void larder__ledger_scratch(larder__ledger *, uint64_t reads, uint64_t bytes, uint64_t written);

/* What training said about a batch of this epoch: for its newest page, if it has one. */
void larder__ledger_told(larder__ledger *, uint64_t epoch, const larder__losses *);

int larder__ledger_figures(const larder__ledger *, uint64_t epoch, larder_figures *out);
/* Of the newest epoch: ids served more than once plus ids never served; 0 proves exactly-once. The
 * count is taken from the bitmap, not from the running figures, and both must agree. */
int64_t larder__ledger_audit(const larder__ledger *);
uint64_t larder__ledger_bytes(const larder__ledger *); /* its own memory */

void larder__ledger_save(const larder__ledger *, larder_writer *);
int larder__ledger_load(larder__ledger *, larder_reader *);

#endif
