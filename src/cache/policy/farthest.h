/* Evicts the entry whose next use lies farthest ahead, and keeps the newcomer out when its own lies
 * farther still. Two policies differ in who tells the next use: belady knows the whole run, nopfs
 * as much as the seeded order does.
 *
 * Next uses differ, but for entries that are never used again: of these the smallest key goes. */
#ifndef LARDER_CACHE_POLICY_FARTHEST_H
#define LARDER_CACHE_POLICY_FARTHEST_H

#include "base/heap.h"

typedef struct larder__farthest {
    const larder_slots *slots;
    larder__heap farthest; /* by the complement of the next use: farthest first */
} larder__farthest;

int larder__farthest_init(void *, const larder_slots *, const larder_args *);
void larder__farthest_insert(void *, larder_slot, const larder_access *);
void larder__farthest_hit(void *, larder_slot, const larder_access *);
larder_slot larder__farthest_victim(void *, const larder_access *);
void larder__farthest_remove(void *, larder_slot, bool evicted);
void larder__farthest_save(const void *, larder_writer *);
int larder__farthest_load(void *, larder_reader *);

#define LARDER__FARTHEST_OPS                                                                       \
    .slot_size = LARDER__HEAP_SLOT_SIZE, .init = larder__farthest_init,                            \
    .insert = larder__farthest_insert, .hit = larder__farthest_hit,                                \
    .victim = larder__farthest_victim, .remove = larder__farthest_remove,                          \
    .save = larder__farthest_save, .load = larder__farthest_load

#endif
