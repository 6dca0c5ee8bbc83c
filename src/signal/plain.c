/* The plain cross entropy, where it can be known: of logits and a label. A loss that is reported
 * may be smoothed, mixed or of a regression, so that nobody can tell from it how near a sample is
 * to being learned. */
#include "signal/cross_entropy.h"

#include <math.h>

static int init(void *st, uint64_t n, const larder_args *args) {
    (void)st, (void)n, (void)args;
    return 0;
}

static void observe(void *st, const larder_report *rep, float *scores) {
    (void)st;
    larder_report logits = *rep;
    logits.loss = NULL;
    for (size_t i = 0; i < rep->n; i++)
        scores[rep->ids[i]] = larder__report_loss(&logits, i);
}

const larder_signal larder__signal_plain = {
    .plugin = {.name = "plain",
               .summary =
                   "the cross entropy of logits and labels; none where a loss alone is given"},
    .init = init,
    .observe = observe,
    .without_logits =
        "losses are reported without logits and labels, and a loss alone does not say what is "
        "learned: the gate of rotate stays shut and all residents leave alike; report logits too, "
        "or name the loss below which a sample is learned (rotate:gate=0.3,learned=0.6)",
};
