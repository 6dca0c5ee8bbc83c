/* The guard on made-up courses of accuracy: noisy ones that only rise must not make it withdraw,
 * falls that are larger than the noise must. Its constants were chosen on courses of other seeds.
 */
#include "check.h"

#include "base/state.h"
#include "cache/policy/guard.h"

#include <math.h>
#include <string.h>

enum { EPOCHS = 30, COURSES = 2000 };

static double between(larder_rng *rng, double low, double high) {
    return low + (high - low) * larder_rng_unit(rng);
}

static double normal(larder_rng *rng) {
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += larder_rng_unit(rng);
    return sum - 6;
}

/* Rises towards `top`, in steps that get smaller; its noise falls from `loud` to `soft`. Some have
 * single bad epochs early on. `fall`: from epoch `from` on it is lower by so much, reached within
 * `ramp` epochs. */
typedef struct course {
    double top, pace, loud, soft, calm;
    bool slips;
    double fall;
    int from, ramp;
    double at[EPOCHS];
} course;

static void fill(course *c, larder_rng *rng) {
    for (int t = 0; t < EPOCHS; t++) {
        double a = c->top * (1 - 0.9 * exp(-(t + 1) / c->pace));
        a += normal(rng) * (c->loud * exp(-t / c->calm) + c->soft);
        if (c->slips && t < 8 && larder_rng_unit(rng) < 0.15)
            a -= between(rng, 0, 0.2);
        if (c->fall > 0 && t >= c->from)
            a -= c->fall * fmin(1, (t - c->from + 1.0) / c->ramp);
        c->at[t] = fmin(1, fmax(0, a));
    }
}

static course rising(uint64_t seed) {
    larder_rng rng;
    larder_rng_seed(&rng, seed, 0x60a4d);
    course c = {.top = between(&rng, 0.4, 0.95),
                .pace = between(&rng, 0.8, 8),
                .loud = between(&rng, 0, 0.1),
                .soft = between(&rng, 0.001, 0.012),
                .calm = between(&rng, 1, 6)};
    c.slips = larder_rng_unit(&rng) < 0.3;
    fill(&c, &rng);
    return c;
}

/* By the time of the fall the course is flat, and the fall is eight times the noise or more. */
static course falling(uint64_t seed) {
    larder_rng rng;
    larder_rng_seed(&rng, seed, 0xfa11);
    course c = {.top = between(&rng, 0.5, 0.95),
                .pace = between(&rng, 0.5, 2.5),
                .loud = between(&rng, 0, 0.03),
                .soft = between(&rng, 0.001, 0.008),
                .calm = 1.5,
                .fall = between(&rng, 0.1, 0.4)};
    c.from = 9 + (int)larder_rng_below(&rng, 16);
    c.ramp = 1 + (int)larder_rng_below(&rng, 3);
    fill(&c, &rng);
    return c;
}

/* The first epoch after which nothing is substituted; EPOCHS: never. */
static int first_withdrawn(const course *c) {
    larder__guard g;
    larder__guard_init(&g, 0.02);
    for (int t = 0; t < EPOCHS; t++) {
        larder__guard_watch(&g, c->at[t]);
        if (g.withdrawn)
            return t;
    }
    return EPOCHS;
}

static void noise_is_no_fall(void **state) {
    (void)state;
    int plainly = 0, fired = 0;
    for (uint64_t seed = 50000; seed < 50000 + COURSES; seed++) {
        course c = rising(seed);
        double best = 0;
        bool below = false; /* as going by the best accuracy so far would have it */
        for (int t = 0; t < EPOCHS; t++) {
            below |= c.at[t] < best - 0.02;
            best = fmax(best, c.at[t]);
        }
        plainly += below;
        fired += first_withdrawn(&c) < EPOCHS;
    }
    assert_true(plainly > COURSES / 2); /* they are noisy */
    assert_true(fired <= COURSES / 200);
}

static void falls_are_seen(void **state) {
    (void)state;
    int early = 0, late = 0;
    for (uint64_t seed = 70000; seed < 70000 + COURSES; seed++) {
        course c = falling(seed);
        int at = first_withdrawn(&c);
        early += at < c.from;
        late += at > c.from + 3;
    }
    assert_true(early <= COURSES / 200);
    assert_int_equal(late, 0);
}

/* One bad accuracy is none, two are; it comes back with accuracy, or when nothing gets worse. */
static void withdraws_and_returns(void **state) {
    (void)state;
    larder__guard g;
    larder__guard_init(&g, 0.02);
    for (int i = 0; i < 9; i++) {
        larder__guard_watch(&g, i == 6 ? 0.75 : 0.80 + 0.001 * (i % 3));
        assert_int_equal(g.withdrawn, 0);
    }
    larder__guard_watch(&g, 0.76);
    assert_int_equal(g.withdrawn, 0);
    larder__guard_watch(&g, 0.75);
    assert_int_equal(g.withdrawn, 1);
    larder__guard copy = g;
    larder__guard_watch(&copy, 0.80);
    assert_int_equal(copy.withdrawn, 1);
    larder__guard_watch(&copy, 0.80); /* two good ones */
    assert_int_equal(copy.withdrawn, 0);
    const double low[] = {0.70, 0.69, 0.70, 0.70};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(g.withdrawn, 1);
        larder__guard_watch(&g, low[i]);
    }
    for (int i = 0; i < 3 && g.withdrawn; i++) /* without a new low: it was something else */
        larder__guard_watch(&g, 0.70);
    assert_int_equal(g.withdrawn, 0);
    assert_true(g.best < 0.71);
}

static void off_is_off(void **state) {
    (void)state;
    larder__guard g;
    larder__guard_init(&g, 0);
    for (int i = 0; i < 10; i++)
        larder__guard_watch(&g, i < 5 ? 0.9 : 0.1);
    assert_int_equal(g.withdrawn, 0);
}

static void goes_on_from_its_state(void **state) {
    (void)state;
    course c = falling(71234);
    for (int at = 0; at < EPOCHS; at++) {
        larder__guard a, b;
        larder__guard_init(&a, 0.02);
        larder__guard_init(&b, 0.02);
        for (int t = 0; t < at; t++)
            larder__guard_watch(&a, c.at[t]);
        larder_writer w = {0};
        larder__guard_save(&a, &w);
        larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
        check_ok(larder__guard_load(&b, &r));
        larder__writer_free(&w);
        for (int t = at; t < EPOCHS; t++) {
            larder__guard_watch(&a, c.at[t]);
            larder__guard_watch(&b, c.at[t]);
            assert_int_equal(a.withdrawn, b.withdrawn);
            assert_true(a.best == b.best);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_is_no_fall),       cmocka_unit_test(falls_are_seen),
        cmocka_unit_test(withdraws_and_returns),  cmocka_unit_test(off_is_off),
        cmocka_unit_test(goes_on_from_its_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
