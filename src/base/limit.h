/* What this process may have of memory and processors: the smallest of the machine's, the cgroup's
 * and what ulimit says. */
#ifndef LARDER_BASE_LIMIT_H
#define LARDER_BASE_LIMIT_H

#include <stdint.h>

uint64_t larder__memory_limit(void);
/* E_NOMEM with a sentence when `bytes` are more than that. Asked before memory grows by what a file
 * or another machine says, so that a lie or a bomb ends there and not with the process. */
int larder__memory_allows(uint64_t bytes);
uint32_t larder__cpu_count(void); /* cores this process may run on; at least 1 */
/* Whole processors that the cgroups mounted at `root` let run, of the process whose groups the file
 * `self` lists; UINT64_MAX: no limit. */
uint64_t larder__cpu_quota(const char *root, const char *self);

#endif
