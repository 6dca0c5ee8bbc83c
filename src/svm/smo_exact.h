#ifndef LARDER_SVM_SMO_EXACT_H
#define LARDER_SVM_SMO_EXACT_H

#include "svm/face.h"

typedef struct larder__smo_exact {
    larder__smo *smo; /* its k and diagonal are not used */
    double *k;        /* smo->n rows, `stride` apart */
    size_t stride;
    double *diagonal; /* a slot each */
    larder__face face;
    double gap;                     /* at the last step */
    double best_gap, gained, total; /* of the objective: since the last look, before it */
} larder__smo_exact;

/* As larder__smo_run. */
uint64_t larder__smo_exact_run(larder__smo_exact *, double tolerance, double share, uint64_t most);

#endif
