/* Every policy against a slow twin that was written from its definition: arrays by key, linear
 * scans, no lists, no heaps, no slots. Kinds are compared request by request, resident sets after
 * every call. A registered policy without a twin fails here. */
#include "base/spec.h"
#include "cache_kit.h"
#include "plugins.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 40, LONGEST = 400, NOBODY = -1 };

typedef struct twin {
    uint64_t n, budget, bytes, clock;
    bool in[KEYS];
    uint32_t size[KEYS], count[KEYS], stay[KEYS]; /* stay: requests since it entered */
    uint64_t entered[KEYS], used[KEYS], next_use[KEYS];
    float loss[KEYS]; /* NAN: none, which counts as the highest */
    float dist[KEYS]; /* of kkt: the score it came with, until it is hit */
    float asked;      /* score of the newcomer */
    float said[KEYS]; /* of rotate: the loss heard last since it entered; -1: none yet */
    bool *fresh;      /* of rotate: of all heard of first, in order: came it in learned? */
    size_t fresh_count;
    double gate;            /* of rotate; 1: shut */
    uint64_t opened, shut;  /* choices of rotate behind an open gate and a shut one */
    int line[KEYS], length; /* residents in the order random, rotate and sieve keep; else unused */
    bool visited[KEYS];
    int hand;
    larder_rng rng;
    int (*choose)(struct twin *, uint64_t newcomer, uint64_t its_next_use);
    void (*enter)(struct twin *, int key), (*leave)(struct twin *, int key); /* NULL: nothing */
} twin;

/* The resident with the smallest (a, b); b may be NULL. */
static int smallest(const twin *t, const uint64_t *a, const uint64_t *b) {
    int best = NOBODY;
    for (int k = 0; k < (int)t->n; k++)
        if (t->in[k] &&
            (best == NOBODY || a[k] < a[best] || (a[k] == a[best] && b && b[k] < b[best])))
            best = k;
    return best;
}

static int choose_lru(twin *t, uint64_t key, uint64_t next) {
    (void)key, (void)next;
    return smallest(t, t->used, NULL);
}

static int choose_fifo(twin *t, uint64_t key, uint64_t next) {
    (void)key, (void)next;
    return smallest(t, t->entered, NULL);
}

static int choose_minio(twin *t, uint64_t key, uint64_t next) {
    (void)t, (void)key, (void)next;
    return NOBODY;
}

static int choose_lfu(twin *t, uint64_t key, uint64_t next) {
    (void)key, (void)next;
    uint64_t counts[KEYS];
    for (int k = 0; k < KEYS; k++)
        counts[k] = t->count[k];
    return smallest(t, counts, t->used);
}

static int choose_efu(twin *t, uint64_t key, uint64_t next) {
    int least = choose_lfu(t, key, next);
    return t->in[key] || t->count[least] < t->count[key] ? least : NOBODY;
}

static int choose_lat(twin *t, uint64_t key, uint64_t next) {
    (void)key, (void)next;
    int k = 0;
    while (!t->in[k])
        k++;
    return k;
}

static float distance(const twin *t, uint64_t key, float dist) {
    return dist > 0 ? dist / (float)t->count[key] : 0; /* not for NAN either */
}

static int choose_kkt(twin *t, uint64_t key, uint64_t next) {
    (void)next;
    int far = NOBODY;
    for (int k = 0; k < (int)t->n; k++) {
        float d = distance(t, (uint64_t)k, t->dist[k]), most = 0;
        if (far != NOBODY)
            most = distance(t, (uint64_t)far, t->dist[far]);
        if (t->in[k] && (far == NOBODY || d > most || (d == most && t->used[k] < t->used[far])))
            far = k;
    }
    double own = (double)distance(t, key, t->asked); /* nearer by a tenth, or nobody leaves */
    bool farther = own * 1.1 > (double)distance(t, (uint64_t)far, t->dist[far]);
    return !t->in[key] && farther ? NOBODY : far;
}

static int choose_random(twin *t, uint64_t key, uint64_t next) {
    (void)key, (void)next;
    return t->line[larder_rng_below(&t->rng, (uint32_t)t->length)];
}

static bool is_learned(float loss) { return loss >= 0 && (double)loss < 0.05; }

/* Of all fresh samples, a 512th less of each with each that came after it. */
static double learned_share(const twin *t) {
    double share = 0;
    for (size_t i = 0; i < t->fresh_count; i++)
        share += t->fresh[i] ? pow(511. / 512, (double)(t->fresh_count - 1 - i)) / 512 : 0;
    return share;
}

/* Of eight at random the learned before the others if most come in learned; then the one asked for
 * most since it came; then the one that came first. */
static int choose_rotate(twin *t, uint64_t key, uint64_t next) {
    int best = NOBODY;
    bool open = learned_share(t) > t->gate;
    *(open ? &t->opened : &t->shut) += 1;
    for (int i = 0; i < 8; i++) {
        int k = choose_random(t, key, next);
        bool mine = open && is_learned(t->said[k]);
        bool its = open && best != NOBODY && is_learned(t->said[best]);
        if (best == NOBODY || (mine && !its) ||
            (mine == its && (t->stay[k] > t->stay[best] ||
                             (t->stay[k] == t->stay[best] && t->entered[k] < t->entered[best]))))
            best = k;
    }
    return best;
}

static void hear_rotate(twin *t, int key, float loss) {
    if (!t->in[key])
        return;
    if (t->said[key] < 0)
        t->fresh[t->fresh_count++] = is_learned(loss);
    t->said[key] = loss;
}

/* The first rule, rotate:victim=loss: of eight at random the lowest loss. */
static int choose_easiest(twin *t, uint64_t key, uint64_t next) {
    int best = NOBODY;
    for (int i = 0; i < 8; i++) {
        int k = choose_random(t, key, next);
        double loss = isnan(t->loss[k]) ? INFINITY : t->loss[k];
        if (best == NOBODY || loss < (isnan(t->loss[best]) ? INFINITY : t->loss[best]))
            best = k;
    }
    return best;
}

static int choose_sieve(twin *t, uint64_t key, uint64_t next) {
    (void)key, (void)next;
    while (t->visited[t->line[t->hand]]) {
        t->visited[t->line[t->hand]] = false;
        t->hand = (t->hand + 1) % t->length;
    }
    return t->line[t->hand];
}

static int choose_belady(twin *t, uint64_t key, uint64_t next) {
    int far = NOBODY;
    for (int k = 0; k < (int)t->n; k++)
        if (t->in[k] && (far == NOBODY || t->next_use[k] > t->next_use[far]))
            far = k;
    return !t->in[key] && next >= t->next_use[far] ? NOBODY : far;
}

/* Without a word from training: nobody new, and the least often used makes room for one that grows.
 * With scores: tests/unit/test_app.c. */
static int choose_app(twin *t, uint64_t key, uint64_t next) {
    (void)next;
    uint64_t counts[KEYS];
    for (int k = 0; k < KEYS; k++)
        counts[k] = t->count[k];
    return t->in[key] ? smallest(t, counts, NULL) : NOBODY;
}

/* Nobody has a score: newcomers stay out, and who grows takes the place of the lowest key. */
static int choose_spider(twin *t, uint64_t key, uint64_t next) {
    (void)next;
    for (int k = 0; t->in[key] && k < KEYS; k++)
        if (t->in[k])
            return k;
    return NOBODY;
}

static int place_of(const twin *t, int key) {
    int at = 0;
    while (t->line[at] != key)
        at++;
    return at;
}

static void enter_line(twin *t, int key) {
    t->line[t->length++] = key;
    t->said[key] = -1;
}

static void leave_line(twin *t, int key) { /* the last fills the gap */
    t->line[place_of(t, key)] = t->line[t->length - 1];
    t->length--;
}

static void leave_sieve(twin *t,
                        int key) { /* all behind move up; the hand stays between the same */
    int at = place_of(t, key);
    memmove(t->line + at, t->line + at + 1, (size_t)(t->length - at - 1) * sizeof *t->line);
    t->length--;
    if (at < t->hand)
        t->hand--;
    if (t->hand >= t->length)
        t->hand = 0;
}

static const struct {
    const char *name;
    int (*choose)(twin *, uint64_t, uint64_t);
    void (*enter)(twin *, int), (*leave)(twin *, int);
} twins[] = {
    {"lru", .choose = choose_lru},
    {"fifo", .choose = choose_fifo},
    {"minio", .choose = choose_minio},
    {"lfu", .choose = choose_lfu},
    {"random", .choose = choose_random, .enter = enter_line, .leave = leave_line},
    {"sieve", .choose = choose_sieve, .enter = enter_line, .leave = leave_sieve},
    {"belady", .choose = choose_belady},
    {"whole", .choose = choose_lru},  /* without tags */
    {"hilo", .choose = choose_minio}, /* without tags; test_hilo_twin.c has the rest */
    {"rotate", .choose = choose_rotate, .enter = enter_line, .leave = leave_line},
    {"rotate:victim=loss", .choose = choose_easiest, .enter = enter_line, .leave = leave_line},
    {"app", .choose = choose_app},
    {"spider", .choose = choose_spider}, /* without scores; test_spider_twin.c has the rest */
    {"served", .choose = choose_lru},    /* nothing brought in; test_stream_twin.c has the rest */
    {"nopfs", .choose = choose_belady},
    {"oracle", .choose = choose_minio},
    {"lat", .choose = choose_lat},
    {"efu", .choose = choose_efu},
    {"hcst", .choose = choose_efu},  /* without rounds; test_row_policies.c has the rest */
    {"kkt", .choose = choose_kkt},   /* without offers and scores; the rest there too */
    {"ods", .choose = choose_minio}, /* one job, without exchange; test_ods_twin.c has the rest */
};

static void twin_open(twin *t, const char *name, uint64_t n, uint64_t budget, uint64_t seed) {
    *t = (twin){.n = n, .budget = budget, .gate = 1};
    larder_rng_seed(&t->rng, seed, 0xcac4e);
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++)
        if (strcmp(twins[i].name, name) == 0) {
            t->choose = twins[i].choose;
            t->enter = twins[i].enter;
            t->leave = twins[i].leave;
        }
    if (!t->choose)
        fail_msg("policy %s has no slow twin: add a line to `twins` in "
                 "tests/model/test_policy_twins.c",
                 name);
}

static void twin_leave(twin *t, int key) {
    t->in[key] = false;
    t->bytes -= t->size[key];
    if (t->leave)
        t->leave(t, key);
}

static void twin_use(twin *t, const larder_access *a) {
    t->used[a->key] = ++t->clock;
    t->next_use[a->key] = a->next_use;
    t->count[a->key]++;
}

/* Until `more` bytes fit. False: they never will, or `growing` itself had to leave. */
static bool twin_room(twin *t, const larder_access *a, uint64_t more, int growing) {
    if (a->size > t->budget)
        return false;
    t->asked = a->score;
    while (t->bytes + more > t->budget) {
        int v = t->choose(t, a->key, a->next_use);
        if (v == NOBODY)
            return false;
        twin_leave(t, v);
        if (v == growing)
            return false;
    }
    return true;
}

static bool twin_has(const twin *t, const larder_access *a) {
    return t->in[a->key] && a->size <= t->size[a->key];
}

static larder_kind twin_access(twin *t, const larder_access *a) {
    int key = (int)a->key;
    larder_kind kind = twin_has(t, a) ? LARDER_HIT : LARDER_MISS;
    twin_use(t, a);
    if (t->in[key]) {
        t->visited[key] = true;
        t->stay[key]++;
        t->dist[key] = 0;
        if (kind == LARDER_HIT)
            return kind;
        if (twin_room(t, a, a->size - t->size[key], key)) {
            t->bytes += a->size - t->size[key];
            t->size[key] = a->size;
        } else if (t->in[key])
            twin_leave(t, key);
        return kind;
    }
    if (!twin_room(t, a, a->size, NOBODY))
        return kind;
    t->in[key] = true;
    t->visited[key] = false;
    t->entered[key] = t->clock;
    t->stay[key] = 1;
    t->loss[key] = t->dist[key] = a->score;
    t->size[key] = a->size;
    t->bytes += a->size;
    if (t->enter)
        t->enter(t, key);
    return kind;
}

/* A whole batch is looked up before any of the missing enters. */
static void twin_batch(twin *t, const larder_access *a, size_t n, uint8_t *kinds) {
    for (size_t i = 0; i < n; i++)
        kinds[i] = (uint8_t)(twin_has(t, &a[i]) ? LARDER_HIT : LARDER_MISS);
    for (int missing = 0; missing < 2; missing++)
        for (size_t i = 0; i < n; i++)
            if ((kinds[i] == LARDER_MISS) == missing)
                twin_access(t, &a[i]);
}

static void compare_sets(const twin *t, const larder__cache *c, const char *what) {
    const larder_slots *s = larder__cache_slots(c);
    for (uint64_t k = 0; k < t->n; k++) {
        bool in = s->slot_of[k] != LARDER_NO_SLOT;
        if (in != t->in[k] || (in && s->size_of[s->slot_of[k]] != t->size[k]))
            fail_msg("%s: key %d: %d of %u bytes, the twin has %d of %u", what, (int)k, in,
                     in ? s->size_of[s->slot_of[k]] : 0, t->in[k], t->size[k]);
    }
    assert_int_equal(s->bytes, t->bytes);
}

enum { SAME_SIZE, OWN_SIZE, GROWING, SIZE_WAYS };

static void draw_accesses(larder_rng *rng, kit_kind kind, int sizes, uint64_t n, larder_access *a,
                          size_t len) {
    uint64_t keys[LONGEST], next_use[LONGEST];
    kit_trace(kind, rng, n, keys, len);
    kit_future(keys, len, next_use);
    for (size_t i = 0; i < len; i++) {
        uint32_t size = sizes == SAME_SIZE  ? 10
                        : sizes == OWN_SIZE ? 1 + (uint32_t)(keys[i] * 7919 % 25)
                                            : 1 + (uint32_t)(i / 16) + larder_rng_below(rng, 12);
        a[i] = (larder_access){.key = keys[i],
                               .now = i,
                               .next_use = next_use[i],
                               .size = size,
                               .score = i % 3 ? (float)(keys[i] * 31 % 7) - 2 : NAN};
    }
}

static larder__cache *open_cache(const char *spec, uint64_t n, uint64_t budget, uint64_t seed) {
    char name[32];
    const char *rest;
    larder_args args;
    larder__cache *c;
    check_ok(larder__spec_name(spec, name, sizeof name, &rest));
    const larder_policy *p = larder__policy_find(name);
    check_ok(larder__args_parse(&args, "policy", &p->plugin, rest, ',', NULL));
    larder__cache_conf conf = {.policy = p,
                               .args = &args,
                               .store = &larder__store_null,
                               .keys = n,
                               .budget = budget,
                               .seed = seed};
    check_ok(larder__cache_open(&c, &conf));
    larder__args_free(&args);
    return c;
}

static void run_one(const char *spec, uint64_t seed, bool whole_batches) {
    larder_rng rng;
    larder_rng_seed(&rng, seed, 77);
    kit_kind kind = (kit_kind)larder_rng_below(&rng, KIT_KINDS);
    int sizes = (int)larder_rng_below(&rng, SIZE_WAYS);
    uint64_t n = 1 + larder_rng_below(&rng, KEYS), budget = larder_rng_below(&rng, 12 * KEYS);
    size_t len = 20 + larder_rng_below(&rng, LONGEST - 20);
    larder_access a[LONGEST];
    larder__ticket got[8];
    uint8_t want[8];
    draw_accesses(&rng, kind, sizes, n, a, len);
    twin t;
    twin_open(&t, spec, n, budget, seed);
    larder__cache *c = open_cache(spec, n, budget, seed);
    char what[128];
    snprintf(what, sizeof what, "%s, seed %d, %s, sizes %d, n %d", spec, (int)seed,
             kit_kind_name(kind), sizes, (int)n);
    for (size_t at = 0, step; at < len; at += step) {
        step = 1 + larder_rng_below(&rng, 8);
        step = step < len - at ? step : len - at;
        if (whole_batches) {
            check_ok(larder__cache_claim_batch(c, a + at, step, got));
            twin_batch(&t, a + at, step, want);
        } else {
            check_ok(larder__cache_claim(c, a + at, step, got));
            for (size_t i = 0; i < step; i++)
                want[i] = (uint8_t)twin_access(&t, &a[at + i]);
        }
        for (size_t i = 0; i < step; i++)
            if (got[i].kind != want[i] || got[i].key != a[at + i].key)
                fail_msg("%s: request %d: kind %d, the twin says %d", what, (int)(at + i),
                         got[i].kind, want[i]);
        compare_sets(&t, c, what);
    }
    larder__cache_close(&c);
}

/* rotate, which hears of losses: of what was asked for, and now and then of anybody. In some spells
 * nearly all are learned, in others hardly anyone; of one in ten nothing can be known, which is
 * worth as much as a high loss. Halfway a copy of its state goes on. */
static void run_gate(uint64_t seed, const char *gate, uint64_t *opened, uint64_t *shut) {
    enum { LONG = 3000, N = 30, R = 11 };
    static bool fresh[2 * LONG];
    char spec[32];
    larder_rng rng;
    larder_rng_seed(&rng, seed, 78);
    snprintf(spec, sizeof spec, "rotate:gate=%s", gate);
    twin t;
    twin_open(&t, "rotate", N, R, seed);
    t.gate = strtod(gate, NULL);
    t.fresh = fresh;
    larder__cache *c = open_cache(spec, N, R, seed), *copy = open_cache(spec, N, R, seed + 1);
    for (uint64_t i = 0; i < LONG; i++) {
        uint32_t easy = i / 700 % 2 ? 20 : 850;
        larder_access a = {.key = larder_rng_below(&rng, i % 3 ? N : N / 3), .size = 1};
        larder__ticket got;
        if (i == LONG / 2) {
            kit_copy_state(c, copy);
            larder__cache *old = c;
            c = copy, copy = old;
        }
        check_ok(larder__cache_claim(c, &a, 1, &got));
        assert_int_equal(got.kind, twin_access(&t, &a));
        for (int k = 0; k < 2; k++) {
            uint64_t key = k ? larder_rng_below(&rng, N) : a.key;
            bool low = larder_rng_below(&rng, 1000) < easy;
            float loss = (float)larder_rng_unit(&rng) * 0.049f + (low ? 0 : 0.05f);
            float known = larder_rng_below(&rng, 10) ? loss : NAN;
            if (k && i % 5)
                continue;
            larder__cache_score(c, &key, &known, 1);
            hear_rotate(&t, (int)key, isnan(known) ? 9 : known);
        }
        compare_sets(&t, c, spec);
    }
    *opened += t.opened, *shut += t.shut;
    larder__cache_close(&c);
    larder__cache_close(&copy);
}

static void test_gate(void **st) {
    (void)st;
    uint64_t opened = 0, shut = 0, never = 0, all = 0;
    for (uint64_t seed = 0; seed < 6; seed++) {
        run_gate(seed, "0.3", &opened, &shut);
        run_gate(seed, "0.15", &opened, &shut);
        run_gate(seed, "1", &never, &all);
    }
    assert_true(opened > 3000 && shut > 3000); /* both were tried */
    assert_true(never == 0 && all > 5000);
}

static void test_in_order(void **st) {
    (void)st;
    for (size_t p = 0; larder__policies[p]; p++)
        for (uint64_t seed = 0; seed < 2000; seed++)
            run_one(larder__policies[p]->plugin.name, seed, false);
    for (uint64_t seed = 0; seed < 2000; seed++)
        run_one("rotate:victim=loss", seed, false);
}

static void test_whole_batches(void **st) {
    (void)st;
    for (size_t p = 0; larder__policies[p]; p++)
        for (uint64_t seed = 0; seed < 1000; seed++)
            run_one(larder__policies[p]->plugin.name, 5000 + seed, true);
}

/* ---- the bound ------------------------------------------------------------------------------- */

static uint64_t hits_of(const larder_policy *policy, const uint64_t *keys, size_t len, uint64_t n,
                        uint64_t entries) {
    uint64_t next_use[LONGEST], hits = 0;
    kit_future(keys, len, next_use);
    larder__cache *c = kit_cache(policy, &larder__store_null, n, entries, 1);
    for (size_t i = 0; i < len; i++) {
        larder_access a = {.key = keys[i], .now = i, .next_use = next_use[i], .size = 1};
        larder__ticket t;
        check_ok(larder__cache_claim(c, &a, 1, &t));
        hits += t.kind == LARDER_HIT;
    }
    larder__cache_close(&c);
    return hits;
}

/* The most hits any sequence of decisions reaches: for every set of residents that can come about,
 * the best number of hits on the way to it. */
static uint64_t best_hits(const uint64_t *keys, size_t len, unsigned n, unsigned entries) {
    int best[1 << 6], next[1 << 6];
    for (unsigned m = 0; m < 1u << n; m++)
        best[m] = m ? -1 : 0;
    for (size_t i = 0; i < len; i++) {
        unsigned bit = 1u << keys[i];
        for (unsigned m = 0; m < 1u << n; m++)
            next[m] = -1;
        for (unsigned m = 0; m < 1u << n; m++) {
            if (best[m] < 0)
                continue;
            int score = best[m] + ((m & bit) != 0);
            if (next[m] < score) /* a hit, or kept out */
                next[m] = score;
            if (!(m & bit) && (unsigned)__builtin_popcount(m) < entries && next[m | bit] < score)
                next[m | bit] = score;
            for (unsigned v = 0; v < n && !(m & bit); v++)
                if (m & 1u << v && next[(m & ~(1u << v)) | bit] < score)
                    next[(m & ~(1u << v)) | bit] = score;
        }
        memcpy(best, next, sizeof best);
    }
    int top = 0;
    for (unsigned m = 0; m < 1u << n; m++)
        top = best[m] > top ? best[m] : top;
    return (uint64_t)top;
}

static void test_belady_is_optimal(void **st) {
    (void)st;
    const larder_policy *belady = larder__policy_find("belady");
    larder_rng rng;
    larder_rng_seed(&rng, 3, 3);
    for (int round = 0; round < 3000; round++) {
        unsigned n = 2 + larder_rng_below(&rng, 5), entries = 1 + larder_rng_below(&rng, n - 1);
        size_t len = 4 + larder_rng_below(&rng, 20);
        uint64_t keys[24];
        kit_trace((kit_kind)(round % KIT_KINDS), &rng, n, keys, len);
        assert_int_equal(hits_of(belady, keys, len, n, entries), best_hits(keys, len, n, entries));
    }
}

static void test_nobody_beats_belady(void **st) {
    (void)st;
    const larder_policy *belady = larder__policy_find("belady");
    larder_rng rng;
    larder_rng_seed(&rng, 4, 4);
    for (int round = 0; round < 400; round++) {
        uint64_t n = 2 + larder_rng_below(&rng, 60), entries = larder_rng_below(&rng, (uint32_t)n);
        uint64_t keys[LONGEST];
        kit_trace((kit_kind)(round % KIT_KINDS), &rng, n, keys, LONGEST);
        uint64_t bound = hits_of(belady, keys, LONGEST, n, entries);
        for (size_t p = 0; larder__policies[p]; p++)
            if (hits_of(larder__policies[p], keys, LONGEST, n, entries) > bound)
                fail_msg("%s beats belady in round %d", larder__policies[p]->plugin.name, round);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_order),
        cmocka_unit_test(test_gate),
        cmocka_unit_test(test_whole_batches),
        cmocka_unit_test(test_belady_is_optimal),
        cmocka_unit_test(test_nobody_beats_belady),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
