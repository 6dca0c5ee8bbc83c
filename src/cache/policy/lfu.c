/* Least frequently used. Every access of every key counts, also while it is not resident; ties
 * evict the least recently used.
 *
 * Residents of one count form a list in order of use, and these lists a chain by rising count, so
 * a hit moves an entry to the neighbouring list and the victim stands at the very front: O(1).
 * A key that comes back enters at the count it had, by a walk from the low end of the chain. That
 * is short: it left as the smallest, so only counts that came in since can lie below. */
#include "base/list.h"
#include "base/mem.h"

#define NONE UINT32_MAX

typedef struct group { /* the residents of one count */
    uint32_t count;
    uint32_t below, above; /* neighbours in the chain; `above` also chains the spare ones */
    larder__list members;
} group;

typedef struct lfu {
    const larder_slots *slots;
    group *groups; /* one a slot and a spare; touched only as far as counts differ */
    uint32_t lowest, spare, used;
} lfu;

static larder__link *links(const lfu *p) { return p->slots->slot_data; }
/* The group of each slot lies behind the links of all slots. */
static uint32_t *group_of(const lfu *p) { return (uint32_t *)(void *)(links(p) + p->slots->keys); }
/* Accesses so far of every key that is not resident; a resident's are its group's count. */
static uint32_t *counts(const lfu *p) { return p->slots->key_data; }

static int init(void *st, const larder_slots *slots, const larder_args *args) {
    (void)args;
    lfu *p = st;
    p->slots = slots;
    p->lowest = p->spare = NONE;
    p->groups = larder__calloc(slots->keys + 1, sizeof *p->groups);
    return p->groups ? 0 : LARDER_E_NOMEM;
}

static void fini(void *st) { larder__free(((lfu *)st)->groups); }

/* The group of `count`, which belongs right above `below` (NONE: at the low end). */
static uint32_t group_above(lfu *p, uint32_t below, uint32_t count) {
    uint32_t above = below == NONE ? p->lowest : p->groups[below].above;
    if (above != NONE && p->groups[above].count == count)
        return above;
    uint32_t g = p->spare;
    if (g != NONE)
        p->spare = p->groups[g].above;
    else
        g = p->used++;
    p->groups[g] = (group){.count = count, .below = below, .above = above};
    larder__list_init(&p->groups[g].members);
    *(below == NONE ? &p->lowest : &p->groups[below].above) = g;
    if (above != NONE)
        p->groups[above].below = g;
    return g;
}

static void join(lfu *p, larder_slot s, uint32_t g) {
    larder__list_push(&p->groups[g].members, links(p), s);
    group_of(p)[s] = g;
}

static void part(lfu *p, larder_slot s) {
    uint32_t i = group_of(p)[s];
    group *g = &p->groups[i];
    larder__list_cut(&g->members, links(p), s);
    if (g->members.newest != LARDER_NO_SLOT)
        return;
    *(g->below == NONE ? &p->lowest : &p->groups[g->below].above) = g->above;
    if (g->above != NONE)
        p->groups[g->above].below = g->below;
    g->above = p->spare;
    p->spare = i;
}

static void count_up(const lfu *p, uint64_t key) { counts(p)[key] += counts(p)[key] < UINT32_MAX; }

/* Every miss passes here, let in or not: the place to count it. */
static bool admit(void *st, const larder_access *a) {
    count_up(st, a->key);
    return true;
}

static void insert(void *st, larder_slot s, const larder_access *a) {
    lfu *p = st;
    uint32_t count = counts(p)[a->key], below = NONE;
    for (uint32_t g = p->lowest; g != NONE && p->groups[g].count < count; g = p->groups[g].above)
        below = g;
    join(p, s, group_above(p, below, count));
}

/* Alone with its count and nobody has the next one: the group itself may count up. Popular entries
 * are mostly like this, so their lists are left in peace. */
static bool counts_alone(const lfu *p, const group *g) {
    return g->members.newest == g->members.oldest &&
           (g->above == NONE || p->groups[g->above].count - 1 > g->count);
}

static void hit(void *st, larder_slot s, const larder_access *a) {
    (void)a;
    lfu *p = st;
    uint32_t from = group_of(p)[s];
    group *g = &p->groups[from];
    if (counts_alone(p, g)) {
        g->count += g->count < UINT32_MAX;
        return;
    }
    uint32_t to = g->count == UINT32_MAX ? from : group_above(p, from, g->count + 1);
    part(p, s);
    join(p, s, to);
}

static larder_slot victim(void *st, const larder_access *incoming) {
    (void)incoming;
    const lfu *p = st;
    return p->groups[p->lowest].members.oldest;
}

static void leave(void *st, larder_slot s, bool evicted) {
    (void)evicted;
    lfu *p = st;
    counts(p)[p->slots->key_of[s]] = p->groups[group_of(p)[s]].count;
    part(p, s);
}

static void save(const void *st, larder_writer *w) {
    const lfu *p = st;
    for (uint64_t k = 0; k < p->slots->keys; k++) {
        larder_slot s = p->slots->slot_of[k];
        larder_write_u32(w, s == LARDER_NO_SLOT ? counts(p)[k] : p->groups[group_of(p)[s]].count);
    }
    for (uint32_t g = p->lowest; g != NONE; g = p->groups[g].above)
        for (larder_slot s = p->groups[g].members.oldest; s != LARDER_NO_SLOT;
             s = links(p)[s].newer)
            larder_write_u32(w, s);
}

static int load(void *st, larder_reader *r) {
    lfu *p = st;
    for (uint64_t k = 0; k < p->slots->keys; k++)
        counts(p)[k] = larder_read_u32(r);
    for (larder_slot s = 0; s < p->slots->used; s++)
        group_of(p)[s] = NONE;
    uint32_t top = NONE;
    for (uint32_t i = 0; i < p->slots->resident; i++) {
        larder_slot s = larder_read_index(r, p->slots->used, false);
        if (larder_read_status(r) < 0)
            return larder_read_status(r);
        uint32_t key = p->slots->key_of[s];
        if (key == UINT32_MAX || group_of(p)[s] != NONE)
            return larder_read_reject(r, "the order of lfu names a slot twice or an empty one");
        if (top != NONE && counts(p)[key] < p->groups[top].count)
            return larder_read_reject(r, "the order of lfu does not follow its counts");
        if (top == NONE || counts(p)[key] > p->groups[top].count)
            top = group_above(p, top, counts(p)[key]);
        join(p, s, top);
    }
    return larder_read_status(r);
}

const larder_policy larder__policy_lfu = {
    .plugin = {.name = "lfu",
               .summary = "evicts the least often used, counting evicted entries too",
               .state_size = sizeof(lfu)},
    .slot_size = sizeof(larder__link) + sizeof(uint32_t),
    .key_size = sizeof(uint32_t),
    .init = init,
    .fini = fini,
    .admit = admit,
    .insert = insert,
    .hit = hit,
    .victim = victim,
    .remove = leave,
    .save = save,
    .load = load,
};
