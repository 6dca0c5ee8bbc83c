/* Finding the running jobs of this user: the sockets of expose.h are listed by the kernel, each is
 * asked at once, and those that do not answer in time are left out. */
#ifndef LARDER_SEE_DISCOVER_H
#define LARDER_SEE_DISCOVER_H

#include "see/job.h"

/* Replaces what is in `out`, ordered by pid and number. Answers within about `seconds`. A process
 * that is stopped, gone or of another user does not count as a failure. */
int larder__discover(larder__jobs *out, double seconds);

#endif
