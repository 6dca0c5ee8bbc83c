/* Several threads that do the same until it is time to stop. */
#ifndef LARDER_PROFILE_CREW_H
#define LARDER_PROFILE_CREW_H

#include <stdint.h>

typedef void (*larder__crew_fn)(void *arg, uint32_t member);
/* Runs it `n` times at once, in fewer threads where no more are to be had, and waits for the end.
 * Returns how many there were, or a negative code. */
int larder__crew_run(larder__crew_fn, void *arg, uint32_t n);

#endif
