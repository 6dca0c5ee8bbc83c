#include "cache/tier.h"

#include "base/mem.h"
#include "cache/cache_inside.h"

#include <assert.h>

/* Whoever is to change places with a resident in front was asked for so many times more often. Of
 * samples that all come once an epoch none is: then nobody moves, which is best for them. */
enum { MORE_OFTEN = 2, WANTED_MOST = 255, SLOTS_AT_ONCE = 64 };

int larder__tier_open(larder__local *c, const larder__tiers *conf) {
    if (!conf || conf->front == 0)
        return 0;
    c->tier.front = larder__calloc(c->base.slots.keys, 1);
    c->tier.wanted = larder__calloc(c->base.slots.keys, 1);
    c->tier.conf = *conf;
    return c->tier.front && c->tier.wanted ? 0 : LARDER_E_NOMEM;
}

void larder__tier_close(larder__local *c) {
    larder__free(c->tier.front);
    larder__free(c->tier.wanted);
    c->tier = (larder__tier_table){0};
}

bool larder__tier_room(const larder__local *c, uint64_t size, larder_slot growing, bool empty) {
    const larder__tier_table *t = &c->tier;
    if (t->conf.front == 0 || t->conf.inclusive)
        return true; /* all lie behind, within the cache's own budget */
    uint64_t front = empty ? 0 : t->front_bytes, back = empty ? 0 : t->back_bytes;
    if (growing == LARDER_NO_SLOT)
        return front + size <= t->conf.front || back + size <= t->conf.back;
    return t->front[growing] ? front + size <= t->conf.front : back + size <= t->conf.back;
}

static void move(larder__local *c, larder_slot s, bool to_front) {
    larder__tier_table *t = &c->tier;
    t->front[s] = to_front;
    if (to_front)
        t->front_bytes += c->size_of[s];
    else
        t->front_bytes -= c->size_of[s];
    if (c->store->place)
        c->store->place(c->store_state, s, to_front);
}

void larder__tier_enter(larder__local *c, larder_slot s) {
    larder__tier_table *t = &c->tier;
    if (t->conf.front == 0)
        return;
    t->wanted[s] = 1;
    t->front[s] = t->front_bytes + c->size_of[s] <= t->conf.front;
    if (t->front[s])
        t->front_bytes += c->size_of[s];
    if (!t->front[s] || t->conf.inclusive)
        t->back_bytes += c->size_of[s];
}

void larder__tier_leave(larder__local *c, larder_slot s) {
    larder__tier_table *t = &c->tier;
    if (t->conf.front == 0)
        return;
    assert(!t->front[s] || t->front_bytes >= c->size_of[s]);
    if (t->front[s])
        t->front_bytes -= c->size_of[s];
    assert((t->front[s] && !t->conf.inclusive) || t->back_bytes >= c->size_of[s]);
    if (!t->front[s] || t->conf.inclusive)
        t->back_bytes -= c->size_of[s];
    t->front[s] = 0;
}

void larder__tier_grow(larder__local *c, larder_slot s, uint64_t more) {
    larder__tier_table *t = &c->tier;
    if (t->conf.front == 0)
        return;
    if (t->front[s] &&
        t->front_bytes + more > t->conf.front) /* never where it has no other place */
        move(c, s, false);
    if (t->front[s])
        t->front_bytes += more;
    if (!t->front[s] || t->conf.inclusive)
        t->back_bytes += more;
}

void larder__tier_shrink(larder__local *c, larder_slot s, uint64_t less) {
    larder__tier_table *t = &c->tier;
    if (t->conf.front == 0)
        return;
    t->front_bytes -= t->front[s] ? less : 0;
    t->back_bytes -= !t->front[s] || t->conf.inclusive ? less : 0;
}

/* The next resident in front, or none: not worth looking further. */
static larder_slot next_in_front(larder__local *c) {
    larder__tier_table *t = &c->tier;
    for (int i = 0; i < SLOTS_AT_ONCE && c->base.slots.used; i++) {
        t->hand = t->hand + 1 < c->base.slots.used ? t->hand + 1 : 0;
        if (t->front[t->hand])
            return t->hand;
    }
    return LARDER_NO_SLOT;
}

static void come_forward(larder__local *c, larder_slot s) {
    larder__tier_table *t = &c->tier;
    if (c->size_of[s] > t->conf.front)
        return;
    while (t->front_bytes + c->size_of[s] > t->conf.front) {
        larder_slot v = next_in_front(c);
        if (v == LARDER_NO_SLOT || t->wanted[v] + MORE_OFTEN > t->wanted[s])
            return;
        move(c, v, false);
    }
    move(c, s, true);
}

bool larder__tier_hit(larder__local *c, larder_slot s) {
    larder__tier_table *t = &c->tier;
    if (t->conf.front == 0)
        return false;
    bool in_front = t->front[s];
    if (!t->conf.inclusive) /* it stays where it came to */
        return in_front;
    if (++t->wanted[s] == WANTED_MOST)
        for (larder_slot i = 0; i < c->base.slots.used; i++)
            t->wanted[i] /= 2;
    if (!in_front)
        come_forward(c, s);
    return in_front;
}

/* ---- saved state ----------------------------------------------------------------------------- */

void larder__tier_save(const larder__local *c, larder_writer *w) {
    const larder__tier_table *t = &c->tier;
    if (t->conf.front == 0)
        return;
    for (larder_slot s = 0; s < c->base.slots.used; s++)
        larder_write_u32(w, t->front[s] | (uint32_t)t->wanted[s] << 1);
    larder_write_u32(w, t->hand);
}

int larder__tier_load(larder__local *c, larder_reader *r) {
    larder__tier_table *t = &c->tier;
    if (t->conf.front == 0)
        return 0;
    for (larder_slot s = 0; s < c->base.slots.used; s++) {
        uint32_t of = larder_read_index(r, 2 * (WANTED_MOST + 1), false);
        if (c->key_of[s] == UINT32_MAX)
            continue;
        t->front[s] = of & 1;
        t->wanted[s] = (uint8_t)(of >> 1);
        t->front_bytes += t->front[s] ? c->size_of[s] : 0;
        t->back_bytes += !t->front[s] || t->conf.inclusive ? c->size_of[s] : 0;
    }
    t->hand = larder_read_u32(r);
    if (t->hand >= c->base.slots.keys || t->front_bytes > t->conf.front ||
        t->back_bytes > t->conf.back)
        return larder_read_reject(r, "its cache had tiers of another size");
    return larder_read_status(r);
}
