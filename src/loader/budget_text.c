/* How large the cache is and how it is shared out: by the cache's text, by the recipe, or both. */
#include "base/err.h"
#include "loader/draw_inside.h"
#include "loader/far_cache.h"
#include "loader/shared_cache.h"
#include "redis/uri.h"

#include <stdio.h>

/* The split may come with the cache's text, with the recipe, or with both if they agree. */
static int read_own_budget(const larder__recipe *recipe, const char *cache, larder__budget *out) {
    char whole[160];
    double share[LARDER_FORMS];
    if (recipe->split[0] && !strchr(cache, ':')) {
        snprintf(whole, sizeof whole, "%.80s:%s", cache, recipe->split);
        return larder__parse_budget(whole, out);
    }
    int rc = larder__parse_budget(cache, out);
    if (rc < 0 || !recipe->split[0])
        return rc;
    rc = larder__parse_split(recipe->split, share);
    for (int f = 0; rc == 0 && f < LARDER_FORMS; f++)
        if (share[f] != out->share[f])
            rc = larder__fail(LARDER_E_ARGS,
                              "cache \"%.60s\" and split=%s of the recipe disagree; give one",
                              cache, recipe->split);
    return rc;
}

/* Of a cache elsewhere too. In a daemon it may be of any size: then only the split counts. */
int larder__draw_budget(const larder__recipe *recipe, const char *cache, larder__budget *out) {
    char text[160];
    bool far = larder__redis_named(cache);
    if (strncmp(cache, "tcp://", 6) == 0)
        return larder__fail(LARDER_E_ARGS,
                            "cache \"%.60s\": a daemon serves its own machine (unix:PATH); several "
                            "machines share a cache through Redis: redis://HOST/?shared=NAME",
                            cache);
    if (!larder__cache_names_daemon(cache) && !far)
        return read_own_budget(recipe, cache, out);
    int rc = far ? larder__far_cache_budget(cache, text, sizeof text)
                 : larder__shared_cache_budget(cache, text, sizeof text);
    return rc < 0 ? rc : read_own_budget(recipe, text[0] ? text : "100%", out);
}

int larder__draw_shares(const char *recipe, const char *cache, double share[LARDER_FORMS],
                        bool *replan) {
    larder__recipe parsed;
    larder__budget b;
    int rc = larder__recipe_parse(&parsed, recipe);
    if (rc < 0)
        return rc;
    if ((rc = larder__draw_budget(&parsed, cache, &b)) == 0)
        memcpy(share, b.share, sizeof b.share);
    *replan = parsed.replan;
    larder__recipe_free(&parsed);
    return rc;
}

/* Ends at the first sample that fits, which is nearly always the first of all. */
bool larder__no_room_says(char *out, size_t cap, const larder__cache *cache, const char *text,
                          uint64_t n, uint32_t (*size_of)(void *arg, uint64_t id), void *arg) {
    char shown[100], room[32], least[32];
    uint32_t smallest = UINT32_MAX;
    for (uint64_t id = 0; id < n; id++) {
        uint32_t bytes = size_of(arg, id);
        if (larder__cache_fits(cache, bytes))
            return false;
        smallest = bytes < smallest ? bytes : smallest;
    }
    snprintf(
        out, cap,
        "cache \"%s\" holds none of the %llu samples: there is room for %s%s, and the smallest "
        "sample has %s; give it more, or 0 for no cache",
        larder__redis_mask(text, shown, sizeof shown), (unsigned long long)n,
        larder__print_bytes((double)larder__cache_slots(cache)->budget, room),
        strchr(text, '%') ? "" : " beside its tables", larder__print_bytes(smallest, least));
    return true;
}

static uint32_t bytes_of(void *arg, uint64_t id) {
    const larder__draw *d = arg;
    return d->conf.size ? d->conf.size : d->conf.size_of(d->conf.size_arg, id);
}

void larder__draw_note_room(larder__draw *d) {
    larder__budget b;
    if (d->recipe.policy->holds_all || larder__draw_budget(&d->recipe, d->conf.cache, &b) < 0 ||
        (b.relative ? b.fraction == 0 : b.bytes == 0)) /* none is what was asked for */
        return;
    if (larder__no_room_says(d->says, sizeof d->says, d->cache, d->conf.cache, d->conf.n, bytes_of,
                             d))
        larder__note(d->conf.stats, "%s", d->says);
}

const char *larder__draw_says(const larder__draw *d) { return d->says; }
