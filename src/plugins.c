#include "plugins.h"

#include "base/err.h"
#include "base/near.h"
#include "stage/stage.h"

#include <stdio.h>

/* One pass over the list declares the structs, one more per kind collects them. */
#define LARDER_SOURCE(name) extern const larder_source larder__source_##name;
#define LARDER_POLICY(name) extern const larder_policy larder__policy_##name;
#define LARDER_SAMPLER(name) extern const larder_sampler larder__sampler_##name;
#define LARDER_SIGNAL(name) extern const larder_signal larder__signal_##name;
#define LARDER_STAGE(name) extern const larder_stage larder__stage_##name;
#define LARDER_RECIPE(name, sampler, policy, signal, summary)                                      \
    static const larder_recipe recipe_##name = {#name, sampler, policy, signal, summary};
#include "plugins.def"
#undef LARDER_SOURCE
#undef LARDER_POLICY
#undef LARDER_SAMPLER
#undef LARDER_SIGNAL
#undef LARDER_STAGE
#undef LARDER_RECIPE

#define LARDER_SOURCE(name)
#define LARDER_POLICY(name)
#define LARDER_SAMPLER(name)
#define LARDER_SIGNAL(name)
#define LARDER_STAGE(name)
#define LARDER_RECIPE(name, sampler, policy, signal, summary)

#undef LARDER_SOURCE
#define LARDER_SOURCE(name) &larder__source_##name,
const larder_source *const larder__sources[] = {
#include "plugins.def"
    NULL};
#undef LARDER_SOURCE
#define LARDER_SOURCE(name)

#undef LARDER_POLICY
#define LARDER_POLICY(name) &larder__policy_##name,
const larder_policy *const larder__policies[] = {
#include "plugins.def"
    NULL};
#undef LARDER_POLICY
#define LARDER_POLICY(name)

#undef LARDER_SAMPLER
#define LARDER_SAMPLER(name) &larder__sampler_##name,
const larder_sampler *const larder__samplers[] = {
#include "plugins.def"
    NULL};
#undef LARDER_SAMPLER
#define LARDER_SAMPLER(name)

#undef LARDER_SIGNAL
#define LARDER_SIGNAL(name) &larder__signal_##name,
const larder_signal *const larder__signals[] = {
#include "plugins.def"
    NULL};
#undef LARDER_SIGNAL
#define LARDER_SIGNAL(name)

#undef LARDER_STAGE
#define LARDER_STAGE(name) &larder__stage_##name,
const larder_stage *const larder__stages[] = {
#include "plugins.def"
    NULL};
#undef LARDER_STAGE
#define LARDER_STAGE(name)

#undef LARDER_RECIPE
#define LARDER_RECIPE(name, sampler, policy, signal, summary) &recipe_##name,
const larder_recipe *const larder__recipes[] = {
#include "plugins.def"
    NULL};

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

static void listing_add(listing *l, const char *name) {
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

#define FIND(kind, list)                                                                           \
    const larder_##kind *larder__##kind##_find(const char *name) {                                 \
        for (size_t i = 0; list[i]; i++)                                                           \
            if (strcmp(list[i]->plugin.name, name) == 0)                                           \
                return list[i];                                                                    \
        listing l;                                                                                 \
        listing_begin(&l, #kind, name);                                                            \
        for (size_t i = 0; list[i]; i++)                                                           \
            listing_add(&l, list[i]->plugin.name);                                                 \
        listing_fail(&l);                                                                          \
        return NULL;                                                                               \
    }
FIND(policy, larder__policies)
FIND(sampler, larder__samplers)
FIND(signal, larder__signals)
FIND(source, larder__sources)
FIND(stage, larder__stages)

const larder_recipe *larder__recipe_find(const char *name, larder_recipe *space) {
    listing l;
    listing_begin(&l, "recipe", name);
    for (size_t i = 0; larder__recipes[i]; i++) {
        if (strcmp(larder__recipes[i]->name, name) == 0)
            return larder__recipes[i];
        listing_add(&l, larder__recipes[i]->name);
    }
    for (size_t i = 0; larder__policies[i]; i++) {
        const larder_plugin *p = &larder__policies[i]->plugin;
        if (strcmp(p->name, name) == 0) {
            *space = (larder_recipe){p->name, "uniform", p->name, "", p->summary};
            return space;
        }
        listing_add(&l, p->name);
    }
    listing_fail(&l);
    return NULL;
}
