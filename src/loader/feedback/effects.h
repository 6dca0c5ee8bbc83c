/* When feedback took effect, where that was not as usual: late, because its scoring was not ready,
 * or with fewer rows, because there was too much of it. With this list a run can be repeated bit
 * for bit, although how long scoring took will never be the same again. */
#ifndef LARDER_LOADER_FEEDBACK_EFFECTS_H
#define LARDER_LOADER_FEEDBACK_EFFECTS_H

#include "base/state.h"

typedef struct larder__effect { /* of batches first .. first+count-1 */
    uint64_t first, count;
    uint64_t delay;  /* batches drawn before the effect, beyond the lag */
    uint32_t stride; /* one row in stride was scored; 0: none */
} larder__effect;

typedef struct larder__effects { /* zeroed: nothing unusual so far */
    larder__effect *at;
    size_t count, cap;
    bool lost; /* memory was short once: the list is not whole */
} larder__effects;

void larder__effects_free(larder__effects *);
/* Each batch at most once; in any order. The usual ones (no delay, each row) are not kept. */
void larder__effects_add(larder__effects *, uint64_t batch, uint64_t delay, uint32_t stride);
/* Of one batch; the list must have been loaded. */
larder__effect larder__effects_find(const larder__effects *, uint64_t batch);

/* All of `more` as well. */
void larder__effects_join(larder__effects *, const larder__effects *more);

void larder__effects_save(const larder__effects *, larder_writer *);
int larder__effects_load(larder__effects *, larder_reader *); /* replaces what there was */

#endif
