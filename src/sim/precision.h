/* How well remembered losses tell which samples are the hardest now. */
#ifndef LARDER_SIM_PRECISION_H
#define LARDER_SIM_PRECISION_H

#include "sim/trace.h"

/* Of the 1 % of samples with the largest losses as remembered (unknown ones last, at least one
 * sample), the share that is among the 1 % largest after `epoch` in evaluation mode. E_NOMEM. */
int larder__precision_of(double *out, const float *remembered, const larder__trace *,
                         uint64_t epoch);

#endif
