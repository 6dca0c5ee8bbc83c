/* Plug-ins that say what cannot be: a victim that is no resident, keys and ids there are none of.
 * The cache goes on serving what it decided, its tables stay whole, and the next claim fails with a
 * sentence that names the plug-in. */
#include "cache_kit.h"

#include "loader/draw/draw_inside.h"
#include "plugins.h"

#include <math.h>
#include <string.h>

enum { KEYS = 64, ROOM = 8, SIZE = 16 };

/* ---- a policy that is right until it is told to be wrong ------------------------------------- */

typedef enum { RIGHT, BEYOND, EMPTY, KEPT } wrong; /* which slot it names */
static wrong names;
static uint64_t says; /* the key that it picks, fetches, exchanges or lets stand in */
static size_t counts; /* how many it fetches */

static larder_slot bad_victim(void *st, const larder_access *a) {
    (void)st;
    (void)a;
    static const larder_slot of[] = {0, KEYS + 5, ROOM, UINT32_MAX - 1};
    return of[names];
}

static int init(void *st, const larder_slots *slots, const larder_args *args) {
    (void)st;
    (void)slots;
    (void)args;
    return 0;
}
static void entered(void *st, larder_slot s, const larder_access *a) {
    (void)st;
    (void)s;
    (void)a;
}
static void left(void *st, larder_slot s, bool evicted) {
    (void)st;
    (void)s;
    (void)evicted;
}
static bool bad_pick(void *st, larder_rng *rng, uint64_t *key) {
    (void)st;
    (void)rng;
    *key = says;
    return true;
}
static size_t bad_fetch(void *st, uint64_t *keys, size_t max) {
    (void)st;
    if (max)
        keys[0] = says;
    return counts;
}
static void bad_exchange(void *st, uint32_t job, larder_rng *rng, const uint64_t *wanted, size_t n,
                         uint64_t *served) {
    (void)st;
    (void)job;
    (void)rng;
    (void)wanted;
    for (size_t i = 0; i < n; i++)
        served[i] = says;
}
static bool bad_stand_in(void *st, const larder_access *a, uint64_t *other) {
    (void)st;
    (void)a;
    *other = says;
    return says != UINT64_MAX;
}

static const larder_policy bad = {
    .plugin = {.name = "crooked", .summary = "wrong on purpose"},
    .init = init,
    .insert = entered,
    .hit = entered,
    .victim = bad_victim,
    .remove = left,
    .brings = &(const larder_policy_brings){.fetch = bad_fetch},
    .lends = &(const larder_policy_lends){.pick = bad_pick, .stand_in = bad_stand_in},
    .shares = &(const larder_policy_shares){.exchange = bad_exchange}};

static larder__cache *open_bad(void) {
    names = RIGHT;
    says = UINT64_MAX;
    counts = 0;
    return kit_cache(&bad, &larder__store_null, KEYS, ROOM * SIZE, 1);
}

static int ask(larder__cache *c, uint64_t from, size_t n) {
    larder_access a[KEYS];
    larder__ticket t[KEYS];
    for (size_t i = 0; i < n; i++)
        a[i] = (larder_access){
            .key = from + i, .size = SIZE, .next_use = LARDER_UNKNOWN, .score = NAN};
    return larder__cache_claim(c, a, n, t);
}

static void is_named(larder__cache *c, const char *what) {
    assert_int_equal(ask(c, 0, 1), LARDER_E_STATE);
    assert_non_null(strstr(larder_errmsg(), "policy \"crooked\""));
    assert_non_null(strstr(larder_errmsg(), what));
    assert_int_equal(ask(c, 0, 1), LARDER_E_STATE); /* and it stays so */
    larder__cache_close(&c);
}

static void victims_are_checked(void **state) {
    (void)state;
    for (wrong w = BEYOND; w <= KEPT; w++) {
        larder__cache *c = open_bad();
        check_ok(ask(c, 0, ROOM)); /* full */
        names = w;
        check_ok(ask(c, ROOM, 4)); /* nobody leaves, nobody enters */
        larder__cache_figures f;
        larder__cache_read_figures(c, &f);
        assert_int_equal(f.resident, ROOM);
        assert_int_equal(f.resident_bytes, ROOM * SIZE);
        is_named(c, "victim");
    }
}

static void a_slot_cannot_leave_twice(void **state) {
    (void)state;
    larder__cache *c = open_bad();
    check_ok(ask(c, 0, ROOM));
    larder_access big = {.key = 40, .size = 3 * SIZE, .next_use = LARDER_UNKNOWN, .score = NAN};
    larder__ticket t;
    check_ok(larder__cache_claim(c, &big, 1, &t)); /* slot 0 leaves, then it is named again */
    assert_int_equal(t.kind, LARDER_MISS);
    is_named(c, "slot 0 as its victim, which is empty");
}

static void picks_are_checked(void **state) {
    (void)state;
    static const uint64_t keys[] = {ROOM + 1, KEYS, UINT64_MAX - 1};
    for (size_t i = 0; i < 3; i++) {
        larder__cache *c = open_bad();
        check_ok(ask(c, 0, ROOM));
        larder_rng rng;
        larder_rng_seed(&rng, 1, 1);
        uint64_t key;
        says = 3;
        assert_true(larder__cache_pick(c, &rng, &key));
        says = keys[i];
        assert_false(larder__cache_pick(c, &rng, &key));
        is_named(c, "picked key");
    }
}

static void fetches_are_checked(void **state) {
    (void)state;
    uint64_t keys[4] = {0};
    larder__cache *c = open_bad();
    says = KEYS;
    counts = 1;
    assert_int_equal(larder__cache_fetch(c, keys, 4), 0);
    is_named(c, "fetched key 64 of 64");
    c = open_bad();
    says = 1;
    counts = 5;
    assert_int_equal(larder__cache_fetch(c, keys, 4), 0);
    is_named(c, "fetched 5 keys where 4 were asked for");
}

static void exchanges_are_checked(void **state) {
    (void)state;
    larder__cache *c = open_bad();
    uint64_t wanted[3] = {1, 2, 3}, served[3];
    says = KEYS + 1;
    larder__cache_exchange(c, 0, wanted, 3, served);
    assert_memory_equal(wanted, served, sizeof wanted);
    is_named(c, "exchanged key 65 of 64");
}

static void stand_ins_are_checked(void **state) {
    (void)state;
    static const uint64_t keys[] = {ROOM + 1, KEYS};
    for (size_t i = 0; i < 2; i++) {
        larder__cache *c = open_bad();
        check_ok(ask(c, 0, ROOM));
        says = keys[i];
        check_ok(ask(c, ROOM, 1));
        is_named(c, "stand in");
    }
}

/* ---- a sampler ------------------------------------------------------------------------------- */

static size_t drawn;
static uint64_t id;
static const larder_sampler *honest;

static size_t bad_draw(void *st, larder_pick *out, size_t want) {
    size_t n = honest->draw(st, out, want);
    if (n)
        out[n - 1].id = id;
    return drawn ? drawn : n;
}

static void draws_are_checked(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        larder__cache_text cache;
        check_ok(larder__cache_text_parse(&cache, "30%", ""));
        larder__draw_conf conf = {.recipe = "minio",
                                  .cache = &cache,
                                  .store = &larder__store_null,
                                  .n = 100,
                                  .payload = 800,
                                  .size = 8,
                                  .batch = 10,
                                  .world = 1,
                                  .lag = 4};
        larder__draw *d = NULL;
        larder__planned p;
        check_ok(larder__draw_open(&d, &conf));
        check_ok(larder__planned_open(&p, d));
        honest = d->recipe.sampler;
        larder_sampler crooked = *honest;
        crooked.plugin.name = "crooked";
        crooked.draw = bad_draw;
        d->recipe.sampler = &crooked;
        id = i == 0 ? 99 : 100;
        drawn = i == 2 ? 11 : 0;
        int rc = larder__draw_next(d, &p);
        if (i == 0)
            check_ok(rc);
        else {
            assert_int_equal(rc, LARDER_E_STATE);
            assert_non_null(strstr(larder_errmsg(), "sampler \"crooked\" drew"));
        }
        larder__planned_close(&p);
        larder__draw_close(&d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(victims_are_checked),   cmocka_unit_test(a_slot_cannot_leave_twice),
        cmocka_unit_test(picks_are_checked),     cmocka_unit_test(fetches_are_checked),
        cmocka_unit_test(exchanges_are_checked), cmocka_unit_test(stand_ins_are_checked),
        cmocka_unit_test(draws_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
