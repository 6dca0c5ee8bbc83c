/* Residents by how often they were accessed: what lfu, efu and hcst stand on. Every access of every
 * key counts, also while it is not resident; among equal counts the least recently used comes
 * first.
 *
 * Residents of one count form a list in order of use, and these lists a chain by rising count, so
 * a hit moves an entry to the neighbouring list and the least stands at the very front: O(1).
 * A key that comes back enters at the count it had, by a walk from the low end of the chain. That
 * is short where the least leave: only counts that came in since can lie below. */
#ifndef LARDER_CACHE_POLICY_BY_COUNT_H
#define LARDER_CACHE_POLICY_BY_COUNT_H

#include "base/list.h"

typedef struct larder__count_group larder__count_group;

typedef struct larder__by_count {
    const larder_slots *slots;
    larder__link *links;         /* by slot: neighbours of the same count */
    uint32_t *group_of;          /* by slot */
    uint32_t *counts;            /* by key: accesses so far; of a resident it is its group's */
    larder__count_group *groups; /* one a slot and a spare; touched only as far as counts differ */
    uint32_t lowest, spare, used;
} larder__by_count;

/* Its bytes a slot. */
enum { LARDER__BY_COUNT_SLOT_SIZE = sizeof(larder__link) + sizeof(uint32_t) };

/* `block`: that many bytes for each slot there can be; `counts`: one a key. */
int larder__by_count_init(larder__by_count *, const larder_slots *, void *block, uint32_t *counts);
void larder__by_count_fini(larder__by_count *);
void larder__by_count_miss(larder__by_count *, uint64_t key); /* counts it, let in or not */
void larder__by_count_insert(larder__by_count *, larder_slot, uint64_t key);
void larder__by_count_hit(larder__by_count *, larder_slot, uint64_t key);
void larder__by_count_remove(larder__by_count *, larder_slot);
larder_slot larder__by_count_least(const larder__by_count *); /* there must be a resident */
void larder__by_count_save(const larder__by_count *, larder_writer *);
int larder__by_count_load(larder__by_count *, larder_reader *);

/* The least often used, if it was used less often than the newcomer by more than `slack` (efu: 0).
 * One that grows is there already and only displaces: the least, whatever its count. */
larder_slot larder__by_count_lesser(const larder__by_count *, uint64_t newcomer, uint32_t slack);

#endif
