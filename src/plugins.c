#include "plugins.h"

#include "base/err.h"
#include "base/near.h"

#include <stdio.h>

/* One pass over the list declares the structs, one more per kind collects them. */
#define LARDER_SOURCE(name) extern const larder_source larder__source_##name;
#define LARDER_POLICY(name) extern const larder_policy larder__policy_##name;
#define LARDER_SAMPLER(name) extern const larder_sampler larder__sampler_##name;
#define LARDER_SIGNAL(name) extern const larder_signal larder__signal_##name;
#define LARDER_ENGINE(name) extern const larder_engine larder__engine_##name;
#define LARDER_STAGE(name) extern const larder_stage larder__stage_##name;
#define LARDER_RECIPE(name, sampler, policy, signal, summary)                                      \
    static const larder_recipe recipe_##name = {{#name, summary, NULL, 0}, sampler, policy, signal};
#include "plugins.def"
#undef LARDER_SOURCE
#undef LARDER_POLICY
#undef LARDER_SAMPLER
#undef LARDER_SIGNAL
#undef LARDER_ENGINE
#undef LARDER_STAGE
#undef LARDER_RECIPE

#define LARDER_SOURCE(name)
#define LARDER_POLICY(name)
#define LARDER_SAMPLER(name)
#define LARDER_SIGNAL(name)
#define LARDER_ENGINE(name)
#define LARDER_STAGE(name)
#define LARDER_RECIPE(name, sampler, policy, signal, summary)

#undef LARDER_SOURCE
#define LARDER_SOURCE(name) &larder__source_##name,
_Atomic(const larder_source *) larder__sources[LARDER__PLUGINS_MOST + 1] = {
#include "plugins.def"
    NULL};
#undef LARDER_SOURCE
#define LARDER_SOURCE(name)

#undef LARDER_POLICY
#define LARDER_POLICY(name) &larder__policy_##name,
_Atomic(const larder_policy *) larder__policies[LARDER__PLUGINS_MOST + 1] = {
#include "plugins.def"
    NULL};
#undef LARDER_POLICY
#define LARDER_POLICY(name)

#undef LARDER_SAMPLER
#define LARDER_SAMPLER(name) &larder__sampler_##name,
_Atomic(const larder_sampler *) larder__samplers[LARDER__PLUGINS_MOST + 1] = {
#include "plugins.def"
    NULL};
#undef LARDER_SAMPLER
#define LARDER_SAMPLER(name)

#undef LARDER_SIGNAL
#define LARDER_SIGNAL(name) &larder__signal_##name,
_Atomic(const larder_signal *) larder__signals[LARDER__PLUGINS_MOST + 1] = {
#include "plugins.def"
    NULL};
#undef LARDER_SIGNAL
#define LARDER_SIGNAL(name)

#undef LARDER_ENGINE
#define LARDER_ENGINE(name) &larder__engine_##name,
_Atomic(const larder_engine *) larder__engines[LARDER__PLUGINS_MOST + 1] = {
#include "plugins.def"
    NULL};
#undef LARDER_ENGINE
#define LARDER_ENGINE(name)

#undef LARDER_STAGE
#define LARDER_STAGE(name) &larder__stage_##name,
_Atomic(const larder_stage *) larder__stages[LARDER__PLUGINS_MOST + 1] = {
#include "plugins.def"
    NULL};
#undef LARDER_STAGE
#define LARDER_STAGE(name)

#undef LARDER_RECIPE
#define LARDER_RECIPE(name, sampler, policy, signal, summary) &recipe_##name,
_Atomic(const larder_recipe *) larder__recipes[LARDER__PLUGINS_MOST + 1] = {
#include "plugins.def"
    NULL};

/* ---- by sort --------------------------------------------------------------------------------- */

/* A plug-in's struct begins with its larder_plugin. */
#define SORT(kind, list)                                                                           \
    static const larder_plugin *nth_##kind(size_t i) { return (const larder_plugin *)list[i]; }    \
    static int append_##kind(const larder_plugin *p) {                                             \
        size_t i = 0;                                                                              \
        while (list[i])                                                                            \
            i++;                                                                                   \
        if (i == LARDER__PLUGINS_MOST)                                                             \
            return LARDER_E_FULL;                                                                  \
        list[i] = (const larder_##kind *)p;                                                        \
        return 0;                                                                                  \
    }
SORT(policy, larder__policies)
SORT(sampler, larder__samplers)
SORT(signal, larder__signals)
SORT(engine, larder__engines)
SORT(source, larder__sources)
SORT(stage, larder__stages)
SORT(recipe, larder__recipes)

#define ROW(KIND, kind)                                                                            \
    [LARDER_SORT_##KIND] = {#kind, sizeof(larder_##kind), nth_##kind, append_##kind}
const larder__sort larder__sorts[LARDER_SORTS] = {
    ROW(POLICY, policy), ROW(SAMPLER, sampler), ROW(SIGNAL, signal), ROW(ENGINE, engine),
    ROW(SOURCE, source), ROW(STAGE, stage),     ROW(RECIPE, recipe)};

const larder_plugin *larder__plugin_named(larder_sort sort, const char *name) {
    const larder_plugin *p;
    for (size_t i = 0; (p = larder__sorts[sort].nth(i)); i++)
        if (strcmp(p->name, name) == 0)
            return p;
    return NULL;
}

/* ---- by name --------------------------------------------------------------------------------- */

typedef struct listing { /* the names of one kind, as they are walked */
    const char *sort, *wanted;
    larder__near near;
    size_t at;
    char names[400];
} listing;

static void listing_begin(listing *l, const char *sort, const char *wanted) {
    *l = (listing){.sort = sort, .wanted = wanted};
    larder__near_begin(&l->near, wanted, strlen(wanted));
}

/* Some names are of two sorts, as a recipe and its policy. */
static bool is_listed(const listing *l, const char *name) {
    size_t n = strlen(name);
    for (const char *at = l->names; (at = strstr(at, name)); at += n)
        if ((at == l->names || at[-1] == ' ') && (at[n] == ',' || at[n] == '\0'))
            return true;
    return false;
}

static void listing_add(listing *l, const char *name) {
    if (is_listed(l, name))
        return;
    larder__near_try(&l->near, name, strlen(name));
    int wrote =
        snprintf(l->names + l->at, sizeof l->names - l->at, "%s%s", l->at ? ", " : "", name);
    if (wrote > 0 && l->at + (size_t)wrote < sizeof l->names)
        l->at += (size_t)wrote;
}

static void listing_fail(const listing *l) {
    char hint[LARDER__NEAR_CHARS + 32];
    larder__near_hint(&l->near, hint);
    larder__fail(LARDER_E_ARGS, "no %s \"%.40s\"%s%s %s", l->sort, l->wanted, hint,
                 hint[0] ? " There are" : "; there are", l->names);
}

static void listing_add_all(listing *l, larder_sort sort) {
    const larder_plugin *p;
    for (size_t i = 0; (p = larder__sorts[sort].nth(i)); i++)
        listing_add(l, p->name);
}

static const void *find(larder_sort sort, const char *name) {
    if (larder__plugins_from_env() < 0)
        return NULL;
    const larder_plugin *p = larder__plugin_named(sort, name);
    if (p)
        return p;
    listing l;
    listing_begin(&l, larder__sorts[sort].name, name);
    listing_add_all(&l, sort);
    listing_fail(&l);
    return NULL;
}

#define FIND(KIND, kind)                                                                           \
    const larder_##kind *larder__##kind##_find(const char *name) {                                 \
        return find(LARDER_SORT_##KIND, name);                                                     \
    }
FIND(POLICY, policy)
FIND(SAMPLER, sampler)
FIND(SIGNAL, signal)
FIND(ENGINE, engine)
FIND(SOURCE, source)
FIND(STAGE, stage)

const larder_recipe *larder__recipe_find(const char *name, larder_recipe *space) {
    if (larder__plugins_from_env() < 0)
        return NULL;
    const larder_plugin *p = larder__plugin_named(LARDER_SORT_RECIPE, name);
    if (p)
        return (const larder_recipe *)p;
    if ((p = larder__plugin_named(LARDER_SORT_POLICY, name))) {
        *space = (larder_recipe){{p->name, p->summary, NULL, 0}, "uniform", p->name, ""};
        return space;
    }
    listing l;
    listing_begin(&l, "recipe", name);
    listing_add_all(&l, LARDER_SORT_RECIPE);
    listing_add_all(&l, LARDER_SORT_POLICY);
    listing_fail(&l);
    return NULL;
}
