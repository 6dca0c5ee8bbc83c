/* The operations that lfu and efu share; their state is a larder__by_count. */
#ifndef LARDER_CACHE_POLICY_COUNTED_H
#define LARDER_CACHE_POLICY_COUNTED_H

#include "cache/policy/by_count.h"

int larder__counted_init(void *, const larder_slots *, const larder_args *);
void larder__counted_fini(void *);
bool larder__counted_admit(void *, const larder_access *); /* every miss passes here: counts it */
void larder__counted_insert(void *, larder_slot, const larder_access *);
void larder__counted_hit(void *, larder_slot, const larder_access *);
void larder__counted_remove(void *, larder_slot, bool evicted);
void larder__counted_save(const void *, larder_writer *);
int larder__counted_load(void *, larder_reader *);

#define LARDER__COUNTED_OPS                                                                        \
    .slot_size = LARDER__BY_COUNT_SLOT_SIZE, .key_size = sizeof(uint32_t),                         \
    .init = larder__counted_init, .fini = larder__counted_fini, .admit = larder__counted_admit,    \
    .insert = larder__counted_insert, .hit = larder__counted_hit,                                  \
    .remove = larder__counted_remove, .save = larder__counted_save, .load = larder__counted_load

#endif
