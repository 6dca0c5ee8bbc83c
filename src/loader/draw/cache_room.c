/* A cache that was asked for and can hold nothing says so. */
#include "base/err.h"
#include "loader/draw/draw_inside.h"

#include <stdio.h>

/* None is what was asked for? */
static bool is_none(const larder__budget *b) {
    return b->relative ? b->fraction == 0 : b->bytes == 0;
}

/* Ends at the first sample that fits, which is nearly always the first of all. */
bool larder__no_room_says(char *out, size_t cap, const larder__cache *cache,
                          const larder__cache_text *text, uint64_t n,
                          uint32_t (*size_of)(void *arg, uint64_t id), void *arg) {
    char room[32], least[32];
    uint32_t smallest = UINT32_MAX;
    if (is_none(&larder__cache_back(text)->budget))
        return false;
    for (uint64_t id = 0; id < n; id++) {
        uint32_t bytes = size_of(arg, id);
        if (larder__cache_fits(cache, bytes))
            return false;
        smallest = bytes < smallest ? bytes : smallest;
    }
    snprintf(
        out, cap,
        "cache \"%.99s\" holds none of the %llu samples: there is room for %s%s, and the smallest "
        "sample has %s; give it more, or 0 for no cache",
        text->shown, (unsigned long long)n,
        larder__print_bytes((double)larder__cache_slots(cache)->budget, room),
        larder__cache_back(text)->budget.relative ? "" : " beside its tables",
        larder__print_bytes(smallest, least));
    return true;
}

static uint32_t bytes_of(void *arg, uint64_t id) {
    const larder__draw *d = arg;
    return d->conf.size ? d->conf.size : d->conf.size_of(d->conf.size_arg, id);
}

void larder__draw_note_room(larder__draw *d) {
    if (!d->recipe.policy->holds_all && larder__no_room_says(d->says, sizeof d->says, d->cache,
                                                             d->conf.cache, d->conf.n, bytes_of, d))
        larder__note(d->conf.stats, "%s", d->says);
}

const char *larder__draw_says(const larder__draw *d) { return d->says; }
