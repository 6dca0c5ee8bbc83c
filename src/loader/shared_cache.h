/* Caches that live in a daemon: "unix:PATH?budget=20%" or "unix:" for the usual path; with
 * $LARDER_SOCKET set, every plain budget means the daemon there. */
#ifndef LARDER_LOADER_SHARED_CACHE_H
#define LARDER_LOADER_SHARED_CACHE_H

#include "loader/draw.h"
#include "loader/recipe.h"

bool larder__cache_names_daemon(const char *cache);
/* Does this cache text, or the environment, name a daemon? */
bool larder__cache_is_shared(const char *cache);
int larder__shared_cache_open(larder__cache **out, const larder__draw_conf *,
                              const larder__recipe *);

#endif
