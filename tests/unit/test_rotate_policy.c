/* The policy rotate by itself: who leaves, and who is drawn to be served again. */
#include "cache_kit.h"
#include "check.h"

#include "base/spec.h"
#include "plugins.h"

#include <math.h>
#include <string.h>

static larder_access ask(uint64_t key, float loss, uint32_t tag) {
    return (larder_access){.key = key, .size = 1, .score = loss, .tag = tag};
}

/* Takes who out of the line and puts it at its end; where it stood. */
static int move_to_end(int *line, int n, int who) {
    int at = 0;
    while (line[at] != who)
        at++;
    memmove(line + at, line + at + 1, (size_t)(n - at - 1) * sizeof *line);
    line[n - 1] = who;
    return at;
}

static larder__cache *rotate_cache(const char *args_text, uint64_t keys, uint64_t budget) {
    larder_args args;
    const larder_policy *p = larder__policy_find("rotate");
    check_ok(larder__args_parse(&args, "policy", &p->plugin, args_text, ',', NULL));
    larder__cache_conf conf = {.policy = p,
                               .args = &args,
                               .store = &larder__store_null,
                               .keys = keys,
                               .budget = budget,
                               .seed = 3};
    larder__cache *c;
    check_ok(larder__cache_open(&c, &conf));
    larder__args_free(&args);
    return c;
}

/* Chi-square of the draw against weights computed from the definition, over losses with ties and
 * with samples that have none. Losses are far apart, so that bins and values agree. */
static void residents_are_drawn_by_rank(void **state) {
    (void)state;
    enum { R = 40, DRAWS = 400000 };
    larder__cache *c = rotate_cache("prefer=rank", R, R);
    float loss[R];
    for (int k = 0; k < R; k++) {
        loss[k] = k % 5 == 4 ? NAN : ldexpf(1, k * 7 % 13 - 6);
        larder_access a = ask((uint64_t)k, NAN, 0);
        larder__ticket t;
        check_ok(larder__cache_claim(c, &a, 1, &t));
        larder__cache_score(c, &a.key, &loss[k], 1);
    }
    double weight[R], total = 0, chi = 0;
    for (int k = 0; k < R; k++) {
        double rank = 0; /* below, and half of those alike */
        for (int j = 0; j < R; j++) {
            float a = isnan(loss[j]) ? INFINITY : loss[j], b = isnan(loss[k]) ? INFINITY : loss[k];
            rank += j == k ? 0 : a < b ? 1 : a == b ? 0.5 : 0;
        }
        total += weight[k] = rank + R / 2.0;
    }
    uint64_t times[R] = {0};
    larder_rng rng;
    larder_rng_seed(&rng, 4, 4);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t key;
        double share;
        assert_true(larder__cache_pick(c, &rng, &key, &share));
        assert_true(fabs(share - weight[key] / total * R) < 1e-9);
        times[key]++;
    }
    for (int k = 0; k < R; k++) {
        double expect = DRAWS * weight[k] / total;
        chi += ((double)times[k] - expect) * ((double)times[k] - expect) / expect;
    }
    assert_true(chi < 72.1); /* 39 degrees of freedom, p = 0.001 */
    assert_true(chi > 15.0); /* too even is not random either */
    larder__cache_close(&c);
}

/* The oldest of eight at random: who is j-th of R by the time of its last service, oldest first, is
 * drawn with a chance of ((R - j)^8 - (R - j - 1)^8) / R^8. Who is drawn or asked for is the newest
 * then; a copy of the state draws the same. */
static void the_longest_rested_is_drawn(void **state) {
    (void)state;
    enum { R = 24, DRAWS = 200000 };
    larder__cache *c = rotate_cache("", R, R), *copy = rotate_cache("", R, R);
    int line[R]; /* all residents, served longest ago first */
    for (int k = 0; k < R; k++) {
        larder_access a = ask((uint64_t)k, 1, 0);
        larder__ticket t;
        check_ok(larder__cache_claim(c, &a, 1, &t));
        line[k] = k;
    }
    uint64_t times[R] = {0};
    larder_rng rng, same;
    larder_rng_seed(&rng, 7, 7);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t key, asked = (uint64_t)i * 7 % R;
        double share;
        if (i == DRAWS / 2) {
            kit_copy_state(c, copy);
            same = rng;
        }
        assert_true(larder__cache_pick(c, &rng, &key, &share));
        assert_true(share == 1);
        if (i >= DRAWS / 2) {
            uint64_t there;
            assert_true(larder__cache_pick(copy, &same, &there, &share));
            assert_int_equal(there, key);
        }
        int j = move_to_end(line, R, (int)key);
        times[j]++;
        if (i % 3 == 0) { /* a hit of the stream */
            larder_access a = ask(asked, 1, 0);
            larder__ticket t;
            check_ok(larder__cache_claim(c, &a, 1, &t));
            if (i >= DRAWS / 2)
                check_ok(larder__cache_claim(copy, &a, 1, &t));
            move_to_end(line, R, (int)asked);
        }
    }
    double chi = 0;
    for (int j = 0; j < R; j++) {
        double expect = DRAWS * (pow((double)(R - j) / R, 8) - pow((double)(R - j - 1) / R, 8));
        if (expect < 10) { /* the last few together come less than once in DRAWS */
            assert_true(times[j] < 30);
            continue;
        }
        chi += ((double)times[j] - expect) * ((double)times[j] - expect) / expect;
    }
    assert_true(chi < 45); /* at most 23 degrees of freedom, p < 0.005 */
    larder__cache_close(&c);
    larder__cache_close(&copy);
}

/* With all residents tried, the easiest of all goes, whatever has changed since it came. */
static void the_easiest_leaves(void **state) {
    (void)state;
    enum { N = 60, R = 12 };
    larder__cache *c = rotate_cache("tries=1024", N, R);
    const larder_slots *slots = larder__cache_slots(c);
    float loss[N] = {0};
    larder_rng rng;
    larder_rng_seed(&rng, 1, 1);
    for (uint64_t i = 0; i < 3000; i++) {
        uint64_t key = larder_rng_below(&rng, N), easiest = N;
        for (uint64_t k = 0; k < N; k++)
            if (slots->slot_of[k] != LARDER_NO_SLOT && (easiest == N || loss[k] < loss[easiest]))
                easiest = k;
        bool leaves = slots->resident == R && slots->slot_of[key] == LARDER_NO_SLOT;
        if (slots->slot_of[key] == LARDER_NO_SLOT)
            loss[key] = i % 4 ? (float)larder_rng_unit(&rng) : INFINITY;
        larder_access a = ask(key, isinf(loss[key]) ? NAN : loss[key], 0);
        larder__ticket t;
        check_ok(larder__cache_claim(c, &a, 1, &t));
        if (leaves) /* at the ends of many ties anyone of them may go */
            assert_true(slots->slot_of[easiest] == LARDER_NO_SLOT || isinf(loss[easiest]));
        uint64_t other = larder_rng_below(&rng, N);
        if (slots->slot_of[other] != LARDER_NO_SLOT) {
            loss[other] = (float)larder_rng_unit(&rng);
            larder__cache_score(c, &other, &loss[other], 1);
        }
    }
    larder__cache_close(&c);
}

/* Who is still to come in this sweep is never pushed out; with nobody to go, newcomers stay out. */
static void those_to_come_stay(void **state) {
    (void)state;
    enum { N = 50, R = 10 };
    larder__cache *c = kit_cache(larder__policy_find("rotate"), &larder__store_null, N, R, 1);
    const larder_slots *slots = larder__cache_slots(c);
    larder__ticket t;
    for (uint64_t k = 0; k < R; k++) {
        larder_access a = ask(k, 1, larder_tag_sweep(0));
        check_ok(larder__cache_claim(c, &a, 1, &t));
    }
    larder_access first = ask(20, 1, larder_tag_sweep(0));
    check_ok(larder__cache_claim(c, &first, 1, &t)); /* all were served in sweep 0: somebody goes */
    assert_int_not_equal(slots->slot_of[20], LARDER_NO_SLOT);
    uint64_t served = N;
    for (uint64_t k = 0; k < R && served == N; k++)
        served = slots->slot_of[k] != LARDER_NO_SLOT ? k : N;
    larder_access again = ask(served, 1, larder_tag_sweep(1));
    check_ok(larder__cache_claim(c, &again, 1, &t));
    assert_int_equal(t.kind, LARDER_HIT);
    larder_access next = ask(30, 9, larder_tag_sweep(1));
    check_ok(larder__cache_claim(c, &next, 1, &t)); /* the one served in sweep 1 goes */
    assert_int_equal(slots->slot_of[served], LARDER_NO_SLOT);
    assert_int_not_equal(slots->slot_of[20], LARDER_NO_SLOT);
    larder__cache *d = kit_cache(larder__policy_find("rotate"), &larder__store_null, N, R, 1);
    kit_copy_state(c, d);
    larder__cache_close(&c);
    slots = larder__cache_slots(d);
    larder_access later = ask(31, 1, larder_tag_sweep(2));
    for (uint64_t k = 40; k < 45; k++) { /* nobody was served in sweep 2 yet */
        later.key = k;
        check_ok(larder__cache_claim(d, &later, 1, &t));
        assert_int_equal(t.kind, LARDER_MISS);
    }
    assert_int_not_equal(slots->slot_of[20], LARDER_NO_SLOT);
    larder__cache_close(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(residents_are_drawn_by_rank),
        cmocka_unit_test(the_longest_rested_is_drawn),
        cmocka_unit_test(the_easiest_leaves),
        cmocka_unit_test(those_to_come_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
