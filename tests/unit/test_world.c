/* A made world: hours pass in no time, and what a daemon does by the clock follows from it alone.
 */
#include "base/world.h"
#include "check.h"
#include "unix/served_set.h"

#include <errno.h>

static double clock_now = 1000;
static double made_now(void) { return clock_now; }
static void made_sleep(double when) { clock_now = when; }

static int made_chance(void *out, size_t bytes) {
    memset(out, 7, bytes);
    return 0;
}

static ssize_t nobody_sends(int fd, const struct msghdr *m, int flags) {
    (void)fd, (void)m, (void)flags;
    errno = EPIPE;
    return -1;
}

static ssize_t nobody_answers(int fd, struct msghdr *m, int flags) {
    (void)fd, (void)m, (void)flags;
    return 0;
}

static const larder__world made = {made_now, made_sleep, made_chance, nobody_sends, nobody_answers};

static larder__reply ask(larder__served *s, uint32_t job, uint32_t key) {
    larder_writer answer = {0};
    larder__outcome out;
    larder__row row = {.key = key, .size = 100, .group = LARDER_NO_GROUP};
    larder__op o = {.type = LARDER__OP_CLAIM, .n = 1, .rows = &row};
    check_ok(larder__served_apply(s, job, &o, &answer, &out));
    larder__reply r = larder__served_replies(&answer)[0];
    larder__writer_free(&answer);
    return r;
}

/* Whoever promises an entry and keeps no promise for two seconds is not waited for any longer. */
static void test_promises_are_void(void **st) {
    (void)st;
    larder__served *s;
    uint32_t quick, stuck;
    larder__served_conf conf = {.about = {.keys = 10, .budget = 2000, .seed = 1, .policy = "lru"},
                                .spare = 4096};
    const larder__world *before = larder__world_use(&made);
    check_ok(larder__served_open(&s, &conf));
    check_ok(larder__served_join(s, 0, false, 1, &stuck));
    check_ok(larder__served_join(s, 0, false, 1, &quick));
    assert_int_equal(ask(s, stuck, 3).task, LARDER__MAKE);
    assert_int_equal(ask(s, quick, 3).task, LARDER__WAIT);
    clock_now += 1.9;
    assert_true(larder__served_watch(s, larder__world_now()));
    assert_int_equal(ask(s, quick, 3).task, LARDER__WAIT);
    clock_now += 0.2;
    assert_false(larder__served_watch(s, larder__world_now()));
    assert_int_equal(ask(s, quick, 3).task, LARDER__MAKE);
    larder__served_figures f;
    larder__served_read_figures(s, &f);
    assert_int_equal(f.overdue, 1);
    larder__served_close(&s);
    larder__world_use(before);
}

static void test_world(void **st) {
    (void)st;
    unsigned char bytes[4];
    const larder__world *before = larder__world_use(&made);
    larder__world_sleep_until(clock_now + 86400);
    assert_true(larder__world_now() > 86400);
    check_ok(larder__world_chance(bytes, sizeof bytes));
    assert_int_equal(bytes[3], 7);
    assert_int_equal(larder__world_send_bytes(0, bytes, 4, 0), -1);
    assert_ptr_equal(larder__world_use(before), &made);
    assert_ptr_equal(larder__world_use(NULL), before);
    check_ok(larder__world_chance(bytes, sizeof bytes)); /* the real one again */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_promises_are_void),
                                       cmocka_unit_test(test_world)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
