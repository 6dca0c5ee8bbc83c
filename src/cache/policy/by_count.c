#include "cache/policy/by_count.h"

#include "base/mem.h"

#define NONE UINT32_MAX

struct larder__count_group { /* the residents of one count */
    uint32_t count;
    uint32_t below, above; /* neighbours in the chain; `above` also chains the spare ones */
    larder__list members;
};

int larder__by_count_init(larder__by_count *p, const larder_slots *slots, void *block,
                          uint32_t *counts) {
    p->slots = slots;
    p->links = block;
    p->group_of = (uint32_t *)(void *)(p->links + slots->keys);
    p->counts = counts;
    p->lowest = p->spare = NONE;
    p->groups = larder__calloc(slots->keys + 1, sizeof *p->groups);
    return p->groups ? 0 : LARDER_E_NOMEM;
}

void larder__by_count_fini(larder__by_count *p) { larder__free(p->groups); }

/* The group of `count`, which belongs right above `below` (NONE: at the low end). */
static uint32_t group_above(larder__by_count *p, uint32_t below, uint32_t count) {
    uint32_t above = below == NONE ? p->lowest : p->groups[below].above;
    if (above != NONE && p->groups[above].count == count)
        return above;
    uint32_t g = p->spare;
    if (g != NONE)
        p->spare = p->groups[g].above;
    else
        g = p->used++;
    p->groups[g] = (larder__count_group){.count = count, .below = below, .above = above};
    larder__list_init(&p->groups[g].members);
    *(below == NONE ? &p->lowest : &p->groups[below].above) = g;
    if (above != NONE)
        p->groups[above].below = g;
    return g;
}

static void join(larder__by_count *p, larder_slot s, uint32_t g) {
    larder__list_push(&p->groups[g].members, p->links, s);
    p->group_of[s] = g;
}

static void part(larder__by_count *p, larder_slot s) {
    uint32_t i = p->group_of[s];
    larder__count_group *g = &p->groups[i];
    larder__list_cut(&g->members, p->links, s);
    if (g->members.newest != LARDER_NO_SLOT)
        return;
    *(g->below == NONE ? &p->lowest : &p->groups[g->below].above) = g->above;
    if (g->above != NONE)
        p->groups[g->above].below = g->below;
    g->above = p->spare;
    p->spare = i;
}

void larder__by_count_miss(larder__by_count *p, uint64_t key) {
    p->counts[key] += p->counts[key] < UINT32_MAX;
}

void larder__by_count_insert(larder__by_count *p, larder_slot s, uint64_t key) {
    uint32_t count = p->counts[key], below = NONE;
    for (uint32_t g = p->lowest; g != NONE && p->groups[g].count < count; g = p->groups[g].above)
        below = g;
    join(p, s, group_above(p, below, count));
}

/* Alone with its count and nobody has the next one: the group itself may count up. Popular entries
 * are mostly like this, so their lists are left in peace. */
static bool counts_alone(const larder__by_count *p, const larder__count_group *g) {
    return g->members.newest == g->members.oldest &&
           (g->above == NONE || p->groups[g->above].count - 1 > g->count);
}

void larder__by_count_hit(larder__by_count *p, larder_slot s, uint64_t key) {
    larder__by_count_miss(p, key);
    uint32_t from = p->group_of[s];
    larder__count_group *g = &p->groups[from];
    if (counts_alone(p, g)) {
        g->count += g->count < UINT32_MAX;
        return;
    }
    uint32_t to = g->count == UINT32_MAX ? from : group_above(p, from, g->count + 1);
    part(p, s);
    join(p, s, to);
}

void larder__by_count_remove(larder__by_count *p, larder_slot s) { part(p, s); }

larder_slot larder__by_count_least(const larder__by_count *p) {
    return p->groups[p->lowest].members.oldest;
}

larder_slot larder__by_count_lesser(const larder__by_count *p, uint64_t newcomer, uint32_t slack) {
    bool grows = p->slots->slot_of[newcomer] != LARDER_NO_SLOT;
    bool lesser = (uint64_t)p->groups[p->lowest].count + slack < p->counts[newcomer];
    return grows || lesser ? larder__by_count_least(p) : LARDER_NO_SLOT;
}

void larder__by_count_save(const larder__by_count *p, larder_writer *w) {
    for (uint64_t k = 0; k < p->slots->keys; k++)
        larder_write_u32(w, p->counts[k]);
    for (uint32_t g = p->lowest; g != NONE; g = p->groups[g].above)
        for (larder_slot s = p->groups[g].members.oldest; s != LARDER_NO_SLOT;
             s = p->links[s].newer)
            larder_write_u32(w, s);
}

int larder__by_count_load(larder__by_count *p, larder_reader *r) {
    for (uint64_t k = 0; k < p->slots->keys; k++)
        p->counts[k] = larder_read_u32(r);
    for (larder_slot s = 0; s < p->slots->used; s++)
        p->group_of[s] = NONE;
    uint32_t top = NONE;
    for (uint32_t i = 0; i < p->slots->resident; i++) {
        larder_slot s = larder_read_index(r, p->slots->used, false);
        if (larder_read_status(r) < 0)
            return larder_read_status(r);
        uint32_t key = p->slots->key_of[s];
        if (key == UINT32_MAX || p->group_of[s] != NONE)
            return larder_read_reject(r, "the order by count names a slot twice or an empty one");
        if (top != NONE && p->counts[key] < p->groups[top].count)
            return larder_read_reject(r, "the order by count does not follow its counts");
        if (top == NONE || p->counts[key] > p->groups[top].count)
            top = group_above(p, top, p->counts[key]);
        join(p, s, top);
    }
    return larder_read_status(r);
}
