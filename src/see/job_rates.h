/* How fast a job was between two looks. */
#ifndef LARDER_SEE_JOB_RATES_H
#define LARDER_SEE_JOB_RATES_H

#include "see/job.h"

typedef struct larder__rates { /* a second; shares are NAN when nothing was served */
    double samples, hits, substitutes, misses; /* samples a second, by kind */
    double read_bytes;                         /* from storage */
    double requests;                           /* to storage */
    double demand_bytes;                       /* what no cache would have read */
    double stall;                              /* share of the time training waited */
} larder__rates;

/* `before` NULL: the mean since the job began. */
larder__rates larder__rates_of(const larder__job *now, const larder__job *before, double seconds);
/* The same job in another look; NULL: it was not there. */
const larder__job *larder__job_same(const larder__jobs *in, const larder__job *);

#endif
