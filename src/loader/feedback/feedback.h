/* Feedback on its way: what training reported about batches that are not due yet. One place for
 * each batch between report and effect, so order and lag are exact. Thread-safe. */
#ifndef LARDER_LOADER_FEEDBACK_FEEDBACK_H
#define LARDER_LOADER_FEEDBACK_FEEDBACK_H

#include "base/gap.h"
#include "base/state.h"

typedef struct larder__feedback larder__feedback;

int larder__feedback_open(larder__feedback **out, uint64_t n, uint32_t lag);
void larder__feedback_close(larder__feedback **);

/* `told`: what its losses come to (draw/recent.h); NULL: nobody asks. Ranks that tell each other
 * give a writer: this is their own part, which is also written as larder__report_write does, after
 * the epoch, to be sent to the others. Until `whole` replaces it, or makes a note where there was
 * none, nobody lifts it. */
int larder__feedback_note(larder__feedback *, uint64_t batch, uint64_t epoch, size_t n,
                          const uint64_t *served, const int64_t *labels, const larder_feedback *,
                          const larder__losses *told, larder_writer *);
int larder__feedback_note_accuracy(larder__feedback *, uint64_t batch, double accuracy);

/* Takes out what was reported about `batch`, which must be the next in order; later notes for it
 * are refused. False: nothing was. The report stays valid until the next take. *told: what its
 * losses come to, also where the report was lifted before. */
bool larder__feedback_take(larder__feedback *, uint64_t batch, larder_report *out,
                           larder__losses *told);

/* As take, but before it is due: the report alone, out of order. False: there is none (yet). What
 * take says about that batch later has no rows. *memory holds the arrays, ids first and labels
 * behind them; larder__free it. */
bool larder__feedback_lift(larder__feedback *, uint64_t batch, larder_report *out, void **memory);
uint64_t larder__feedback_next(larder__feedback *); /* the first batch not taken */

void larder__feedback_own(larder__feedback *, uint64_t batch,
                          larder_writer *); /* if there is one */
int larder__feedback_whole(larder__feedback *, uint64_t batch, const larder_report *,
                           const larder__losses *told, void **memory);
typedef enum { LARDER__SAID_NOTHING, LARDER__SAID_OWN, LARDER__SAID_ALL } larder__said;
larder__said larder__feedback_said(larder__feedback *, uint64_t batch, double *accuracy);
/* The first batch of which there is this rank's part alone. */
bool larder__feedback_open_own(larder__feedback *, uint64_t *batch);

void larder__report_write(const larder_report *, larder_writer *);
/* Arrays as lift gives them; ids below `samples`. *memory may be set although it failed. */
int larder__report_read(larder_report *out, void **memory, uint64_t samples, larder_reader *);

bool larder__feedback_heard(larder__feedback *); /* anything, at any time? */
void larder__feedback_save(larder__feedback *, larder_writer *);
/* `drawn`: batches drawn when it was saved. Of one that had heard nothing the lag may differ. */
int larder__feedback_load(larder__feedback *, uint64_t drawn, larder_reader *);

#endif
