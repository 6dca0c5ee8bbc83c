/* The values that the ranks of one job have in common, by name, in shared memory of their own.
 * Decides nothing: the ranks do. A value that is dropped while somebody reads it is gone for
 * everybody else, and its memory follows when the last reader lets go. */
#ifndef LARDER_UNIX_RANK_VALUES_H
#define LARDER_UNIX_RANK_VALUES_H

#include "shared/value_name.h"
#include "unix/arena.h"

#include <larder/larder.h>

typedef struct larder__kept_value larder__kept_value;

typedef struct larder__unix_ranks_values {
    larder__arena *arena;
    larder__kept_value **buckets; /* by hash of the name; a power of two of them */
    uint64_t bucket_count, count, bytes;
} larder__unix_ranks_values;

int larder__unix_ranks_values_open(larder__unix_ranks_values *, uint64_t bytes, larder__all_pages *,
                                   bool strangers_write); /* as larder__arena_open */
/* Nobody may hold a value or room any more. */
void larder__unix_ranks_values_close(larder__unix_ranks_values *);

/* Room for a value that nobody can find yet; given back by larder_buf_unref. NULL: there is none.
 */
larder_buf *larder__unix_ranks_values_room(larder__unix_ranks_values *, uint32_t size);
/* From now on it is found. The name's `size` and `held` are those of the bytes. An earlier value of
 * that name stays, and this one is not needed. */
int larder__unix_ranks_values_keep(larder__unix_ranks_values *, const larder__value *,
                                   larder_buf *);
/* The value of that name (its `size` and `held` do not count) and what is known about it; lent.
 * NULL: it is not there. */
larder_buf *larder__unix_ranks_values_find(const larder__unix_ranks_values *, const larder__value *,
                                           larder__value *about);
void larder__unix_ranks_values_drop(larder__unix_ranks_values *, const larder__value *);
uint64_t larder__unix_ranks_values_offset(const larder__unix_ranks_values *, larder_buf *);

#endif
