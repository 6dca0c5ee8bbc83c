/* The changes of mind of a policy, the first of them: larder_policy_shows.switched. */
#ifndef LARDER_CACHE_POLICY_SWITCHES_H
#define LARDER_CACHE_POLICY_SWITCHES_H

#include <larder/plugin.h>

enum { LARDER__SWITCHES = 64 };

/* What can be switched to; `patient` is efu that wants a newcomer to be used two times more. The
 * simple ones can be followed by a shadow, kkt cannot: it wants to hear of its own residents. */
enum {
    LARDER__RULE_LRU,
    LARDER__RULE_LFU,
    LARDER__RULE_EFU,
    LARDER__RULE_PATIENT,
    LARDER__SIMPLE_RULES,
    LARDER__RULE_KKT = LARDER__SIMPLE_RULES,
    LARDER__RULES
};

typedef struct larder__switches {
    uint64_t count; /* also of those that no longer fit */
    struct {
        uint64_t round, was, other;
        uint64_t to; /* number of the rule */
    } at[LARDER__SWITCHES];
} larder__switches;

void larder__switches_note(larder__switches *, uint64_t round, uint64_t to, uint64_t was,
                           uint64_t other);
bool larder__switches_get(const larder__switches *, uint64_t i, larder_switch *out);
void larder__switches_save(const larder__switches *, larder_writer *);
int larder__switches_load(larder__switches *, larder_reader *);

#endif
