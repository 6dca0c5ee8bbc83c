/* Sequential minimal optimisation inside a working set whose kernel values all lie at hand.
 *
 * A variable is beta = y alpha with bounds lo <= beta <= hi, so all tasks look alike: minimise
 * 1/2 beta' K beta + linear' beta with the sum of beta fixed (within each group where there are
 * two). `f` is the gradient, K beta + linear. One step raises the beta of smallest f that can rise
 * and lowers the one that gains most by second order (Fan, Chen, Lin 2005). */
#ifndef LARDER_SVM_SMO_H
#define LARDER_SVM_SMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LARDER__WS = 1024, LARDER__WS_BYTES = LARDER__WS / 8 };

typedef struct larder__smo {
    size_t n;                   /* slots in use or not, a multiple of 16, at most LARDER__WS */
    unsigned groups;            /* 1 or 2 */
    float *k;                   /* n rows, `stride` apart */
    size_t stride;              /* n and a line more: rows fall on different cache sets */
    double *f, *beta, *lo, *hi; /* a slot each; unused slots have lo = hi = beta = 0 */
    float *diagonal;
    uint8_t *up, *low;    /* bits: may rise, may fall; kept by larder__smo_run */
    uint8_t *in_group[2]; /* bits: members, unused slots in none */
} larder__smo;

/* Steps until the largest violation is below `tolerance`, or `most` steps. Returns the number. */
uint64_t larder__smo_run(larder__smo *, double tolerance, double share, uint64_t most);

#endif
