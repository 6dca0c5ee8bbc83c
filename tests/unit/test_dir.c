#include "check.h"

#include "source/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void put(const char *root, const char *name, const char *text) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    check_write(path, text, strlen(text));
}

static int open_dir(larder__data **d, const char *root, const char *query) {
    char uri[600];
    snprintf(uri, sizeof uri, "dir:%s%s", root, query);
    return larder__data_open(d, uri);
}

static void expect_order(larder__data *d, const char *const *names, size_t n) {
    assert_int_equal(larder__data_about(d)->count, n);
    for (size_t i = 0; i < n; i++) {
        char name[300];
        check_ok(larder__data_name(d, i, name, sizeof name));
        assert_string_equal(name, names[i]);
    }
}

/* What sorted(os.walk()) makes of it: folders by their whole path, so "sub-x" comes after "sub" and
 * before "sub/deep". */
static void test_order_of_imagefolder(void **state) {
    (void)state;
    char root[256];
    check_folder(root);
    static const char *const names[] = {"B/1.jpg",        "B/z.JPEG",         "a/10.png",
                                        "a/9.png",        "a/Z.webp",         "a/sub/0.tif",
                                        "a/sub-x/0.tiff", "a/sub/deep/1.pgm", "\xc3\xa9/x.bmp"};
    static const size_t mixed[] = {8, 3, 6, 0, 2, 7, 5, 1, 4};
    for (size_t i = 0; i < 9; i++)
        put(root, names[mixed[i]], names[mixed[i]]);
    put(root, "a/readme.txt", "no image");
    put(root, "top.jpg", "in no class");
    put(root, "a/x.jpgx", "no image");
    larder__data *d;
    check_ok(open_dir(&d, root, ""));
    expect_order(d, names, 9);
    assert_int_equal(larder__data_about(d)->classes, 3);
    assert_string_equal(larder__data_class(d, 0), "B");
    assert_string_equal(larder__data_class(d, 2), "\xc3\xa9");
    assert_null(larder__data_class(d, 3));
    static const int labels[] = {0, 0, 1, 1, 1, 1, 1, 1, 2};
    uint64_t ids[9], total = 0;
    larder_read out[9];
    for (size_t i = 0; i < 9; i++) {
        larder_sample s;
        check_ok(larder__data_stat(d, i, &s));
        assert_int_equal(s.label, labels[i]);
        assert_int_equal(s.bytes, strlen(names[i]));
        total += s.bytes;
        ids[i] = 8 - i;
    }
    assert_int_equal(total, larder__data_about(d)->bytes);
    check_ok(larder__data_read(d, ids, 9, out));
    for (size_t i = 0; i < 9; i++) {
        if (out[i].code < 0)
            fail_msg("%s", out[i].why);
        assert_int_equal(larder_buf_size(out[i].buf), strlen(names[8 - i]));
        assert_memory_equal(larder_buf_data(out[i].buf), names[8 - i], strlen(names[8 - i]));
        larder_buf_unref(&out[i].buf);
    }
    uint64_t before = larder__data_about(d)->fingerprint;
    larder__data_close(&d);
    check_ok(open_dir(&d, root, ""));
    assert_int_equal(larder__data_about(d)->fingerprint, before);
    larder__data_close(&d);
    put(root, "a/9.png", "another size");
    check_ok(open_dir(&d, root, "?io=plain"));
    assert_int_not_equal(larder__data_about(d)->fingerprint, before);
    larder__data_close(&d);
    check_folder_remove(root);
}

static void test_split_layout(void **state) {
    (void)state;
    char root[256];
    larder__data *d;
    check_folder(root);
    put(root, "train/c/1.jpg", "1");
    check_ok(open_dir(&d, root, "")); /* train alone is a class like any other */
    assert_string_equal(larder__data_class(d, 0), "train");
    larder__data_close(&d);
    assert_int_equal(open_dir(&d, root, "?split=test"), LARDER_E_NOTFOUND);
    put(root, "val/c/2.jpg", "22");
    check_ok(open_dir(&d, root, ""));
    expect_order(d, (const char *const[]){"c/1.jpg"}, 1);
    larder__data_close(&d);
    check_ok(open_dir(&d, root, "?split=test"));
    expect_order(d, (const char *const[]){"c/2.jpg"}, 1);
    larder__data_close(&d);
    put(root, "test/c/3.jpg", "333");
    check_ok(open_dir(&d, root, "?split=test"));
    expect_order(d, (const char *const[]){"c/3.jpg"}, 1);
    larder__data_close(&d);
    check_ok(open_dir(&d, root, "?split=val"));
    expect_order(d, (const char *const[]){"c/2.jpg"}, 1);
    larder__data_close(&d);
    check_folder_remove(root);
}

static void test_nothing_there(void **state) {
    (void)state;
    char root[256], path[400];
    larder__data *d;
    check_folder(root);
    assert_int_equal(open_dir(&d, root, ""), LARDER_E_NOTFOUND);
    assert_non_null(strstr(larder_errmsg(), "no class folders"));
    snprintf(path, sizeof path, "%s/cat", root);
    mkdir(path, 0700);
    assert_int_equal(open_dir(&d, root, ""), LARDER_E_NOTFOUND);
    assert_non_null(strstr(larder_errmsg(), "cat: a class folder without images"));
    assert_int_equal(open_dir(&d, "/nowhere", ""), LARDER_E_NOTFOUND);
    check_folder_remove(root);
}

static void test_files_of_any_name(void **state) {
    (void)state;
    char root[256];
    larder__data *d;
    check_folder(root);
    put(root, "c/.hidden", "no sample");
    put(root, "c/1.tga", "x");
    put(root, "c/2.jpg", "x");
    put(root, "c/deep/3", "x");
    check_ok(open_dir(&d, root, "?files=all"));
    expect_order(d, (const char *const[]){"c/1.tga", "c/2.jpg", "c/deep/3"}, 3);
    larder__data_close(&d);
    check_folder_remove(root);
}

/* Each way of going wrong, once read plainly and once in a batch. */
static void bad_files(const char *query) {
    char root[256], path[400];
    larder__data *d;
    check_folder(root);
    put(root, "c/a.jpg", "stays");
    put(root, "c/b.jpg", "shrinks");
    put(root, "c/c.jpg", "grows");
    put(root, "c/d.jpg", "goes");
    put(root, "c/e.jpg", "");
    snprintf(path, sizeof path, "%s/c/f.jpg", root);
    assert_int_equal(symlink("nowhere", path), 0);
    snprintf(path, sizeof path, "%s/c/g.jpg", root);
    assert_int_equal(mkfifo(path, 0600), 0);
    put(root, "c/h.jpg", "last");
    int rc = open_dir(&d, root, query);
    if (rc == LARDER_E_UNSUPPORTED) {
        print_message("skipped: %s\n", larder_errmsg());
        check_folder_remove(root);
        skip();
    }
    check_ok(rc);
    put(root, "c/b.jpg", "less");
    put(root, "c/c.jpg", "grows a lot");
    snprintf(path, sizeof path, "%s/c/d.jpg", root);
    unlink(path);
    uint64_t ids[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const int codes[8] = {0, LARDER_E_CHANGED,  LARDER_E_CHANGED, LARDER_E_NOTFOUND,
                                 0, LARDER_E_NOTFOUND, LARDER_E_FORMAT,  0};
    for (int round = 0; round < 3; round++) { /* a ring must stay usable after failures */
        larder_read out[8];
        check_ok(larder__data_read(d, ids, 8, out));
        for (size_t i = 0; i < 8; i++) {
            if (out[i].code != codes[i])
                fail_msg("%zu: %d, %s", i, out[i].code, out[i].why);
            if (codes[i] < 0) {
                char name[8] = {'/', (char)('a' + i), '.', 'j', 'p', 'g', 0};
                assert_non_null(strstr(out[i].why, name));
            }
            larder_buf_unref(&out[i].buf);
        }
    }
    larder__data_close(&d);
    check_folder_remove(root);
}
static void test_bad_files_plain(void **state) {
    (void)state;
    bad_files("?io=plain");
}
static void test_bad_files_uring(void **state) {
    (void)state;
    bad_files("?io=uring");
}

static void test_many_at_once(void **state) {
    (void)state;
    enum { N = 300 };
    char root[256];
    uint64_t ids[N];
    larder_read out[N];
    larder__data *d;
    check_folder(root);
    for (size_t i = 0; i < N; i++) {
        char name[64], text[64];
        snprintf(name, sizeof name, "class%zu/%04zu.jpg", i / 100, i);
        snprintf(text, sizeof text, "text of %zu", i);
        put(root, name, text);
        ids[i] = i * 7 % N;
    }
    check_ok(open_dir(&d, root, ""));
    check_ok(larder__data_read(d, ids, N, out));
    for (size_t i = 0; i < N; i++) {
        char text[64];
        snprintf(text, sizeof text, "text of %zu", (size_t)ids[i]);
        if (out[i].code < 0)
            fail_msg("%s", out[i].why);
        assert_int_equal(larder_buf_size(out[i].buf), strlen(text));
        assert_memory_equal(larder_buf_data(out[i].buf), text, strlen(text));
        larder_buf_unref(&out[i].buf);
    }
    larder__data_close(&d);
    check_folder_remove(root);
}

static void test_link_loop_and_long_names(void **state) {
    (void)state;
    char root[256], path[600], name[255];
    larder__data *d;
    check_folder(root);
    memset(name, 'n', sizeof name);
    memcpy(name + 250, ".jpg", 5);
    snprintf(path, sizeof path, "c/%s", name);
    put(root, path, "long");
    check_ok(open_dir(&d, root, ""));
    assert_int_equal(larder__data_about(d)->count, 1);
    larder__data_close(&d);
    snprintf(path, sizeof path, "%s/c/again", root);
    assert_int_equal(symlink("..", path), 0);
    int rc = open_dir(&d, root, "");
    assert_int_equal(rc, LARDER_E_FORMAT);
    assert_non_null(strstr(larder_errmsg(), "link back to itself"));
    check_folder_remove(root);
}

static void test_unreadable_class(void **state) {
    (void)state;
    char root[256], path[400];
    larder__data *d;
    if (geteuid() == 0) {
        print_message("skipped: root reads everything\n");
        skip();
    }
    check_folder(root);
    put(root, "c/1.jpg", "1");
    snprintf(path, sizeof path, "%s/c", root);
    chmod(path, 0);
    assert_int_equal(open_dir(&d, root, ""), LARDER_E_IO);
    chmod(path, 0700);
    check_folder_remove(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_of_imagefolder),
        cmocka_unit_test(test_split_layout),
        cmocka_unit_test(test_nothing_there),
        cmocka_unit_test(test_files_of_any_name),
        cmocka_unit_test(test_bad_files_plain),
        cmocka_unit_test(test_bad_files_uring),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_link_loop_and_long_names),
        cmocka_unit_test(test_unreadable_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
