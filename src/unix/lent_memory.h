/* Memory that the other side of a socket lends: mapped only if touching it can never be a signal.
 * Whoever sent the descriptor may say anything about it and keeps one of its own, so that it cannot
 * shrink has to be certain, not promised. */
#ifndef LARDER_UNIX_LENT_MEMORY_H
#define LARDER_UNIX_LENT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `how`: of mmap. `what`: for the sentence. NULL: it is not as it should be, and why is said;
 * descriptors stay the caller's. */
void *larder__lent_map(int fd, uint64_t bytes, int how, const char *what);

/* The other way: new memory to be lent to a job, which can make it neither shorter nor longer,
 * mapped at *at; it counts (base/mem.h). Its descriptor, or a code. */
int larder__lent_new(const char *name, size_t bytes, int how, void **at);
/* Whoever keeps a descriptor keeps the memory, as if it had made it itself: to take its pages away
 * would be to wait until it is not writing there, and writing may take as long as it likes. */
void larder__lent_free(int fd, void *at, size_t bytes);
/* Of memory that strangers can read alone. Its pages go back, whoever keeps a descriptor: they are
 * the daemon's, and would be held against it. Whoever does look sees zeroes, so not before all have
 * hung up. `at` is where it is mapped, and will not be any more. */
void larder__lent_empty(void *at, size_t bytes);

/* A descriptor of the same memory for another user, who can read there and never
 * write. That takes both: a memfd is open to everybody, so one that is read-only could be opened
 * again for writing through /proc/self/fd. -1: it cannot be made, and why is said. */
int larder__lent_view(int fd);

#endif
