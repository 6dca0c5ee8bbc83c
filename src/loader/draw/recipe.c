#include "loader/draw/recipe.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>

const larder_param larder__recipe_params[] = {
    {"sampler", "text", "", "another sampler than the recipe's own", 0, 0},
    {"policy", "text", "", "another cache policy than the recipe's own", 0, 0},
    {"signal", "text", "", "another signal than the recipe's own; none switches it off", 0, 0},
    {"split", "text", "", "percent of the cache for encoded/decoded/augmented, as 58/42/0", 0, 0},
    {"shrink", "text", "",
     "keep pictures re-encoded instead of as their files: shorter side in pixels, auto (what the "
     "stages use) or native, and JPEG quality, as 256:q=85",
     0, 0},
    {"plan", "fixed|auto", "fixed",
     "auto: measure, then share the cache out between forms by larder plan's model", 0, 0},
    {"scoring", "wait|beside", "wait",
     "of signals that take long: a batch waits for what is due, or nothing waits for it and the "
     "order depends on how fast it is",
     0, 0},
    {0}};

static const char *chosen(const larder_args *own, const char *part, const char *usual) {
    const char *given = larder_args_text(own, part);
    return given[0] ? given : usual;
}

/* A number up to `max` and nothing else. */
static bool whole_number(const char *text, size_t n, uint64_t max, uint32_t *out) {
    uint64_t v;
    bool good = larder__parse_digits(text, n, &v) && v >= 1 && v <= max;
    *out = good ? (uint32_t)v : 0;
    return good;
}

int larder__shrinking_parse(larder__shrinking *out, const char *text) {
    enum { SIDE_MOST = 16384, BEST = 100 };
    *out = (larder__shrinking){.on = true, .to.quality = LARDER__SHRINK_QUALITY};
    size_t n = strcspn(text, ":");
    bool native = n == 6 && strncmp(text, "native", n) == 0, good = true;
    out->automatic = n == 4 && strncmp(text, "auto", n) == 0;
    if (!native && !out->automatic)
        good = whole_number(text, n, SIDE_MOST, &out->to.side);
    if (good && text[n])
        good = strncmp(text + n, ":q=", 3) == 0 &&
               whole_number(text + n + 3, strlen(text + n + 3), BEST, &out->to.quality);
    return good ? 0
                : larder__fail(LARDER_E_ARGS,
                               "shrink \"%.60s\" is not a side in pixels, auto or native, maybe "
                               "with a JPEG quality from 1 to 100, as in 256:q=85",
                               text);
}

/* The signal that the policy needs or likes as it is asked for; "": none. */
static int ask_policy(const larder_policy *p, const char *rest, const char **signal, bool *needs) {
    larder_args args;
    if (!p->hears)
        return 0;
    int rc = larder__args_parse(&args, "policy", &p->plugin, rest, ',', larder__args_any);
    if (rc < 0)
        return rc;
    const char *needed = p->hears->signal ? p->hears->signal(&args) : NULL;
    const char *liked = p->hears->likes ? p->hears->likes(&args) : NULL;
    *needs = needed != NULL;
    *signal = needed ? needed : liked ? liked : "";
    larder__args_free(&args);
    return 0;
}

/* The recipe's own parameters say which parts are meant, so they are looked at first, before it is
 * known who takes the others. */
static int choose_parts(larder__recipe *out, const larder_recipe *r, const char *rest) {
    larder_plugin own = {.name = r->plugin.name, .params = larder__recipe_params};
    larder_args args;
    int rc = larder__args_parse(&args, "recipe", &own, rest, ',', larder__args_any);
    if (rc < 0)
        return rc;
    const char *signal = chosen(&args, "signal", r->signal);
    out->sampler = larder__sampler_find(chosen(&args, "sampler", r->sampler));
    out->policy = out->sampler ? larder__policy_find(chosen(&args, "policy", r->policy)) : NULL;
    out->wait = strcmp(larder_args_text(&args, "scoring"), "wait") == 0;
    out->replan = strcmp(larder_args_text(&args, "plan"), "auto") == 0;
    rc = out->policy ? 0 : LARDER_E_ARGS;
    out->relies = signal[0] && strcmp(signal, "none") != 0;
    if (rc == 0 && !signal[0])
        rc = ask_policy(out->policy, rest, &signal, &out->relies);
    if (rc == 0 && signal[0] && strcmp(signal, "none") != 0)
        rc = (out->signal = larder__signal_find(signal)) ? 0 : LARDER_E_ARGS;
    const char *shrink = larder_args_text(&args, "shrink");
    if (rc == 0 && shrink[0])
        rc = larder__shrinking_parse(&out->shrink, shrink);
    const char *split = larder_args_text(&args, "split");
    double share[LARDER_FORMS];
    if (rc == 0 && split[0] && (rc = larder__parse_split(split, share)) == 0 &&
        snprintf(out->split, sizeof out->split, "%s", split) >= (int)sizeof out->split)
        rc = larder__fail(LARDER_E_ARGS, "split \"%.60s…\" is too long", split);
    larder__args_free(&args);
    return rc;
}

int larder__recipe_parse(larder__recipe *out, const char *text) {
    *out = (larder__recipe){0};
    char name[64];
    const char *rest;
    larder_recipe space;
    int rc = larder__spec_name(text, name, sizeof name, &rest);
    const larder_recipe *r = rc < 0 ? NULL : larder__recipe_find(name, &space);
    if (!r)
        return LARDER_E_ARGS;
    if ((rc = choose_parts(out, r, rest)) < 0)
        return larder__fail_in(rc, "recipe %s", name);
    static const larder_plugin no_signal = {.name = "none"};
    const larder_plugin *parts[3] = {&out->sampler->plugin, &out->policy->plugin,
                                     out->signal ? &out->signal->plugin : &no_signal};
    const char *kinds[3] = {"sampler", "policy", "signal"};
    larder_args *args[3] = {&out->sampler_args, &out->policy_args, &out->signal_args};
    const larder_param *lists[5] = {0};
    size_t n = 0;
    for (int i = 0; i < 3; i++)
        if (parts[i]->params)
            lists[n++] = parts[i]->params;
    lists[n] = larder__recipe_params;
    rc = larder__args_check("recipe", name, rest, ',', lists);
    for (int i = 0; rc == 0 && i < 3; i++)
        rc = larder__args_parse(args[i], kinds[i], parts[i], rest, ',', larder__args_any);
    if (rc < 0)
        larder__recipe_free(out);
    return rc;
}

bool larder__recipe_is_policy(const larder_policy *p) {
    larder_recipe space;
    return p->future != LARDER_FUTURE_ALL && larder__recipe_find(p->plugin.name, &space) == &space;
}

bool larder__recipe_brings(const char *text) {
    larder__recipe r;
    if (larder__recipe_parse(&r, text) < 0)
        return false;
    larder__recipe_free(&r);
    return r.sampler->brings != NULL;
}

void larder__recipe_free(larder__recipe *r) {
    larder__args_free(&r->sampler_args);
    larder__args_free(&r->policy_args);
    larder__args_free(&r->signal_args);
}

int larder__recipe_cache(larder__cache_text *out, const char *recipe, const char *cache,
                         bool *replan, larder__shrinking *shrink) {
    larder__recipe parsed;
    int rc = larder__recipe_parse(&parsed, recipe);
    if (rc < 0)
        return rc;
    *replan = parsed.replan;
    *shrink = parsed.shrink;
    rc = larder__cache_text_parse(out, cache, parsed.split);
    for (size_t i = 0; rc == 0 && shrink->on && i < out->tier_count; i++) {
        double *share = out->tiers[i].budget.share;
        share[LARDER_SHRUNK] = share[LARDER_ENCODED];
        share[LARDER_ENCODED] = 0;
    }
    larder__recipe_free(&parsed);
    return rc;
}
