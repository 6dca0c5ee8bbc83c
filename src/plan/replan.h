/* plan=auto: how the cache is shared out between the forms, decided while training runs.
 *
 * The loader measures what storage, processors and training take for a sample (larder_pace). When
 * all of it is known, larder__plan_make says which split should be fastest, and the cache is shared
 * out anew. It is looked at some 32 times an epoch, from batch 16 on, by this rule:
 *
 * - the first plan is taken if it promises 2 % more than the split the run began with;
 * - a later one only if some rate has moved by a quarter since, if it promises 10 % more than what
 *   is there at two looks in a row, and no sooner than half an epoch after the last.
 *
 * Rates come from the clock, so every change is written down with the number of its batch. The list
 * is part of the saved state, and with larder__replan_follow it decides instead of the clock. */
#ifndef LARDER_PLAN_REPLAN_H
#define LARDER_PLAN_REPLAN_H

#include "base/state.h"
#include "plan/rates.h"

#include <larder/plugin.h>

typedef struct larder__plan_turn { /* a change of plan */
    uint64_t batch;                /* the first one decided under it, counted over the whole run */
    int encoded, decoded, augmented; /* percent, as in larder_split */
    double expected, before;         /* samples/s by the model, with it and with what there was */
    larder_resource held_up_by;      /* what made that slower */
    larder_resource bottleneck;      /* what holds it up from here on */
} larder__plan_turn;

typedef struct larder__turns {
    larder__plan_turn *at;
    size_t count, cap;
} larder__turns;

typedef struct larder__replan {
    larder_rates rates; /* as measured last, and what does not change */
    larder_rates then;  /* at the last decision */
    larder_split split; /* in effect */
    double cores;       /* that prepare samples */
    uint64_t batches;   /* of an epoch */
    uint32_t in_a_row;  /* looks that promised enough */
    larder__turns turns;
    larder__turns follow; /* decides instead */
    size_t next;          /* of those */
    bool follows;
} larder__replan;

/* `fixed` has everything but t_gpu, t_da, t_a and b_storage. */
void larder__replan_open(larder__replan *, const larder_rates *fixed, larder_split start,
                         double cores, uint64_t batches);
void larder__replan_close(larder__replan *);
/* Before batch `number` is drawn: has the split changed? Without memory for the list it stays. */
bool larder__replan_next(larder__replan *, uint64_t number, const larder_pace *);

void larder__replan_save(const larder__replan *, larder_writer *);
/* What was decided so far; the last split is in effect. Or: what is to be decided again. */
int larder__replan_past(larder__replan *, larder_reader *);
int larder__replan_follow(larder__replan *, larder_reader *);

#endif
