/* A policy that says what cannot be: named, not followed. A slot nobody has or a key there is none
 * of would break the tables for everybody; so what comes from a policy is looked at before it is
 * used, and from the first such word on every claim fails with a sentence that names the policy. */
#include "cache/cache_inside.h"

#include <stdarg.h>
#include <stdio.h>

void larder__cache_blame(larder__local *c, const char *sentence, ...) {
    if (c->fault[0])
        return; /* what follows comes of the first */
    int n = snprintf(c->fault, sizeof c->fault, "policy \"%.40s\" ", c->policy->plugin.name);
    va_list args;
    va_start(args, sentence);
    vsnprintf(c->fault + n, sizeof c->fault - (size_t)n, sentence, args);
    va_end(args);
}

larder_slot larder__cache_victim(larder__local *c, const larder_access *incoming) {
    larder_slot v = c->policy->victim(c->policy_state, incoming);
    if (v == LARDER_NO_SLOT || (v < c->base.slots.used && c->key_of[v] != UINT32_MAX))
        return v;
    larder__cache_blame(c, "named slot %u as its victim, which is %s (%u slots are in use)", v,
                        v < c->base.slots.used ? "empty" : "none", c->base.slots.used);
    return LARDER_NO_SLOT;
}

size_t larder__cache_known_keys(larder__local *c, const char *what, const uint64_t *keys, size_t n,
                                size_t max) {
    if (n > max) {
        larder__cache_blame(c, "%s %zu keys where %zu were asked for", what, n, max);
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        if (keys[i] >= c->base.slots.keys) {
            larder__cache_blame(c, "%s key %llu of %llu", what, (unsigned long long)keys[i],
                                (unsigned long long)c->base.slots.keys);
            return 0;
        }
    return n;
}

#ifndef NDEBUG
bool larder__cache_consistent(larder__local *c) {
    uint64_t bytes = 0, form_bytes[LARDER_FORMS] = {0}, resident = 0, empty = 0;
    if (c->figures.requests < c->looked_at)
        return true;
    c->looked_at =
        c->figures.requests + 16 * (uint64_t)c->base.slots.used; /* so a look costs little */
    for (larder_slot s = 0; s < c->base.slots.used; s++) {
        if (c->key_of[s] == UINT32_MAX)
            continue;
        if (c->key_of[s] >= c->base.slots.keys || c->slot_of[c->key_of[s]] != s ||
            c->form_of[s] >= LARDER_FORMS)
            return false;
        bytes += c->size_of[s];
        form_bytes[c->form_of[s]] += c->size_of[s];
        resident++;
    }
    for (larder_slot s = c->free_slot; s != LARDER_NO_SLOT; s = c->size_of[s], empty++)
        if (s >= c->base.slots.used || c->key_of[s] != UINT32_MAX || empty > c->base.slots.used)
            return false;
    for (int f = 0; f < LARDER_FORMS; f++)
        if (form_bytes[f] != c->base.slots.form_bytes[f])
            return false;
    return bytes == c->base.slots.bytes && resident == c->base.slots.resident &&
           resident + empty == c->base.slots.used;
}
#endif
