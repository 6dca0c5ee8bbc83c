/* Caches in Redis: "redis://host?budget=20%" and its kin, redis/uri.h. */
#ifndef LARDER_LOADER_FAR_CACHE_H
#define LARDER_LOADER_FAR_CACHE_H

#include "base/spec.h"
#include "loader/draw.h"
#include "loader/recipe.h"

/* The size and split of the part in Redis, as larder__parse_budget reads them. */
int larder__far_cache_budget(const char *cache, char *budget, size_t cap);
/* Of `bytes` in Redis: the tiers, where a cache stands in front; and `bytes` with what it holds
 * that Redis does not. */
int larder__far_cache_size(const char *cache, uint64_t payload, uint64_t *bytes,
                           larder__tiers *tiers);
bool larder__far_cache_tiered(const char *cache); /* is there one in front? */
/* A cache of one's own, or with the jobs of a group; `conf` says all but the store. */
int larder__far_cache_open(larder__cache **out, const larder__draw_conf *, const larder__recipe *,
                           larder__cache_conf *conf);

#endif
