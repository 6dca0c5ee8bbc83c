/* How much memory this process may have: the smaller of the machine's and the cgroup's. */
#ifndef LARDER_BASE_LIMIT_H
#define LARDER_BASE_LIMIT_H

#include <stdint.h>

uint64_t larder__memory_limit(void);
uint32_t larder__cpu_count(void); /* cores this process may run on; at least 1 */

#endif
