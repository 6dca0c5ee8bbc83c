/* The mean loss of its batch is each sample's score: all that somebody knows who sees batches
 * alone. What SHADE's own ablation draws and caches by, before it ranks samples within their batch.
 */
#include "signal/cross_entropy.h"

#include <math.h>

static int init(void *st, uint64_t n, const larder_args *args) {
    (void)st, (void)n, (void)args;
    return 0;
}

static void observe(void *st, const larder_report *rep, float *scores) {
    (void)st;
    double sum = 0;
    size_t known = 0;
    for (size_t i = 0; i < rep->n; i++) {
        float loss = larder__report_loss(rep, i);
        sum += isnan(loss) ? 0 : (double)loss;
        known += isnan(loss) ? 0 : 1;
    }
    for (size_t i = 0; known && i < rep->n; i++)
        scores[rep->ids[i]] = (float)(sum / (double)known);
}

const larder_signal larder__signal_batchloss = {
    .plugin = {.name = "batchloss", .summary = "the mean loss of the batch that a sample came in"},
    .init = init,
    .observe = observe,
};
