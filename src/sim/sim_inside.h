/* What the files of the simulator share: a run under way. Nobody else includes this. */
#ifndef LARDER_SIM_INSIDE_H
#define LARDER_SIM_INSIDE_H

#include "loader/draw/draw.h"
#include "loader/figures/ledger.h"
#include "sim/sim.h"
#include "sim/trace.h"

typedef struct larder__sim_state {
    const larder__sim_conf *conf;
    larder__sim_result *out;
    larder__cache_text cache;
    larder__draw *draw;
    larder__ledger *ledger;
    larder__planned plan, ahead; /* `ahead`: the next batch to evaluate */
    larder__trace *trace;
    larder__feed *feed; /* of a recorded job */
    larder__feed_rates rates;
    larder__feed_clock clock;
    bool same;            /* its very recipe and cache: what the clock said then is said again */
    uint64_t drawn;       /* ids of the epoch before this batch */
    larder__data *data;   /* NULL: imagined samples */
    larder__parts *parts; /* NULL: they are read whole */
    uint64_t *served;     /* arrays of one batch */
    uint8_t *kinds, *forms;
    uint32_t *read_bytes;
    int64_t *labels;
    float *losses, *embeddings; /* embeddings: NULL unless the signal looks at them */
    uint32_t *future;
} larder__sim_state;

/* What training says about the batch just served, to the ledger and to who listens. */
int larder__sim_report(larder__sim_state *, const larder_feedback *);

/* recorded_job.c: what a recorded job gives to a run that replays it. Before the draw is opened,
 * and after it; before each batch, and after it. */
int larder__sim_open_tape(larder__sim_state *, larder__draw_conf *);
int larder__sim_check_feed(const larder__sim_state *);
void larder__sim_tell_pace(larder__sim_state *);
int larder__sim_train_again(larder__sim_state *);

#endif
