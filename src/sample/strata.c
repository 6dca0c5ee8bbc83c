#include "sample/strata.h"

#include "base/mem.h"

#include <math.h>

static uint32_t class_of(const larder__strata *s, uint64_t id) {
    uint32_t c = s->env->class_of(s->env->class_arg, id);
    return c < s->classes ? c : s->classes; /* without, or of a source that learnt it since */
}

static uint32_t stretches(const larder__strata *s) {
    return (uint32_t)((s->env->n + LARDER__STRATUM - 1) / LARDER__STRATUM);
}

/* Classes are numbers from 0; a number beyond half of the samples is no class but a name. */
static uint32_t count_classes(const larder__strata *s) {
    uint32_t classes = 0;
    for (uint64_t id = 0; s->env->class_of && id < s->env->n; id++) {
        uint32_t c = s->env->class_of(s->env->class_arg, id);
        if (c != LARDER_NO_GROUP && c >= s->env->n / 2)
            return 0;
        if (c != LARDER_NO_GROUP && c >= classes)
            classes = c + 1;
    }
    return classes;
}

int larder__strata_open(larder__strata *s, const larder_draw_env *env) {
    *s = (larder__strata){.env = env};
    if ((s->classes = count_classes(s)) < 2) {
        s->classes = 0;
        return 0;
    }
    s->count = larder__calloc(2 * ((uint64_t)s->classes + 1), sizeof *s->count);
    s->ends = larder__malloc(((uint64_t)stretches(s) + 1) * sizeof *s->ends);
    s->other = larder__malloc(env->n * sizeof *s->other);
    bool few = s->classes < UINT16_MAX;
    s->known = few ? larder__malloc(env->n * sizeof *s->known) : NULL;
    if (!s->count || !s->ends || !s->other || (few && !s->known))
        return LARDER_E_NOMEM;
    for (uint64_t id = 0; id < env->n; id++)
        s->count[class_of(s, id)]++;
    return 0;
}

void larder__strata_close(larder__strata *s) {
    larder__free(s->count);
    larder__free(s->ends);
    larder__free(s->other);
    larder__free(s->known);
}

/* All classes, asked for in the order of ids: in the random one that follows, a source might have
 * to fetch each from far, which takes ten times as long. */
static void know_classes(larder__strata *s) {
    for (uint64_t id = 0; s->known && id < s->env->n; id++)
        s->known[id] = (uint16_t)class_of(s, id);
}

/* Walks the random order and says of each id in which stretch it belongs: into `ends` how many
 * there are, or, once these are places, the ids themselves. */
static void walk(larder__strata *s, const uint32_t *order, uint64_t seed, uint64_t sweep,
                 uint32_t *out) {
    uint32_t *passed = s->count + s->classes + 1;
    larder_rng rng;
    larder_rng_seed(&rng, seed, 0x57a70000u + sweep);
    memset(passed, 0, ((uint64_t)s->classes + 1) * sizeof *passed);
    for (uint64_t i = 0; i < s->env->n; i++) {
        uint32_t c = s->known ? s->known[order[i]] : class_of(s, order[i]);
        double way = (passed[c]++ + larder_rng_unit(&rng)) / s->count[c];
        /* Rounding may take the last of a class to the very end, or it has grown since. */
        uint32_t at = (uint32_t)fmin(way * stretches(s), stretches(s) - 1.0);
        if (out)
            out[s->ends[at]++] = order[i];
        else
            s->ends[at + 1]++;
    }
}

void larder__strata_spread(larder__strata *s, uint32_t **order, uint64_t seed, uint64_t sweep) {
    if (!s->classes)
        return;
    know_classes(s);
    memset(s->ends, 0, ((uint64_t)stretches(s) + 1) * sizeof *s->ends);
    walk(s, *order, seed, sweep, NULL);
    for (uint32_t i = 0; i < stretches(s); i++)
        s->ends[i + 1] += s->ends[i];
    walk(s, *order, seed, sweep, s->other);
    uint32_t *was = *order;
    *order = s->other;
    s->other = was;
}
