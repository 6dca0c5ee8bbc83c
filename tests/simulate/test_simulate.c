/* Schedules of the made world, and versions of larder broken on purpose that they find out. With
 * LARDER_LONG more of them. */
#include "check.h"
#include "schedule.h"
#include "worlds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static schedule_result play_all(schedule_kind kind, uint64_t seeds) {
    schedule_result r, all = {0};
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        schedule_conf c = {.kind = kind, .seed = seed};
        if (!schedule_run(&c, &r))
            fail_msg("make simulate WORLD=%s SEEDS=%llu-%llu: %s", schedule_names[kind],
                     (unsigned long long)seed, (unsigned long long)seed, r.complaint);
        assert_true(r.players >= 3 && r.steps >= 200 && r.mishaps >= 5 && r.epochs >= r.players);
        all.steps += r.steps;
        all.laid += r.laid;
        all.unwanted += r.unwanted;
        all.pieces += r.pieces;
        all.shown += r.shown;
        all.shared += r.shared;
    }
    print_message("%s: %llu schedules, %llu steps\n", schedule_names[kind],
                  (unsigned long long)seeds, (unsigned long long)all.steps);
    return all;
}

static uint64_t times(uint64_t n) { return getenv("LARDER_LONG") ? 20 * n : n; }

/* Jobs of other users do all that they can do. */
static void test_daemon(void **st) {
    (void)st;
    schedule_result all = play_all(SCHEDULE_DAEMON, times(300));
    assert_true(all.laid && all.unwanted && all.pieces && all.shown && all.shared);
}

static void test_group(void **st) {
    (void)st;
    play_all(SCHEDULE_GROUP, times(150));
}

static void test_ranks(void **st) {
    (void)st;
    play_all(SCHEDULE_RANKS, times(150));
}

static void test_far(void **st) {
    (void)st;
    play_all(SCHEDULE_FAR, times(150));
}

static void test_disk(void **st) {
    (void)st;
    play_all(SCHEDULE_DISK, times(200));
}

static void test_below(void **st) {
    (void)st;
    play_all(SCHEDULE_BELOW, times(150));
}

/* Schedules that found something: a lane drained under its reader (one job hung, one died), a
 * snapshot of a history that was lost, what a store had lost and kept. */
static void test_found(void **st) {
    (void)st;
    static const schedule_conf found[] = {
        {.kind = SCHEDULE_GROUP, .seed = 1008141}, {.kind = SCHEDULE_GROUP, .seed = 1062126},
        {.kind = SCHEDULE_GROUP, .seed = 1011402}, {.kind = SCHEDULE_GROUP, .seed = 2034523},
        {.kind = SCHEDULE_RANKS, .seed = 561},     {.kind = SCHEDULE_FAR, .seed = 10}};
    schedule_result r;
    for (size_t i = 0; i < sizeof found / sizeof *found; i++)
        if (!schedule_run(&found[i], &r))
            fail_msg("%s %llu: %s", schedule_names[found[i].kind],
                     (unsigned long long)found[i].seed, r.complaint);
}

/* One job that nothing happens to has the hits and misses of a cache in its own process. Ranks
 * compare theirs after every batch, whatever happens. */
static void test_twin(void **st) {
    (void)st;
    schedule_conf c = {.players = 1, .without = UINT32_MAX};
    schedule_result r;
    static const schedule_kind kinds[] = {SCHEDULE_GROUP, SCHEDULE_FAR, SCHEDULE_DAEMON};
    for (uint64_t i = 0; i < times(150); i++) {
        c.kind = kinds[i % 3];
        c.seed = i / 3 + 1;
        if (!schedule_run(&c, &r))
            fail_msg("%s %llu: %s", schedule_names[c.kind], (unsigned long long)c.seed,
                     r.complaint);
        assert_true(played.exchanges || r.alike >= 2 * played.keys); /* two epochs at least */
    }
}

/* A seed says everything, whatever was played before it. */
static void test_same_again(void **st) {
    (void)st;
    for (int kind = 0; kind < SCHEDULE_KINDS; kind++) {
        schedule_conf c = {.kind = (schedule_kind)kind, .seed = 77}, other = {.kind = c.kind};
        schedule_result a, b, between;
        schedule_run(&c, &a);
        for (other.seed = 1; other.seed < 5; other.seed++)
            schedule_run(&other, &between);
        schedule_run(&c, &b);
        assert_memory_equal(&a, &b, sizeof a);
    }
}

/* What is dropped is noticed, for the right reason, and the schedule that shows it gets no longer
 * by leaving out what it does not need. */
static void find(schedule_kind kind, const char *name, const char *complaint) {
    enum { ENOUGH = 3000 };
    schedule_conf c = {.kind = kind};
    schedule_result r = {0};
    broken = name;
    while (++c.seed < ENOUGH && schedule_run(&c, &r)) {
    }
    uint64_t mishaps = r.mishaps;
    if (r.complaint[0])
        schedule_shrink(&c, &r);
    bool again = !schedule_run(&c, &r);
    broken = NULL;
    assert_true(c.seed < ENOUGH);
    assert_true(again && r.mishaps <= mishaps);
    assert_non_null(strstr(r.complaint, complaint));
    assert_true(schedule_run(&c, &r)); /* nothing else is wrong with it */
}

/* One that never comes back says which it is. */
static void test_endless(void **st) {
    (void)st;
    char said[400] = "", again[100];
    int ends[2];
    size_t n = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        schedule_conf c = {.kind = SCHEDULE_DAEMON};
        schedule_result r;
        dup2(ends[1], STDOUT_FILENO);
        schedule_watch("tool_simulate", 0.05);
        broken = "endless";
        while (++c.seed < 100)
            schedule_run(&c, &r);
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t k; n + 1 < sizeof said && (k = read(ends[0], said + n, sizeof said - 1 - n)) > 0;)
        n += (size_t)k;
    close(ends[0]);
    waitpid(child, NULL, 0);
    unsigned long long seed = 0;
    assert_non_null(strstr(said, "no end after"));
    assert_int_equal(sscanf(said, "FAILED daemon %llu:", &seed), 1);
    snprintf(again, sizeof again, "again: tool_simulate daemon %llu-%llu", seed, seed);
    assert_non_null(strstr(said, again));
}

static void test_without_checksum(void **st) {
    (void)st;
    find(SCHEDULE_GROUP, "checksum", "a wrong byte");
}

static void test_without_pins(void **st) {
    (void)st;
    find(SCHEDULE_DAEMON, "pins", "a wrong byte");
}

/* What it has promised to make then is so for ever. */
static void test_without_releases(void **st) {
    (void)st;
    find(SCHEDULE_DAEMON, "leases", "are still promised when all have gone");
}

static void test_told_before_copied(void **st) {
    (void)st;
    find(SCHEDULE_DAEMON, "tray", "a wrong byte");
}

static void test_unwanted_not_counted(void **st) {
    (void)st;
    find(SCHEDULE_DAEMON, "unwanted", "a wrong byte");
}

static void test_strangers_may_write(void **st) {
    (void)st;
    find(SCHEDULE_DAEMON, "views", "can write in memory that is not its own");
}

static void test_strangers_show_nothing(void **st) {
    (void)st;
    find(SCHEDULE_DAEMON, "proof", "their data differ");
}

static void test_without_last_record(void **st) {
    (void)st;
    find(SCHEDULE_GROUP, "last", "never was in the journal");
}

static void test_lost_for_good(void **st) {
    (void)st;
    find(SCHEDULE_GROUP, "lookout", "it stays away though all is healed");
    find(SCHEDULE_FAR, "lookout", "it stays away though all is healed");
}

static void test_disk_without_checksum(void **st) {
    (void)st;
    find(SCHEDULE_DISK, "checksum", "a wrong byte");
}

static void test_disk_without_names(void **st) {
    (void)st;
    find(SCHEDULE_DISK, "whose", "sample");
}

static void test_disk_without_lock(void **st) {
    (void)st;
    find(SCHEDULE_DISK, "giving", "block");
}

static void test_disk_without_budget(void **st) {
    (void)st;
    find(SCHEDULE_DISK, "budget", "the folder has");
}

static void test_disk_without_giving_back(void **st) {
    (void)st;
    find(SCHEDULE_DISK, "given", "are taken");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_daemon),
        cmocka_unit_test(test_group),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_far),
        cmocka_unit_test(test_disk),
        cmocka_unit_test(test_below),
        cmocka_unit_test(test_twin),
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_same_again),
        cmocka_unit_test(test_endless),
        cmocka_unit_test(test_without_checksum),
        cmocka_unit_test(test_without_pins),
        cmocka_unit_test(test_without_releases),
        cmocka_unit_test(test_told_before_copied),
        cmocka_unit_test(test_unwanted_not_counted),
        cmocka_unit_test(test_strangers_may_write),
        cmocka_unit_test(test_strangers_show_nothing),
        cmocka_unit_test(test_without_last_record),
        cmocka_unit_test(test_lost_for_good),
        cmocka_unit_test(test_disk_without_checksum),
        cmocka_unit_test(test_disk_without_names),
        cmocka_unit_test(test_disk_without_lock),
        cmocka_unit_test(test_disk_without_budget),
        cmocka_unit_test(test_disk_without_giving_back),
    };
    schedule_watch("build/test/tool_simulate", 60);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
