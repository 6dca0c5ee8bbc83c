#include "loader/job_cache.h"

#include "base/err.h"
#include "base/hash.h"
#include "loader/shared_cache.h"
#include "redis/redis_relay.h"

#include <stdio.h>

bool larder__job_cache_local(const char *cache) {
    larder__daemon_address a;
    return larder__cache_names_daemon(cache) && larder__daemon_parse(cache, &a) == 0 && a.job[0];
}

bool larder__job_cache_named(const char *cache) {
    larder__redis_conf r;
    if (larder__redis_named(cache))
        return larder__redis_parse(&r, cache) == 0 && r.job[0];
    return larder__job_cache_local(cache);
}

static uint64_t with_pixels(const larder__draw_conf *d, uint64_t h, bool pixels) {
    return larder__mix64(h) ^ (pixels ? larder__mix64(~d->pipeline) : 0);
}

uint64_t larder__job_identity(const larder__draw_conf *d, bool pixels) {
    return with_pixels(d, d->identity, pixels);
}

int larder__job_cache_join(larder__crew_link **out, const larder__draw_conf *d, larder__ranks ranks,
                           uint64_t want, bool pixels) {
    larder__daemon_address where;
    int rc = larder__daemon_parse(d->cache, &where);
    larder__crew_conf conf = {.door = where.door,
                              .join = {.rank = ranks.rank,
                                       .world = ranks.world,
                                       .batch = (uint32_t)d->batch,
                                       .turns = d->lag + 1,
                                       .pixels = pixels,
                                       .fingerprint = with_pixels(d, d->fingerprint, pixels),
                                       .identity = d->identity,
                                       .keys = d->n,
                                       .payload = d->payload,
                                       .want = want ? want : 1},
                              .patience = where.patience,
                              .await = where.await,
                              .stats = d->stats};
    memcpy(conf.join.job, where.job, sizeof conf.join.job);
    snprintf(conf.join.name, sizeof conf.join.name, "%s", d->recipe);
    conf.await.still = d->still;
    conf.await.arg = d->still_arg;
    return rc < 0 ? rc : larder__crew_open(out, &conf);
}

int larder__job_cache_open(larder__cache **out, const larder__draw_conf *d,
                           larder__cache_conf *conf, larder__depot depot) {
    larder__job_store_conf store = {
        .depot = depot, .keys = d->n, .slots = d->n, .turns = d->lag + 1, .stats = d->stats};
    conf->store = &larder__store_job;
    int rc = larder__job_store_open(&conf->store_state, &store);
    return rc < 0 ? rc : larder__cache_open(out, conf);
}

int larder__job_cache_relay(larder__relay **out, const larder__draw_conf *d, larder__ranks ranks,
                            larder__crew_link *link) {
    larder__redis_conf redis;
    if (link)
        return larder__crew_relay(out, link);
    int rc = larder__redis_parse(&redis, d->cache);
    redis.await.still = d->still;
    redis.await.arg = d->still_arg;
    larder__redis_relay_conf conf = {.redis = &redis,
                                     .fingerprint = larder__mix64(d->fingerprint),
                                     .identity = d->identity,
                                     .rank = ranks.rank,
                                     .world = ranks.world};
    return rc < 0 ? rc : larder__redis_relay_open(out, &conf);
}
