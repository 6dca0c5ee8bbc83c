/* Shared memory cut into blocks. The bytes lie in pages that other processes map; who owns which
 * block is noted in this process alone, so nothing that a client writes can confuse it.
 *
 * Two-level segregated fit: taking and giving back are O(1), neighbours that are free are one. */
#ifndef LARDER_UNIX_ARENA_H
#define LARDER_UNIX_ARENA_H

#include "unix/pages.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct larder__arena larder__arena;
typedef uint32_t larder__arena_block;
#define LARDER__NO_BLOCK UINT32_MAX
enum { LARDER__ARENA_GRAIN = 64 }; /* bytes; blocks begin and end at multiples of it */

/* As larder__pages_open. */
int larder__arena_open(larder__arena **out, uint64_t bytes, larder__all_pages *all,
                       bool strangers_write);
void larder__arena_close(larder__arena **);
/* Nobody reads there any more: when it is closed its pages go back, whoever keeps their descriptor.
 */
void larder__arena_vacate(larder__arena *);

/* LARDER__NO_BLOCK: no piece of that size is free, or no memory for its note. */
larder__arena_block larder__arena_take(larder__arena *, uint64_t bytes);
void larder__arena_give(larder__arena *, larder__arena_block);

void *larder__arena_base(const larder__arena *);
void *larder__arena_at(const larder__arena *, larder__arena_block);
uint64_t larder__arena_offset(const larder__arena *, larder__arena_block);
uint64_t larder__arena_length(const larder__arena *,
                              larder__arena_block); /* what it really takes */
int larder__arena_fd(const larder__arena *);
uint64_t larder__arena_bytes(const larder__arena *); /* all of it */
uint64_t larder__arena_taken(const larder__arena *);
bool larder__arena_huge(const larder__arena *); /* did the kernel agree to large pages? */
/* Walks every block; false when a rule is broken. For tests. */
bool larder__arena_sound(const larder__arena *);

#endif
