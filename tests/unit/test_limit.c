/* What a process may have: processors by the quotas of its cgroups, old and new. */
#include "check.h"

#include "base/limit.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void put(const char *root, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    check_write(path, text, strlen(text));
}

static void put_folder(const char *root, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void the_smallest_quota_above_us_counts(void **state) {
    (void)state;
    char root[256], self[512];
    check_folder(root);
    snprintf(self, sizeof self, "%s/self", root);
    assert_true(larder__cpu_quota(root, self) == UINT64_MAX); /* nothing there at all */
    put_folder(root, "a");
    put_folder(root, "a/b");
    put(root, "self", "1:name=x:/else\n0::/a/b\n");
    put(root, "a/b/cpu.max", "max 100000\n");
    assert_true(larder__cpu_quota(root, self) == UINT64_MAX);
    put(root, "a/cpu.max", "350000 100000\n");
    assert_int_equal(larder__cpu_quota(root, self), 4); /* 3.5 processors keep four busy */
    put(root, "a/b/cpu.max", "50000 100000\n");
    assert_int_equal(larder__cpu_quota(root, self), 1); /* half of one still needs a thread */
    put(root, "a/b/cpu.max", "900000 100000\n");
    assert_int_equal(larder__cpu_quota(root, self), 4);
    put(root, "cpu.max", "200000 100000\n"); /* a container sees its own group as the root */
    assert_int_equal(larder__cpu_quota(root, self), 2);
    check_folder_remove(root);
}

static void nonsense_is_no_limit(void **state) {
    (void)state;
    static const char *const texts[] = {"",           "0 100000\n", "100000\n",
                                        "100000 0\n", "-1 100\n",   "one hundred\n"};
    char root[256], self[512];
    check_folder(root);
    snprintf(self, sizeof self, "%s/self", root);
    put(root, "self", "0::/\n");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put(root, "cpu.max", texts[i]);
        uint64_t quota = larder__cpu_quota(root, self);
        assert_true(quota == UINT64_MAX || quota > 1u << 20);
    }
    check_folder_remove(root);
}

static void old_groups_count_too(void **state) {
    (void)state;
    char root[256], self[512];
    check_folder(root);
    snprintf(self, sizeof self, "%s/self", root);
    put(root, "self", "4:cpu,cpuacct:/\n");
    put_folder(root, "cpu");
    put(root, "cpu/cpu.cfs_period_us", "100000\n");
    put(root, "cpu/cpu.cfs_quota_us", "-1\n");
    assert_true(larder__cpu_quota(root, self) > 1u << 20);
    put(root, "cpu/cpu.cfs_quota_us", "150000\n");
    assert_int_equal(larder__cpu_quota(root, self), 2);
    check_folder_remove(root);
}

static void there_is_always_one(void **state) {
    (void)state;
    assert_true(larder__cpu_count() >= 1);
    assert_true(larder__memory_limit() > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_smallest_quota_above_us_counts),
                                       cmocka_unit_test(nonsense_is_no_limit),
                                       cmocka_unit_test(old_groups_count_too),
                                       cmocka_unit_test(there_is_always_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
