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
enum { LRU, LFU, EFU, PATIENT, SIMPLE, KKT = SIMPLE, RULES };
static const char *const names[RULES] = {"lru", "lfu", "efu", "patient", "kkt"};

typedef struct model {
    int n, s; /* keys, entries that fit */
    uint64_t clock;
    bool in[KEYS];
    uint32_t count[KEYS];
    uint64_t asked_at[KEYS]; /* order of accesses as the cache sees them */
    uint64_t used[KEYS];     /* of residents: when they came in or were hit */
    uint64_t last[KEYS];     /* request number + 1 */
    float dist[KEYS];
    double margin;
    /* hcst */
    double lambda;
    bool guard, solver;
    int rule, rounds, window, asked;
    uint64_t hits, near, saved;
    int thin; /* one key in 2^thin is followed by shadows, -1: not known yet */
    int sample;
    bool shadow[SIMPLE][KEYS];
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
static int leaves(const model *m, const bool *in, const uint64_t *used, int rule, int key) {
    int v = NOBODY;
    for (int k = 0; k < m->n; k++) {
        bool before = v == NOBODY || (rule != LRU && m->count[k] < m->count[v]) ||
                      ((rule == LRU || m->count[k] == m->count[v]) && used[k] < used[v]);
        if (in[k] && before)
            v = k;
    }
    uint32_t margin = rule == PATIENT ? 2 : 1;
    return rule < EFU || m->count[key] >= m->count[v] + margin ? v : NOBODY;
}

static void enter(const model *m, bool *in, const uint64_t *used, int room, int rule, int key) {
    if (residents(in, m->n) >= room) {
        int v = room ? leaves(m, in, used, rule, key) : NOBODY;
        if (v == NOBODY)
            return;
        in[v] = false;
    }
    in[key] = true;
}

static bool is_followed(const model *m, int key) {
    uint64_t h = (uint64_t)(key + 1) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return m->thin == 0 || h >> (64 - m->thin) == 0;
}

static void judge_access(model *m, int key) {
    if (m->thin < 0)
        for (m->thin = 0; m->s >> m->thin > m->sample;)
            m->thin++;
    if (!is_followed(m, key))
        return;
    m->round_hits[KKT] += m->in[key];
    for (int r = 0; r < (m->solver ? 1 : SIMPLE); r++)
        if (m->shadow[r][key])
            m->round_hits[r]++;
        else
            enter(m, m->shadow[r], m->asked_at, m->s >> m->thin, r, key);
}

static void hcst_access(model *m, int key, uint64_t now) {
    m->count[key]++;
    m->asked_at[key] = ++m->clock;
    m->asked++;
    m->hits += m->in[key];
    m->near += m->last[key] && now + 1 - m->last[key] < (uint64_t)m->s;
    m->last[key] = now + 1;
    if (m->guard)
        judge_access(m, key);
    if (!m->in[key] && m->rule == KKT)
        return; /* it will be offered */
    if (!m->in[key])
        enter(m, m->in, m->used, m->s, m->rule, key);
    m->used[key] = ++m->clock;
    m->dist[key] = 0;
}

static void follow(model *m, int rule) {
    if (m->rule != rule && m->switches < MOST_SWITCHES) {
        m->switched_to[m->switches] = rule;
        m->switched_at[m->switches++] = m->rounds;
    }
    m->rule = rule;
}

static void judge(model *m) {
    int best = m->rule;
    for (int r = 0; r < RULES; r++) {
        if (!m->solver) /* between kkt and lru nothing is forgotten */
            m->remembered[r] *= exp(-10.0 * m->asked / (m->lambda * m->s));
        m->remembered[r] += (double)m->round_hits[r];
        m->round_hits[r] = 0;
    }
    for (int r = 0; r < (m->solver ? 1 : SIMPLE); r++)
        best = m->remembered[r] > m->remembered[best] ? r : best;
    double a = m->remembered[best], b = m->remembered[m->rule];
    if (a - b > sqrt(a + b))
        follow(m, best);
}

static void hcst_round_ends(model *m) {
    m->rounds++;
    m->window++;
    if (m->guard) {
        judge(m);
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

/* ---- what a solver says ---------------------------------------------------------------------- */

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
        if ((double)wanted(m, key, dist) * m->margin > (double)wanted(m, far, m->dist[far]))
            return;
        m->in[far] = false;
    }
    m->in[key] = true;
    m->dist[key] = dist;
    m->used[key] = ++m->clock;
}

/* Fresh distances of all in two rounds of three, then rows that leave, to the cache and its twin
 * (which hears of it only under kkt). */
static void tell(model *m, larder__cache *c, larder_rng *rng, int round, const uint64_t *old,
                 int leaving) {
    float dist[KEYS];
    larder_access a[MOST];
    for (int k = 0; k < m->n; k++) /* few values: ties happen */
        dist[k] = (float)larder_rng_below(rng, 6) / 2 - 0.5f;
    if (round % 3) {
        larder__cache_score_all(c, dist, 1);
        for (int k = 0; k < m->n; k++)
            m->dist[k] = m->in[k] ? dist[k] : m->dist[k];
    }
    for (int i = 0; i < leaving; i++) {
        a[i] = (larder_access){.key = old[i], .size = 1, .score = dist[old[i]]};
        if (m->rule == KKT)
            kkt_offer(m, (int)old[i], dist[old[i]]);
    }
    larder__cache_offer(c, a, NULL, (size_t)leaving);
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

static void claim_round(larder__cache *c, const uint64_t *keys, int n, uint64_t now, bool held,
                        larder__ticket *t) {
    larder_access a[MOST];
    for (int i = 0; i < n; i++)
        a[i] = (larder_access){.key = keys[i],
                               .now = now + (uint64_t)i,
                               .next_use = LARDER_UNKNOWN,
                               .size = 1,
                               .tag = held ? LARDER_TAG_HELD : 0,
                               .score = NAN};
    check_ok(larder__cache_claim_batch(c, a, (size_t)n, t));
}

/* Loaded from what was saved, nobody notices. */
static larder__cache *reopen(larder__cache *c, const char *spec, const model *m) {
    larder__cache *d = open_cache(spec, (uint64_t)m->n, (uint64_t)m->s);
    kit_copy_state(c, d);
    larder__cache_close(&c);
    return d;
}

static void compare_switches(const model *m, larder__cache *c) {
    larder_switch s;
    for (int i = 0; i < m->switches; i++) {
        assert_true(larder__cache_switched(c, (uint64_t)i, &s));
        assert_string_equal(s.to, names[m->switched_to[i]]);
        assert_int_equal(s.round, m->switched_at[i]);
    }
    assert_false(larder__cache_switched(c, (uint64_t)m->switches, &s));
}

static int hcst_run(uint64_t seed, bool guard, bool solver) {
    static const double lambdas[] = {2, 0.5, 1, 4};
    static const int samples[] = {1000, 4, 9};
    larder_rng rng;
    larder_rng_seed(&rng, seed, 3);
    model m = {.n = 4 + (int)larder_rng_below(&rng, KEYS - 4),
               .lambda = lambdas[seed % 4],
               .guard = guard,
               .solver = solver,
               .rule = solver ? KKT : EFU,
               .thin = -1,
               .sample = samples[seed % 3],
               .margin = seed % 5 ? 1.5 : 1};
    m.s = 1 + (int)larder_rng_below(&rng, (uint32_t)m.n);
    char spec[96], what[160];
    snprintf(spec, sizeof spec, "hcst:lambda=%g,guard=%d,sample=%d,margin=%g", m.lambda, guard,
             m.sample, m.margin);
    larder__cache *c = open_cache(spec, (uint64_t)m.n, (uint64_t)m.s);
    uint64_t keys[MOST], now = 0;
    for (int round = 0, q = 0; round < ROUNDS; round++) {
        snprintf(what, sizeof what, "%s, seed %d, round %d", spec, (int)seed, round);
        if (solver)
            tell(&m, c, &rng, round, keys, q);
        compare(&m, c, what);
        q = draw_round(&rng, m.n, round, (int)(seed / 4 + (uint64_t)round / 20) % 4, keys);
        larder__ticket t[MOST];
        bool had[MOST];
        claim_round(c, keys, q, now, solver, t);
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
        if (round % 16 == 9)
            c = reopen(c, spec, &m);
    }
    compare_switches(&m, c);
    larder__cache_close(&c);
    return m.switches;
}

static void test_hcst(void **st) {
    (void)st;
    int switches = 0;
    for (uint64_t seed = 0; seed < 1500; seed++)
        switches += hcst_run(seed, false, false);
    assert_true(switches > 500); /* or nothing was tested */
}

static void test_guard(void **st) {
    (void)st;
    int switches = 0;
    for (uint64_t seed = 0; seed < 1500; seed++)
        switches += hcst_run(seed, true, false);
    assert_true(switches > 500);
}

static void test_guard_with_solver(void **st) {
    (void)st;
    int switches = 0;
    for (uint64_t seed = 0; seed < 1500; seed++)
        switches += hcst_run(seed, true, true);
    assert_true(switches > 100);
}

/* ---- kkt ------------------------------------------------------------------------------------- */

static void kkt_run(uint64_t seed) {
    larder_rng rng;
    larder_rng_seed(&rng, seed, 4);
    model m = {.n = 4 + (int)larder_rng_below(&rng, KEYS - 4),
               .rule = KKT,
               .margin = seed % 2 ? 1.1 : 1.5};
    m.s = 1 + (int)larder_rng_below(&rng, (uint32_t)m.n);
    const char *spec = seed % 2 ? "kkt" : "kkt:margin=1.5";
    larder__cache *c = open_cache(spec, (uint64_t)m.n, (uint64_t)m.s);
    uint64_t keys[MOST], now = 0;
    for (int round = 0, q = 0; round < ROUNDS; round++) {
        larder__ticket t[MOST];
        char what[64];
        snprintf(what, sizeof what, "kkt, seed %d, round %d", (int)seed, round);
        tell(&m, c, &rng, round, keys, q);
        compare(&m, c, what);
        q = draw_round(&rng, m.n, round, (int)seed % 4, keys);
        claim_round(c, keys, q, now, true, t);
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
        if (round % 16 == 9)
            c = reopen(c, spec, &m);
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
        cmocka_unit_test(test_guard_with_solver),
        cmocka_unit_test(test_kkt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
