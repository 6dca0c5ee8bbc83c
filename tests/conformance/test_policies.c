/* What every registered policy must keep, whatever it decides. A spy stands between the cache and
 * the policy and watches the contract; the cache runs over the null store. */
#include "base/spec.h"
#include "base/state.h"
#include "cache_kit.h"
#include "plugins.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KEYS = 60, REQUESTS = 1200 };

#define each_policy(p)                                                                             \
    for (const larder_policy *const *at_ = larder__policies, *p = *at_; p; p = *++at_)

/* ---- the spy --------------------------------------------------------------------------------- */

static struct {
    const larder_policy *real;
    const larder_slots *slots;
    uint64_t inserts, removes, resizes;
    bool in[KEYS];     /* by slot */
    uint64_t bytes;    /* of all, as entering, growing and leaving told it */
    larder_slot asked; /* the victim just named, which must go next */
} spy;

static int spy_init(void *st, const larder_slots *slots, const larder_args *args) {
    spy.slots = slots;
    return spy.real->init(st, slots, args);
}
static void check_slot(larder_slot s, bool in) {
    assert_true(s < spy.slots->used);
    assert_int_equal(spy.in[s], in);
    assert_true(spy.slots->key_of[s] < spy.slots->keys);
    assert_int_equal(spy.slots->slot_of[spy.slots->key_of[s]], s);
}
/* No size changes without a word. */
static void check_bytes(void) { assert_int_equal(spy.bytes, spy.slots->bytes); }

static void spy_insert(void *st, larder_slot s, const larder_access *a) {
    check_slot(s, false);
    assert_int_equal(spy.slots->key_of[s], a->key);
    spy.in[s] = true;
    spy.bytes += spy.slots->size_of[s];
    check_bytes();
    spy.inserts++;
    spy.real->insert(st, s, a);
}
static void spy_hit(void *st, larder_slot s, const larder_access *a) {
    check_slot(s, true);
    check_bytes();
    spy.real->hit(st, s, a);
}
static void spy_resized(void *st, larder_slot s, uint32_t was) {
    check_slot(s, true);
    assert_true(spy.slots->size_of[s] != was);
    spy.bytes += (uint64_t)spy.slots->size_of[s] - was;
    spy.resizes++;
    check_bytes();
    if (spy.real->resized)
        spy.real->resized(st, s, was);
}
static larder_slot spy_victim(void *st, const larder_access *a) {
    assert_true(spy.slots->resident > 0);
    larder_slot s = spy.real->victim(st, a);
    if (s != LARDER_NO_SLOT)
        check_slot(s, true);
    spy.asked = s;
    return s;
}
static void spy_remove(void *st, larder_slot s, bool evicted) {
    check_slot(s, true);
    if (spy.asked != LARDER_NO_SLOT)
        assert_int_equal(s, spy.asked);
    spy.asked = LARDER_NO_SLOT;
    spy.in[s] = false;
    check_bytes();
    spy.bytes -= spy.slots->size_of[s];
    spy.removes++;
    spy.real->remove(st, s, evicted);
}

static larder_policy spied(const larder_policy *p) {
    memset(&spy, 0, sizeof spy);
    spy.real = p;
    spy.asked = LARDER_NO_SLOT;
    larder_policy copy = *p;
    copy.init = spy_init;
    copy.insert = spy_insert;
    copy.hit = spy_hit;
    copy.victim = spy_victim;
    copy.remove = spy_remove;
    copy.resized = spy_resized;
    return copy;
}

/* ---- requests -------------------------------------------------------------------------------- */

typedef enum { SAMPLES, ROWS } what; /* constant sizes by key, or rows that grow */

static void draw_requests(larder_access *a, size_t len, uint64_t n, what w, uint64_t seed) {
    uint64_t keys[REQUESTS], next_use[REQUESTS];
    larder_rng rng;
    larder_rng_seed(&rng, seed, 5);
    kit_trace((kit_kind)(seed % KIT_KINDS), &rng, n, keys, len);
    kit_future(keys, len, next_use);
    for (size_t i = 0; i < len; i++) {
        uint32_t size = w == SAMPLES ? 3 + (uint32_t)(keys[i] % 9)
                                     : 4 * (1 + (uint32_t)(i / 100) + larder_rng_below(&rng, 5));
        a[i] = (larder_access){.key = keys[i],
                               .now = i,
                               .next_use = next_use[i],
                               .size = size,
                               .score = i % 3 ? NAN : (float)larder_rng_unit(&rng)};
    }
}

static uint64_t digest_of(const larder__cache *c) {
    const larder_slots *s = larder__cache_slots(c);
    uint64_t h = s->bytes;
    for (uint64_t k = 0; k < s->keys; k++)
        h = h * 0x100000001b3u ^ s->slot_of[k];
    return h;
}

static void check_budget(larder__cache *c, uint64_t budget) {
    const larder_slots *s = larder__cache_slots(c);
    uint64_t bytes = 0, resident = 0;
    for (uint64_t k = 0; k < s->keys; k++)
        if (s->slot_of[k] != LARDER_NO_SLOT) {
            bytes += s->size_of[s->slot_of[k]];
            resident++;
        }
    assert_int_equal(bytes, s->bytes);
    assert_int_equal(resident, s->resident);
    assert_true(bytes <= budget);
    larder__cache_figures f;
    larder__cache_read_figures(c, &f);
    assert_int_equal(f.resident, resident);
    assert_int_equal(f.resident_bytes, bytes);
    assert_int_equal(f.requests, f.hits + f.misses + f.substitutes);
}

/* ---- the suite ------------------------------------------------------------------------------- */

static void test_contract(void **st) {
    (void)st;
    uint64_t resizes = 0;
    each_policy(p) for (uint64_t seed = 0; seed < 40; seed++) {
        larder_access a[REQUESTS];
        larder__ticket t;
        uint64_t budget = 20 + 13 * seed;
        draw_requests(a, REQUESTS, KEYS, seed % 2 ? ROWS : SAMPLES, seed);
        larder_policy watched = spied(p);
        larder__cache *c = kit_cache(&watched, &larder__store_null, KEYS, budget, seed);
        for (size_t i = 0; i < REQUESTS; i++) {
            check_ok(larder__cache_claim(c, &a[i], 1, &t));
            assert_int_equal(t.task, LARDER__READY);
            check_budget(c, budget);
            assert_int_equal(spy.inserts - spy.removes, larder__cache_slots(c)->resident);
        }
        larder__cache_figures f;
        larder__cache_read_figures(c, &f);
        assert_int_equal(f.requests, REQUESTS);
        assert_int_equal(f.insertions, spy.inserts);
        assert_int_equal(f.evictions, spy.removes);
        resizes += spy.resizes;
        larder__cache_close(&c);
    }
    assert_true(resizes > REQUESTS);
}

static uint64_t run_all(const larder_policy *p, larder_access *a, uint64_t seed, size_t step) {
    larder__cache *c = kit_cache(p, &larder__store_null, KEYS, 200, seed);
    larder__ticket t[32];
    uint64_t h = 0;
    for (size_t i = 0; i < REQUESTS; i += step) {
        check_ok(larder__cache_claim(c, a + i, step, t));
        for (size_t k = 0; k < step; k++)
            h = h * 31 + t[k].kind;
    }
    h ^= digest_of(c);
    larder__cache_close(&c);
    return h;
}

static void test_same_seed_same_result(void **st) {
    (void)st;
    larder_access a[REQUESTS];
    draw_requests(a, REQUESTS, KEYS, SAMPLES, 6); /* zipf */
    each_policy(p) {
        uint64_t first = run_all(p, a, 9, 1);
        assert_int_equal(run_all(p, a, 9, 1), first);
        assert_int_equal(run_all(p, a, 9, 24), first); /* batching changes nothing */
    }
    const larder_policy *chance = larder__policy_find("random");
    assert_int_not_equal(run_all(chance, a, 9, 1), run_all(chance, a, 10, 1));
}

static void test_resume(void **st) {
    (void)st;
    each_policy(p) for (uint64_t seed = 0; seed < 20; seed++) {
        larder_access a[REQUESTS];
        draw_requests(a, REQUESTS, KEYS, seed % 2 ? ROWS : SAMPLES, seed);
        larder__cache *c = kit_cache(p, &larder__store_null, KEYS, 250, seed);
        larder__ticket t, u;
        size_t at = seed * 47;
        for (size_t i = 0; i < at; i++)
            check_ok(larder__cache_claim(c, &a[i], 1, &t));
        larder__cache *d = kit_cache(p, &larder__store_null, KEYS, 250, seed + 1000);
        kit_copy_state(c, d);
        for (size_t i = at; i < REQUESTS; i++) {
            assert_int_equal(digest_of(c), digest_of(d));
            check_ok(larder__cache_claim(c, &a[i], 1, &t));
            check_ok(larder__cache_claim(d, &a[i], 1, &u));
            assert_int_equal(t.kind, u.kind);
        }
        assert_int_equal(digest_of(c), digest_of(d));
        larder__cache_close(&c);
        larder__cache_close(&d);
    }
}

/* The saved bytes with each word replaced by hostile ones: rejected, or taken and then harmless. */
static void test_load_hostile(void **st) {
    (void)st;
    static const uint32_t hostile[] = {0, 1, 7, KEYS - 1, KEYS, 0x7fffffff, 0xfffffffe, 0xffffffff};
    larder_access a[REQUESTS];
    draw_requests(a, REQUESTS, KEYS, ROWS, 2);
    each_policy(p) {
        larder__cache *c = kit_cache(p, &larder__store_null, KEYS, 250, 1);
        larder__ticket t[24];
        check_ok(larder__cache_claim(c, a, 24, t));
        for (size_t i = 24; i < 480; i += 24)
            check_ok(larder__cache_claim(c, a + i, 24, t));
        larder_writer w = {0};
        larder__cache_save(c, &w);
        larder__cache_close(&c);
        for (size_t at = 0; at + 4 <= w.size; at++)
            for (size_t h = 0; h < sizeof hostile / sizeof *hostile; h++) {
                unsigned char was[4];
                memcpy(was, w.bytes + at, 4);
                memcpy(w.bytes + at, &hostile[h], 4);
                size_t cut = h == 2 ? at : w.size; /* one of them: cut short instead */
                larder_reader r = {.at = w.bytes, .end = w.bytes + cut};
                c = kit_cache(p, &larder__store_null, KEYS, 250, 1);
                if (larder__cache_load(c, &r) == 0) {
                    assert_int_equal(h == 2, false);
                    check_budget(c, 250); /* must be sound, whoever wrote it */
                    for (size_t i = 480; i < 720; i += 24)
                        check_ok(larder__cache_claim(c, a + i, 24, t));
                    assert_true(larder__cache_slots(c)->bytes <= 250);
                }
                larder__cache_close(&c);
                memcpy(w.bytes + at, was, 4);
            }
        larder__writer_free(&w);
    }
}

static void test_load_of_another(void **st) {
    (void)st;
    each_policy(p) {
        larder__cache *c = kit_cache(p, &larder__store_null, KEYS, 250, 1);
        larder_access a = {.key = 3, .size = 10};
        larder__ticket t;
        check_ok(larder__cache_claim(c, &a, 1, &t));
        larder_writer w = {0};
        larder__cache_save(c, &w);
        larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
        assert_int_equal(larder__cache_load(c, &r), LARDER_E_STATE); /* not empty */
        larder__cache_close(&c);
        c = kit_cache(p, &larder__store_null, KEYS + 1, 250, 1);
        r = (larder_reader){.at = w.bytes, .end = w.bytes + w.size};
        assert_int_equal(larder__cache_load(c, &r), LARDER_E_FORMAT);
        larder__cache_close(&c);
        c = kit_cache(p, &larder__store_null, KEYS, 9, 1);
        r = (larder_reader){.at = w.bytes, .end = w.bytes + w.size};
        assert_int_equal(larder__cache_load(c, &r), LARDER_E_FORMAT); /* too small for it */
        larder__cache_close(&c);
        const larder_policy *other = at_[1] ? at_[1] : larder__policies[0];
        c = kit_cache(other, &larder__store_null, KEYS, 250, 1);
        r = (larder_reader){.at = w.bytes, .end = w.bytes + w.size};
        assert_int_equal(larder__cache_load(c, &r), LARDER_E_FORMAT);
        larder__cache_close(&c);
        larder__writer_free(&w);
    }
}

/* A sample of fixed size and a row asked for at its full length are the same to a policy: rows that
 * are asked for shorter in between change nothing but what is a hit. */
static void test_samples_and_rows_alike(void **st) {
    (void)st;
    larder_access a[REQUESTS], b[REQUESTS];
    for (uint64_t seed = 0; seed < 10; seed++) {
        draw_requests(a, REQUESTS, KEYS, SAMPLES, seed);
        for (size_t i = 0; i < REQUESTS; i++) {
            a[i].size = 12;
            b[i] = a[i];
        }
        each_policy(p) {
            larder__cache *c = kit_cache(p, &larder__store_null, KEYS, 240, seed);
            larder__cache *d = kit_cache(p, &larder__store_null, KEYS, 240, seed);
            larder__ticket t, u;
            for (size_t i = 0; i < REQUESTS; i++) {
                check_ok(larder__cache_claim(c, &a[i], 1, &t));
                b[i].size = larder__cache_resident(d, b[i].key) ? 1 + (uint32_t)(i % 12) : 12;
                check_ok(larder__cache_claim(d, &b[i], 1, &u));
                assert_int_equal(t.kind, u.kind);
                assert_int_equal(digest_of(c), digest_of(d));
            }
            larder__cache_close(&c);
            larder__cache_close(&d);
        }
    }
}

static void test_edges(void **st) {
    (void)st;
    each_policy(p) {
        larder__ticket t;
        larder__cache *c = kit_cache(p, &larder__store_null, 0, 100, 1); /* no keys at all */
        larder_access a = {.key = 0, .size = 1, .next_use = LARDER_UNKNOWN};
        assert_int_equal(larder__cache_claim(c, &a, 1, &t), LARDER_E_RANGE);
        check_ok(larder__cache_claim(c, &a, 0, &t));
        larder__cache *d = kit_cache(p, &larder__store_null, 0, 100, 1);
        kit_copy_state(c, d);
        larder__cache_close(&d);
        larder__cache_close(&c);

        c = kit_cache(p, &larder__store_null, 1, 10, 1); /* one key */
        for (uint64_t i = 0; i < 50; i++) {
            a = (larder_access){.key = 0, .now = i, .next_use = i + 1, .size = 10};
            check_ok(larder__cache_claim(c, &a, 1, &t));
            assert_int_equal(t.kind, i ? LARDER_HIT : LARDER_MISS);
        }
        a.size = 11; /* it cannot grow that far: made, not kept */
        check_ok(larder__cache_claim(c, &a, 1, &t));
        assert_int_equal(t.kind, LARDER_MISS);
        check_budget(c, 10);
        larder__cache_close(&c);

        const uint64_t budgets[] = {0, 9}; /* nothing, and less than one sample */
        for (int b = 0; b < 2; b++) {
            c = kit_cache(p, &larder__store_null, KEYS, budgets[b], 1);
            for (uint64_t i = 0; i < 200; i++) {
                a = (larder_access){.key = i % KEYS, .now = i, .next_use = i + KEYS, .size = 10};
                check_ok(larder__cache_claim(c, &a, 1, &t));
                assert_int_equal(t.kind, LARDER_MISS);
                check_budget(c, budgets[b]);
            }
            larder__cache_close(&c);
        }
    }
}

/* Feedback and boundaries at any time, for policies that want them and those that do not. */
static void test_hooks(void **st) {
    (void)st;
    larder_access a[REQUESTS];
    draw_requests(a, REQUESTS, KEYS, ROWS, 1);
    each_policy(p) {
        larder_policy watched = spied(p);
        larder__cache *c = kit_cache(&watched, &larder__store_null, KEYS, 300, 1);
        larder__ticket t;
        for (size_t i = 0; i < REQUESTS; i++) {
            const uint64_t keys[] = {a[i].key, i % KEYS, KEYS + 5, UINT64_MAX};
            const float scores[] = {(float)i, NAN, INFINITY, -1};
            check_ok(larder__cache_claim(c, &a[i], 1, &t));
            larder__cache_score(c, keys, scores, 4);
            if (i % 32 == 31)
                larder__cache_batch(c);
            if (i % KEYS == KEYS - 1)
                larder__cache_epoch(c, i / KEYS + 1);
            check_budget(c, 300);
        }
        larder__cache_close(&c);
    }
}

/* Zero bytes cost nothing and must not stall the search for room. */
static void test_empty_entries(void **st) {
    (void)st;
    each_policy(p) {
        larder__cache *c = kit_cache(p, &larder__store_null, KEYS, 20, 1);
        larder__ticket t;
        for (uint64_t i = 0; i < 600; i++) {
            larder_access a = {.key = i * 7 % KEYS, .now = i, .next_use = i + KEYS};
            a.size = a.key % 3 ? 0 : 10;
            check_ok(larder__cache_claim(c, &a, 1, &t));
            check_budget(c, 20);
        }
        larder__cache_close(&c);
    }
}

static void test_described(void **st) {
    (void)st;
    each_policy(p) {
        assert_true(p->plugin.summary && strlen(p->plugin.summary) > 10);
        assert_true(p->slot_size <= 24);
        assert_int_equal(!p->save, !p->load);
        if (p->hears && !p->hears->score)
            assert_true(!p->hears->ghost && !p->hears->offer && !p->hears->listens);
        assert_true(!p->brings || p->brings->fetch);
        assert_true(!p->shows || !p->shows->figures || p->shows->figure);
        assert_ptr_equal(larder__policy_find(p->plugin.name), p);
    }
}

/* The random policy's victims are uniform over the residents: chi-square over who leaves first. */
static void test_random_is_uniform(void **st) {
    (void)st;
    const larder_policy *p = larder__policy_find("random");
    enum { N = 20, ROUNDS = 20000 };
    uint64_t left[N] = {0};
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        larder__cache *c = kit_cache(p, &larder__store_null, N + 1, N, seed);
        larder__ticket t;
        for (uint64_t k = 0; k <= N; k++) {
            larder_access a = {.key = k, .size = 1};
            check_ok(larder__cache_claim(c, &a, 1, &t));
        }
        for (uint64_t k = 0; k < N; k++)
            left[k] += !larder__cache_resident(c, k);
        larder__cache_close(&c);
    }
    double chi = 0, expect = (double)ROUNDS / N;
    for (int k = 0; k < N; k++)
        chi += ((double)left[k] - expect) * ((double)left[k] - expect) / expect;
    assert_true(chi < 43.8); /* 19 degrees of freedom, p = 0.001 */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contract),
        cmocka_unit_test(test_same_seed_same_result),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_load_hostile),
        cmocka_unit_test(test_load_of_another),
        cmocka_unit_test(test_samples_and_rows_alike),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_hooks),
        cmocka_unit_test(test_empty_entries),
        cmocka_unit_test(test_described),
        cmocka_unit_test(test_random_is_uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
