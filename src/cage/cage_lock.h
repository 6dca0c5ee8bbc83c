/* A process locks itself in: from then on it can compute, take memory up to a limit, read and write
 * the descriptors it has, and end. Anything else ends it. There is no way back. */
#ifndef LARDER_CAGE_CAGE_LOCK_H
#define LARDER_CAGE_CAGE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

/* E_UNSUPPORTED: this kernel or processor has no such lock. `memory`: bytes beyond what it has. */
int larder__cage_lock(uint64_t memory);
bool larder__cage_limits_memory(void); /* false: built with a sanitizer, whose memory knows none */

#endif
