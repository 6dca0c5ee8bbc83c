/* Residents by how far they are from being wanted again: what kkt and the guard of hcst stand on.
 * The largest distance / access count leaves first, among equal ones the least recently used.
 *
 * A solver tells fresh distances of everybody each round, and only a few then leave. So no order of
 * all is kept: when somebody has to leave, those who would go first are picked out and sorted, and
 * that short list serves until too much of it has changed. What it answers depends on distances,
 * counts and uses alone. */
#ifndef LARDER_CACHE_POLICY_BY_DISTANCE_H
#define LARDER_CACHE_POLICY_BY_DISTANCE_H

#include <larder/plugin.h>

typedef struct larder__leaver {
    uint64_t rank; /* smaller: leaves sooner; two never have the same */
    larder_slot slot;
} larder__leaver;

typedef struct larder__by_distance {
    const larder_slots *slots;
    const uint32_t *counts; /* by key: accesses, the owner's */
    float *dist;            /* by slot; below 0 counts as 0, NAN never */
    uint32_t *used;         /* by slot: when it was last used, by `clock` */
    void *own;              /* both of them, where nobody lent a block */
    larder__leaver *list; /* rising; holds every resident of rank <= bound, and some of the past */
    size_t first, count, added;
    uint64_t bound;
    bool stale; /* the list is to be made anew */
    uint32_t clock;
} larder__by_distance;

/* Its bytes a slot. */
enum { LARDER__BY_DISTANCE_SLOT_SIZE = sizeof(float) + sizeof(uint32_t) };

/* `block`: that many bytes for each slot there can be; NULL: from the heap. */
int larder__by_distance_init(larder__by_distance *, const larder_slots *, void *block,
                             const uint32_t *counts);
void larder__by_distance_fini(larder__by_distance *);
void larder__by_distance_insert(larder__by_distance *, larder_slot, float dist);
/* Just selected: as wanted as can be, until the solver says more. Its count has risen before. */
void larder__by_distance_hit(larder__by_distance *, larder_slot);
void larder__by_distance_score(larder__by_distance *, larder_slot, float dist);
void larder__by_distance_remove(larder__by_distance *, larder_slot);
/* Who leaves for this newcomer; LARDER_NO_SLOT unless it is nearer by more than `margin` times. One
 * that grows is there already and only displaces. There must be a resident. */
larder_slot larder__by_distance_farther(larder__by_distance *, const larder_access *newcomer,
                                        double margin);
void larder__by_distance_save(const larder__by_distance *, larder_writer *);
int larder__by_distance_load(larder__by_distance *, larder_reader *);

#endif
