/* The policy app against a slow twin of Algorithm 1: linear search over all residents. */
#include "cache_kit.h"
#include "plugins.h"

#include <math.h>

enum { KEYS = 40, ENTRIES = 10 };

typedef struct twin {
    bool in[KEYS], scored[KEYS];
    float score[KEYS];
    uint32_t count[KEYS];
    int resident;
} twin;

static bool lower(const twin *t, int a, int b) {
    float x = t->scored[a] ? t->score[a] : INFINITY, y = t->scored[b] ? t->score[b] : INFINITY;
    if (x != y)
        return x < y;
    return t->count[a] != t->count[b] ? t->count[a] < t->count[b] : a < b;
}

static bool twin_request(twin *t, int key) {
    t->count[key]++;
    if (t->in[key])
        return true;
    if (t->resident < ENTRIES) {
        t->in[key] = true;
        t->resident++;
        return false;
    }
    int least = -1;
    for (int k = 0; k < KEYS; k++)
        if (t->in[k] && (least < 0 || lower(t, k, least)))
            least = k;
    float bar = t->scored[least] ? t->score[least] : INFINITY;
    if (t->scored[key] && t->score[key] >= bar) {
        t->in[least] = false;
        t->in[key] = true;
    }
    return false;
}

static void follows_algorithm_1(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 30; seed++) {
        twin t = {0};
        larder_rng rng;
        larder_rng_seed(&rng, seed, 1);
        larder__cache *c =
            kit_cache(larder__policy_find("app"), &larder__store_null, KEYS, ENTRIES, 1);
        for (uint64_t i = 0; i < 3000; i++) {
            uint64_t key = larder_rng_below(&rng, KEYS);
            if (larder_rng_below(&rng, 3) == 0) { /* negative ones and ties among them */
                float score = (float)larder_rng_below(&rng, 12) - 4;
                larder__cache_score(c, &key, &score, 1);
                t.score[key] = score;
                t.scored[key] = true;
                continue;
            }
            larder_access a = {.key = key, .now = i, .size = 1, .score = NAN};
            larder__ticket ticket;
            check_ok(larder__cache_claim(c, &a, 1, &ticket));
            assert_int_equal(ticket.kind == LARDER_HIT, twin_request(&t, (int)key));
            for (uint64_t k = 0; k < KEYS; k++)
                assert_int_equal(larder__cache_resident(c, k), t.in[k]);
        }
        larder__cache_close(&c);
    }
}

static bool ask(larder__cache *c, uint64_t key) {
    larder_access a = {.key = key, .size = 1, .score = NAN};
    larder__ticket t;
    check_ok(larder__cache_claim(c, &a, 1, &t));
    return t.kind == LARDER_HIT;
}

/* A score of an id that is not resident is remembered, and opens the door later. */
static void the_ghost_remembers(void **state) {
    (void)state;
    larder__cache *c = kit_cache(larder__policy_find("app"), &larder__store_null, KEYS, 2, 1);
    ask(c, 0);
    ask(c, 1);
    ask(c, 2); /* full, and never scored: stays out */
    assert_false(larder__cache_resident(c, 2));
    const uint64_t keys[] = {0, 1, 2, 3, KEYS + 7};
    const float scores[] = {3, 2, 2, 1, 9};
    larder__cache_score(c, keys, scores, 5);
    ask(c, 3); /* lower than all */
    assert_false(larder__cache_resident(c, 3));
    ask(c, 2); /* as high as the lowest: enough */
    assert_true(larder__cache_resident(c, 2) && !larder__cache_resident(c, 1));
    const float news = 0.5f;
    larder__cache_score(c, keys, &news, 1); /* 0 falls: it is the lowest at once */
    ask(c, 1);
    assert_true(larder__cache_resident(c, 1) && !larder__cache_resident(c, 0));
    larder__cache_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_algorithm_1),
        cmocka_unit_test(the_ghost_remembers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
