/* Several threads that do the same, until each of them is done with it. */
#ifndef LARDER_BASE_THREADS_H
#define LARDER_BASE_THREADS_H

#include <stdint.h>

typedef void (*larder__thread_fn)(void *arg, uint32_t number);
/* Runs it `n` times at once, as numbers 0 to n - 1, of which the caller is one; in fewer threads
 * where no more are to be had. Waits for the end; returns how many there were. */
uint32_t larder__threads_run(larder__thread_fn, void *arg, uint32_t n);

#endif
