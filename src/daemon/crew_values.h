/* The values that the ranks of one job have in common, by name, in shared memory of their own.
 * Decides nothing: the ranks do. A value that is dropped while somebody reads it is gone for
 * everybody else, and its memory follows when the last reader lets go. */
#ifndef LARDER_DAEMON_CREW_VALUES_H
#define LARDER_DAEMON_CREW_VALUES_H

#include "daemon/arena.h"
#include "ranks/value_name.h"

#include <larder/larder.h>

typedef struct larder__kept_value larder__kept_value;

typedef struct larder__crew_values {
    larder__arena *arena;
    larder__kept_value **buckets; /* by hash of the name; a power of two of them */
    uint64_t bucket_count, count, bytes;
} larder__crew_values;

int larder__crew_values_open(larder__crew_values *, uint64_t bytes);
/* Nobody may hold a value or room any more. */
void larder__crew_values_close(larder__crew_values *);

/* Room for a value that nobody can find yet; given back by larder_buf_unref. NULL: there is none.
 */
larder_buf *larder__crew_values_room(larder__crew_values *, uint32_t size);
/* From now on it is found. The name's `size` and `held` are those of the bytes. An earlier value of
 * that name stays, and this one is not needed. */
int larder__crew_values_keep(larder__crew_values *, const larder__value *, larder_buf *);
/* The value of that name (its `size` and `held` do not count) and what is known about it; lent.
 * NULL: it is not there. */
larder_buf *larder__crew_values_find(const larder__crew_values *, const larder__value *,
                                     larder__value *about);
void larder__crew_values_drop(larder__crew_values *, const larder__value *);
uint64_t larder__crew_values_offset(const larder__crew_values *, larder_buf *);

#endif
