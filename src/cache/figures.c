/* What a cache shows among a loader's figures, wherever it lives. */
#include "base/stat.h"
#include "cache/cache.h"

#define CACHE_PROBE(figure) CACHE_PROBE_AS(figure, figure)
#define CACHE_PROBE_AS(name, figure)                                                               \
    static double probe_##name(const void *arg) {                                                  \
        larder__cache_figures f;                                                                   \
        larder__cache_read_figures((larder__cache *)(uintptr_t)arg, &f);                           \
        return (double)f.figure;                                                                   \
    }
CACHE_PROBE(resident)
CACHE_PROBE(resident_bytes)
CACHE_PROBE(loaned_bytes)
CACHE_PROBE(metadata_bytes)
CACHE_PROBE(kept_encoded)
CACHE_PROBE_AS(encoded, form_bytes[LARDER_ENCODED])
CACHE_PROBE_AS(decoded, form_bytes[LARDER_DECODED])
CACHE_PROBE_AS(augmented, form_bytes[LARDER_AUGMENTED])
CACHE_PROBE_AS(shrunk, form_bytes[LARDER_SHRUNK])
CACHE_PROBE(budget)
CACHE_PROBE(evictions)
CACHE_PROBE(refusals)
CACHE_PROBE(front_hits)
CACHE_PROBE(front_bytes)
CACHE_PROBE(back_bytes)
static double probe_far_hits(const void *arg) {
    larder__cache_figures f;
    larder__cache_read_figures((larder__cache *)(uintptr_t)arg, &f);
    return (double)(f.hits + f.substitutes - f.front_hits);
}

typedef struct shown {
    bool grows;
    const char *name, *unit, *help;
    double (*read)(const void *);
} shown;

static const shown plain[] = {
    {false, "cache_resident", "samples", "entries the cache holds now", probe_resident},
    {false, "cache_resident_bytes", "bytes", "their payload", probe_resident_bytes},
    {false, "cache_loaned_bytes", "bytes", "held by readers, no longer resident",
     probe_loaned_bytes},
    {false, "cache_metadata_bytes", "bytes", "tables of cache and policy", probe_metadata_bytes},
    {false, "cache_budget_bytes", "bytes", "what the cache may hold", probe_budget},
    {true, "cache_evictions", "samples", "entries that had to leave", probe_evictions},
    {true, "cache_refusals", "samples", "missing entries that were not let in", probe_refusals},
    {0},
};
static const shown of_forms[] = {
    {true, "cache_kept_encoded", "samples",
     "pixels did not fit what was reserved, or shrinking saved nothing", probe_kept_encoded},
    {false, "cache_encoded_bytes", "bytes", "residents kept encoded", probe_encoded},
    {false, "cache_decoded_bytes", "bytes", "residents kept as pixels, as reserved", probe_decoded},
    {false, "cache_augmented_bytes", "bytes", "residents kept as finished rows", probe_augmented},
    {false, "cache_shrunk_bytes", "bytes", "residents kept shrunk", probe_shrunk},
    {0},
};
static const shown of_tiers[] = {
    {true, "front_hits", "samples", "from the cache in front", probe_front_hits},
    {true, "far_hits", "samples", "from the cache behind it", probe_far_hits},
    {false, "front_bytes", "bytes", "residents in front", probe_front_bytes},
    {false, "far_bytes", "bytes", "residents behind", probe_back_bytes},
    {0},
};

static int show_all(larder__cache *c, larder__stats *s, const shown *of) {
    int rc = 0;
    for (; rc == 0 && of->name; of++)
        rc = (of->grows ? larder__stat_probe_count : larder__stat_probe)(s, of->name, of->unit,
                                                                         of->help, of->read, c);
    return rc;
}

int larder__cache_show_figures(larder__cache *c, larder__stats *s, bool forms, bool tiers) {
    int rc = show_all(c, s, plain);
    if (rc == 0 && forms)
        rc = show_all(c, s, of_forms);
    return rc == 0 && tiers ? show_all(c, s, of_tiers) : rc;
}
