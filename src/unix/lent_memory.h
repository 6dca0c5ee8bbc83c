/* Memory that the other side of a socket lends: mapped only if touching it can never be a signal.
 * Whoever sent the descriptor may say anything about it and keeps one of its own, so that it cannot
 * shrink has to be certain, not promised. */
#ifndef LARDER_UNIX_LENT_MEMORY_H
#define LARDER_UNIX_LENT_MEMORY_H

#include <stdint.h>

/* `how`: of mmap. `what`: for the sentence. NULL: it is not as it should be, and why is said;
 * descriptors stay the caller's. */
void *larder__lent_map(int fd, uint64_t bytes, int how, const char *what);

#endif
