/* What another recipe would save a job that waits for storage, and what it changes, in one
 * sentence: said once, after two epochs, from what the job itself has measured. `larder suggest`
 * looks closer (sim/advice.h). */
#ifndef LARDER_LOADER_FIGURES_HINT_H
#define LARDER_LOADER_FIGURES_HINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LARDER__HINT_EPOCHS = 2 }; /* the first fills the cache, the second shows what that brings */

typedef struct larder__hint_seen {
    uint64_t first;          /* number of the first of these epochs */
    double seconds, starved; /* of both; those of them that training waited for storage */
    double step, read;       /* seconds of training and of storage for one sample; 0: not known */
    double reads;            /* of storage in the second epoch, for each sample served */
    double cache;            /* what it may hold, as a share of the data */
} larder__hint_seen;

/* False: there is nothing to say. */
bool larder__hint(char *out, size_t cap, const larder__hint_seen *);

#endif
