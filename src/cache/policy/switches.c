#include "cache/policy/switches.h"

static const char *const names[LARDER__RULES] = {"lru", "lfu", "efu", "patient", "kkt"};

void larder__switches_note(larder__switches *s, uint64_t round, uint64_t to, uint64_t was,
                           uint64_t other) {
    if (s->count < LARDER__SWITCHES) {
        s->at[s->count].round = round;
        s->at[s->count].to = to;
        s->at[s->count].was = was;
        s->at[s->count].other = other;
    }
    s->count++;
}

static uint64_t kept(const larder__switches *s) {
    return s->count < LARDER__SWITCHES ? s->count : LARDER__SWITCHES;
}

bool larder__switches_get(const larder__switches *s, uint64_t i, larder_switch *out) {
    if (i >= kept(s))
        return false;
    *out = (larder_switch){.round = s->at[i].round,
                           .to = names[s->at[i].to],
                           .was = (double)s->at[i].was,
                           .other = (double)s->at[i].other};
    return true;
}

void larder__switches_save(const larder__switches *s, larder_writer *w) {
    larder_write_u64(w, s->count);
    for (uint64_t i = 0; i < kept(s); i++) {
        larder_write_u64(w, s->at[i].round);
        larder_write_u64(w, s->at[i].to);
        larder_write_u64(w, s->at[i].was);
        larder_write_u64(w, s->at[i].other);
    }
}

int larder__switches_load(larder__switches *s, larder_reader *r) {
    s->count = larder_read_u64(r);
    for (uint64_t i = 0; i < kept(s) && larder_read_status(r) == 0; i++) {
        s->at[i].round = larder_read_u64(r);
        s->at[i].to = larder_read_u64(r);
        s->at[i].was = larder_read_u64(r);
        s->at[i].other = larder_read_u64(r);
        if (s->at[i].to >= LARDER__RULES)
            return larder_read_reject(r, "a switch to a rule that there is not");
    }
    return larder_read_status(r);
}
