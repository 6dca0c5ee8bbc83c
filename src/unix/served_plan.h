/* plan=auto of jobs that share a cache. Each job tells what it measures; together they are one
 * machine: what storage gives them, what they train and what their threads prepare add up, but for
 * processors, of which there are no more than the machine has. The model then counts the jobs, and
 * the rule of plan/replan.h decides. */
#ifndef LARDER_UNIX_SERVED_PLAN_H
#define LARDER_UNIX_SERVED_PLAN_H

#include "plan/replan.h"
#include "unix/served_set.h"

/* A job's rates now, and the threads it prepares samples with. True: the cache was shared out anew;
 * *out says how. Nothing happens on a set whose first job did not want it. */
bool larder__served_rates(larder__served *, uint32_t job, const larder_pace *, double cores,
                          larder__plan_turn *out);
/* How it is shared out now; false: as it was at the start, for good. */
bool larder__served_split(const larder__served *, larder_split *, size_t *changes);

/* Samples a second that a job trains, as it told last; NAN: it has not. */
double larder__served_training(const larder__served *, uint32_t job);

#endif
