#include "loader/shared_cache.h"

#include "base/err.h"
#include "ranks/job_name.h"
#include "wire/attach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char SCHEME[] = "unix:";
static const double PATIENCE = 30;

bool larder__cache_names_daemon(const char *cache) {
    return cache && strncmp(cache, SCHEME, sizeof SCHEME - 1) == 0;
}

bool larder__cache_is_shared(const char *cache) {
    const char *given = getenv("LARDER_SOCKET");
    return larder__cache_names_daemon(cache) || (given && *given);
}

/* What stands behind "key=" in an option of n bytes, as a text; false: it is another option, or too
 * long. */
static bool option(const char *at, size_t n, const char *key, char *out, size_t cap) {
    size_t k = strlen(key);
    if (n <= k + 1 || strncmp(at, key, k) != 0 || at[k] != '=' || n - k - 1 >= cap)
        return false;
    snprintf(out, cap, "%.*s", (int)(n - k - 1), at + k + 1);
    return true;
}

/* One of budget=…, job=…, owner=…, patience=…, wait=… and absent=…, up to & or the end. */
static int take_option(larder__daemon_address *out, const char *cache, const char *at, size_t n) {
    char text[32];
    larder__budget b;
    if (option(at, n, "budget", out->budget, sizeof out->budget))
        return larder__parse_budget(out->budget, &b);
    if (option(at, n, "owner", text, sizeof text))
        return larder__door_owner(text, &out->door.owner);
    if (option(at, n, "job", out->job, sizeof out->job)) {
        if (strcmp(out->job, "0") == 0)
            out->job[0] = '\0';
        else if (!larder__job_name_fits(out->job))
            return larder__fail(LARDER_E_ARGS,
                                "cache \"%s\": job=NAME, of letters, digits and _.-, at most 39; "
                                "or job=0",
                                cache);
        return 0;
    }
    if (option(at, n, "patience", text, sizeof text)) {
        bool fine = larder__parse_seconds(text, &out->patience) == 0 && out->patience >= 1 &&
                    out->patience <= 86400;
        return fine ? 0
                    : larder__fail(LARDER_E_ARGS,
                                   "cache \"%s\": patience=30s, from 1s to a day: how long a rank "
                                   "of the job, or the daemon, may be away",
                                   cache);
    }
    if (option(at, n, "wait", text, sizeof text))
        return larder__await_seconds(text, &out->await)
                   ? 0
                   : larder__fail(LARDER_E_ARGS, "cache \"%s\": " LARDER__AWAIT_SECONDS, cache);
    if (option(at, n, "absent", text, sizeof text))
        return larder__await_absent(text, &out->await)
                   ? 0
                   : larder__fail(LARDER_E_ARGS, "cache \"%s\": " LARDER__AWAIT_ABSENT, cache);
    return larder__fail(LARDER_E_ARGS,
                        "cache \"%s\": after the path comes "
                        "?budget=SIZE&job=NAME&owner=USER&wait=30s&absent=fail, or nothing",
                        cache);
}

/* "unix:PATH?budget=20%". */
int larder__daemon_parse(const char *cache, larder__daemon_address *out) {
    *out = (larder__daemon_address){.patience = PATIENCE, .await = LARDER__AWAIT_UNLESS_SAID};
    if (!larder__cache_names_daemon(cache)) {
        snprintf(out->budget, sizeof out->budget, "%s", cache ? cache : "");
        return larder__door_usual(&out->door, false);
    }
    const char *at = cache + sizeof SCHEME - 1;
    size_t n = strcspn(at, "?");
    if (n >= sizeof out->door.path)
        return larder__fail(LARDER_E_ARGS,
                            "cache \"%.60s…\": a socket's path has at most 107 bytes", cache);
    int rc = n ? 0 : larder__door_usual(&out->door, false);
    if (n)
        memcpy(out->door.path, at, n);
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
    larder__daemon_address a;
    int rc = larder__daemon_parse(cache, &a);
    snprintf(budget, cap, "%s", a.budget);
    return rc;
}

int larder__shared_cache_open(larder__cache **out, const larder__draw_conf *conf,
                              const larder__recipe *recipe, const double share[LARDER_FORMS]) {
    larder__daemon_address where;
    larder__attach_conf a = {.hello = {.batch = (uint32_t)conf->batch,
                                       .identity = conf->identity,
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
    int rc = larder__daemon_parse(conf->cache, &where);
    a.door = where.door;
    snprintf(a.hello.budget, sizeof a.hello.budget, "%s", where.budget);
    a.await = where.await;
    a.await.still = conf->still;
    a.await.arg = conf->still_arg;
    if (rc == 0)
        rc = larder__policy_text(a.hello.policy, sizeof a.hello.policy, recipe);
    snprintf(a.hello.name, sizeof a.hello.name, "%s", conf->recipe);
    return rc < 0 ? rc : larder__attach_open(out, &a);
}
