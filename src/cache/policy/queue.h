/* One line of residents, in the order they were pushed: all of fifo, most of lru and sieve. The
 * functions fit into a larder_policy as they are when the policy's state begins with this struct
 * and its slot data with one larder__link a slot. */
#ifndef LARDER_CACHE_POLICY_QUEUE_H
#define LARDER_CACHE_POLICY_QUEUE_H

#include "base/list.h"

typedef struct larder__queue {
    const larder_slots *slots;
    larder__list order;
} larder__queue;

static inline larder__link *larder__queue_links(const larder__queue *q) {
    return q->slots->slot_data;
}

int larder__queue_init(void *queue, const larder_slots *, const larder_args *);
void larder__queue_insert(void *queue, larder_slot, const larder_access *); /* as the newest */
larder_slot larder__queue_oldest(void *queue, const larder_access *);
void larder__queue_remove(void *queue, larder_slot, bool evicted);
void larder__queue_save(const void *queue, larder_writer *);
int larder__queue_load(void *queue, larder_reader *);

#endif
