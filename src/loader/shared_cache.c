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

/* "app:factor=2": what the daemon needs to know of the recipe. */
static int policy_text(char *out, size_t cap, const larder__recipe *r) {
    size_t used = (size_t)snprintf(out, cap, "%s", r->policy->plugin.name);
    for (size_t i = 0; i < r->policy_args.count && used < cap; i++)
        used += (size_t)snprintf(out + used, cap - used, "%c%s=%s", i ? ',' : ':',
                                 r->policy_args.params[i].name, r->policy_args.texts[i]);
    return used < cap ? 0
                      : larder__fail(LARDER_E_ARGS, "policy %s: its parameters are too long",
                                     r->policy->plugin.name);
}

int larder__shared_cache_open(larder__cache **out, const larder__draw_conf *conf,
                              const larder__recipe *recipe) {
    char path[108];
    larder__attach_conf a = {.socket = path,
                             .hello = {.batch = (uint32_t)conf->batch,
                                       .fingerprint = conf->fingerprint,
                                       .keys = conf->n,
                                       .payload = conf->payload,
                                       .seed = conf->seed},
                             .stats = conf->stats};
    int rc = parse(conf->cache, path, a.hello.budget, sizeof a.hello.budget);
    if (rc == 0)
        rc = policy_text(a.hello.policy, sizeof a.hello.policy, recipe);
    larder__budget b = {0};
    if (rc == 0 && a.hello.budget[0])
        rc = larder__parse_budget(a.hello.budget, &b);
    if (rc == 0 && (b.split || recipe->split[0] || recipe->replan))
        rc = larder__fail(LARDER_E_UNSUPPORTED,
                          "a daemon keeps samples encoded alone; leave out the split and plan=");
    snprintf(a.hello.name, sizeof a.hello.name, "%s", conf->recipe);
    return rc < 0 ? rc : larder__attach_open(out, &a);
}
