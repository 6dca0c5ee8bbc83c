/* The machine in words: system, processor, cores and memory of this process. For records of runs,
 * so that two of them can be told apart. */
#ifndef LARDER_BASE_HOST_H
#define LARDER_BASE_HOST_H

#include <stddef.h>

void larder__host_say(char *out, size_t cap);

#endif
