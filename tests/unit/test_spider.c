/* The spider policy: the four cases of the paper's Figure 9, hubs on their way in, shares that move
 * without dropping more than the difference, the substitution budget, the guard, and the elastic
 * manager's equations. */
#include "cache_kit.h"

#include "base/spec.h"
#include "cache/policy/elastic.h"
#include "plugins.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static larder__cache *open_cache(const char *args_text, uint64_t keys, uint64_t budget,
                                 uint64_t epochs) {
    const larder_policy *policy = larder__policy_find("spider");
    larder_args args;
    check_ok(larder__args_parse(&args, "policy", &policy->plugin, args_text, ',', NULL));
    larder__cache_conf conf = {.policy = policy,
                               .args = &args,
                               .store = &larder__store_null,
                               .keys = keys,
                               .budget = budget,
                               .epochs = epochs};
    larder__cache *c;
    check_ok(larder__cache_open(&c, &conf));
    larder__args_free(&args);
    return c;
}

/* One request for a sample of size 1 and class `group`; what is served goes to *served. */
static larder_kind ask_class(larder__cache *c, uint64_t key, uint32_t group, uint64_t *served) {
    larder_access a = {.key = key, .size = 1, .group = group, .score = NAN};
    larder__ticket t;
    check_ok(larder__cache_claim(c, &a, 1, &t));
    if (served)
        *served = t.key;
    return (larder_kind)t.kind;
}
static larder_kind ask(larder__cache *c, uint64_t key) { return ask_class(c, key, 0, NULL); }

static void rate(larder__cache *c, uint64_t key, float score) {
    larder__cache_score(c, &key, &score, 1);
}

/* What the loader does after the requests of a batch. Returns how many entries were read for it. */
static size_t end_batch(larder__cache *c) {
    uint64_t keys[64];
    size_t n = larder__cache_fetch(c, keys, 64), reads = 0;
    for (size_t i = 0; i < n; i++) {
        larder_access a = {.key = keys[i], .size = 1, .tag = LARDER_TAG_FETCH};
        larder__ticket t;
        check_ok(larder__cache_claim(c, &a, 1, &t));
        reads += t.kind == LARDER_MISS;
    }
    larder__cache_batch(c);
    return reads;
}

static double shown(larder__cache *c, const char *name) {
    const larder_figure *f = larder__policy_find("spider")->shows->figures;
    double all[LARDER_FIGURES];
    larder__cache_show(c, all);
    for (size_t i = 0; f[i].name; i++)
        if (strcmp(f[i].name, name) == 0)
            return all[i];
    fail_msg("no figure %s", name);
    return 0;
}

static bool in(larder__cache *c, uint64_t key) { return larder__cache_resident(c, key); }

/* ---- Figure 9 -------------------------------------------------------------------------------- */

enum { A, B, C, D, E, F, G, H, I, LETTERS };

static void the_four_cases(void **state) {
    (void)state;
    /* Room for two important samples and two hubs: a (0.4) and e (0.3); g, then h, whose neighbours
     * are c and i. */
    larder__cache *c = open_cache("ratio=0.5,ratio_end=0.5", LETTERS, 4, 0);
    const uint64_t of_g[] = {I}, of_h[] = {C, I}, of_b[] = {F};
    assert_true(larder__cache_relate(c, G, of_g, 1));
    assert_int_equal(end_batch(c), 1);
    assert_true(larder__cache_relate(c, H, of_h, 2));
    assert_int_equal(end_batch(c), 1);
    rate(c, A, 0.4f), rate(c, B, 0.2f), rate(c, C, 0.5f), rate(c, D, 0.6f), rate(c, E, 0.3f);
    assert_int_equal(ask(c, A), LARDER_MISS);
    assert_int_equal(ask(c, E), LARDER_MISS);
    assert_true(in(c, A) && in(c, E) && in(c, G) && in(c, H));

    uint64_t served;
    assert_int_equal(ask(c, A), LARDER_HIT);  /* case 1: in the importance part */
    assert_int_equal(ask(c, B), LARDER_MISS); /* case 2: lower than e, stays out */
    assert_true(!in(c, B) && in(c, E));
    assert_int_equal(ask_class(c, C, 0, &served), LARDER_SUBSTITUTE); /* case 3: h for c */
    assert_int_equal(served, H);
    assert_true(!in(c, C));                   /* and nothing changes */
    assert_int_equal(ask(c, D), LARDER_MISS); /* case 4: above e, which leaves */
    assert_true(in(c, D) && !in(c, E) && in(c, A));

    /* After the batch b has most neighbours and is no hub yet: g, the oldest, leaves for it. */
    assert_true(larder__cache_relate(c, B, of_b, 1));
    assert_int_equal(end_batch(c), 1);
    assert_true(in(c, B) && !in(c, G) && in(c, H) && in(c, A) && in(c, D));
    assert_int_equal(ask_class(c, F, 0, &served), LARDER_SUBSTITUTE);
    assert_int_equal(served, B);
    assert_int_equal(ask_class(c, I, 0, &served), LARDER_SUBSTITUTE); /* the newer hub has it */
    assert_int_equal(served, H);
    assert_false(larder__cache_relate(c, B, of_h, 2)); /* it is one already */
    larder__cache_close(&c);
}

/* ---- hubs ------------------------------------------------------------------------------------ */

static void a_hub_that_leaves_stands_for_nobody(void **state) {
    (void)state;
    larder__cache *c = open_cache("ratio=0.5,ratio_end=0.5", 100, 4, 0);
    for (uint64_t h = 0; h < 10; h++) {
        const uint64_t ids[] = {20 + h, 50 + h};
        assert_true(larder__cache_relate(c, h, ids, 2));
        assert_int_equal(end_batch(c), 1);
        assert_true(shown(c, "hubs") <= 4); /* it uses what the other part leaves free */
    }
    assert_true(shown(c, "covered") == 8);
    for (uint64_t h = 10; h-- > 0;) /* those that miss take the place of hubs above their share */
        assert_int_equal(ask(c, 20 + h), h < 6 ? LARDER_MISS : LARDER_SUBSTITUTE);
    assert_true(shown(c, "hubs") == 2 && shown(c, "covered") == 4);
    larder__cache_close(&c);
}

static void a_resident_hub_changes_sides(void **state) {
    (void)state;
    larder__cache *c = open_cache("", 100, 50, 0);
    rate(c, 7, 0.5f);
    ask(c, 7);
    const uint64_t ids[] = {8, 9};
    assert_true(larder__cache_relate(c, 7, ids, 2));
    assert_int_equal(end_batch(c), 0); /* nothing is read for it */
    assert_int_equal(ask(c, 8), LARDER_SUBSTITUTE);
    assert_int_equal(ask(c, 7), LARDER_HIT);
    rate(c, 7, 0.1f);
    larder__cache_close(&c);
}

static void a_hub_that_is_asked_for_is_not_fetched(void **state) {
    (void)state;
    larder__cache *c = open_cache("", 100, 50, 0);
    const uint64_t ids[] = {8, 9};
    assert_true(larder__cache_relate(c, 7, ids, 2));
    assert_int_equal(ask(c, 8), LARDER_MISS); /* it is not there yet */
    assert_int_equal(ask(c, 7), LARDER_MISS);
    assert_int_equal(end_batch(c), 0);
    assert_int_equal(ask(c, 9), LARDER_SUBSTITUTE);
    larder__cache_close(&c);
}

static void hubs_without_room_are_given_up(void **state) {
    (void)state;
    larder__cache *c = open_cache("ratio=1,ratio_end=1", 100, 50, 0);
    const uint64_t ids[] = {8, 9};
    assert_false(larder__cache_relate(c, 7, ids, 2)); /* no homophily part at all */
    larder__cache_close(&c);
    c = open_cache("ratio=0.5,ratio_end=0.5", 100, 4, 0);
    larder_access big = {.key = 7, .size = 3, .tag = LARDER_TAG_FETCH};
    larder__ticket t;
    for (uint64_t k = 20; k < 24; k++)
        ask(c, k);
    assert_true(larder__cache_relate(c, 7, ids, 2));
    uint64_t keys[8];
    assert_int_equal(larder__cache_fetch(c, keys, 8), 1);
    check_ok(larder__cache_claim(c, &big, 1, &t)); /* more than the part's share */
    larder__cache_batch(c);
    assert_false(in(c, 7));
    assert_true(shown(c, "covered") == 0);
    larder__cache_close(&c);
}

static void fetch_claim(larder__cache *c, uint64_t key) {
    larder_access a = {.key = key, .size = 1, .tag = LARDER_TAG_FETCH};
    larder__ticket t;
    check_ok(larder__cache_claim(c, &a, 1, &t));
}

/* Two jobs, whose words come between each other's. */
static void a_hub_waits_for_the_job_that_fetches_it(void **state) {
    (void)state;
    larder__cache *c = open_cache("", 100, 50, 0);
    const uint64_t ids[] = {8, 9}, others[] = {18, 19};
    uint64_t keys[8];
    assert_true(larder__cache_relate(c, 7, ids, 2));
    assert_int_equal(larder__cache_fetch(c, keys, 8), 1); /* the first job's */
    assert_true(larder__cache_relate(c, 17, others, 2));
    assert_int_equal(end_batch(c), 1); /* the second's: fetch, claim, batch */
    assert_int_equal(ask(c, 18), LARDER_SUBSTITUTE);
    assert_true(shown(c, "covered") == 4);
    fetch_claim(c, 7);
    larder__cache_batch(c);
    assert_int_equal(ask(c, 8), LARDER_SUBSTITUTE);
    /* Of a job that never asks again all is given up in the end. */
    for (uint64_t h = 30; h < 48; h++) {
        const uint64_t one[] = {h + 20};
        assert_true(larder__cache_relate(c, h, one, 1));
        assert_int_equal(larder__cache_fetch(c, keys, 8), 1);
        assert_true(shown(c, "covered") <= 4 + 16);
    }
    larder__cache_close(&c);
}

static void another_class_is_never_substituted(void **state) {
    (void)state;
    larder__cache *c = open_cache("", 100, 50, 0);
    ask_class(c, 7, 3, NULL);
    const uint64_t ids[] = {8, 9};
    assert_true(larder__cache_relate(c, 7, ids, 2));
    assert_int_equal(ask_class(c, 8, 4, NULL), LARDER_MISS);
    assert_int_equal(ask_class(c, 9, 3, NULL), LARDER_SUBSTITUTE);
    larder__cache_close(&c);
}

/* ---- shares ---------------------------------------------------------------------------------- */

static void moving_the_share_drops_no_more_than_it_moves(void **state) {
    (void)state;
    enum { KEYS = 4000, BUDGET = 1000 };
    larder__cache *c = open_cache("ratio=0.9,ratio_end=0.5,paper=literal", KEYS, BUDGET, 10);
    for (uint64_t k = 0; k < KEYS; k++)
        rate(c, k, (float)k / KEYS);
    for (uint64_t h = 0; h < 200; h++) {
        const uint64_t ids[] = {3000 + h};
        larder__cache_relate(c, h, ids, 1);
        end_batch(c);
    }
    for (uint64_t k = 500; k < 2500; k++)
        ask(c, k);
    assert_true(shown(c, "hubs") == BUDGET / 10);
    larder__cache_epoch(c, 0);
    for (uint64_t k = 0; k < KEYS; k++)
        rate(c, k, (float)k / KEYS / 2); /* sigma falls: beta */
    larder__cache_figures before, after;
    larder__cache_read_figures(c, &before);
    larder__cache_epoch(c, 5); /* t/T = 1/2, u = 0: from 90 to 70 % */
    assert_true(fabs(shown(c, "ratio") - 0.7) < 1e-9);
    larder__cache_read_figures(c, &after);
    assert_int_equal(before.evictions, after.evictions);
    for (uint64_t h = 200; h < 500; h++) {
        const uint64_t ids[] = {3000 + h};
        larder__cache_relate(c, h, ids, 1);
        end_batch(c);
    }
    larder__cache_read_figures(c, &after);
    assert_true(shown(c, "hubs") == 3 * BUDGET / 10);
    assert_int_equal(after.resident, BUDGET);
    /* 200 important ones made room for the 200 the part grew by, 100 old hubs for the others. */
    assert_int_equal(after.evictions - before.evictions, 300);
    larder__cache_close(&c);
}

/* ---- budget and guard ------------------------------------------------------------------------ */

static void substitutes_stay_within_their_budget(void **state) {
    (void)state;
    larder__cache *c =
        open_cache("most=0.25,most_class=0.4,hub_epoch=0,hub_batch=0,again=0", 1000, 900, 0);
    uint64_t ids[900], subs[3] = {0}, asked[3] = {0};
    for (uint32_t g = 0; g < 3; g++) {
        ask_class(c, g, g, NULL);
        for (uint64_t i = 0; i < 300; i++)
            ids[i] = 10 + g * 300 + i;
        assert_true(larder__cache_relate(c, g, ids, 300));
    }
    larder__cache_epoch(c, 1);
    for (uint64_t i = 0; i < 900; i++) { /* first two thirds of class 0, then the others */
        uint32_t g = i < 400 ? 0 : (uint32_t)(i % 3);
        uint64_t key = 10 + g * 300 + i % 300;
        asked[g]++;
        subs[g] += ask_class(c, key, g, NULL) == LARDER_SUBSTITUTE;
        uint64_t all = subs[0] + subs[1] + subs[2];
        assert_true((double)all <= 0.25 * (double)(i + 1));
        assert_true((double)subs[g] <= 0.4 * (double)asked[g]);
    }
    assert_true(subs[0] + subs[1] + subs[2] > 200);
    larder__cache_close(&c);
}

static void a_hub_stands_in_so_often(void **state) {
    (void)state;
    larder__cache *c = open_cache("hub_epoch=3,hub_batch=2,again=1", 100, 50, 0);
    ask(c, 7);
    const uint64_t ids[] = {20, 21, 22, 23, 24};
    assert_true(larder__cache_relate(c, 7, ids, 5));
    for (uint64_t k = 20; k < 25; k++) /* of a batch two */
        assert_int_equal(ask(c, k), k < 22 ? LARDER_SUBSTITUTE : LARDER_MISS);
    assert_true(shown(c, "hub_limited") == 3 && shown(c, "served_again") == 0);
    larder__cache_close(&c);
    c = open_cache("hub_epoch=3,hub_batch=2,again=1,ratio=0.5,ratio_end=0.5", 100, 2, 0);
    rate(c, 50, 9), ask(c, 50); /* fills the importance part with who outranks all */
    rate(c, 20, 1), rate(c, 21, 1), rate(c, 22, 1);
    assert_true(larder__cache_relate(c, 7, ids, 5));
    end_batch(c);
    assert_int_equal(ask(c, 20), LARDER_SUBSTITUTE);
    assert_int_equal(ask(c, 20), LARDER_MISS); /* itself, once in two */
    assert_int_equal(ask(c, 20), LARDER_SUBSTITUTE);
    end_batch(c);
    assert_int_equal(ask(c, 21), LARDER_SUBSTITUTE); /* the third of the epoch */
    assert_int_equal(ask(c, 22), LARDER_MISS);
    assert_true(shown(c, "hub_limited") == 1 && shown(c, "served_again") == 1);
    larder__cache_epoch(c, 1);
    assert_true(shown(c, "hub_limited") == 0 && shown(c, "served_again") == 0);
    assert_int_equal(ask(c, 21), LARDER_MISS); /* it was passed over before */
    assert_int_equal(ask(c, 22), LARDER_SUBSTITUTE);
    larder__cache_close(&c);
}

static void the_guard_withdraws_and_returns(void **state) {
    (void)state;
    larder__cache *c = open_cache("guard=0.02,hub_epoch=0,hub_batch=0", 100, 50, 0);
    ask(c, 7);
    uint64_t ids[40], next = 20;
    for (uint64_t i = 0; i < 40; i++)
        ids[i] = 20 + i;
    assert_true(larder__cache_relate(c, 7, ids, 40));
    const struct {
        double accuracy;
        larder_kind then;
    } steps[] = {
        {0.800, LARDER_SUBSTITUTE}, {0.801, LARDER_SUBSTITUTE}, {0.802, LARDER_SUBSTITUTE},
        {0.800, LARDER_SUBSTITUTE}, {0.801, LARDER_SUBSTITUTE}, {0.802, LARDER_SUBSTITUTE},
        {0.750, LARDER_SUBSTITUTE}, /* one is noise */
        {0.801, LARDER_SUBSTITUTE}, {0.802, LARDER_SUBSTITUTE}, {0.760, LARDER_SUBSTITUTE},
        {0.750, LARDER_MISS},                                   /* two running are not */
        {0.801, LARDER_MISS},       {0.802, LARDER_SUBSTITUTE}, /* two that are back */
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        larder__cache_accuracy(c, steps[i].accuracy);
        assert_int_equal(ask(c, next++), steps[i].then);
        assert_true(shown(c, "withdrawn") == (steps[i].then == LARDER_MISS));
    }
    larder__cache_close(&c);
}

/* ---- the elastic manager --------------------------------------------------------------------- */

static larder__elastic open_elastic(const char *text, uint64_t epochs) {
    const larder_policy *policy = larder__policy_find("spider");
    larder_args args;
    larder__elastic e;
    check_ok(larder__args_parse(&args, "policy", &policy->plugin, text, ',', NULL));
    larder__elastic_init(&e, &args, epochs);
    larder__args_free(&args);
    return e;
}

/* Least squares by a parabola, the obvious way: normal equations by Cramer's rule. Its value at the
 * newest point and its slope in the middle. */
static void parabola(const double *y, int n, double *value, double *slope) {
    double s[5] = {0}, b[3] = {0}; /* sums of powers of x = -(n-1)..0 */
    for (int i = 0; i < n; i++) {
        double x = i - (n - 1), p = 1;
        for (int k = 0; k < 5; k++, p *= x) {
            s[k] += p;
            if (k < 3)
                b[k] += p * y[i];
        }
    }
    double det = s[0] * (s[2] * s[4] - s[3] * s[3]) - s[1] * (s[1] * s[4] - s[3] * s[2]) +
                 s[2] * (s[1] * s[3] - s[2] * s[2]);
    *value = (b[0] * (s[2] * s[4] - s[3] * s[3]) - s[1] * (b[1] * s[4] - s[3] * b[2]) +
              s[2] * (b[1] * s[3] - s[2] * b[2])) /
             det;
    *slope = (s[0] * (b[1] * s[4] - b[2] * s[3]) - b[0] * (s[1] * s[4] - s[3] * s[2]) +
              s[2] * (s[1] * b[2] - b[1] * s[2])) /
             det;
    double bend = (s[0] * (s[2] * b[2] - s[3] * b[1]) - s[1] * (s[1] * b[2] - s[3] * b[0]) +
                   s[2] * (s[1] * b[1] - s[2] * b[0])) /
                  det;
    *slope -= bend * (n - 1);
}

static void smoothing_fits_a_parabola(void **state) {
    (void)state;
    larder_rng rng;
    larder_rng_seed(&rng, 5, 5);
    larder__elastic e = open_elastic("", 100);
    double sigmas[40], accuracies[40], value, slope;
    for (int t = 0; t < 40; t++) {
        sigmas[t] = larder_rng_unit(&rng);
        accuracies[t] = larder_rng_unit(&rng);
        larder__elastic_accuracy(&e, accuracies[t]);
        larder__elastic_epoch(&e, (uint64_t)t, sigmas[t]);
        if (t < 2) {
            assert_true(isnan(e.slope));
            continue;
        }
        int n = t + 1 < 5 ? t + 1 : 5;
        parabola(sigmas + t + 1 - n, n, &value, &slope);
        assert_true(fabs(e.slope - slope) < 1e-9);
        parabola(accuracies + t + 1 - n, n, &value, &slope);
        assert_true(fabs(e.smooth[e.smooth_count - 1] - value) < 1e-9);
    }
}

static void the_ratio_moves_once_scores_come_together(void **state) {
    (void)state;
    larder__elastic e = open_elastic("ratio=0.9,ratio_end=0.5", 21);
    double last = 0.9;
    for (uint64_t t = 0; t < 21; t++) { /* sigma rises up to epoch 8, falls from 9 on */
        double sigma = 1 - 0.01 * ((double)t - 8.5) * ((double)t - 8.5);
        larder__elastic_epoch(&e, t, t ? sigma : (double)NAN);
        assert_true(e.u == 0); /* no accuracy is known */
        if (t < 9)
            assert_true(e.beta == 0 && e.ratio == 0.9);
        assert_true(e.ratio <= last + 1e-12);
        assert_true(last - e.ratio < 0.4 / 7); /* no jump */
        last = e.ratio;
    }
    assert_int_equal(e.since, 12); /* over the last five it falls at 11 and 12 */
    assert_true(fabs(e.ratio - 0.5) < 1e-12);
    for (uint64_t t = 21; t < 30; t++) { /* rises again: latched */
        larder__elastic_epoch(&e, t, (double)t);
        assert_true(e.beta == 1 && fabs(e.ratio - 0.5) < 1e-12);
    }
}

/* A fall that gets slower is one, from the first slopes on. */
static void a_slowing_fall_is_a_fall(void **state) {
    (void)state;
    larder__elastic e = open_elastic("", 30);
    for (uint64_t t = 0; t < 6; t++)
        larder__elastic_epoch(&e, t, t ? 0.1 + 0.1 * pow(0.5, (double)t) : (double)NAN);
    assert_true(e.beta == 1);
    assert_int_equal(e.since, 4);
}

static void in_the_last_epoch_it_is_too_late_to_move(void **state) {
    (void)state;
    larder__elastic e = open_elastic("", 5);
    for (uint64_t t = 0; t < 8; t++) {
        larder__elastic_epoch(&e, t, t < 3 ? (double)t : 3 - (double)t);
        assert_true(e.ratio == 0.9);
    }
    assert_true(e.beta == 1 && e.since >= 4);
}

static void growth_of_accuracy_holds_the_ratio_back(void **state) {
    (void)state;
    larder__elastic fast = open_elastic("", 20), still = open_elastic("", 20);
    for (uint64_t t = 0; t < 12; t++) {
        larder__elastic_accuracy(&fast, 0.2 + 0.03 * (double)t);
        larder__elastic_accuracy(&still, 0.9);
        larder__elastic_epoch(&fast, t, 1 - 0.01 * (double)t);
        larder__elastic_epoch(&still, t, 1 - 0.01 * (double)t);
    }
    assert_true(fabs(fast.u - 0.75) < 1e-9); /* 0.03 / (0.01 + 0.03) */
    assert_true(still.u == 0);
    assert_int_equal(fast.since, 3);
    double x = (11.0 - 3) / (19 - 3);
    assert_true(fabs(still.ratio - (0.9 - 0.1 * x)) < 1e-12);
    assert_true(fabs(fast.ratio - (0.9 - 0.1 * pow(x, 1.75))) < 1e-12);
    for (uint64_t t = 12; t < 20; t++) { /* accuracy falls: no less than 0 */
        larder__elastic_accuracy(&fast, 0.5 - 0.02 * (double)t);
        larder__elastic_epoch(&fast, t, 0.5);
        assert_true(fast.u >= 0 && fast.u <= 1);
    }
}

static void as_printed_it_jumps(void **state) {
    (void)state;
    larder__elastic e = open_elastic("paper=literal,ratio=0.9,ratio_end=0.5", 10);
    const double sigmas[] = {1, 2, 1.5, 1.6, 1.2};
    const double ratios[] = {0.9, 0.9, 0.9 - 0.4 * 0.2, 0.9, 0.9 - 0.4 * 0.4};
    for (uint64_t t = 0; t < 5; t++) {
        larder__elastic_epoch(&e, t, sigmas[t]);
        assert_true(fabs(e.ratio - ratios[t]) < 1e-12);
    }
    for (uint64_t t = 5; t < 10; t++) { /* D = -gamma and worse: still a share */
        larder__elastic_accuracy(&e, 0.9 - 0.01 * (double)t);
        larder__elastic_epoch(&e, t, 1 - 0.1 * (double)t);
        assert_true(e.ratio >= 0 && e.ratio <= 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_four_cases),
        cmocka_unit_test(a_hub_that_leaves_stands_for_nobody),
        cmocka_unit_test(a_resident_hub_changes_sides),
        cmocka_unit_test(a_hub_that_is_asked_for_is_not_fetched),
        cmocka_unit_test(hubs_without_room_are_given_up),
        cmocka_unit_test(a_hub_waits_for_the_job_that_fetches_it),
        cmocka_unit_test(another_class_is_never_substituted),
        cmocka_unit_test(moving_the_share_drops_no_more_than_it_moves),
        cmocka_unit_test(substitutes_stay_within_their_budget),
        cmocka_unit_test(a_hub_stands_in_so_often),
        cmocka_unit_test(the_guard_withdraws_and_returns),
        cmocka_unit_test(smoothing_fits_a_parabola),
        cmocka_unit_test(the_ratio_moves_once_scores_come_together),
        cmocka_unit_test(a_slowing_fall_is_a_fall),
        cmocka_unit_test(in_the_last_epoch_it_is_too_late_to_move),
        cmocka_unit_test(growth_of_accuracy_holds_the_ratio_back),
        cmocka_unit_test(as_printed_it_jumps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
