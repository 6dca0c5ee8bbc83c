/* The record of a job as a run to report about: for jobs that were not `larder train`'s. */
#ifndef LARDER_REPORT_TAPE_RUN_H
#define LARDER_REPORT_TAPE_RUN_H

#include "report/record.h"

int larder__run_of_tape(larder__run *out, const char *path);

#endif
