/* The latest loss of each sample is its score. From logits when no losses are given: cross entropy
 * through log-sum-exp, so that large logits neither overflow nor lose the small differences. */
#include <larder/plugin.h>
#include <math.h>

static int init(void *st, uint64_t n, const larder_args *args) {
    (void)st, (void)n, (void)args;
    return 0;
}

static float cross_entropy(const float *logits, size_t classes, int64_t label) {
    float top = logits[0];
    for (size_t k = 1; k < classes; k++)
        top = fmaxf(top, logits[k]);
    double sum = 0;
    for (size_t k = 0; k < classes; k++)
        sum += exp((double)logits[k] - top);
    return (float)(log(sum) + top - logits[label]);
}

static void observe(void *st, const larder_report *rep, float *scores) {
    (void)st;
    for (size_t i = 0; i < rep->n; i++) {
        float loss = NAN;
        if (rep->loss)
            loss = rep->loss[i];
        else if (rep->logits && rep->labels[i] >= 0 && (uint64_t)rep->labels[i] < rep->classes)
            loss = cross_entropy(rep->logits + i * rep->classes, rep->classes, rep->labels[i]);
        if (isfinite(loss))
            scores[rep->ids[i]] = loss;
    }
}

const larder_signal larder__signal_loss = {
    .plugin = {.name = "loss", .summary = "the latest loss, given or taken from logits and labels"},
    .init = init,
    .observe = observe,
};
