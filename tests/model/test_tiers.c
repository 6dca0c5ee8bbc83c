/* Two tiers of one cache against their rules written out plainly: who lies in front, that neither
 * tier ever holds more than it may, and that saved state goes on exactly. */
#include "base/spec.h"
#include "base/state.h"
#include "cache/local.h"
#include "check.h"
#include "plugins.h"

#include <stdlib.h>
#include <string.h>

enum { KEYS = 240, STEPS = 6000 };

typedef struct twin { /* by key */
    bool here[KEYS], front[KEYS];
    unsigned wanted[KEYS];
    uint64_t front_bytes, back_bytes;
    uint32_t hand; /* a slot */
} twin;

static uint32_t size_of(uint64_t key, bool even) {
    return even ? 100 : 60 + (uint32_t)(key * 7919 % 120);
}

static larder__cache *open_cache(const larder__tiers *t) {
    const larder_policy *policy = larder__policy_find("lru");
    larder_args args = {0};
    larder__cache *c;
    check_ok(larder__args_parse(&args, "policy", &policy->plugin, "", ',', NULL));
    check_ok(larder__cache_open(
        &c, &(larder__cache_conf){.policy = policy,
                                  .args = &args,
                                  .store = &larder__store_null,
                                  .keys = KEYS,
                                  .budget = t->back + (t->inclusive ? 0 : t->front),
                                  .tiers = t,
                                  .seed = 3}));
    larder__args_free(&args);
    return c;
}

static void move(twin *w, uint64_t key, uint32_t size, bool to_front) {
    w->front[key] = to_front;
    w->front_bytes += to_front ? size : (uint64_t)0 - size;
}

/* Those in front whom the hand passes give way to who was wanted twice more; it looks at 64. */
static void come_forward(twin *w, const larder_slots *s, const larder__tiers *t, uint64_t key,
                         bool even) {
    uint32_t size = size_of(key, even);
    while (w->front_bytes + size > t->front) {
        uint32_t looked = 0, there = UINT32_MAX;
        while (looked++ < 64 && there == UINT32_MAX) {
            w->hand = (w->hand + 1) % s->used;
            if (s->key_of[w->hand] != UINT32_MAX && w->front[s->key_of[w->hand]])
                there = s->key_of[w->hand];
        }
        if (there == UINT32_MAX || w->wanted[key] < w->wanted[there] + 2)
            return;
        move(w, there, size_of(there, even), false);
    }
    move(w, key, size, true);
}

static void ask(twin *w, larder__cache *c, const larder__tiers *t, uint64_t key, uint64_t now,
                bool even) {
    const larder_slots *s = larder__cache_slots(c);
    twin before = *w;
    larder__ticket ticket;
    uint32_t size = size_of(key, even);
    larder_access a = {.key = key, .now = now, .next_use = LARDER_UNKNOWN, .size = size};
    check_ok(larder__cache_claim(c, &a, 1, &ticket));
    bool left = false;
    for (uint64_t k = 0; k < KEYS; k++) {
        if (!w->here[k] || larder__cache_resident(c, k))
            continue;
        uint32_t gone = size_of(k, even);
        w->here[k] = false;
        w->front_bytes -= w->front[k] ? gone : 0;
        w->back_bytes -= !w->front[k] || t->inclusive ? gone : 0;
        w->front[k] = false;
        left = true;
    }
    assert_int_equal(ticket.kind, before.here[key] ? LARDER_HIT : LARDER_MISS);
    assert_int_equal(ticket.front, before.here[key] && before.front[key]);
    if (left && !t->inclusive) /* nobody has to leave while there is room */
        assert_true(before.front_bytes + size > t->front && before.back_bytes + size > t->back);
    if (before.here[key] && t->inclusive) {
        if (++w->wanted[key] == 255)
            for (uint64_t k = 0; k < KEYS; k++)
                w->wanted[k] /= 2;
        if (!w->front[key])
            come_forward(w, s, t, key, even);
    } else if (!before.here[key] && larder__cache_resident(c, key)) {
        w->here[key] = true;
        w->wanted[key] = 1;
        w->front[key] = w->front_bytes + size <= t->front;
        w->front_bytes += w->front[key] ? size : 0;
        w->back_bytes += !w->front[key] || t->inclusive ? size : 0;
    }
}

static uint64_t run(const larder__tiers *t, uint64_t seed, bool even, bool skewed) {
    larder__cache *c = open_cache(t);
    larder__cache_figures f = {0};
    twin w = {0};
    larder_rng rng;
    uint64_t front_hits = 0, all = 0;
    larder_rng_seed(&rng, seed, 1);
    for (uint64_t i = 1; i <= STEPS; i++) {
        uint64_t key = larder_rng_below(&rng, KEYS);
        if (skewed)
            key = key * larder_rng_below(&rng, KEYS) / KEYS * larder_rng_below(&rng, KEYS) / KEYS;
        bool was = w.here[key] && w.front[key];
        ask(&w, c, t, key, i, even);
        front_hits += was;
        all += was;
        larder__cache_read_figures(c, &f);
        assert_int_equal(f.front_bytes, w.front_bytes);
        assert_int_equal(f.back_bytes, w.back_bytes);
        assert_int_equal(f.front_hits, front_hits);
        assert_true(f.front_bytes <= t->front && f.back_bytes <= t->back);
        if (i % 997 == 0) { /* goes on from what was saved */
            larder_writer save = {0};
            larder__cache_save(c, &save);
            check_ok(save.code);
            larder__cache_close(&c);
            c = open_cache(t);
            larder_reader in = {.at = save.bytes, .end = save.bytes + save.size};
            check_ok(larder__cache_load(c, &in));
            larder__writer_free(&save);
            front_hits = 0;
        }
    }
    larder__cache_close(&c);
    return all;
}

static void test_rules(void **unused) {
    (void)unused;
    uint64_t seeds = getenv("LARDER_LONG") ? 20 : 2;
    for (uint64_t seed = 1; seed <= seeds; seed++)
        for (int k = 0; k < 8; k++) {
            larder__tiers t = {.front = 1500, .back = 7000, .inclusive = k & 1};
            assert_true(run(&t, seed, k & 2, k & 4) > 0);
        }
    run(&(larder__tiers){.front = 50, .back = 5000, .inclusive = true}, 1, true, true);
    run(&(larder__tiers){.front = 9000, .back = 5000, .inclusive = true}, 1, false, true);
    run(&(larder__tiers){.front = 9000, .back = 50}, 1, false, true);
}

/* State of one sort of tiers does not go into another. */
static void test_other_tiers(void **unused) {
    (void)unused;
    static const larder__tiers of[] = {{.front = 1000, .back = 3000},
                                       {.front = 1000, .back = 4000, .inclusive = true},
                                       {0, 4000, 0}};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            larder__cache *from = open_cache(&of[i]), *to = open_cache(&of[k]);
            larder_writer save = {0};
            for (uint64_t key = 0; key < 30; key++) {
                larder__ticket t;
                larder_access a = {.key = key, .now = key + 1, .size = 100};
                check_ok(larder__cache_claim(from, &a, 1, &t));
            }
            larder__cache_save(from, &save);
            larder_reader in = {.at = save.bytes, .end = save.bytes + save.size};
            assert_true((larder__cache_load(to, &in) == 0) == (i == k));
            larder__writer_free(&save);
            larder__cache_close(&from);
            larder__cache_close(&to);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_other_tiers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
