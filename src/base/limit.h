/* What this process may have of memory and processors: the smaller of the machine's and the
 * cgroup's. */
#ifndef LARDER_BASE_LIMIT_H
#define LARDER_BASE_LIMIT_H

#include <stdint.h>

uint64_t larder__memory_limit(void);
uint32_t larder__cpu_count(void); /* cores this process may run on; at least 1 */
/* Whole processors that the cgroups mounted at `root` let run, of the process whose groups the file
 * `self` lists; UINT64_MAX: no limit. */
uint64_t larder__cpu_quota(const char *root, const char *self);

#endif
