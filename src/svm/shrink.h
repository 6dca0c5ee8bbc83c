/* Shrinking: points whose variables all stand at a bound and want to stay there are idle, and
 * rounds leave their gradient alone. What they missed is added before training ends. */
#ifndef LARDER_SVM_SHRINK_H
#define LARDER_SVM_SHRINK_H

#include "svm/kernel.h"

typedef struct larder__shrunk {
    bool on;
    unsigned times;           /* it was done */
    bool *idle;               /* a point each */
    uint8_t *quiet;           /* a point each: looks in a row that found it could be idle */
    uint32_t *ids;            /* points: those that take part, then the idle ones */
    size_t active, points;    /* how many of them take part; all */
    larder__panel part, rest; /* laid out: those that take part, the idle ones */
    size_t many;              /* that could be idle at the last look */
    double *beta;             /* a variable each, when it was done */
    double *f, objective;     /* a point each, and what it was worth then */
    double *sum;              /* work: a point each */
} larder__shrunk;

int larder__shrunk_open(larder__shrunk *, size_t points, size_t variables);
void larder__shrunk_close(larder__shrunk *);
/* Leaves out the points that are marked in `idle`. `beta`: as it is now. */
int larder__shrunk_begin(larder__shrunk *, const larder__kernel *, const larder__panel *all,
                         const double *beta, size_t variables);
/* f of the points at ids += sum, and sum is zero again; numbers from..to of both. */
void larder__shrunk_spread(larder__shrunk *, double *f, const uint32_t *ids, size_t from,
                           size_t to);

#endif
