/* What programs of ours ask of a loader beside its public functions. */
#ifndef LARDER_LOADER_FIGURES_SHOWN_H
#define LARDER_LOADER_FIGURES_SHOWN_H

#include "plan/replan.h"

#include <larder/larder.h>

/* Where the time of a training step goes. `training` is the step itself, while which the loader
 * waits for the trainer; the others are parts of the time the trainer waited for a batch. What
 * happens between epochs is in none of them. */
enum {
    LARDER__TIME_TRAINING,
    LARDER__TIME_STORAGE,  /* reads */
    LARDER__TIME_DECODE,   /* from files to pixels */
    LARDER__TIME_AUGMENT,  /* from pixels to rows of a batch */
    LARDER__TIME_CACHE,    /* deciding order and cache */
    LARDER__TIME_ASSEMBLY, /* putting batches together */
    LARDER__TIMES
};
typedef struct larder__times {
    double seconds[LARDER__TIMES]; /* since the loader was opened */
    int bottleneck;                /* which of them holds the run up */
    char says[256];                /* that as a sentence, with what would help */
} larder__times;
int larder__loader_times(larder_loader *, larder__times *out);
const char *larder__time_name(int part); /* "training", "storage", … */

/* Recipes with plan=auto: the i-th change of how the cache is shared out, oldest first; E_RANGE
 * past the end. */
int larder__loader_replan(larder_loader *, size_t i, larder__plan_turn *out);

/* One that is only part of a job: it is not shown by itself from now on. */
void larder__loader_hide(larder_loader *);
/* As larder__data_check_labels: for those who cannot do without. */
int larder__loader_check_labels(larder_loader *);

#endif
