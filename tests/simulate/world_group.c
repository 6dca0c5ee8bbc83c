/* Redis and jobs of one group: every job feeds a machine of its own from the journal there. */
#include "redis/group.h"
#include "redis_model.h"
#include "worlds.h"

#include <stdio.h>
#include <string.h>

enum { FULL, EVICT, SPOIL, CUT_LOG, CLOCK, FAILOVER, OWN };
enum { SYNC_EVERY = 48 }; /* steps */
static const char *const own_names[OWN] = {"Redis is full",      "keys are evicted",
                                           "a value is spoilt",  "the journal is cut",
                                           "Redis' clock jumps", "a replica takes over"};

static uint32_t size_of(void *arg, uint64_t key) {
    (void)arg;
    return play_size(key);
}

static int join(larder__cache **out, uint32_t number) {
    larder__redis_conf redis = {.hosts = {{REDIS_MODEL_NAME, 6379}},
                                .host_count = 1,
                                .group = "made",
                                .timeout = 0.5,
                                .ttl = 86400,
                                .lanes = 1 + number % 2,
                                .await = {.seconds = 1, .go_on = true}};
    larder__group_conf conf = {.redis = &redis, .identity = 77, .size_of = size_of};
    conf.agreement = (larder__agreement){
        .keys = played.keys, .budget = played.budget, .seed = played.seed + number, .share = {1}};
    memcpy(conf.agreement.policy, played.policy, sizeof played.policy);
    return larder__group_open(out, &conf);
}

/* It has kept everything, or what was safe, or nothing. */
static void back(const mishap *m) {
    if (m && m->chance % 3 == 1)
        redis_model_rollback();
    if (m && m->chance % 3 == 2)
        redis_model_empty();
    redis_model_started(m && m->chance & 8 ? actors_now() + 0.3 : 0);
    actors_start(WORLD_SERVER, "redis", redis_model_main, NULL);
}

static void begin(void) {
    redis_model_begin();
    redis_model_forgets_last = broken_is("last");
    redis_model_short = 32;
    played.open = join;
    played.away = player_alone;
    back(NULL);
}

static void not_full(void *arg) {
    (void)arg;
    redis_model_full(false);
}

static void happen(uint32_t own, const mishap *m) {
    switch (own) {
    case FULL:
        redis_model_full(true);
        fate_later(m->seconds, not_full, NULL);
        break;
    case EVICT:
        for (uint64_t i = 0; i <= m->chance % 8; i++)
            redis_model_evict();
        break;
    case SPOIL:
        for (uint64_t i = 0; i <= m->chance % 4; i++)
            redis_model_spoil();
        break;
    case CUT_LOG:
        redis_model_cut_log();
        break;
    case CLOCK:
        redis_model_clock(m->chance & 1 ? m->seconds : -m->seconds);
        break;
    default: /* behind a proxy: connections stay, and what was not copied yet is lost */
        redis_model_rollback();
    }
}

static void heal(void) {
    redis_model_full(false);
    redis_model_started(0);
}

static void check(void) {
    if (!played.over && actors_steps() % SYNC_EVERY == 0)
        redis_model_sync();
}
static void ending(void) { actors_crash(actors_process(WORLD_SERVER)); }

const world world_group = {.name = "group",
                           .cuts = true,
                           .twin = true,
                           .own = OWN,
                           .own_names = own_names,
                           .play = player_main,
                           .begin = begin,
                           .happen = happen,
                           .back = back,
                           .heal = heal,
                           .check = check,
                           .ending = ending,
                           .end = redis_model_end};
