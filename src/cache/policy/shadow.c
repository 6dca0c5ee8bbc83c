#include "cache/policy/shadow.h"

#include "base/mem.h"

int larder__shadow_open(larder__shadow *s, const larder_policy *policy, uint64_t keys) {
    *s = (larder__shadow){.policy = policy};
    s->state = larder__calloc(1, policy->plugin.state_size);
    s->key_of = larder__malloc(keys * sizeof *s->key_of);
    s->slot_of = larder__malloc(keys * sizeof *s->slot_of);
    s->slots.slot_data = larder__calloc(keys, policy->slot_size);
    s->slots.key_data = larder__calloc(keys, policy->key_size);
    if (!s->state || !s->key_of || !s->slot_of || !s->slots.slot_data || !s->slots.key_data)
        return LARDER_E_NOMEM;
    memset(s->key_of, 0xff, keys * sizeof *s->key_of);
    memset(s->slot_of, 0xff, keys * sizeof *s->slot_of);
    s->slots.keys = keys;
    s->slots.used = (uint32_t)keys;
    s->slots.key_of = s->key_of;
    s->slots.slot_of = s->slot_of;
    return policy->init(s->state, &s->slots, NULL);
}

void larder__shadow_close(larder__shadow *s) {
    if (s->state && s->policy->fini)
        s->policy->fini(s->state);
    larder__free(s->state);
    larder__free(s->key_of);
    larder__free(s->slot_of);
    larder__free(s->slots.slot_data);
    larder__free(s->slots.key_data);
    *s = (larder__shadow){0};
}

static void note(larder__shadow *s, uint32_t key, bool in) {
    s->key_of[key] = in ? key : UINT32_MAX;
    s->slot_of[key] = in ? key : LARDER_NO_SLOT;
    s->slots.resident += in ? 1 : UINT32_MAX;
}

void larder__shadow_access(larder__shadow *s, const larder_access *a, uint64_t entries) {
    uint32_t key = (uint32_t)a->key;
    if (larder__shadow_has(s, key)) {
        s->hits++;
        s->policy->hit(s->state, key, a);
        return;
    }
    if ((s->policy->admit && !s->policy->admit(s->state, a)) || entries == 0)
        return;
    while (s->slots.resident >= entries) {
        larder_slot v = s->policy->victim(s->state, a);
        if (v == LARDER_NO_SLOT)
            return;
        s->policy->remove(s->state, v, true);
        note(s, v, false);
    }
    note(s, key, true);
    s->policy->insert(s->state, key, a);
}

void larder__shadow_save(const larder__shadow *s, larder_writer *w) {
    larder_write_u32(w, s->slots.resident);
    for (uint64_t k = 0; k < s->slots.keys; k++)
        if (larder__shadow_has(s, k))
            larder_write_u32(w, (uint32_t)k);
    s->policy->save(s->state, w);
}

int larder__shadow_load(larder__shadow *s, larder_reader *r) {
    uint32_t n = larder_read_index(r, s->slots.keys + 1, false);
    for (uint32_t i = 0; i < n && larder_read_status(r) == 0; i++) {
        uint32_t key = larder_read_index(r, s->slots.keys, false);
        if (larder_read_status(r) == 0 && larder__shadow_has(s, key))
            return larder_read_reject(r, "a shadow names a key twice");
        if (larder_read_status(r) == 0)
            note(s, key, true);
    }
    return larder_read_status(r) < 0 ? larder_read_status(r) : s->policy->load(s->state, r);
}
