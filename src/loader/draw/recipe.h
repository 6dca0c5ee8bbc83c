/* A recipe text such as "quiver:factor=10,policy=lru" taken apart: which sampler, policy and
 * signal, each with its checked arguments. Parameters go to whichever of them declares the name;
 * sampler=, policy= and signal= exchange a part, split= shares the cache out between forms. */
#ifndef LARDER_LOADER_DRAW_RECIPE_H
#define LARDER_LOADER_DRAW_RECIPE_H

#include "base/spec.h"
#include "plugins.h"
#include "shared/cache_text.h"

/* Each sample once an epoch, in an order that follows from the seed alone. Everywhere. */
#define LARDER__DEFAULT_RECIPE "minio"

typedef struct larder__recipe {
    const larder_sampler *sampler;
    const larder_policy *policy;
    const larder_signal *signal; /* NULL: feedback is not looked at */
    bool relies;                 /* on the signal: without reports it is another recipe */
    bool wait;                   /* scoring=wait: a draw waits for the feedback that is due */
    larder_args sampler_args, policy_args, signal_args;
    char split[64]; /* "58/42/0", or "" */
    bool replan;    /* plan=auto: the split follows what is measured */
} larder__recipe;

extern const larder_param larder__recipe_params[]; /* those every recipe has */

int larder__recipe_parse(larder__recipe *out, const char *text);
void larder__recipe_free(larder__recipe *);
/* The text of a cache, with the split of the recipe that it is for; *replan: that has plan=auto. */
int larder__recipe_cache(larder__cache_text *out, const char *recipe, const char *cache,
                         bool *replan);

#endif
