/* Jobs of a daemon, of a Redis and of a group, and ranks, while one of their own allocations or
 * calls to the system fails: they go on or end with a sentence, leak nothing, and the cache serves
 * others as before. */
#include "check.h"
#include "failing_loader.h"
#include "loader_kit.h"
#include "ranks_kit.h"

#include <stdio.h>
#include <string.h>

static larder_loader_conf conf_of(const char *cache, const char *recipe) {
    larder_loader_conf c = kit_conf("mem:?n=40&h=8&w=8&c=3&classes=3", recipe);
    c.cache = cache;
    c.batch = 8;
    c.threads = 1;
    c.prefetch = 2;
    c.epochs = 2;
    return c;
}

static void serves_others(const larder_loader_conf *c) {
    if (live(c) < 0)
        fail_msg("%s, %s: %s", c->cache, c->recipe, larder_errmsg());
}

static void on_a_daemon(void **state) {
    (void)state;
    kit_store store;
    char cache[400];
    static const char *const recipes[] = {"minio", "rotate:h=0.5"};
    kit_store_start(&store, KIT_DAEMON);
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        snprintf(cache, sizeof cache, "unix:%s?budget=%d%%", store.socket, 30 + (int)i);
        larder_loader_conf c = conf_of(cache, recipes[i]);
        goes_on_or_ends(&c);
        serves_others(&c);
    }
    kit_store_stop(&store);
}

static void on_redis(void **state) {
    (void)state;
    kit_store store;
    char cache[400];
    static const char *const how[] = {"", "&shared=group"};
    kit_store_or_skip(KIT_REDIS);
    kit_store_start(&store, KIT_REDIS);
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        snprintf(cache, sizeof cache, "redis://127.0.0.1:%u?budget=30%%&timeout=30s%s",
                 store.redis.port, how[i]);
        larder_loader_conf c = conf_of(cache, "minio");
        goes_on_or_ends(&c);
        serves_others(&c);
    }
    kit_store_stop(&store);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(on_a_daemon), cmocka_unit_test(on_redis)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
