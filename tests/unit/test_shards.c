#include "check.h"

#include "source/shards.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The patterns' names, joined with spaces. */
static int expand(const char *patterns, const char *split, char *out, size_t cap) {
    larder__names n = {0};
    int rc = larder__shards_expand(&n, patterns, split);
    out[0] = 0;
    for (uint64_t i = 0; rc == 0 && i < n.count; i++) {
        const char *name = larder__names_get(&n, i), *slash = strrchr(name, '/');
        size_t at = strlen(out);
        snprintf(out + at, cap - at, "%s%s", i ? " " : "", slash ? slash + 1 : name);
    }
    larder__names_free(&n);
    return rc;
}

static void expect(const char *patterns, const char *names) {
    char out[1000];
    check_ok(expand(patterns, "auto", out, sizeof out));
    assert_string_equal(out, names);
}

static void test_braces(void **state) {
    (void)state;
    expect("a.tar", "a.tar");
    expect("a-{08..11}.tar", "a-08.tar a-09.tar a-10.tar a-11.tar");
    expect("a-{8..11}.tar", "a-8.tar a-9.tar a-10.tar a-11.tar");
    expect("{a,b}-{0..1}.tar", "a-0.tar a-1.tar b-0.tar b-1.tar");
    expect("a.tar,{b,c}.tar,d.tar", "a.tar b.tar c.tar d.tar");
    expect("a{}.tar", "a.tar");
    expect("a{,x}.tar", "a.tar ax.tar");
    expect("a{1..}.tar", "a1...tar");
}

static void test_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"a-{0..3.tar",        "a-{{0..3}}.tar",      "a-{3..0}.tar",
                                        "a-{0..9999999}.tar", "a.tar,",              "a.tar,,b.tar",
                                        "{0..999}{0..999}{0..9}", "/nowhere/*.tar"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        larder__names n = {0};
        int rc = larder__shards_expand(&n, wrong[i], "auto");
        larder__names_free(&n);
        if (rc >= 0)
            fail_msg("%s was taken", wrong[i]);
    }
}

static void test_folders_and_globs(void **state) {
    (void)state;
    char root[256], path[400], out[400];
    check_folder(root);
    static const char *const names[] = {"x-train-1.tar", "x-train-0.tar", "x-val-0.tar", "notes.txt"};
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", root, names[i]);
        check_write(path, "", 0);
    }
    expect(root, "x-train-0.tar x-train-1.tar");
    check_ok(expand(root, "test", out, sizeof out));
    assert_string_equal(out, "x-val-0.tar");
    snprintf(path, sizeof path, "%s/*.tar", root);
    expect(path, "x-train-0.tar x-train-1.tar x-val-0.tar");
    snprintf(path, sizeof path, "%s/x-train-?.tar", root);
    expect(path, "x-train-0.tar x-train-1.tar");
    snprintf(path, sizeof path, "%s/train", root);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/train/in.tar", root);
    check_write(path, "", 0);
    snprintf(path, sizeof path, "%s/val", root);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/val/out.tar", root);
    check_write(path, "", 0);
    expect(root, "in.tar");
    check_ok(expand(root, "val", out, sizeof out));
    assert_string_equal(out, "out.tar");
    check_folder_remove(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_braces),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_folders_and_globs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
