/* The ranks of a job that meet through Redis: what one has given before it left is heard, however
 * much later it is asked for. The answers are made up. */
#include "check.h"

#include <stdio.h>

#if LARDER_HAVE_HIREDIS
#include "redis/redis_relay.c"

static void wake(larder__relay *core) { (void)core; }
static const larder__relay_ops idle = {wake, wake, wake};

static void wish(larder__redis_relay *r, uint64_t number, larder__relayed out[2]) {
    out[0] = (larder__relayed){0};
    out[1] = (larder__relayed){.size = 1};
    r->core.wish = out;
    r->core.wish_number = number;
    r->core.missing = 1;
    r->core.serial++;
}

static void test_left(void **st) {
    (void)st;
    double seen[2] = {0};
    uint64_t left[2] = {0}, sum = larder__hash_bytes(4, "said", 4);
    char bytes[sizeof sum + 4], good_bye[] = "left";
    memcpy(bytes, &sum, sizeof sum);
    memcpy(bytes + sizeof sum, "said", 4);
    redisReply none = {.type = REDIS_REPLY_NIL},
               record = {.type = REDIS_REPLY_STRING, .str = bytes, .len = sizeof bytes},
               gone = {.type = REDIS_REPLY_STRING, .str = good_bye, .len = 4};
    larder__redis_relay r = {.seen = seen, .left = left};
    larder__relayed out[2];
    redisContext there = {0};
    check_ok(larder__relay_init(&r.core, &idle, 0, 2, 60));
    r.core.met = true;
    r.conn.context = &there;

    wish(&r, 1, out);
    take_answer(&r, 1, &record, &gone, 0);
    assert_int_equal(r.core.missing, 0);
    larder__free(out[1].bytes);
    wish(&r, 2, out); /* at once, before anybody was asked for it */
    judge(&r, 0);
    assert_int_equal(r.core.failed, 0);
    take_answer(&r, 1, &record, &gone, 0);
    assert_int_equal(r.core.missing, 0);
    larder__free(out[1].bytes);
    wish(&r, 3, out);
    take_answer(&r, 1, &none, &gone, 0);
    judge(&r, 0);
    assert_int_equal(r.core.failed, LARDER_E_STATE);
    assert_non_null(strstr(r.core.why, "rank 1 of 2 has ended"));
    r.core.wish = NULL;
    larder__relay *core = &r.core;
    larder__relay_close(&core);
}

/* Nobody is looked for while nothing is wished for: a pause of training, however long, is no
 * silence of the others. */
static void test_silent(void **st) {
    (void)st;
    double seen[2] = {0};
    uint64_t left[2] = {0};
    larder__redis_relay r = {.seen = seen, .left = left};
    larder__relayed out[2];
    redisContext there = {0};
    check_ok(larder__relay_init(&r.core, &idle, 0, 2, 60));
    r.core.met = true;
    r.conn.context = &there;
    r.core.wished_at = 1000;
    wish(&r, 1, out);
    judge(&r, 1000); /* before it was asked for */
    assert_int_equal(r.core.failed, 0);
    r.core.heard_at = 1061;
    judge(&r, 1061);
    assert_int_equal(r.core.failed, LARDER_E_STATE);
    assert_non_null(strstr(r.core.why, "rank 1 of 2 has given no sign of life"));
    r.core.wish = NULL;
    larder__relay *core = &r.core;
    larder__relay_close(&core);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_left), cmocka_unit_test(test_silent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    puts("skipped: a build without hiredis");
    return 77;
}
#endif
