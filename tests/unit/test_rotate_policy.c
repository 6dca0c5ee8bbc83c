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

/* The oldest of `of` at random: who is j-th of R by the time of its last service, oldest first, is
 * drawn with a chance of ((R - j)^of - (R - j - 1)^of) / R^of. Who is drawn or asked for is the
 * newest then; a copy of the state draws the same. */
static void check_draws(const char *text, int of) {
    enum { R = 24, DRAWS = 200000 };
    larder__cache *c = rotate_cache(text, R, R), *copy = rotate_cache(text, R, R);
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
        if (i == DRAWS / 2) {
            kit_copy_state(c, copy);
            same = rng;
        }
        assert_true(larder__cache_pick(c, &rng, &key));
        if (i >= DRAWS / 2) {
            uint64_t there;
            assert_true(larder__cache_pick(copy, &same, &there));
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
        double expect = DRAWS * (pow((double)(R - j) / R, of) - pow((double)(R - j - 1) / R, of));
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

static void the_rested_are_drawn_as_asked(void **state) {
    (void)state;
    check_draws("", 1); /* anybody */
    check_draws("rested=2", 2);
    check_draws("rested=8", 8);
}

/* ---- who leaves ------------------------------------------------------------------------------ */

/* With all residents tried, the one served most since it entered goes, and of those the one that
 * has been there longest; losses and draws change nothing. */
static void the_most_served_leaves(void **state) {
    (void)state;
    enum { N = 60, R = 12 };
    larder__cache *c = rotate_cache("tries=1024", N, R);
    const larder_slots *slots = larder__cache_slots(c);
    uint64_t times[N] = {0}, since[N] = {0};
    larder_rng rng;
    larder_rng_seed(&rng, 1, 1);
    for (uint64_t i = 1; i < 4000; i++) {
        uint64_t key = larder_rng_below(&rng, i % 3 ? N : N / 4), goes = N;
        bool in = slots->slot_of[key] != LARDER_NO_SLOT;
        for (uint64_t k = 0; !in && slots->resident == R && k < N; k++)
            if (slots->slot_of[k] != LARDER_NO_SLOT &&
                (goes == N || times[k] > times[goes] ||
                 (times[k] == times[goes] && since[k] < since[goes])))
                goes = k;
        larder_access a = ask(key, (float)larder_rng_unit(&rng), 0);
        larder__ticket t;
        check_ok(larder__cache_claim(c, &a, 1, &t));
        if (goes < N) /* one in 30,000 looks misses it */
            assert_int_equal(slots->slot_of[goes], LARDER_NO_SLOT);
        times[key] = in ? times[key] + 1 : 1;
        since[key] = in ? since[key] : i;
        uint64_t other = larder_rng_below(&rng, N);
        float loss = (float)larder_rng_unit(&rng);
        larder__cache_score(c, &other, &loss, 1);
        assert_true(larder__cache_pick(c, &rng, &other));
    }
    larder__cache_close(&c);
}

/* Each step a newcomer enters and K residents are served once more. At the steady state a resident
 * is served 1 + K times on average before it leaves, and so is nearly everyone: the square
 * deviation is a tenth of what chance alone gives (geometric, K (K + 1)), and a loss has no say in
 * it. */
static void all_are_served_alike(void **state) {
    (void)state;
    enum { N = 20000, R = 500, K = 4, STEPS = 15000 };
    larder__cache *c = rotate_cache("", N, R);
    const larder_slots *slots = larder__cache_slots(c);
    static uint32_t times[N];
    memset(times, 0, sizeof times);
    larder_rng rng;
    larder_rng_seed(&rng, 5, 5);
    double sum = 0, squares = 0, left = 0, hard = 0, easy = 0, hards = 0;
    for (uint64_t i = 0; i < STEPS; i++) {
        uint64_t keys[1 + K];
        for (int k = 0; k < K && slots->resident == R; k++)
            assert_true(larder__cache_pick(c, &rng, &keys[1 + k]));
        keys[0] = i;
        for (int k = slots->resident == R ? K : 0; k >= 0; k--) {
            larder_access a = ask(keys[k], keys[k] % 2 ? 9.f : 0.1f, 0);
            larder__ticket t;
            check_ok(larder__cache_claim(c, &a, 1, &t));
            times[keys[k]]++;
        }
    }
    for (uint64_t k = 2 * R; k < STEPS - 4 * R; k++) {
        if (slots->slot_of[k] != LARDER_NO_SLOT)
            continue; /* its count is not over */
        double n = times[k];
        sum += n, squares += n * n, left++;
        *(k % 2 ? &hard : &easy) += n;
        hards += (double)(k % 2);
    }
    double mean = sum / left, spread = squares / left - mean * mean;
    assert_true(left > 0.99 * (STEPS - 6 * R)); /* nobody stays for good */
    assert_true(fabs(mean - (1 + K)) < 0.05);
    assert_true(spread < 0.1 * K * (K + 1));
    assert_true(fabs(hard / hards - easy / (left - hards)) < 0.05);
    larder__cache_close(&c);
}

/* The first rule. With all residents tried, the easiest of all goes, whatever has changed since it
 * came. */
static void the_easiest_leaves(void **state) {
    (void)state;
    enum { N = 60, R = 12 };
    larder__cache *c = rotate_cache("victim=loss,tries=1024", N, R);
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
        cmocka_unit_test(the_rested_are_drawn_as_asked),
        cmocka_unit_test(the_most_served_leaves),
        cmocka_unit_test(all_are_served_alike),
        cmocka_unit_test(the_easiest_leaves),
        cmocka_unit_test(those_to_come_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
