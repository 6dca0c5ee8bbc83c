/* The list of all plug-ins, by kind and name. Knows their structs and nothing of what they do. */
#ifndef LARDER_PLUGINS_H
#define LARDER_PLUGINS_H

#include <larder/plugin.h>

typedef struct larder_recipe { /* the named combination a user picks */
    const char *name, *sampler, *policy, *signal, *summary;
} larder_recipe;

/* What a stage is stays with its station (stage/stage.h); it begins with its larder_plugin, which
 * is all that lists and help look at. */
typedef struct larder_stage larder_stage;

/* Each array ends with NULL. */
extern const larder_source *const larder__sources[];
extern const larder_policy *const larder__policies[];
extern const larder_sampler *const larder__samplers[];
extern const larder_signal *const larder__signals[];
extern const larder_stage *const larder__stages[];
extern const larder_recipe *const larder__recipes[]; /* without those that are just a policy */

/* NULL with a sentence that lists the known names, and the nearest one. */
const larder_policy *larder__policy_find(const char *name);
const larder_sampler *larder__sampler_find(const char *name);
const larder_signal *larder__signal_find(const char *name);
const larder_source *larder__source_find(const char *name);
const larder_stage *larder__stage_find(const char *name);
/* A recipe, or the one a policy's name stands for (into *space). */
const larder_recipe *larder__recipe_find(const char *name, larder_recipe *space);

#endif
