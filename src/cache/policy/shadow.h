/* What would have happened under another policy: a directory of keys that it rules, without bytes.
 * Keys are its slots, every entry counts as one. For policies that look at keys and uses alone. */
#ifndef LARDER_CACHE_POLICY_SHADOW_H
#define LARDER_CACHE_POLICY_SHADOW_H

#include <larder/plugin.h>

typedef struct larder__shadow {
    const larder_policy *policy;
    void *state;
    larder_slots slots; /* the arrays below are its writable side */
    uint32_t *key_of;
    larder_slot *slot_of;
    uint64_t hits; /* the owner's to reset */
} larder__shadow;

int larder__shadow_open(larder__shadow *, const larder_policy *, uint64_t keys);
void larder__shadow_close(larder__shadow *);
static inline bool larder__shadow_has(const larder__shadow *s, uint64_t key) {
    return s->slot_of[key] != LARDER_NO_SLOT;
}
/* One access, with room for `entries` in all. */
void larder__shadow_access(larder__shadow *, const larder_access *, uint64_t entries);
void larder__shadow_save(const larder__shadow *, larder_writer *);
int larder__shadow_load(larder__shadow *, larder_reader *); /* into a fresh one */

#endif
