/* A doubly linked list over slot numbers: two u32 a slot, no pointers, O(1) everything. Policies
 * keep the links in their slot data, so a list can be saved as the sequence of its slots. */
#ifndef LARDER_BASE_LIST_H
#define LARDER_BASE_LIST_H

#include <larder/plugin.h>

#include <assert.h>

typedef struct larder__link {
    larder_slot newer, older;
} larder__link;

typedef struct larder__list { /* newest at the head; zeroed memory is not an empty list */
    larder_slot newest, oldest;
} larder__list;

static inline void larder__list_init(larder__list *l) { l->newest = l->oldest = LARDER_NO_SLOT; }

static inline void larder__list_push(larder__list *l, larder__link *links, larder_slot s) {
    assert(s != LARDER_NO_SLOT && s != l->newest);
    links[s] = (larder__link){.newer = LARDER_NO_SLOT, .older = l->newest};
    if (l->newest != LARDER_NO_SLOT)
        links[l->newest].newer = s;
    else
        l->oldest = s;
    l->newest = s;
}

static inline void larder__list_cut(larder__list *l, larder__link *links, larder_slot s) {
    larder__link at = links[s];
    assert(at.newer == LARDER_NO_SLOT ? l->newest == s : links[at.newer].older == s);
    assert(at.older == LARDER_NO_SLOT ? l->oldest == s : links[at.older].newer == s);
    if (at.newer != LARDER_NO_SLOT)
        links[at.newer].older = at.older;
    else
        l->newest = at.older;
    if (at.older != LARDER_NO_SLOT)
        links[at.older].newer = at.newer;
    else
        l->oldest = at.newer;
}

/* Saves the slots from oldest to newest. */
static inline void larder__list_save(const larder__list *l, const larder__link *links,
                                     larder_writer *w) {
    uint32_t n = 0;
    for (larder_slot s = l->oldest; s != LARDER_NO_SLOT; s = links[s].newer)
        n++;
    larder_write_u32(w, n);
    for (larder_slot s = l->oldest; s != LARDER_NO_SLOT; s = links[s].newer)
        larder_write_u32(w, s);
}

/* Rebuilds a list that holds every resident slot exactly once; anything else is rejected. */
int larder__list_load(larder__list *, larder__link *links, const larder_slots *, larder_reader *);

#endif
