/* Which blocks of `data` are taken: one bit each. Runs of free ones are found word by word. */
#ifndef LARDER_DISK_DISK_SPACE_H
#define LARDER_DISK_DISK_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#define LARDER__DISK_NOWHERE UINT64_MAX

void larder__space_take(uint64_t *bits, uint64_t from, uint64_t n);
void larder__space_give(uint64_t *bits, uint64_t from, uint64_t n);
bool larder__space_any(const uint64_t *bits, uint64_t from, uint64_t n); /* is one taken? */
uint64_t larder__space_count(const uint64_t *bits, uint64_t limit);      /* taken ones */
/* The first free (taken) block at `from` or behind it; `limit`: none. */
uint64_t larder__space_next_free(const uint64_t *bits, uint64_t from, uint64_t limit);
uint64_t larder__space_next_taken(const uint64_t *bits, uint64_t from, uint64_t limit);
/* The first free block of those right before `from`, at most `most` of them. */
uint64_t larder__space_free_before(const uint64_t *bits, uint64_t from, uint64_t most);
/* The first run of n free blocks from `from` to `to`; else NOWHERE, and *longest is raised to the
 * longest run that was seen. */
uint64_t larder__space_find(const uint64_t *bits, uint64_t from, uint64_t to, uint64_t n,
                            uint64_t *longest);

#endif
