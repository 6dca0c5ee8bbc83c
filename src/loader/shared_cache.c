#include "loader/shared_cache.h"

#include "base/err.h"
#include "wire/attach.h"
#include "wire/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char SCHEME[] = "unix:";

bool larder__cache_names_daemon(const char *cache) {
    return cache && (strncmp(cache, SCHEME, sizeof SCHEME - 1) == 0 || larder__remote_named(cache));
}

bool larder__cache_is_shared(const char *cache) {
    const char *given = getenv("LARDER_SOCKET");
    return larder__cache_names_daemon(cache) || (given && *given);
}

typedef struct address { /* a cache text taken apart */
    char path[108];      /* of a socket, or tcp://host:port */
    char budget[32];     /* "": whatever the daemon has */
    char token_file[256];
} address;

/* One of budget=… and token-file=…, up to & or the end. */
static int take_option(address *out, const char *cache, const char *at, size_t n) {
    static const char budget[] = "budget=", token[] = "token-file=";
    bool far = larder__remote_named(cache);
    if (n > strlen(budget) && strncmp(at, budget, strlen(budget)) == 0 &&
        n - strlen(budget) < sizeof out->budget) {
        snprintf(out->budget, sizeof out->budget, "%.*s", (int)(n - strlen(budget)),
                 at + strlen(budget));
        larder__budget b;
        return larder__parse_budget(out->budget, &b);
    }
    if (far && n > strlen(token) && strncmp(at, token, strlen(token)) == 0 &&
        n - strlen(token) < sizeof out->token_file) {
        snprintf(out->token_file, sizeof out->token_file, "%.*s", (int)(n - strlen(token)),
                 at + strlen(token));
        return 0;
    }
    return larder__fail(LARDER_E_ARGS, "cache \"%s\": after the %s comes %s, or nothing", cache,
                        far ? "port" : "path",
                        far ? "?token-file=FILE&budget=SIZE" : "?budget=SIZE");
}

/* "unix:PATH?budget=20%" or "tcp://HOST:PORT?token-file=FILE&budget=20%". */
static int parse(const char *cache, address *out) {
    *out = (address){0};
    larder__socket_path(out->path);
    if (!larder__cache_names_daemon(cache)) {
        snprintf(out->budget, sizeof out->budget, "%s", cache ? cache : "");
        return 0;
    }
    const char *at = larder__remote_named(cache) ? cache : cache + sizeof SCHEME - 1;
    size_t n = strcspn(at, "?");
    if (n >= sizeof out->path)
        return larder__fail(LARDER_E_ARGS,
                            "cache \"%.60s…\": a socket's path has at most 107 bytes", cache);
    if (n) {
        memcpy(out->path, at, n);
        out->path[n] = '\0';
    }
    int rc = 0;
    for (at += n; rc == 0 && *at; at += n) {
        at++; /* ? or & */
        n = strcspn(at, "&");
        rc = take_option(out, cache, at, n);
    }
    return rc;
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
    address a;
    int rc = parse(cache, &a);
    snprintf(budget, cap, "%s", a.budget);
    return rc;
}

int larder__shared_cache_open(larder__cache **out, const larder__draw_conf *conf,
                              const larder__recipe *recipe, const double share[LARDER_FORMS]) {
    address where;
    larder__attach_conf a = {.socket = where.path,
                             .token_file = where.token_file,
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
    a.hello.forms_id = share[LARDER_ENCODED] < 1 || recipe->replan ? conf->pipeline | 1 : 0;
    a.hello.again = recipe->replan ? LARDER__HELLO_PLANS : 0;
    int rc = parse(conf->cache, &where);
    snprintf(a.hello.budget, sizeof a.hello.budget, "%s", where.budget);
    if (rc == 0)
        rc = larder__policy_text(a.hello.policy, sizeof a.hello.policy, recipe);
    snprintf(a.hello.name, sizeof a.hello.name, "%s", conf->recipe);
    return rc < 0 ? rc : larder__attach_open(out, &a);
}
