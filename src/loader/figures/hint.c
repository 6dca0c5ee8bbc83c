#include "loader/figures/hint.h"

#include <math.h>
#include <stdio.h>

static const double little = 0.1;       /* of the time: as in verdict.c, not worth a change */
static const double few_seconds = 2;    /* of waiting: a trial, not a training */
static const double small_cache = 0.05; /* of the data: too few to be served again and again */
static const double worth_it = 0.7;     /* of the reads must not be left */

/* The smallest share of reused samples, in tenths, with which storage keeps up with training, as
 * far as it was tried (docs/results/recipes.md). */
static double reuse_for(const larder__hint_seen *s) {
    double needed = ceil(10 * (1 - s->step / s->read) - 1e-9) / 10;
    return fmin(fmax(needed, 0.5), 0.8);
}

bool larder__hint(char *out, size_t cap, const larder__hint_seen *s) {
    if (!(s->starved >= few_seconds) || !(s->starved >= little * s->seconds) ||
        !(s->cache >= small_cache) || !(s->step > 0) || !(s->read > 0))
        return false;
    double h = reuse_for(s), fresh = 1 - h, left = fresh / s->reads;
    if (!(left <= worth_it))
        return false;
    double waits = fmax(0, fresh * s->read - s->step) / fmax(fresh * s->read, s->step);
    snprintf(
        out, cap,
        "epochs %llu and %llu: training waited for storage for %.0f %% of the time; rotate:h=%.1f "
        "would read about %.0f %% of that and wait for about %.0f %%, but it serves some samples "
        "several times in an epoch and others not, instead of each once, which can cost accuracy "
        "(record the job and ask larder suggest)",
        (unsigned long long)s->first, (unsigned long long)s->first + 1,
        100 * s->starved / s->seconds, h, 100 * left, 100 * waits);
    return true;
}
