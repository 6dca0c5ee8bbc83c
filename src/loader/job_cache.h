/* Caches that the ranks of one job share, in Redis ("redis://…&job=NAME") or in a daemon on their
 * machine ("unix:?job=NAME"): each rank decides for all, and the bytes lie there. */
#ifndef LARDER_LOADER_JOB_CACHE_H
#define LARDER_LOADER_JOB_CACHE_H

#include "loader/draw.h"
#include "loader/recipe.h"
#include "ranks/job_store.h"
#include "wire/crew_link.h"

/* Does a cache text name a job whose ranks share it? And one that is in a daemon? */
bool larder__job_cache_named(const char *cache);
bool larder__job_cache_local(const char *cache);

/* What bytes are kept under: which they are, and how pixels are made of them where those are. */
uint64_t larder__job_identity(const larder__draw_conf *, bool pixels);
/* To the daemon, for a cache of `want` bytes (UINT64_MAX: whatever it has) for all ranks. */
int larder__job_cache_join(larder__crew_link **out, const larder__draw_conf *, larder__ranks,
                           uint64_t want, bool pixels);
/* A cache over that depot, which becomes the cache's; `conf` says all but the store. */
int larder__job_cache_open(larder__cache **out, const larder__draw_conf *, larder__cache_conf *conf,
                           larder__depot);
/* To the other ranks: by the link, or if there is none through Redis. */
int larder__job_cache_relay(larder__relay **out, const larder__draw_conf *, larder__ranks,
                            larder__crew_link *);

#endif
