#include "loader/far_cache.h"

#include "base/err.h"
#include "base/hash.h"
#include "base/limit.h"
#include "loader/job_cache.h"
#include "loader/shared_cache.h"
#include "redis/far_store.h"
#include "redis/group.h"
#include "redis/job_depot.h"
#include "wire/attach.h"

#include <stdio.h>
#include <string.h>

int larder__far_cache_budget(const char *cache, char *budget, size_t cap) {
    larder__redis_conf r;
    int rc = larder__redis_parse(&r, cache);
    snprintf(budget, cap, "%s", rc == 0 ? r.budget : "");
    return rc;
}

static int front_bytes(const larder__redis_conf *r, uint64_t payload, uint64_t *out) {
    larder__budget b = {0};
    *out = 0;
    int rc = r->front[0] ? larder__parse_budget(r->front, &b) : 0;
    if (rc < 0)
        return rc;
    *out = b.relative ? (uint64_t)(b.fraction * (double)payload + 0.5) : b.bytes;
    return 0;
}

int larder__far_cache_size(const char *cache, uint64_t payload, uint64_t *bytes,
                           larder__tiers *tiers) {
    larder__redis_conf r;
    int rc = larder__redis_parse(&r, cache);
    *tiers = (larder__tiers){.back = *bytes, .inclusive = r.inclusive};
    if (rc == 0)
        rc = front_bytes(&r, payload, &tiers->front);
    if (rc == 0 && !r.inclusive)
        *bytes += tiers->front;
    return rc;
}

bool larder__far_cache_tiered(const char *cache) {
    larder__redis_conf r;
    return larder__redis_named(cache) && larder__redis_parse(&r, cache) == 0 && r.front[0];
}

/* With the jobs of a group. */
static int open_group(larder__cache **out, const larder__draw_conf *d, const larder__recipe *recipe,
                      const larder__cache_conf *conf, const larder__redis_conf *r) {
    bool pixels = conf->forms->share[LARDER_ENCODED] < 1;
    larder__group_conf g = {.redis = r,
                            .agreement = {.keys = conf->keys,
                                          .budget = conf->budget,
                                          .seed = conf->seed,
                                          .forms_id = pixels ? d->pipeline | 1 : 0,
                                          .decoded_ratio = d->decoded_ratio,
                                          .decoded_bytes = d->decoded_bytes,
                                          .row_bytes = d->row_bytes},
                            .identity = larder__mix64(d->identity),
                            .size = d->size,
                            .size_of = d->size_of,
                            .size_arg = d->size_arg,
                            .stats = d->stats};
    memcpy(g.agreement.share, conf->forms->share, sizeof g.agreement.share);
    if (recipe->replan)
        return larder__fail(LARDER_E_UNSUPPORTED,
                            "plan=auto needs a cache of its own; give those who share a split");
    int rc = larder__policy_text(g.agreement.policy, sizeof g.agreement.policy, recipe);
    return rc < 0 ? rc : larder__group_open(out, &g);
}

/* With the other ranks of a job: all of them decide, each for all. */
static int open_job(larder__cache **out, const larder__draw_conf *d, larder__cache_conf *conf,
                    const larder__redis_conf *r, bool pixels) {
    larder__job_depot_conf redis = {
        .redis = r, .identity = larder__job_identity(d, pixels), .stats = d->stats};
    larder__depot depot;
    int rc = larder__job_depot_open(&depot, &redis);
    return rc < 0 ? rc : larder__job_cache_open(out, d, conf, depot);
}

int larder__far_cache_open(larder__cache **out, const larder__draw_conf *d,
                           const larder__recipe *recipe, larder__cache_conf *conf) {
    larder__redis_conf r;
    int rc = larder__redis_parse(&r, d->cache);
    r.await.still = d->still;
    r.await.arg = d->still_arg;
    if (rc == 0 && r.group[0])
        return open_group(out, d, recipe, conf, &r);
    bool pixels = conf->forms->share[LARDER_ENCODED] < 1 || conf->forms->movable;
    if (rc == 0 && r.job[0])
        return open_job(out, d, conf, &r, pixels);
    larder__far_store_conf store = {
        .redis = &r, .identity = larder__job_identity(d, pixels), .slots = d->n, .stats = d->stats};
    conf->store = &larder__store_redis;
    if (rc == 0 && conf->tiers && conf->tiers->front > larder__memory_limit()) {
        char have[32];
        rc = larder__fail(LARDER_E_RANGE, "%s in front of Redis, but this process may use %s",
                          r.front, larder__print_bytes((double)larder__memory_limit(), have));
    }
    if (rc == 0)
        rc = larder__far_store_open(&conf->store_state, &store);
    return rc < 0 ? rc : larder__cache_open(out, conf);
}
