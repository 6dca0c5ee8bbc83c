/* SpiderCache's elastic manager: which share of the cache important samples have, and why.
 *
 * Once an epoch it hears sigma, the standard deviation of all scores, and now and then an accuracy.
 * Both are smoothed by Savitzky and Golay's filter of window 5 and order 2: the value at the newest
 * point, or the slope in the middle, of the parabola that fits the last five best (the last three
 * or four at the start).
 *
 *   beta: 0, and 1 for good once the smoothed slope of sigma was negative twice running (Eq. 5)
 *   D = mean change of the smoothed accuracy over the last five changes (Eq. 6)
 *   u = D / (gamma + D), within [0, 1] (Eq. 7)
 *   ratio = start - beta (start - end) x^(1+u) (Eq. 8),
 *   x = (t - t0) / (T - 1 - t0): from 0 in the epoch t0 of activation to 1 in the last one
 *
 * As printed (`literal`): beta is 1 whenever the last sigma is below the one before, u is not
 * bounded, x = t / T, so the ratio jumps when beta changes. */
#ifndef LARDER_CACHE_POLICY_ELASTIC_H
#define LARDER_CACHE_POLICY_ELASTIC_H

#include <larder/plugin.h>

enum { LARDER__ELASTIC_WINDOW = 5 };

typedef struct larder__elastic {
    double start, end, gamma;
    uint64_t span; /* T, epochs */
    bool literal;
    double sigmas[LARDER__ELASTIC_WINDOW], accuracies[LARDER__ELASTIC_WINDOW]; /* oldest first */
    double smooth[LARDER__ELASTIC_WINDOW + 1];
    uint32_t sigma_count, accuracy_count, smooth_count;
    uint32_t falling; /* negative slopes in a row */
    uint32_t active;  /* latched */
    uint64_t since;   /* the epoch it became so */
    double ratio, sigma, slope, u;
    double beta;
} larder__elastic;

void larder__elastic_init(larder__elastic *, const larder_args *, uint64_t epochs);
void larder__elastic_accuracy(larder__elastic *, double accuracy);
/* The coming epoch; sigma NAN: no scores yet. Sets ratio. */
void larder__elastic_epoch(larder__elastic *, uint64_t epoch, double sigma);

void larder__elastic_save(const larder__elastic *, larder_writer *);
int larder__elastic_load(larder__elastic *, larder_reader *);

#endif
