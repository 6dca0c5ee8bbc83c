/* The size of a cache in entries, for rules that are written so. */
#ifndef LARDER_CACHE_POLICY_ROOM_H
#define LARDER_CACHE_POLICY_ROOM_H

#include <larder/plugin.h>

/* How many entries of the residents' mean size fit; while there are none, of the one asked for.
 * Exact where all have one size. */
static inline uint64_t larder__room_entries(const larder_slots *s, const larder_access *a) {
    double size = s->bytes ? (double)s->bytes / (double)s->resident : a->size;
    double entries = (double)s->budget / (size < 1 ? 1 : size);
    return entries < 1 ? 1 : entries > (double)s->keys ? s->keys : (uint64_t)entries;
}

#endif
