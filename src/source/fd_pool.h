/* Open files for reading, a bounded number of them however many there are: the ones used last stay
 * open. Any thread; a file in use is never closed. */
#ifndef LARDER_SOURCE_FD_POOL_H
#define LARDER_SOURCE_FD_POOL_H

#include <stddef.h>
#include <stdint.h>

typedef struct larder__fd_pool larder__fd_pool;

/* For files 0..files-1. Keeps at most a quarter of what the process may open, and 256. */
int larder__fd_pool_open(larder__fd_pool **out, uint32_t files);
void larder__fd_pool_close(larder__fd_pool **);
/* The open file `which`, opened at `path` when it is not there: an fd or a negative code. */
int larder__fd_pool_take(larder__fd_pool *, uint32_t which, const char *path);
void larder__fd_pool_give(larder__fd_pool *, uint32_t which, int fd);

#endif
