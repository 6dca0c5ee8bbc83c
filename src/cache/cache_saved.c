/* Saved state: who is resident, where, and the policy's memory. Bytes are not saved. */
#include "base/err.h"
#include "base/state.h"
#include "cache/cache_inside.h"

static uint32_t forms_used(const larder__local *c) {
    uint32_t mask = 0;
    for (int f = 0; f < LARDER_FORMS; f++)
        mask |= (uint32_t)(c->forms.share[f] > 0) << f;
    return mask | (uint32_t)(c->tier.conf.front > 0) << 8 |
           (uint32_t)(c->tier.conf.front && c->tier.conf.inclusive) << 9;
}

void larder__local_save(larder__cache *cache, larder_writer *w) {
    larder__local *c = larder__local_of(cache);
    pthread_mutex_lock(&c->lock);
    larder__write_text(w, c->policy->plugin.name);
    larder_write_u64(w, c->base.slots.keys);
    for (int i = 0; i < 4; i++)
        larder_write_u64(w, c->rng.s[i]);
    larder_write_u32(w, forms_used(c));
    larder_write_u32(w, c->base.slots.used);
    for (larder_slot s = 0; s < c->base.slots.used; s++) {
        larder_write_u32(w, c->key_of[s]);
        larder_write_u32(w, c->size_of[s]); /* of an empty slot: the next empty one */
        if (c->held)
            larder_write_u32(w, c->form_of[s]);
        if (c->mark)
            larder_write_u64(w, c->mark[s]);
    }
    larder_write_u32(w, c->free_slot);
    for (uint64_t k = 0; c->settled && k < c->base.slots.keys; k++)
        larder_write_u32(w, c->settled[k]);
    larder__tier_save(c, w);
    if (c->policy->save)
        c->policy->save(c->policy_state, w);
    pthread_mutex_unlock(&c->lock);
}

/* The chain of empty slots must visit each of them once and end. */
static int check_free_chain(larder__local *c, larder_reader *r) {
    uint32_t empty = c->base.slots.used - c->base.slots.resident, steps = 0;
    larder_slot s = c->free_slot;
    for (; s != LARDER_NO_SLOT && steps <= empty; s = c->size_of[s], steps++)
        if (s >= c->base.slots.used || c->key_of[s] != UINT32_MAX)
            return larder_read_reject(r, "its chain of empty slots is broken");
    return steps == empty && s == LARDER_NO_SLOT
               ? 0
               : larder_read_reject(r, "its chain of empty slots is broken");
}

static int load_form(larder__local *c, larder_reader *r, larder_slot s) {
    if (c->held)
        c->form_of[s] = (uint8_t)larder_read_index(r, LARDER_FORMS, false);
    if (c->mark)
        c->mark[s] = larder_read_u64(r);
    return c->key_of[s] == UINT32_MAX || forms_used(c) >> c->form_of[s] & 1
               ? larder_read_status(r)
               : larder_read_reject(r, "a sample is kept in a form that has no share");
}

static bool fits(const larder__local *c) {
    uint64_t room = larder__cache_room(c, c->base.slots.used);
    bool fit = c->base.slots.bytes <= room;
    for (int f = 0; f < LARDER_FORMS; f++) /* slots of others may have cost a little of its share */
        fit &= c->base.slots.form_bytes[f] <= larder__form_room(c, f, larder__cache_room(c, 0));
    return fit;
}

static int load_slots(larder__local *c, larder_reader *r) {
    if (larder_read_u32(r) != forms_used(c) && larder_read_status(r) == 0)
        return larder_read_reject(r, "its cache was shared out between other forms or tiers");
    uint32_t used = larder_read_u32(r);
    if (used > c->base.slots.keys)
        return larder_read_reject(r, "more slots than samples");
    for (larder_slot s = 0; s < used && larder_read_status(r) == 0; s++) {
        uint32_t key = larder_read_index(r, c->base.slots.keys, true);
        c->key_of[s] = key;
        c->size_of[s] = larder_read_u32(r);
        c->base.slots.used = s + 1;
        if (load_form(c, r, s) < 0)
            return larder_read_status(r);
        if (key == UINT32_MAX)
            continue;
        if (c->slot_of[key] != LARDER_NO_SLOT)
            return larder_read_reject(r, "a sample is cached twice");
        larder__cache_note_slot(c, key, s);
        c->state[s] = c->store->real ? LARDER__COLD : LARDER__FULL;
        c->base.slots.resident++;
        c->base.slots.bytes += c->size_of[s];
        c->base.slots.form_bytes[c->form_of[s]] += c->size_of[s];
    }
    c->free_slot = larder_read_u32(r);
    for (uint64_t k = 0; c->settled && k < c->base.slots.keys; k++)
        c->settled[k] = larder_read_u32(r);
    if (larder_read_status(r) < 0)
        return larder_read_status(r);
    larder__cache_note_budget(c);
    if (!fits(c) && c->base.slots.resident)
        return larder_read_reject(r, "its cache was larger than this one");
    return check_free_chain(c, r);
}

int larder__local_load(larder__cache *cache, larder_reader *r) {
    larder__local *c = larder__local_of(cache);
    char name[64];
    if (c->base.slots.used)
        return larder__fail(LARDER_E_STATE, "saved state goes into an empty cache only");
    larder__read_text(r, name, sizeof name);
    if (strcmp(name, LARDER__ELSEWHERE) == 0)
        return larder_read_reject(r, LARDER__OTHER_PLACE);
    if (larder_read_status(r) == 0 && strcmp(name, c->policy->plugin.name) != 0)
        return larder_read_reject(r, "it belongs to another policy");
    if (larder_read_u64(r) != c->base.slots.keys)
        return larder_read_reject(r, "it belongs to a data set of another size");
    for (int i = 0; i < 4; i++)
        c->rng.s[i] = larder_read_u64(r);
    if (!(c->rng.s[0] | c->rng.s[1] | c->rng.s[2] | c->rng.s[3]))
        return larder_read_reject(r, "its source of chance is stuck");
    int rc = load_slots(c, r);
    if (rc == 0)
        rc = larder__tier_load(c, r);
    return rc < 0 || !c->policy->load ? rc : c->policy->load(c->policy_state, r);
}
