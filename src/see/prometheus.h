/* Jobs in Prometheus' text format: names larder_…, base units, _total for what only grows, and one
 * label, `job` ("pid.number"), that larder_job_info explains. */
#ifndef LARDER_SEE_PROMETHEUS_H
#define LARDER_SEE_PROMETHEUS_H

#include "see/job.h"

void larder__prometheus_write(FILE *, const larder__job *jobs, size_t count);

#endif
