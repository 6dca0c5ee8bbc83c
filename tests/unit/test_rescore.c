/* Many scores given at once while others ask for entries: each reaches the policy exactly once, in
 * order, whoever does the work, and all have when the call returns. */
#include "check.h"

#include "base/mem.h"
#include "cache/local.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { KEYS = 20000, RESIDENT = 15000 };

typedef struct note { /* of each key */
    uint32_t times;
    float last;
} note;

static note heard[KEYS];
static uint64_t heard_in_all, out_of_order, last_key;
static const larder_slots *slots;

static int init(void *st, const larder_slots *s, const larder_args *args) {
    (void)st, (void)args;
    slots = s;
    return 0;
}
static void insert(void *st, larder_slot s, const larder_access *a) { (void)st, (void)s, (void)a; }
static larder_slot victim(void *st, const larder_access *a) {
    (void)st, (void)a;
    return LARDER_NO_SLOT;
}
static void leave(void *st, larder_slot s, bool evicted) { (void)st, (void)s, (void)evicted; }
static void hear(void *st, uint64_t key, float value) {
    (void)st;
    heard[key].times++;
    heard[key].last = value;
    heard_in_all++;
    out_of_order += heard_in_all > 1 && key != (last_key + 1) % KEYS;
    last_key = key;
}
static void score(void *st, larder_slot s, float value) { hear(st, slots->key_of[s], value); }

static const larder_policy listener = {
    .plugin = {.name = "listener", .state_size = 1},
    .init = init,
    .insert = insert,
    .hit = insert,
    .victim = victim,
    .remove = leave,
    .hears = &(const larder_policy_hears){.score = score, .ghost = hear}};

typedef struct world {
    larder__cache *cache;
    _Atomic int stop;
} world;

static void *ask(void *arg) {
    world *w = arg;
    for (uint64_t i = 0; !atomic_load(&w->stop); i++) {
        larder_access a[8];
        larder__ticket t[8];
        for (uint64_t k = 0; k < 8; k++)
            a[k] = (larder_access){.key = (i * 8 + k) % KEYS, .size = 1};
        if (larder__cache_claim(w->cache, a, 8, t) < 0)
            return arg;
    }
    return NULL;
}

static void rescore(int askers) {
    world w = {0};
    larder__cache_conf conf = {
        .policy = &listener, .store = &larder__store_null, .keys = KEYS, .budget = RESIDENT};
    check_ok(larder__cache_open(&w.cache, &conf));
    static uint64_t keys[KEYS];
    static float scores[KEYS];
    for (uint64_t k = 0; k < KEYS; k++) {
        larder_access a = {.key = k, .size = 1};
        larder__ticket t;
        check_ok(larder__cache_claim(w.cache, &a, 1, &t));
        keys[k] = k;
    }
    memset(heard, 0, sizeof heard);
    heard_in_all = out_of_order = 0;
    pthread_t threads[2];
    for (int i = 0; i < askers; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &w), 0);
    for (uint32_t round = 1; round <= 5; round++) {
        for (uint64_t k = 0; k < KEYS; k++)
            scores[k] = (float)(k + round);
        larder__cache_score(w.cache, keys, scores, KEYS);
        assert_int_equal(heard_in_all, (uint64_t)round * KEYS);
        for (uint64_t k = 0; k < KEYS; k++) {
            assert_int_equal(heard[k].times, round);
            assert_true(heard[k].last == (float)(k + round));
        }
    }
    atomic_store(&w.stop, 1);
    for (int i = 0; i < askers; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
    assert_int_equal(out_of_order, 0);
    larder__cache_close(&w.cache);
}

static void nobody_asks(void **state) {
    (void)state;
    rescore(0);
}

static void others_ask_meanwhile(void **state) {
    (void)state;
    rescore(1);
    rescore(2);
}

static void nothing_to_say(void **state) {
    (void)state;
    larder__cache *c;
    larder__cache_conf conf = {
        .policy = &listener, .store = &larder__store_null, .keys = 4, .budget = 4};
    check_ok(larder__cache_open(&c, &conf));
    heard_in_all = 0;
    larder__cache_score(c, NULL, NULL, 0);
    assert_int_equal(heard_in_all, 0);
    larder__cache_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_asks),
                                       cmocka_unit_test(others_ask_meanwhile),
                                       cmocka_unit_test(nothing_to_say)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
