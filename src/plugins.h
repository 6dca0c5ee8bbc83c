/* All plug-ins by sort and name: larder's own, from plugins.def, and those that were registered
 * (register.c). Knows their structs and nothing of what they do. */
#ifndef LARDER_PLUGINS_H
#define LARDER_PLUGINS_H

#include <larder/plugin.h>

/* Each ends with NULL. Others may be registered at any time, and come last. */
enum { LARDER__PLUGINS_MOST = 128 }; /* of a sort */
enum { LARDER__ENGINE_LETTERS = 8 }; /* of a name, as states hold it */
extern _Atomic(const larder_policy *) larder__policies[];
extern _Atomic(const larder_sampler *) larder__samplers[];
extern _Atomic(const larder_signal *) larder__signals[];
extern _Atomic(const larder_engine *) larder__engines[];
extern _Atomic(const larder_source *) larder__sources[];
extern _Atomic(const larder_stage *) larder__stages[];
extern _Atomic(const larder_recipe *) larder__recipes[]; /* without those that are just a policy */

/* NULL with a sentence that lists the known names, and the nearest one. */
const larder_policy *larder__policy_find(const char *name);
const larder_sampler *larder__sampler_find(const char *name);
const larder_signal *larder__signal_find(const char *name);
const larder_engine *larder__engine_find(const char *name);
const larder_source *larder__source_find(const char *name);
const larder_stage *larder__stage_find(const char *name);
/* A recipe, or the one a policy's name stands for (into *space). */
const larder_recipe *larder__recipe_find(const char *name, larder_recipe *space);

/* For register.c. Of each sort: its name, the size of its struct, the i-th of them or NULL, and one
 * more at the end, of which there is not one yet: E_FULL where no more fit. */
typedef struct larder__sort {
    const char *name;
    size_t size;
    const larder_plugin *(*nth)(size_t i);
    int (*append)(const larder_plugin *);
} larder__sort;
extern const larder__sort larder__sorts[LARDER_SORTS];
const larder_plugin *larder__plugin_named(larder_sort, const char *name); /* NULL: none */

/* Loads what LARDER_PLUGINS names, the first time; later answers are those of the first. All that
 * find something come here first (load_plugin.c). */
int larder__plugins_from_env(void);

#endif
