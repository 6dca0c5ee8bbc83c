/* The machine that several jobs feed, without bytes: who has promised what, and on which scale it
 * hears of scores. */
#include "check.h"

#include "shared/machine.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KEYS = 100, SIZE = 10 };

static larder__machine *machine_of(const char *policy, uint64_t entries) {
    larder__agreement a = {.keys = KEYS, .budget = entries * SIZE, .seed = 3, .share = {1}};
    larder__machine *m = NULL;
    snprintf(a.policy, sizeof a.policy, "%s", policy);
    larder__machine_conf conf = {.about = &a, .size = SIZE};
    check_ok(larder__machine_open(&m, &conf));
    return m;
}

static larder__outcome say(larder__machine *m, uint32_t job, larder__op o) {
    larder__outcome out;
    check_ok(larder__machine_apply(m, job, &o, &out));
    return out;
}

static void joins(larder__machine *m, uint32_t job) {
    say(m, job, (larder__op){.type = LARDER__OP_JOIN});
}

/* The mark of what this job is told to make. */
static uint64_t claim(larder__machine *m, uint32_t job, uint32_t key, float score) {
    larder__row row = {.key = key, .size = SIZE, .group = LARDER_NO_GROUP, .score = score};
    larder__outcome out = say(m, job, (larder__op){.type = LARDER__OP_CLAIM, .n = 1, .rows = &row});
    return out.tickets[0].kind == LARDER_MISS ? out.tickets[0].mark : 0;
}

static void made(larder__machine *m, uint32_t job, uint32_t key, uint64_t mark) {
    larder__made one = {.mark = mark, .key = key};
    say(m, job, (larder__op){.type = LARDER__OP_MADE, .n = 1, .made = &one});
}

/* ---- promises -------------------------------------------------------------------------------- */

/* Others were told that it is there: it is on its way to them though it has left the table. */
static void a_promise_outlives_its_place(void **state) {
    (void)state;
    larder__machine *m = machine_of("lru", 2);
    joins(m, 0);
    joins(m, 1);
    uint64_t mark = claim(m, 0, 7, NAN);
    assert_true(mark && larder__machine_promised(m, 7, mark));
    claim(m, 1, 8, NAN);
    claim(m, 1, 9, NAN);
    assert_false(larder__machine_holds(m, 7, mark));
    assert_true(larder__machine_promised(m, 7, mark));
    made(m, 1, 7, mark); /* not its to say */
    assert_true(larder__machine_promised(m, 7, mark));
    uint64_t again = claim(m, 1, 7, NAN); /* another making */
    assert_true(larder__machine_promised(m, 7, mark) && larder__machine_promised(m, 7, again));
    made(m, 0, 7, mark);
    assert_false(larder__machine_promised(m, 7, mark));
    assert_true(larder__machine_promised(m, 7, again));
    made(m, 1, 7, again);
    assert_true(larder__machine_holds(m, 7, again) && !larder__machine_promised(m, 7, again));
    larder__machine_close(&m);
}

static void a_job_that_leaves_promises_nothing(void **state) {
    (void)state;
    larder__machine *m = machine_of("lru", 2);
    joins(m, 0);
    joins(m, 1);
    uint64_t left = claim(m, 0, 7, NAN);
    claim(m, 1, 8, NAN);
    uint64_t there = claim(m, 0, 9, NAN), others = claim(m, 1, 10, NAN);
    assert_true(larder__machine_promised(m, 7, left) && larder__machine_promised(m, 9, there));
    assert_true(larder__machine_here(m, 0));
    say(m, 0, (larder__op){.type = LARDER__OP_LEAVE});
    assert_false(larder__machine_here(m, 0));
    assert_false(larder__machine_promised(m, 7, left) || larder__machine_promised(m, 9, there));
    assert_true(larder__machine_promised(m, 10, others));
    larder__machine_close(&m);
}

/* ---- scores ---------------------------------------------------------------------------------- */

static bool resident(larder__machine *m, uint32_t key) {
    return larder__cache_resident(larder__machine_cache(m), key);
}

static void score(larder__machine *m, uint32_t job, uint64_t key, float value) {
    say(m, job, (larder__op){.type = LARDER__OP_SCORES, .n = 1, .ids = &key, .scores = &value});
}

/* A job speaks of keys from..to: more of the later ones, or where `falls` of the earlier. */
static void speaks(larder__machine *m, uint32_t job, uint32_t from, uint32_t to, float scale,
                   bool falls) {
    uint32_t n = to - from;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i * 7 % n; /* in no order */
        score(m, job, from + at, scale * (float)(1 + (falls ? n - 1 - at : at)));
    }
}

/* Which keys are kept of those that come, all of them scored, in an order of its own. */
static uint64_t kept_of(larder__machine *m, uint32_t job, uint32_t from, uint32_t to) {
    uint64_t sum = 0;
    for (uint32_t k = from; k < to; k++)
        claim(m, job, from + (k - from) * 7 % (to - from), NAN);
    for (uint32_t k = from; k < to; k++)
        sum += resident(m, k) ? k : 0;
    return sum;
}

/* A job that is alone decides as its losses say, and those of a model whose losses are a thousand
 * times larger have no more weight than others'. */
static void losses_of_any_size_count_alike(void **state) {
    (void)state;
    uint64_t kept[3];
    const float scales[] = {1, 1000, 0.001f};
    for (int i = 0; i < 3; i++) {
        larder__machine *m = machine_of("app:order=score", 20);
        joins(m, 0);
        joins(m, 1);
        speaks(m, 0, 0, 60, scales[i], false);
        speaks(m, 1, 20, 100, 1, true);
        kept[i] = kept_of(m, 1, 0, KEYS);
        larder__machine_close(&m);
    }
    assert_int_equal(kept[0], kept[1]);
    assert_int_equal(kept[0], kept[2]);
}

/* What one job had told before another came is of the same scale from then on, and again when it is
 * alone: nobody's samples stay because they came with larger numbers. */
static void the_scale_follows_those_who_are_there(void **state) {
    (void)state;
    larder__machine *m = machine_of("app:order=score", 20);
    joins(m, 0);
    speaks(m, 0, 0, 40, 100, false); /* losses of 100 to 4000, of which it keeps the highest */
    kept_of(m, 0, 0, 40);
    for (uint32_t k = 0; k < 40; k++)
        assert_int_equal(resident(m, k), k >= 20);
    joins(m, 1);                            /* its losses are below 1 */
    for (int twice = 0; twice < 2; twice++) /* the first ranks are among few */
        speaks(m, 1, 40, 80, 0.01f, false);
    for (int times = 0; times < 3; times++)
        kept_of(m, 1, 40, 80);
    uint32_t first = 0, second = 0;
    for (uint32_t k = 0; k < 80; k++)
        *(k < 40 ? &first : &second) += resident(m, k);
    assert_in_range(first, 8, 12); /* the upper quarter of what each has said */
    assert_int_equal(first + second, 20);
    say(m, 0, (larder__op){.type = LARDER__OP_LEAVE});
    score(m, 1, 80, 0.41f); /* above all that it ever said: it enters */
    claim(m, 1, 80, NAN);
    assert_true(resident(m, 80));
    score(m, 1, 81, 0.005f); /* below */
    claim(m, 1, 81, NAN);
    assert_false(resident(m, 81));
    larder__machine_close(&m);
}

/* Where all jobs agree which of two samples is worth more, so does what is made of it; and among
 * others it is the one that is asked for more, by jobs that ask more. */
static void order_that_all_agree_on_is_kept(void **state) {
    (void)state;
    larder__machine *m = machine_of("app:order=score", 20);
    for (uint32_t job = 0; job < 3; job++) {
        joins(m, job);
        speaks(m, job, 0, KEYS, job ? 1 : 50, false);
    }
    for (uint32_t k = 0; k < KEYS; k++) /* again, against all that was said by then */
        for (uint32_t job = 0; job < 3; job++)
            score(m, job, k, (job ? 1 : 50) * (float)(1 + k));
    for (int times = 0; times < 2; times++)
        kept_of(m, 2, 0, KEYS);
    for (uint32_t k = 0; k < KEYS; k++)
        assert_int_equal(resident(m, k), k >= KEYS - 20);
    larder__machine_close(&m);
}

static void who_asks_more_has_more_say(void **state) {
    (void)state;
    larder__machine *m = machine_of("app:order=score", 20);
    joins(m, 0);
    joins(m, 1);
    for (uint32_t k = 0; k < 10 * KEYS; k++) /* one is nine times as fast as the other */
        claim(m, k % 10 == 0, k % KEYS, NAN);
    for (int twice = 0; twice < 2; twice++) {
        speaks(m, 0, 0, KEYS, 1, false);
        speaks(m, 1, 0, KEYS, 1, true);
    }
    kept_of(m, 0, 0, KEYS);
    for (uint32_t k = 0; k < KEYS; k++)
        assert_int_equal(resident(m, k), k >= KEYS - 20);
    larder__machine_close(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_of_any_size_count_alike),
        cmocka_unit_test(the_scale_follows_those_who_are_there),
        cmocka_unit_test(order_that_all_agree_on_is_kept),
        cmocka_unit_test(who_asks_more_has_more_say),
        cmocka_unit_test(a_promise_outlives_its_place),
        cmocka_unit_test(a_job_that_leaves_promises_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
