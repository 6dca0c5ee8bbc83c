/* A recipe text such as "quiver:factor=10,policy=lru" taken apart: which sampler, policy and
 * signal, each with its checked arguments. Parameters go to whichever of them declares the name;
 * sampler=, policy= and signal= exchange a part, split= shares the cache out between forms, shrink=
 * has pictures kept smaller. */
#ifndef LARDER_LOADER_DRAW_RECIPE_H
#define LARDER_LOADER_DRAW_RECIPE_H

#include "base/spec.h"
#include "plugins.h"
#include "shared/cache_text.h"
#include "stage/pipeline.h"

/* Each sample once an epoch, in an order that follows from the seed alone. Everywhere. */
#define LARDER__DEFAULT_RECIPE "minio"

/* Quality of shrunk pictures where none is said: docs/results/shrink.md has what others give. */
enum { LARDER__SHRINK_QUALITY = 80 };

typedef struct larder__shrinking { /* shrink=256:q=85 */
    bool on, automatic;            /* automatic: the side follows from the stages */
    larder__shrink to;
} larder__shrinking;

typedef struct larder__recipe {
    const larder_sampler *sampler;
    const larder_policy *policy;
    const larder_signal *signal; /* NULL: feedback is not looked at */
    bool relies;                 /* on the signal: without reports it is another recipe */
    bool wait;                   /* scoring=wait: a draw waits for the feedback that is due */
    larder_args sampler_args, policy_args, signal_args;
    char split[64]; /* "58/42/0", or "" */
    bool replan;    /* plan=auto: the split follows what is measured */
    larder__shrinking shrink;
} larder__recipe;

extern const larder_param larder__recipe_params[]; /* those every recipe has */

/* Every policy is a recipe too, unless a recipe of its own bears its name or nothing but a
 * simulator could run it. */
bool larder__recipe_is_policy(const larder_policy *);
/* Has it a sampler that brings samples in? They are whole, then. */
bool larder__recipe_brings(const char *text);
int larder__recipe_parse(larder__recipe *out, const char *text);
void larder__recipe_free(larder__recipe *);
/* "256", "auto", "native", or one of them with ":q=85". */
int larder__shrinking_parse(larder__shrinking *out, const char *text);
/* The text of a cache, with the split of the recipe that it is for, and what else that says of it:
 * plan=auto, shrink=. */
int larder__recipe_cache(larder__cache_text *out, const char *recipe, const char *cache,
                         bool *replan, larder__shrinking *);

#endif
