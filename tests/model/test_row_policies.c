/* hcst, its guard, and kkt as the row cache drives them (rounds, offers, fresh scores), against
 * slow twins written from the definitions: arrays by key and linear scans. Entries have one size.
 * Kinds are compared request by request, residents after every round, switches at the end. */
#include "base/spec.h"
#include "cache_kit.h"
#include "plugins.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KEYS = 60, ROUNDS = 60, MOST = 16, NOBODY = -1, MOST_SWITCHES = 200 };
enum { LRU, LFU, EFU, PATIENT, RULES };
static const char *const names[RULES] = {"lru", "lfu", "efu", "patient"};

typedef struct model {
    int n, s; /* keys, entries that fit */
    uint64_t clock;
    bool in[KEYS];
    uint32_t count[KEYS];
    uint64_t used[KEYS]; /* order of accesses as the cache sees them */
    uint64_t last[KEYS]; /* request number + 1 */
    float dist[KEYS];
    /* hcst */
    double lambda;
    bool guard;
    int rule, rounds, window, asked;
    uint64_t hits, near, saved;
    bool shadow[RULES][KEYS];
    double remembered[RULES];
    uint64_t round_hits[RULES];
    int switched_to[MOST_SWITCHES], switched_at[MOST_SWITCHES], switches;
} model;

static int residents(const bool *in, int n) {
    int count = 0;
    for (int k = 0; k < n; k++)
        count += in[k];
    return count;
}

/* Who leaves `in` for `key` under a rule, all counts and uses being known. */
static int leaves(const model *m, const bool *in, int rule, int key) {
    int v = NOBODY;
    for (int k = 0; k < m->n; k++) {
        bool before = v == NOBODY || (rule != LRU && m->count[k] < m->count[v]) ||
                      ((rule == LRU || m->count[k] == m->count[v]) && m->used[k] < m->used[v]);
        if (in[k] && before)
            v = k;
    }
    uint32_t margin = rule == PATIENT ? 2 : 1;
    return rule < EFU || m->count[key] >= m->count[v] + margin ? v : NOBODY;
}

static void enter(const model *m, bool *in, int rule, int key) {
    if (residents(in, m->n) >= m->s) {
        int v = leaves(m, in, rule, key);
        if (v == NOBODY)
            return;
        in[v] = false;
    }
    in[key] = true;
}

static void use(model *m, int key) {
    m->count[key]++;
    m->used[key] = ++m->clock;
}

static void hcst_access(model *m, int key, uint64_t now) {
    use(m, key);
    m->asked++;
    m->hits += m->in[key];
    m->near += m->last[key] && now + 1 - m->last[key] < (uint64_t)m->s;
    m->last[key] = now + 1;
    for (int r = 0; m->guard && r < RULES; r++) {
        if (m->shadow[r][key])
            m->round_hits[r]++;
        else
            enter(m, m->shadow[r], r, key);
    }
    if (!m->in[key])
        enter(m, m->in, m->rule, key);
}

static void follow(model *m, int rule) {
    if (m->rule != rule && m->switches < MOST_SWITCHES) {
        m->switched_to[m->switches] = rule;
        m->switched_at[m->switches++] = m->rounds;
    }
    m->rule = rule;
}

static void remember(model *m) {
    for (int r = 0; r < RULES; r++) {
        m->remembered[r] *= exp(-10.0 * m->asked / (m->lambda * m->s));
        m->remembered[r] += (double)m->round_hits[r];
        m->round_hits[r] = 0;
    }
}

static void hcst_round_ends(model *m) {
    m->rounds++;
    m->window++;
    if (m->guard) {
        remember(m);
        int best = m->rule;
        for (int r = 0; r < RULES; r++)
            best = m->remembered[r] > m->remembered[best] ? r : best;
        double a = m->remembered[best], b = m->remembered[m->rule];
        if (a - b > sqrt(a + b))
            follow(m, best);
    } else {
        int apart = (int)(m->lambda * m->s / m->asked);
        if (m->window >= (apart < 1 ? 1 : apart)) {
            uint64_t hits = m->hits, other = m->rule == LRU ? m->saved : m->near;
            if (hits < other && m->rule == EFU) {
                m->saved = hits;
                follow(m, LRU);
            } else if (hits < other)
                follow(m, EFU);
            m->window = 0;
            m->hits = m->near = 0;
        }
    }
    m->asked = 0;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* Distinct keys whose favourites drift, so that rules differ and switches happen. */
static int draw_round(larder_rng *rng, int n, int round, int shape, uint64_t *keys) {
    int want = 1 + (int)larder_rng_below(rng, MOST), got = 0;
    for (int tries = 0; got < want && tries < 100; tries++) {
        int range = shape == 0 ? n : 1 + n / 3, base = shape == 2 ? round / 4 * 3 : 0;
        uint64_t k = (uint64_t)((int)larder_rng_below(rng, (uint32_t)range) + base) % (uint64_t)n;
        if (larder_rng_below(rng, 4) == 0 || shape == 3)
            k = (uint64_t)(round * want + got) % (uint64_t)n;
        bool there = false;
        for (int i = 0; i < got; i++)
            there = there || keys[i] == k;
        if (!there)
            keys[got++] = k;
    }
    return got;
}

static void compare(const model *m, const larder__cache *c, const char *what) {
    const larder_slots *s = larder__cache_slots(c);
    for (int k = 0; k < m->n; k++)
        if ((s->slot_of[k] != LARDER_NO_SLOT) != m->in[k])
            fail_msg("%s: key %d resident: %d, the twin says %d", what, k,
                     s->slot_of[k] != LARDER_NO_SLOT, m->in[k]);
}

static larder__cache *open_cache(const char *spec, uint64_t keys, uint64_t entries) {
    char name[32];
    const char *rest;
    larder_args args;
    check_ok(larder__spec_name(spec, name, sizeof name, &rest));
    const larder_policy *p = larder__policy_find(name);
    assert_non_null(p);
    check_ok(larder__args_parse(&args, "policy", &p->plugin, rest, ',', NULL));
    larder__cache_conf conf = {
        .policy = p, .args = &args, .store = &larder__store_null, .keys = keys, .budget = entries};
    larder__cache *c;
    check_ok(larder__cache_open(&c, &conf));
    larder__args_free(&args);
    return c;
}

static void claim_round(larder__cache *c, const uint64_t *keys, int n, uint64_t now,
                        larder__ticket *t) {
    larder_access a[MOST];
    for (int i = 0; i < n; i++)
        a[i] = (larder_access){.key = keys[i],
                               .now = now + (uint64_t)i,
                               .next_use = LARDER_UNKNOWN,
                               .size = 1,
                               .tag = LARDER_TAG_HELD,
                               .score = NAN};
    check_ok(larder__cache_claim_batch(c, a, (size_t)n, t));
}

static int hcst_run(uint64_t seed, bool guard) {
    static const double lambdas[] = {2, 0.5, 1, 4};
    larder_rng rng;
    larder_rng_seed(&rng, seed, 3);
    model m = {.n = 4 + (int)larder_rng_below(&rng, KEYS - 4),
               .lambda = lambdas[seed % 4],
               .guard = guard,
               .rule = EFU};
    m.s = 1 + (int)larder_rng_below(&rng, (uint32_t)m.n);
    char spec[64], what[128];
    snprintf(spec, sizeof spec, "hcst:lambda=%g,guard=%d", m.lambda, guard);
    larder__cache *c = open_cache(spec, (uint64_t)m.n, (uint64_t)m.s), *d;
    uint64_t keys[MOST], now = 0;
    for (int round = 0; round < ROUNDS; round++) {
        snprintf(what, sizeof what, "%s, seed %d, round %d", spec, (int)seed, round);
        int q = draw_round(&rng, m.n, round, (int)(seed / 4 + (uint64_t)round / 20) % 4, keys);
        larder__ticket t[MOST];
        bool had[MOST];
        claim_round(c, keys, q, now, t);
        larder__cache_batch(c);
        for (int i = 0; i < q; i++)
            had[i] = m.in[keys[i]];
        for (int missing = 0; missing < 2; missing++)
            for (int i = 0; i < q; i++)
                if (had[i] != missing)
                    hcst_access(&m, (int)keys[i], now + (uint64_t)i);
        hcst_round_ends(&m);
        now += (uint64_t)q;
        for (int i = 0; i < q; i++)
            if ((t[i].kind == LARDER_HIT) != had[i])
                fail_msg("%s: request %d: %d", what, i, t[i].kind);
        compare(&m, c, what);
        if (round % 16 == 9) { /* saved and loaded in between, nobody notices */
            d = open_cache(spec, (uint64_t)m.n, (uint64_t)m.s);
            kit_copy_state(c, d);
            larder__cache_close(&c);
            c = d;
        }
    }
    larder_switch s;
    for (int i = 0; i < m.switches; i++) {
        assert_true(larder__cache_switched(c, (uint64_t)i, &s));
        assert_string_equal(s.to, names[m.switched_to[i]]);
        assert_int_equal(s.round, m.switched_at[i]);
    }
    assert_false(larder__cache_switched(c, (uint64_t)m.switches, &s));
    larder__cache_close(&c);
    return m.switches;
}

static void test_hcst(void **st) {
    (void)st;
    int switches = 0;
    for (uint64_t seed = 0; seed < 1500; seed++)
        switches += hcst_run(seed, false);
    assert_true(switches > 500); /* or nothing was tested */
}

static void test_guard(void **st) {
    (void)st;
    int switches = 0;
    for (uint64_t seed = 0; seed < 1500; seed++)
        switches += hcst_run(seed, true);
    assert_true(switches > 500);
}

/* ---- kkt ------------------------------------------------------------------------------------- */

static float wanted(const model *m, int k, float dist) {
    return dist > 0 ? dist / (float)m->count[k] : 0;
}

static void kkt_offer(model *m, int key, float dist) {
    if (m->in[key]) {
        m->dist[key] = dist;
        return;
    }
    if (residents(m->in, m->n) >= m->s) {
        int far = NOBODY;
        for (int k = 0; k < m->n; k++) {
            if (!m->in[k])
                continue;
            float d = wanted(m, k, m->dist[k]);
            float most = far == NOBODY ? -1 : wanted(m, far, m->dist[far]);
            if (d > most || (d == most && m->used[k] < m->used[far]))
                far = k;
        }
        if (wanted(m, key, dist) > wanted(m, far, m->dist[far]))
            return;
        m->in[far] = false;
    }
    m->in[key] = true;
    m->dist[key] = dist;
    m->used[key] = ++m->clock;
}

static void kkt_run(uint64_t seed) {
    larder_rng rng;
    larder_rng_seed(&rng, seed, 4);
    model m = {.n = 4 + (int)larder_rng_below(&rng, KEYS - 4)};
    m.s = 1 + (int)larder_rng_below(&rng, (uint32_t)m.n);
    larder__cache *c = open_cache("kkt", (uint64_t)m.n, (uint64_t)m.s);
    uint64_t keys[MOST], old[MOST], now = 0;
    int q = 0, leaving;
    for (int round = 0; round < ROUNDS; round++) {
        float dist[KEYS], left[MOST];
        larder_access a[MOST];
        larder__ticket t[MOST];
        char what[64];
        snprintf(what, sizeof what, "kkt, seed %d, round %d", (int)seed, round);
        for (int k = 0; k < m.n; k++) /* few values: ties happen */
            dist[k] = (float)larder_rng_below(&rng, 6) / 2 - 0.5f;
        leaving = q;
        memcpy(old, keys, sizeof old);
        if (round % 3) {
            larder__cache_score_all(c, dist, 1);
            for (int k = 0; k < m.n; k++)
                m.dist[k] = m.in[k] ? dist[k] : m.dist[k];
        }
        for (int i = 0; i < leaving; i++) {
            left[i] = dist[old[i]];
            a[i] = (larder_access){.key = old[i], .size = 1, .score = left[i]};
            kkt_offer(&m, (int)old[i], left[i]);
        }
        larder__cache_offer(c, a, NULL, (size_t)leaving);
        compare(&m, c, what);
        q = draw_round(&rng, m.n, round, (int)seed % 4, keys);
        claim_round(c, keys, q, now, t);
        now += (uint64_t)q;
        for (int i = 0; i < q; i++) {
            if ((t[i].kind == LARDER_HIT) != m.in[keys[i]])
                fail_msg("%s: request %d: %d", what, i, t[i].kind);
            m.count[keys[i]]++;
            if (m.in[keys[i]]) {
                m.used[keys[i]] = ++m.clock;
                m.dist[keys[i]] = 0;
            }
        }
        compare(&m, c, what);
    }
    larder__cache_close(&c);
}

static void test_kkt(void **st) {
    (void)st;
    for (uint64_t seed = 0; seed < 1500; seed++)
        kkt_run(seed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hcst),
        cmocka_unit_test(test_guard),
        cmocka_unit_test(test_kkt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
