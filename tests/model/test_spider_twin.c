/* The spider policy against its slow, obvious twin: lists that are searched from end to end, sums
 * made afresh each time. Requests, scores, hubs, batches, epochs and accuracies at random, with
 * entries of different sizes; every answer and, now and then, everything that is inside. */
#include "cache_kit.h"

#include "base/spec.h"
#include "cache/policy/elastic.h"
#include "cache/policy/neighbours.h"
#include "plugins.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KEYS = 90, PENDING = 16, TEXT = 160 };

typedef struct resident {
    uint32_t key, size, group;
    bool hub;
    uint64_t since; /* order of becoming a hub */
} resident;

typedef struct twin {
    uint64_t budget, clock;
    uint32_t keys;
    resident in[MAX_KEYS];
    size_t count;
    float score[MAX_KEYS];
    bool scored[MAX_KEYS];
    int hub_of[MAX_KEYS]; /* -1: none */
    uint32_t pending[PENDING];
    size_t pending_count;
    larder__elastic elastic;
    uint64_t asked, spent, class_asked[4], class_spent[4];
    double most, most_class;
    uint64_t lent[MAX_KEYS], lent_now[MAX_KEYS], passed[MAX_KEYS]; /* an epoch, a batch, running */
    uint64_t hub_epoch, hub_batch, again;                          /* UINT64_MAX: no limit */
    uint64_t limited, tired;
} twin;

static resident *find(twin *t, uint64_t key) {
    for (size_t i = 0; i < t->count; i++)
        if (t->in[i].key == key)
            return &t->in[i];
    return NULL;
}

static bool is_hub(twin *t, uint64_t key) {
    resident *r = find(t, key);
    return r && r->hub;
}

static bool has_neighbours(const twin *t, uint64_t key) {
    for (uint32_t k = 0; k < t->keys; k++)
        if (t->hub_of[k] == (int)key)
            return true;
    return false;
}

static void forget(twin *t, uint64_t key) {
    for (uint32_t k = 0; k < t->keys; k++)
        if (t->hub_of[k] == (int)key)
            t->hub_of[k] = -1;
}

static void drop(twin *t, resident *r) {
    if (r->hub)
        forget(t, r->key);
    *r = t->in[--t->count];
}

static uint64_t bytes(const twin *t, int hubs) { /* 0: important, 1: hubs, 2: both */
    uint64_t sum = 0;
    for (size_t i = 0; i < t->count; i++)
        sum += hubs == 2 || t->in[i].hub == (hubs == 1) ? t->in[i].size : 0;
    return sum;
}

static uint64_t share(const twin *t, bool hubs) {
    uint64_t important = (uint64_t)(t->elastic.ratio * (double)t->budget + 0.5);
    return hubs ? t->budget - important : important;
}

static bool lower(const twin *t, const resident *a, const resident *b) {
    if (!t->scored[a->key] || !t->scored[b->key])
        return t->scored[a->key] != t->scored[b->key] ? t->scored[a->key] : a->key < b->key;
    if (t->score[a->key] != t->score[b->key])
        return t->score[a->key] < t->score[b->key];
    return a->key < b->key;
}

static resident *lowest(twin *t) {
    resident *low = NULL;
    for (size_t i = 0; i < t->count; i++)
        if (!t->in[i].hub && (!low || lower(t, &t->in[i], low)))
            low = &t->in[i];
    return low;
}

static resident *oldest(twin *t) {
    resident *old = NULL;
    for (size_t i = 0; i < t->count; i++)
        if (t->in[i].hub && (!old || t->in[i].since < old->since))
            old = &t->in[i];
    return old;
}

/* Who leaves for a newcomer; NULL: it stays out. */
static resident *leaves(twin *t, uint64_t key, uint32_t size, bool hub) {
    resident *low = lowest(t), *old = oldest(t);
    bool below = bytes(t, hub) + size <= share(t, hub);
    if (hub)
        return below && low ? low : size <= share(t, true) ? old : NULL;
    if (below && old)
        return old;
    return low && t->scored[key] && t->scored[low->key] && t->score[key] > t->score[low->key]
               ? low
               : NULL;
}

static void enter(twin *t, uint64_t key, uint32_t size, uint32_t group) {
    bool hub = has_neighbours(t, key);
    if (size > t->budget)
        return;
    while (bytes(t, 2) + size > t->budget) {
        resident *r = leaves(t, key, size, hub);
        if (!r)
            return;
        drop(t, r);
    }
    t->in[t->count++] = (resident){(uint32_t)key, size, group, hub, t->clock++};
}

static larder_kind ask(twin *t, uint64_t key, uint32_t size, uint32_t group, uint64_t *served) {
    t->asked++;
    t->class_asked[group]++;
    *served = key;
    uint64_t passed = t->passed[key];
    t->passed[key] = 0;
    if (find(t, key))
        return LARDER_HIT;
    int hub = t->hub_of[key];
    if (hub >= 0 && is_hub(t, (uint64_t)hub) && find(t, (uint64_t)hub)->group == group &&
        (double)(t->spent + 1) <= t->most * (double)t->asked &&
        (double)(t->class_spent[group] + 1) <= t->most_class * (double)t->class_asked[group]) {
        if (passed >= t->again)
            t->tired++;
        else if (t->lent[hub] >= t->hub_epoch || t->lent_now[hub] >= t->hub_batch)
            t->limited++;
        else {
            t->passed[key] = passed + 1;
            t->lent[hub]++;
            t->lent_now[hub]++;
            t->spent++;
            t->class_spent[group]++;
            *served = (uint64_t)hub;
            return LARDER_SUBSTITUTE;
        }
    }
    enter(t, key, size, group);
    return LARDER_MISS;
}

static bool relate(twin *t, uint64_t key, const uint64_t *ids, size_t n) {
    resident *r = find(t, key);
    if (n == 0 || (r && r->hub) || has_neighbours(t, key) || share(t, true) == 0 ||
        (r && r->size > share(t, true)))
        return false;
    for (size_t i = 0; i < n; i++)
        t->hub_of[ids[i]] = (int)key;
    if (r) {
        r->hub = true;
        r->since = t->clock++;
        return true;
    }
    if (t->pending_count == PENDING) {
        if (!is_hub(t, t->pending[0]))
            forget(t, t->pending[0]);
        memmove(t->pending, t->pending + 1, (PENDING - 1) * sizeof *t->pending);
        t->pending_count--;
    }
    t->pending[t->pending_count++] = (uint32_t)key;
    return true;
}

static double deviation(const twin *t) {
    double n = 0, sum = 0, squares = 0;
    for (uint32_t k = 0; k < t->keys; k++)
        if (t->scored[k])
            n++, sum += (double)t->score[k];
    for (uint32_t k = 0; k < t->keys; k++)
        if (t->scored[k])
            squares += ((double)t->score[k] - sum / n) * ((double)t->score[k] - sum / n);
    return n < 2 ? (double)NAN : sqrt(squares / n);
}

/* ---- both at once ---------------------------------------------------------------------------- */

typedef struct pair {
    twin t;
    larder__cache *c;
    larder_rng rng;
    uint64_t epoch;
} pair;

static uint32_t size_of(uint64_t key) { return 1 + (uint32_t)(key * 7 % 5); }
static uint32_t group_of(uint64_t key) { return (uint32_t)(key % 3); }

static void both_ask(pair *p, uint64_t key) {
    larder_access a = {.key = key, .size = size_of(key), .group = group_of(key), .score = NAN};
    larder__ticket got;
    uint64_t served;
    check_ok(larder__cache_claim(p->c, &a, 1, &got));
    assert_int_equal(got.kind, ask(&p->t, key, a.size, a.group, &served));
    assert_int_equal(got.key, served);
}

static void both_score(pair *p, uint64_t key) {
    float score = (float)larder_rng_below(&p->rng, 12) / 8 - 0.5f;
    larder__cache_score(p->c, &key, &score, 1);
    p->t.score[key] = score;
    p->t.scored[key] = true;
}

static void both_relate(pair *p, uint64_t key) {
    uint64_t ids[12];
    size_t n = 0, want = larder_rng_below(&p->rng, 12);
    while (n < want) {
        ids[n] = larder_rng_below(&p->rng, p->t.keys);
        if (ids[n] != key && (larder_rng_below(&p->rng, 8) == 0 || ids[n] % 3 == key % 3))
            n++;
    }
    assert_int_equal(larder__cache_relate(p->c, key, ids, n), relate(&p->t, key, ids, n));
}

static void both_end_batch(pair *p) {
    uint64_t keys[64], want[64];
    size_t n = larder__cache_fetch(p->c, keys, 64), wanted = 0;
    for (size_t i = 0; i < p->t.pending_count; i++)
        if (has_neighbours(&p->t, p->t.pending[i]) && !find(&p->t, p->t.pending[i]))
            want[wanted++] = p->t.pending[i];
    p->t.pending_count = 0;
    assert_int_equal(n, wanted);
    assert_memory_equal(keys, want, n * sizeof *keys);
    for (size_t i = 0; i < n; i++) {
        larder_access a = {.key = keys[i],
                           .size = size_of(keys[i]),
                           .group = group_of(keys[i]),
                           .tag = LARDER_TAG_FETCH};
        larder__ticket got;
        check_ok(larder__cache_claim(p->c, &a, 1, &got));
        if (!find(&p->t, keys[i]))
            enter(&p->t, keys[i], a.size, a.group);
        assert_int_equal(larder__cache_resident(p->c, keys[i]), find(&p->t, keys[i]) != NULL);
    }
    larder__cache_batch(p->c);
    memset(p->t.lent_now, 0, sizeof p->t.lent_now);
    for (size_t i = 0; i < n; i++)
        if (!is_hub(&p->t, keys[i]))
            forget(&p->t, keys[i]);
}

static void both_epoch(pair *p) {
    double shown[LARDER_FIGURES], sigma = deviation(&p->t);
    larder__cache_epoch(p->c, p->epoch);
    larder__cache_show(p->c, shown);
    if (isfinite(sigma)) /* the last digit may differ, and decide whether it falls */
        assert_true(fabs(shown[1] - sigma) < 1e-9);
    larder__elastic_epoch(&p->t.elastic, p->epoch++, isfinite(sigma) ? shown[1] : sigma);
    assert_true(shown[0] == p->t.elastic.ratio);
    p->t.asked = p->t.spent = p->t.limited = p->t.tired = 0;
    memset(p->t.lent, 0, sizeof p->t.lent);
    memset(p->t.class_asked, 0, sizeof p->t.class_asked);
    memset(p->t.class_spent, 0, sizeof p->t.class_spent);
}

/* Residents, parts, and who has which hub: no entry of a hub that is gone, and whole chains. */
static void check_inside(pair *p) {
    const larder_slots *s = larder__cache_slots(p->c);
    const larder__neighbours all = {.of = s->key_data,
                                    .stride = larder__policy_find("spider")->key_size};
    uint64_t chained = 0, claimed = 0;
    for (uint32_t k = 0; k < p->t.keys; k++) {
        uint64_t hub;
        bool has = larder__neighbours_find(&all, k, &hub);
        assert_int_equal(has ? (int)hub : -1, p->t.hub_of[k]);
        assert_int_equal(s->slot_of[k] != LARDER_NO_SLOT, find(&p->t, k) != NULL);
        claimed += has;
        uint32_t before = 0;
        for (uint32_t at = larder__neighbour_of(&all, k)->first; at; chained++) {
            const larder__neighbour *n = larder__neighbour_of(&all, at - 1);
            assert_int_equal(n->hub, k + 1);
            assert_int_equal(n->before, before);
            before = at;
            at = n->next;
        }
    }
    assert_int_equal(chained, claimed);
    assert_int_equal(s->bytes, bytes(&p->t, 2));
    double shown[LARDER_FIGURES];
    larder__cache_show(p->c, shown);
    assert_true(shown[6] == (double)claimed);
    assert_true(shown[8] == (double)p->t.limited && shown[9] == (double)p->t.tired);
}

static larder__cache *open_cache(const twin *t, const char *text) {
    const larder_policy *policy = larder__policy_find("spider");
    larder_args args;
    check_ok(larder__args_parse(&args, "policy", &policy->plugin, text, ',', NULL));
    larder__cache_conf conf = {.policy = policy,
                               .args = &args,
                               .store = &larder__store_null,
                               .keys = t->keys,
                               .budget = t->budget,
                               .epochs = 50};
    larder__cache *c;
    check_ok(larder__cache_open(&c, &conf));
    larder__args_free(&args);
    return c;
}

static void open_pair(pair *p, uint64_t seed, char text[TEXT]) {
    *p = (pair){0};
    larder_rng_seed(&p->rng, seed, 77);
    p->t.keys = 20 + larder_rng_below(&p->rng, MAX_KEYS - 20);
    p->t.budget = 5 + larder_rng_below(&p->rng, 3 * p->t.keys);
    p->t.most = seed % 3 ? 1 : 0.3;
    p->t.most_class = seed % 4 ? 1 : 0.2;
    unsigned limits[3] = {(unsigned)(seed % 5) * 3, (unsigned)(seed % 4), (unsigned)(seed % 6)};
    p->t.hub_epoch = limits[0] ? limits[0] : UINT64_MAX;
    p->t.hub_batch = limits[1] ? limits[1] : UINT64_MAX;
    p->t.again = limits[2] ? limits[2] : UINT64_MAX;
    snprintf(text, TEXT,
             "ratio=0.%u,ratio_end=0.%u,paper=%s,most=%g,most_class=%g,guard=0,hub_epoch=%u,"
             "hub_batch=%u,again=%u",
             3 + (unsigned)(seed % 7), 1 + (unsigned)(seed % 6), seed % 2 ? "literal" : "fixed",
             p->t.most, p->t.most_class, limits[0], limits[1], limits[2]);
    for (uint32_t k = 0; k < p->t.keys; k++)
        p->t.hub_of[k] = -1;
    const larder_policy *policy = larder__policy_find("spider");
    larder_args args;
    check_ok(larder__args_parse(&args, "policy", &policy->plugin, text, ',', NULL));
    larder__elastic_init(&p->t.elastic, &args, 50);
    larder__args_free(&args);
    p->c = open_cache(&p->t, text);
}

static void run_pair(uint64_t seed, size_t steps) {
    pair p;
    char text[TEXT];
    open_pair(&p, seed, text);
    for (size_t i = 0; i < steps; i++) {
        uint64_t key = larder_rng_below(&p.rng, p.t.keys);
        uint32_t what = larder_rng_below(&p.rng, 100);
        if (what < 70)
            both_ask(&p, key);
        else if (what < 88)
            both_score(&p, key);
        else if (what < 94)
            both_relate(&p, key);
        else
            both_end_batch(&p);
        if (i % 997 == 996)
            both_epoch(&p);
        if (i % 1511 == 1510) {
            double accuracy = larder_rng_unit(&p.rng);
            larder__cache_accuracy(p.c, accuracy);
            larder__elastic_accuracy(&p.t.elastic, accuracy);
        }
        if (i % 16 == 0)
            check_inside(&p);
        if (i % 2003 == 2002) { /* saved and loaded, it goes on as if nothing had been */
            larder__cache *fresh = open_cache(&p.t, text);
            kit_copy_state(p.c, fresh);
            larder__cache_close(&p.c);
            p.c = fresh;
        }
    }
    check_inside(&p);
    larder__cache_close(&p.c);
}

static void the_twins_agree(void **state) {
    (void)state;
    size_t rounds = getenv("LARDER_LONG") ? 800 : 200;
    for (uint64_t seed = 0; seed < rounds; seed++)
        run_pair(seed, 20000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_twins_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
