/* What --cache says: where bytes lie, who orders, how large, in tiers; and what is refused, never
 * with a password in the sentence. */
#include "check.h"
#include "shared/cache_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void forget_environment(void) {
    unsetenv("LARDER_REDIS_PASSWORD");
    unsetenv("LARDER_REDIS_USER");
    unsetenv("REDISCLI_AUTH");
}

static void redis_is_read(void **unused) {
    (void)unused;
    larder__cache_text t;
    const larder__redis_conf *r = &t.redis;
    forget_environment();
    check_ok(larder__cache_text_parse(
        &t, "redis://ann:s%40crt@box:7000/3?budget=64GiB&timeout=20ms", ""));
    assert_string_equal(r->user, "ann");
    assert_string_equal(r->password, "s@crt");
    assert_string_equal(r->hosts[0].name, "box");
    assert_int_equal(r->hosts[0].port, 7000);
    assert_int_equal(r->db, 3);
    assert_string_equal(larder__cache_back(&t)->text, "64GiB");
    assert_true(r->timeout > 0.0199 && r->timeout < 0.0201 && !r->tls && !r->cluster);
    check_ok(larder__cache_text_parse(&t, "redis+unix:///run/redis.sock?budget=20%:50/50/0", ""));
    assert_string_equal(r->path, "/run/redis.sock");
    assert_string_equal(larder__cache_back(&t)->text, "20%:50/50/0");
    check_ok(larder__cache_text_parse(
        &t, "redis-cluster://a:7000,b,[::1]:7002?replicas=1&shared=x-1", ""));
    assert_int_equal(r->host_count, 3);
    assert_int_equal(r->hosts[1].port, 6379);
    assert_string_equal(r->hosts[2].name, "::1");
    assert_int_equal(r->hosts[2].port, 7002);
    assert_true(r->cluster && r->replicas);
    assert_string_equal(r->group, "x-1");
    assert_true(t.order == LARDER__BY_JOURNAL && r->await.go_on);
    check_ok(larder__cache_text_parse(&t, "redis://h?job=a&wait=3s&absent=go-on", ""));
    assert_string_equal(r->job, "a");
    assert_true(t.order == LARDER__IN_STEP && !r->await.go_on && fabs(r->await.seconds - 3) < 1e-9);
    check_ok(larder__cache_text_parse(&t, "2GiB+rediss://:pw@h?tier=inclusive&ca=/a/b.pem", ""));
    assert_string_equal(t.tiers[0].text, "2GiB");
    assert_true(r->tls && r->inclusive && t.inclusive && t.order == LARDER__BY_ITSELF);
    assert_true(t.tier_count == 2 && t.tiers[0].budget.bytes == (uint64_t)2 << 30);
    assert_true(larder__cache_back(&t)->place == LARDER__IN_REDIS);
    assert_string_equal(r->password, "pw");
    setenv("LARDER_REDIS_PASSWORD", "outside", 1);
    check_ok(larder__cache_text_parse(&t, "redis://h", ""));
    assert_string_equal(r->password, "outside");
    check_ok(larder__cache_text_parse(&t, "redis://:inside@h", ""));
    assert_string_equal(r->password, "inside");
    forget_environment();
}

static void disks_are_read(void **unused) {
    (void)unused;
    larder__cache_text t;
    check_ok(larder__cache_text_parse(&t, "8GiB+disk:/nvme/a b+c?budget=500GiB&quota=50%", ""));
    assert_true(t.tier_count == 2 && t.inclusive && t.order == LARDER__BY_ITSELF);
    assert_true(larder__cache_back(&t)->place == LARDER__ON_DISK);
    assert_int_equal(larder__cache_tier_bytes(larder__cache_back(&t), 1), (uint64_t)500 << 30);
    assert_string_equal(t.disk.folder, "/nvme/a b+c");
    assert_true(t.disk.quota.relative && fabs(t.disk.quota.fraction - 0.5) < 1e-9);
    assert_true(t.disk.wear > 0 && t.disk.patience > 0 && t.below.place != LARDER__ON_DISK);
    check_ok(larder__cache_text_parse(&t, "disk:d?wear=0&patience=100ms&budget=20%:50/50/0", ""));
    assert_true(t.tier_count == 1 && !(t.disk.wear > 0) && fabs(t.disk.patience - 0.1) < 1e-9);
    assert_true(fabs(larder__cache_back(&t)->budget.share[LARDER_DECODED] - 0.5) < 1e-9);
    check_ok(larder__cache_text_parse(&t, "unix:/s?budget=20%+disk:/n?budget=1GiB&wear=1MiB", ""));
    assert_true(t.tier_count == 1 && t.order == LARDER__BY_DAEMON);
    assert_string_equal(larder__cache_back(&t)->text, "20%");
    assert_true(t.below.place == LARDER__ON_DISK && t.below.budget.bytes == 1 << 30);
    assert_string_equal(t.disk.folder, "/n");
    check_ok(larder__cache_text_parse(&t, "redis://:p+disk:w@h?shared=x+disk:/n", ""));
    assert_string_equal(t.redis.password, "p+disk:w");
    assert_true(t.order == LARDER__BY_JOURNAL && t.below.place == LARDER__ON_DISK);
}

static void wrong_texts_are_refused(void **unused) {
    (void)unused;
    static const char *const wrong[] = {
        "redis://u:hunter2@",
        "redis://u:hunter2@h:0",
        "redis://u:hunter2@h:99999",
        "redis://u:hunter2@h:12x",
        "redis://u:hunter2@h/x",
        "redis://u:hunter2@h?",
        "redis://u:hunter2@h?budget",
        "redis://u:hunter2@h?budget=",
        "redis://u:hunter2@h?budget=-1",
        "redis://u:hunter2@h?budget=20%&colour=red",
        "redis://u:hunter2@h?timeout=0",
        "redis://h?password=hunter2",
        "redis://h?budget=20%&password=hunter2&wait=x",
        "redis://u:hunter2@h?replicas=1",
        "redis://u:hunter2@h?connections=99",
        "redis://u:hunter2@h?shared=a{b}",
        "redis://u:hunter2@h?cert=x",
        "redis://u:hunter2@a,b",
        "redis-cluster://u:hunter2@a/3",
        "redis-cluster://u:hunter2@a,,b",
        "redis+unix://u:hunter2@relative/path",
        "redis://u:hunter2%zz@h",
        "redis://u:hunter2@[::1",
        "9zz+redis://u:hunter2@h",
        "1GiB+redis://u:hunter2@h?shared=a",
        "1GiB+redis://u:hunter2@h?job=a",
        "redis://u:hunter2@h?job=a&shared=b",
        "1GiB+1GiB+redis://u:hunter2@h",
        "redi://u:hunter2@h",
        "",
        "+",
        "20%+",
        "20%+8GiB",
        "tcp://u:hunter2@h:7000",
        "unix:/run/x?redis://u:hunter2=0&wait=@h",
        "unix:/run/x?budget=redis://u:hunter2&wait=@h",
        "redis://u:hunter2@h+disk:",
        "redis://u:hunter2@h+disk:/n?budget=1GiB:50/50/0",
        "redis://u:hunter2@h+disk:/n?quota=1GiB",
        "redis://u:p+disk:hunter2@h?colour=red",
        "disk:",
        "disk:?budget=1GiB",
        "disk:/n?budget=x",
        "disk:/n?quota=50%:50/50/0",
        "disk:/n?wear=20%",
        "disk:/n?patience=0",
        "disk:/n?shared=a",
        "1GiB+1GiB+disk:/n",
        "disk:/n+disk:/m?budget=1GiB&colour=red",
    };
    larder__cache_text t;
    char shown[100];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (larder__cache_text_parse(&t, wrong[i], "") >= 0)
            fail_msg("accepted: %s", wrong[i]);
        if (strstr(larder_errmsg(), "hunter2"))
            fail_msg("a password in \"%s\"", larder_errmsg());
        assert_null(strstr(larder__cache_mask(wrong[i], shown, sizeof shown), "hunter2"));
    }
    assert_string_equal(larder__cache_mask("redis://a:b@c@h/1", shown, sizeof shown),
                        "redis://***@h/1");
    assert_string_equal(larder__cache_mask("20%", shown, sizeof shown), "20%");
}

static void memory_is_read(void **unused) {
    (void)unused;
    larder__cache_text t;
    unsetenv("LARDER_SOCKET");
    check_ok(larder__cache_text_parse(&t, "8GiB", ""));
    assert_true(t.tier_count == 1 && t.order == LARDER__BY_ITSELF && !t.wish);
    assert_true(larder__cache_back(&t)->place == LARDER__IN_MEMORY);
    assert_int_equal(larder__cache_tier_bytes(larder__cache_back(&t), 5), (uint64_t)8 << 30);
    check_ok(larder__cache_text_parse(&t, "20%", ""));
    assert_int_equal(larder__cache_tier_bytes(larder__cache_back(&t), 1000), 200);
    setenv("LARDER_SOCKET", "/run/x", 1);
    check_ok(larder__cache_text_parse(&t, "20%", ""));
    assert_true(t.wish && t.order == LARDER__BY_ITSELF && !t.door.path[0]);
    check_ok(larder__cache_text_parse(&t, "redis://h", ""));
    assert_false(t.wish);
    unsetenv("LARDER_SOCKET");
}

/* More than all of it makes sense where pixels are kept, which the recipe may say. */
static void splits_join(void **unused) {
    (void)unused;
    static const char *const places[] = {"%s", "unix:/run/x?budget=%s", "redis://h?budget=%s"};
    larder__cache_text t;
    char text[100];
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, places[i], "700%");
        assert_int_equal(larder__cache_text_parse(&t, text, ""), LARDER_E_ARGS);
        check_ok(larder__cache_text_parse(&t, text, "0/100/0"));
        assert_true(larder__cache_back(&t)->budget.share[LARDER_DECODED] == 1);
        snprintf(text, sizeof text, places[i], "20%:58/42/0");
        check_ok(larder__cache_text_parse(&t, text, ""));
        check_ok(larder__cache_text_parse(&t, text, "58/42/0"));
        assert_int_equal(larder__cache_text_parse(&t, text, "50/50/0"), LARDER_E_ARGS);
        assert_non_null(strstr(larder_errmsg(), "disagree"));
    }
}

static void daemons_are_read(void **unused) {
    (void)unused;
    static const char *const wrong[] = {
        "unix:/x?budget=20",       "unix:/x?budget=",      "unix:/x?job=a/b", "unix:/x?shared=a",
        "unix:/x?owner=nobody at", "unix:/x?token-file=y", "1GiB+unix:/x",    "unix:/x?job=a?b=c"};
    larder__cache_text t;
    check_ok(larder__cache_text_parse(&t, "unix:/run/x", ""));
    assert_string_equal(t.door.path, "/run/x");
    assert_true(t.order == LARDER__BY_DAEMON && t.await.go_on && t.await.seconds > 0);
    assert_string_equal(larder__cache_back(&t)->text, "");
    check_ok(
        larder__cache_text_parse(&t, "unix:/run/x?budget=20%&job=a&owner=77&patience=120s", ""));
    assert_true(t.order == LARDER__IN_STEP && t.door.owner == 77 && fabs(t.patience - 120) < 1e-9);
    assert_string_equal(t.name, "a");
    check_ok(larder__cache_text_parse(&t, "unix:/run/x?job=0&absent=fail&wait=0", ""));
    assert_true(t.order == LARDER__BY_DAEMON && !t.await.go_on && t.await.seconds <= 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (larder__cache_text_parse(&t, wrong[i], "") != LARDER_E_ARGS)
            fail_msg("accepted: %s", wrong[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_read), cmocka_unit_test(splits_join),
        cmocka_unit_test(disks_are_read), cmocka_unit_test(daemons_are_read),
        cmocka_unit_test(redis_is_read),  cmocka_unit_test(wrong_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
