#include "plugins.h"

#include "base/err.h"
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

/* How many single-letter edits lead from a to b; only small answers matter. */
static size_t edits(const char *a, const char *b) {
    size_t row[32], nb = strlen(b);
    if (nb >= 31 || strlen(a) >= 31)
        return 99;
    for (size_t j = 0; j <= nb; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            row[j] = diagonal + 1 < best ? diagonal + 1 : best;
        }
    }
    return row[nb];
}

typedef struct listing { /* the names of one kind, as they are walked */
    const char *sort, *wanted, *nearest;
    size_t distance, at;
    char names[400];
} listing;

static void listing_add(listing *l, const char *name) {
    size_t d = edits(l->wanted, name);
    if (d < l->distance) {
        l->distance = d;
        l->nearest = name;
    }
    int wrote =
        snprintf(l->names + l->at, sizeof l->names - l->at, "%s%s", l->at ? ", " : "", name);
    if (wrote > 0 && l->at + (size_t)wrote < sizeof l->names)
        l->at += (size_t)wrote;
}

static void listing_fail(const listing *l) {
    if (l->distance <= 2)
        larder__fail(LARDER_E_ARGS, "no %s \"%.40s\"; did you mean %s? There are %s", l->sort,
                     l->wanted, l->nearest, l->names);
    else
        larder__fail(LARDER_E_ARGS, "no %s \"%.40s\"; there are %s", l->sort, l->wanted, l->names);
}

#define FIND(kind, list)                                                                           \
    const larder_##kind *larder__##kind##_find(const char *name) {                                 \
        for (size_t i = 0; list[i]; i++)                                                           \
            if (strcmp(list[i]->plugin.name, name) == 0)                                           \
                return list[i];                                                                    \
        listing l = {.sort = #kind, .wanted = name, .distance = 99};                               \
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
    listing l = {.sort = "recipe", .wanted = name, .distance = 99};
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
