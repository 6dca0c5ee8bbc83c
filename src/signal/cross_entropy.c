#include "signal/cross_entropy.h"

#include <math.h>

float larder__cross_entropy(const float *logits, size_t classes, int64_t label) {
    float top = logits[0];
    for (size_t k = 1; k < classes; k++)
        top = fmaxf(top, logits[k]);
    double sum = 0;
    for (size_t k = 0; k < classes; k++)
        sum += exp((double)logits[k] - top);
    return (float)(log(sum) + top - logits[label]);
}

float larder__report_loss(const larder_report *rep, size_t i) {
    float loss = NAN;
    if (rep->loss)
        loss = rep->loss[i];
    else if (rep->logits && rep->labels[i] >= 0 && (uint64_t)rep->labels[i] < rep->classes)
        loss = larder__cross_entropy(rep->logits + i * rep->classes, rep->classes, rep->labels[i]);
    return isfinite(loss) ? loss : NAN;
}
