#include "loader/shared_cache.h"

#include "base/err.h"
#include "wire/attach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char SCHEME[] = "unix:";

bool larder__cache_names_daemon(const char *cache) {
    return cache && strncmp(cache, SCHEME, sizeof SCHEME - 1) == 0;
}

bool larder__cache_is_shared(const char *cache) {
    const char *given = getenv("LARDER_SOCKET");
    return larder__cache_names_daemon(cache) || (given && *given);
}

/* "unix:PATH?budget=20%" taken apart. */
static int parse(const char *cache, char path[108], char *budget, size_t cap) {
    larder__socket_path(path);
    budget[0] = '\0';
    if (!larder__cache_names_daemon(cache)) {
        snprintf(budget, cap, "%s", cache ? cache : "");
        return 0;
    }
    const char *at = cache + sizeof SCHEME - 1;
    size_t n = strcspn(at, "?");
    if (n >= 108)
        return larder__fail(LARDER_E_ARGS,
                            "cache \"%.60s…\": a socket's path has at most 107 bytes", cache);
    if (n) {
        memcpy(path, at, n);
        path[n] = '\0';
    }
    at += n;
    if (*at == '\0')
        return 0;
    static const char KEY[] = "?budget=";
    if (strncmp(at, KEY, sizeof KEY - 1) != 0 || strlen(at) - (sizeof KEY - 1) >= cap)
        return larder__fail(LARDER_E_ARGS,
                            "cache \"%s\": after the path comes ?budget=SIZE, or "
                            "nothing",
                            cache);
    snprintf(budget, cap, "%s", at + sizeof KEY - 1);
    larder__budget b;
    return larder__parse_budget(budget, &b);
}

int larder__policy_text(char *out, size_t cap, const larder__recipe *r) {
    size_t used = (size_t)snprintf(out, cap, "%s", r->policy->plugin.name);
    for (size_t i = 0; i < r->policy_args.count && used < cap; i++)
        used += (size_t)snprintf(out + used, cap - used, "%c%s=%s", i ? ',' : ':',
                                 r->policy_args.params[i].name, r->policy_args.texts[i]);
    return used < cap ? 0
                      : larder__fail(LARDER_E_ARGS, "policy %s: its parameters are too long",
                                     r->policy->plugin.name);
}

int larder__shared_cache_budget(const char *cache, char *budget, size_t cap) {
    char path[108];
    return parse(cache, path, budget, cap);
}

int larder__shared_cache_open(larder__cache **out, const larder__draw_conf *conf,
                              const larder__recipe *recipe, const double share[LARDER_FORMS]) {
    char path[108];
    larder__attach_conf a = {.socket = path,
                             .hello = {.batch = (uint32_t)conf->batch,
                                       .fingerprint = conf->fingerprint,
                                       .keys = conf->n,
                                       .payload = conf->payload,
                                       .seed = conf->seed,
                                       .decoded_ratio = conf->decoded_ratio,
                                       .decoded_bytes = conf->decoded_bytes,
                                       .row_bytes = conf->row_bytes,
                                       .size = conf->size},
                             .stats = conf->stats,
                             .exchanges = recipe->policy->exchange != NULL,
                             .size_of = conf->size_of,
                             .size_arg = conf->size_arg};
    for (int f = 0; f < LARDER_FORMS; f++)
        a.hello.share[f] = share[f];
    a.hello.forms_id = share[LARDER_ENCODED] < 1 ? conf->pipeline | 1 : 0;
    int rc = parse(conf->cache, path, a.hello.budget, sizeof a.hello.budget);
    if (rc == 0)
        rc = larder__policy_text(a.hello.policy, sizeof a.hello.policy, recipe);
    if (rc == 0 && recipe->replan)
        rc = larder__fail(LARDER_E_UNSUPPORTED,
                          "plan=auto needs a cache of its own; give a daemon a split instead");
    snprintf(a.hello.name, sizeof a.hello.name, "%s", conf->recipe);
    return rc < 0 ? rc : larder__attach_open(out, &a);
}
