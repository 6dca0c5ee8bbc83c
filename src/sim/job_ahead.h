/* A job that has not run yet, as a tape of one epoch: so many samples of so many bytes, storage and
 * training as fast as was measured or said. What looks at recorded jobs then looks at it. */
#ifndef LARDER_SIM_JOB_AHEAD_H
#define LARDER_SIM_JOB_AHEAD_H

#include "tape/tape.h"

typedef struct larder__job_ahead {
    const char *source;
    uint64_t samples, payload, batch;
    double read_seconds, step_seconds; /* of a sample */
    uint64_t most;                     /* samples of the tape; where there are more, groups of them
                                          stand for one: bytes and times stay what they are */
} larder__job_ahead;

/* *each: how many samples one of the tape's stands for. Free with larder__tape_free. */
int larder__tape_ahead(larder__tape *out, uint64_t *each, const larder__job_ahead *);

#endif
