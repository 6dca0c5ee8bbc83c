/* Jobs that share something, each a process of its own, as on several machines: they check every
 * pixel, and that every sample comes once an epoch. */
#ifndef LARDER_TEST_GROUP_KIT_H
#define LARDER_TEST_GROUP_KIT_H

#include "check.h"

#include <sys/types.h>

#define KIT_GROUP_SOURCE "mem:?n=1200&h=8&w=8&c=3"
enum { KIT_GROUP_N = 1200, KIT_MOST_JOBS = 8 };

typedef struct kit_progress { /* of one job, seen by the parent */
    _Atomic uint64_t batches, reads, served, waited, stuck, unshared, joined, resident, renewed,
        stood_in;
    _Atomic int64_t audit;
    _Atomic bool ended, leave; /* the parent may set: go at the end of this epoch */
} kit_progress;

kit_progress *kit_progress_new(void); /* KIT_MOST_JOBS of them, for munmap */
/* `exact`: every sample once an epoch. */
pid_t kit_start(const char *cache, const char *recipe, uint64_t seed, uint64_t epochs,
                kit_progress *to, bool exact);
void kit_ended_well(pid_t);
void kit_wait_batches(const kit_progress *, uint64_t n); /* or until it has ended well */
void kit_wait_joined(const kit_progress *, uint64_t n);  /* the same: so many times */

#endif
