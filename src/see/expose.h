/* How a job can be looked at from outside. Each process with jobs listens on one abstract Unix
 * socket, named after user and process, and answers whoever of the same user connects with the jobs
 * it has, as lines of JSON (job.h). There is no file, so nothing is left behind however the process
 * ends. A thread of its own does it, started with the first job and gone with the last; it sleeps
 * unless asked, and the jobs' threads never wait for it but for the moment a job ends.
 *
 * LARDER_SEE=0 in the environment switches it off. A forked child has none of it. */
#ifndef LARDER_SEE_EXPOSE_H
#define LARDER_SEE_EXPOSE_H

#include "see/job.h"

#define LARDER__SEE_NAME "larder.see.1." /* then user.process.number, in decimal */

/* Fills in what there is to say. `out` comes zeroed but for pid and number; any thread's locks may
 * be taken for it, but not held while larder__expose_end is called. */
typedef void (*larder__look_fn)(void *arg, larder__job *out);

typedef struct larder__exposed { /* part of what is shown; zeroed: it is not */
    struct larder__exposed *next;
    larder__look_fn look;
    void *arg;
    uint64_t number; /* 0: not shown */
} larder__exposed;

/* < 0: it cannot be seen, and larder_errmsg says why. No reason not to run. */
int larder__expose(larder__exposed *, larder__look_fn, void *arg);
/* Afterwards nobody looks any more. */
void larder__expose_end(larder__exposed *);

/* Seconds a snapshot is given out again instead of a fresh one. */
#define LARDER__SEE_FRESH 0.05

#endif
