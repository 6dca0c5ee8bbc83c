/* Caches that live in a daemon: "unix:PATH?budget=20%&job=NAME&owner=USER" or "unix:" for the usual
 * path; with $LARDER_SOCKET set, every plain budget means the daemon there. */
#ifndef LARDER_LOADER_SHARED_CACHE_H
#define LARDER_LOADER_SHARED_CACHE_H

#include "base/await.h"
#include "loader/draw.h"
#include "loader/recipe.h"
#include "ranks/job_name.h"
#include "wire/door.h"

typedef struct larder__daemon_address { /* a cache text taken apart */
    larder__door door;
    char budget[32];            /* "": whatever the daemon has */
    char job[LARDER__JOB_NAME]; /* the ranks of this job share; "": each attaches by itself */
    double patience;            /* seconds a rank of that job, or the daemon, may be away */
    larder__await await;        /* at the start, where the daemon is away */
} larder__daemon_address;
int larder__daemon_parse(const char *cache, larder__daemon_address *);

bool larder__cache_names_daemon(const char *cache);
/* Does this cache text, or the environment, name a daemon? */
bool larder__cache_is_shared(const char *cache);
/* The size and split that such a text asks for, as larder__parse_budget reads them; "": whatever
 * the daemon has. */
int larder__shared_cache_budget(const char *cache, char *budget, size_t cap);
/* "app:factor=2": what those who share have to know of a recipe. */
int larder__policy_text(char *out, size_t cap, const larder__recipe *);
int larder__shared_cache_open(larder__cache **out, const larder__draw_conf *,
                              const larder__recipe *, const double share[LARDER_FORMS]);

#endif
