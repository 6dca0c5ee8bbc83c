/* Jobs that each have a cache of their own, whose bytes lie in Redis: nobody shares anything but
 * the server. Who is there has what it decided to have there, and nothing else, once all is
 * written. */
#include "base/spec.h"
#include "cache/local.h"
#include "plugins.h"
#include "redis/redis_store.h"
#include "redis_model.h"
#include "wires.h"
#include "worlds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int open_far(larder__cache **out, uint32_t number) {
    larder__redis_conf redis = {.hosts = {{REDIS_MODEL_NAME, 6379}},
                                .host_count = 1,
                                .timeout = 0.5,
                                .ttl = 86400,
                                .lanes = 1 + number % 2,
                                .await = {.seconds = 1, .go_on = true}};
    larder__redis_store_conf store = {
        .redis = &redis, .identity = 100 + number, .slots = played.keys};
    larder_args args = {0};
    larder__cache_conf conf = {.policy = larder__policy_find(played.policy),
                               .args = &args,
                               .keys = played.keys,
                               .budget = played.budget,
                               .seed = played.seed + number,
                               .store = &larder__store_redis};
    int rc = larder__args_parse(&args, "policy", &conf.policy->plugin, "", ',', NULL);
    if (rc == 0)
        rc = larder__redis_store_open(&conf.store_state, &store);
    if (rc == 0)
        rc = larder__cache_open(out, &conf);
    larder__args_free(&args);
    return rc;
}

/* What it has given up stays until all connections to that server are made anew. */
static bool away(const player *p) {
    return wires_given_up(actors_process(WORLD_FIRST_PLAYER + p->number));
}

/* Values are larder:V:DATA:OWNER:FORM:ID:MARK. */
static void look_at(void *arg, const char *key, const void *bytes, size_t n, bool ttl) {
    const larder__cache *c = arg;
    unsigned long long id;
    const char *form = key;
    (void)bytes, (void)n, (void)ttl;
    for (int colons = 0; form && colons < 4; colons++)
        form = strchr(form + 1, ':');
    if (!form || sscanf(form, ":0:%llu:", &id) != 1)
        return; /* a lease */
    if (!larder__cache_resident(c, id))
        actors_complain("sample %llu has left the cache, and stays in Redis", id);
}

/* What is on its way has come by then. */
static void leaving(larder__cache *c) {
    actors_sleep(actors_now() + 5);
    redis_model_each(look_at, c);
}

static void begin(void) {
    world_group.begin();
    played.open = open_far;
    played.away = away;
    played.leaving = played.players == 1 && played.calm ? leaving : NULL;
    if (played.exchanges) { /* of jobs that share */
        played.exchanges = false;
        memcpy(played.policy, "lru", 4);
    }
}

static void happen(uint32_t own, const mishap *m) { world_group.happen(own, m); }
static void back(const mishap *m) { world_group.back(m); }
static void heal(void) { world_group.heal(); }
static void check(void) { world_group.check(); }
static void ending(void) { world_group.ending(); }
static void end(void) { world_group.end(); }

/* As of the group, whose journal is not there. */
static const char *const own_names[] = {"Redis is full",      "keys are evicted",
                                        "a value is spoilt",  NULL,
                                        "Redis' clock jumps", "a replica takes over"};
const world world_far = {.name = "far",
                         .cuts = true,
                         .twin = true,
                         .own = 6,
                         .own_names = own_names,
                         .play = player_main,
                         .begin = begin,
                         .happen = happen,
                         .back = back,
                         .heal = heal,
                         .check = check,
                         .ending = ending,
                         .end = end};
