#include "check.h"

#include "source/source.h"
#include "tar_maker.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct place { /* a folder with shards, and one for indexes */
    char root[256], cache[300];
} place;

static int set_up(void **state) {
    static place p;
    check_folder(p.root);
    snprintf(p.cache, sizeof p.cache, "%s/cache/deep", p.root);
    setenv("LARDER_CACHE_DIR", p.cache, 1);
    *state = &p;
    return 0;
}

static int tear_down(void **state) {
    check_folder_remove(((place *)*state)->root);
    return 0;
}

static FILE *begin(const place *p, const char *name) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", p->root, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    return f;
}

static int open_tar(const place *p, const char *name, larder__data **d) {
    char uri[400];
    snprintf(uri, sizeof uri, "tar:%s/%s", p->root, name);
    return larder__data_open(d, uri);
}

static void refused(const place *p, const char *name, int code, const char *words) {
    larder__data *d = NULL;
    int rc = open_tar(p, name, &d);
    if (rc != code || !strstr(larder_errmsg(), words) || !strstr(larder_errmsg(), ".tar"))
        fail_msg("%s: %d, \"%s\"; expected %d, \"%s\"", name, rc, larder_errmsg(), code, words);
    assert_null(d);
}

static void expect(larder__data *d, uint64_t id, const char *name, int label, const char *text) {
    larder_sample s;
    larder_read out;
    char told[5000];
    check_ok(larder__data_stat(d, id, &s));
    check_ok(larder__data_name(d, id, told, sizeof told));
    assert_string_equal(told, name);
    assert_int_equal(s.label, label);
    assert_int_equal(s.bytes, strlen(text));
    check_ok(larder__data_read(d, &id, 1, &out));
    if (out.code < 0)
        fail_msg("%s", out.why);
    assert_int_equal(larder_buf_size(out.buf), strlen(text));
    assert_memory_equal(larder_buf_data(out.buf), text, strlen(text));
    larder_buf_unref(&out.buf);
}

static size_t kept(const place *p) {
    DIR *d = opendir(p->cache);
    size_t n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

/* ---- what is in a shard ---------------------------------------------------------------------- */

static void test_samples(void **state) {
    const place *p = *state;
    FILE *f = begin(p, "a-00.tar");
    tar_put(f, '5', "folder/", "", 0);
    tar_put_sample(f, "folder/one", "first", 5, "3\n");
    tar_put(f, '0', "README", "no sample", 9);
    tar_put(f, '0', "meta.json", "{}", 2);
    tar_put(f, '0', "two.cls", "12", 2); /* in any order within the key */
    tar_put(f, '0', "two.seg.png", "a mask", 6);
    tar_put(f, '0', "two.PNG", "second", 6);
    tar_put(f, '0', "two.jpg", "of two the first counts", 23);
    tar_put_sample(f, "three", "", 0, NULL);
    tar_put_end(f);
    fclose(f);
    f = begin(p, "a-01.tar"); /* no samples: an empty shard between others */
    tar_put_end(f);
    fclose(f);
    f = begin(p, "a-02.tar");
    tar_put_sample(f, "four", "fourth", 6, "0");
    tar_put_end(f);
    fclose(f);
    larder__data *d;
    for (int round = 0; round < 2; round++) { /* built, then taken from the index */
        check_ok(open_tar(p, "a-{00..02}.tar", &d));
        assert_int_equal(larder__data_about(d)->count, 4);
        assert_int_equal(larder__data_about(d)->classes, 13);
        assert_int_equal(larder__data_about(d)->bytes, 17);
        /* Saved states hold it: it stays what it was. */
        assert_int_equal(larder__data_about(d)->fingerprint, 0x52fd066cf9f0d388);
        expect(d, 0, "a-00.tar:folder/one.jpg", 3, "first");
        expect(d, 1, "a-00.tar:two.PNG", 12, "second");
        expect(d, 2, "a-00.tar:three.jpg", -1, "");
        expect(d, 3, "a-02.tar:four.jpg", 0, "fourth");
        assert_null(larder__data_class(d, 0));
        larder__data_close(&d);
        assert_int_equal(kept(p), 3);
    }
    refused(p, "a-01.tar", LARDER_E_NOTFOUND, "holds no samples");
}

static void test_long_names_and_odd_sizes(void **state) {
    const place *p = *state;
    char path[300], record[400], size[12] = {(char)0x80};
    FILE *f = begin(p, "a.tar");
    memset(path, 'p', sizeof path);
    path[150] = '/';
    memcpy(path + 290, ".jpg", 5);
    snprintf(record, sizeof record, "%d path=%s\n", 304, path); /* 3 + 1 + 5 + 294 + 1 */
    tar_put(f, 'x', "PaxHeader", record, strlen(record));
    tar_put(f, '0', "short", "by pax", 6);
    path[0] = 'q';
    tar_put(f, 'L', "././@LongLink", path, strlen(path) + 1);
    tar_put(f, '0', "cut", "by gnu", 6);
    tar_put(f, 'g', "global", "13 mtime=1.5\n", 13);
    tar_put_header(f, '0', "x.jpg", "some/prefix", "00000000006");
    fwrite("prefix", 1, 6, f);
    tar_put_pad(f, 6);
    size[11] = 7;
    tar_put_header(f, '0', "y.jpg", "", size);
    fwrite("base256", 1, 7, f);
    tar_put_pad(f, 7);
    tar_put(f, 'x', "PaxHeader", "9 size=8\n", 9);
    tar_put_header(f, '0', "z.jpg", "", "00000000000");
    fwrite("pax size", 1, 8, f);
    tar_put_pad(f, 8);
    tar_put_end(f);
    fclose(f);
    larder__data *d;
    char name[400];
    check_ok(open_tar(p, "a.tar", &d));
    assert_int_equal(larder__data_about(d)->count, 5);
    assert_int_equal(larder__data_about(d)->classes, 0);
    path[0] = 'p';
    snprintf(name, sizeof name, "a.tar:%s", path);
    expect(d, 0, name, -1, "by pax");
    path[0] = 'q';
    snprintf(name, sizeof name, "a.tar:%s", path);
    expect(d, 1, name, -1, "by gnu");
    expect(d, 2, "a.tar:some/prefix/x.jpg", -1, "prefix");
    expect(d, 3, "a.tar:y.jpg", -1, "base256");
    expect(d, 4, "a.tar:z.jpg", -1, "pax size");
    larder__data_close(&d);
}

static void test_wrong_labels(void **state) {
    const place *p = *state;
    static const char *const wrong[] = {
        "-1",  "cat", "",    "2147483648",        "99999999999999999999",
        "1 2", "0x3", "1.0", "7\0" /* no tail */, " 3"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        FILE *f = begin(p, "bad.tar");
        tar_put(f, '0', "k.jpg", "x", 1);
        tar_put(f, '0', "k.cls", wrong[i], i == 8 ? 2 : strlen(wrong[i]));
        tar_put_end(f);
        fclose(f);
        refused(p, "bad.tar", LARDER_E_FORMAT, "k.cls at byte 1024 is not a class number");
    }
    FILE *f = begin(p, "bad.tar");
    tar_put_sample(f, "k", "x", 1, "2147483647");
    tar_put_end(f);
    fclose(f);
    larder__data *d;
    check_ok(open_tar(p, "bad.tar", &d));
    assert_int_equal(larder__data_about(d)->classes, 2147483648);
    larder__data_close(&d);
    f = begin(p, "twice.tar");
    tar_put_sample(f, "k", "x", 1, "1");
    tar_put(f, '0', "k.cls", "2", 1);
    tar_put_end(f);
    fclose(f);
    refused(p, "twice.tar", LARDER_E_FORMAT, "k.cls is there twice");
    f = begin(p, "alone.tar");
    tar_put(f, '0', "k.cls", "2", 1);
    tar_put_end(f);
    fclose(f);
    refused(p, "alone.tar", LARDER_E_FORMAT, "k has a .cls and no image");
}

/* ---- damaged shards -------------------------------------------------------------------------- */

static void make_plain(const place *p, const char *name) {
    char text[1500];
    memset(text, 't', sizeof text);
    FILE *f = begin(p, name);
    tar_put_sample(f, "a", text, sizeof text, "1");
    tar_put_sample(f, "b", text, sizeof text, "2");
    tar_put_end(f);
    fclose(f);
}

static void test_cut_anywhere(void **state) {
    const place *p = *state;
    char path[400];
    struct stat st;
    make_plain(p, "whole.tar");
    snprintf(path, sizeof path, "%s/whole.tar", p->root);
    assert_int_equal(stat(path, &st), 0);
    refused(p, "missing.tar", LARDER_E_NOTFOUND, "No such file");
    for (off_t size = st.st_size - 1024; size > 0; size -= 128) {
        assert_int_equal(truncate(path, size), 0);
        refused(p, "whole.tar", LARDER_E_FORMAT, "is cut short");
        assert_non_null(strstr(larder_errmsg(), "byte"));
    }
    assert_int_equal(truncate(path, 0), 0);
    refused(p, "whole.tar", LARDER_E_FORMAT, "is empty");
    assert_int_equal(kept(p), 0);
}

static void test_wrong_headers(void **state) {
    const place *p = *state;
    FILE *f = begin(p, "a.tar");
    for (int i = 0; i < 2048; i++)
        fputc('x', f);
    fclose(f);
    refused(p, "a.tar", LARDER_E_FORMAT, "no tar header (its checksum is wrong) at byte 0");
    static const struct {
        const char *size, *words;
    } sizes[] = {{"zzzzzzzzzzz", "size is no number"},
                 {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "size is no number"},
                 {"\x80\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "size is no number"},
                 {"77777777777", "is cut short"}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        f = begin(p, "a.tar");
        tar_put_header(f, '0', "a.jpg", "", sizes[i].size);
        tar_put_end(f);
        fclose(f);
        refused(p, "a.tar", LARDER_E_FORMAT, sizes[i].words);
    }
    static const char *const pax[] = {"5 path",
                                      "9 size=x\n",
                                      "99 path=a\n",
                                      "0 path=a\n",
                                      "x",
                                      "8 path=\n",
                                      "6 =a\n",
                                      "22 GNU.sparse.major=1\n",
                                      "99999999999999999999 path=a\n"};
    for (size_t i = 0; i < sizeof pax / sizeof *pax; i++) {
        f = begin(p, "a.tar");
        tar_put(f, 'x', "PaxHeader", pax[i], strlen(pax[i]));
        tar_put(f, '0', "a.jpg", "a", 1);
        tar_put_end(f);
        fclose(f);
        larder__data *d = NULL;
        int rc = open_tar(p, "a.tar", &d);
        if (rc != LARDER_E_FORMAT && i != 6)
            fail_msg("%s: %d, %s", pax[i], rc, larder_errmsg());
        larder__data_close(&d);
    }
    f = begin(p, "a.tar");
    tar_put_header(f, 'x', "PaxHeader", "", "77777777777");
    tar_put_end(f);
    fclose(f);
    refused(p, "a.tar", LARDER_E_FORMAT, "more than 1 MiB");
    f = begin(p, "a.tar");
    tar_put_header(f, 'S', "a.jpg", "", "00000000000");
    tar_put_end(f);
    fclose(f);
    refused(p, "a.tar", LARDER_E_FORMAT, "sparse");
}

/* ---- the kept index -------------------------------------------------------------------------- */

static void test_index_follows_the_shard(void **state) {
    const place *p = *state;
    larder__data *d;
    make_plain(p, "a.tar");
    check_ok(open_tar(p, "a.tar", &d));
    uint64_t before = larder__data_about(d)->fingerprint;
    larder__data_close(&d);
    FILE *f = begin(p, "a.tar");
    tar_put_sample(f, "new", "content", 7, "5");
    tar_put_end(f);
    fclose(f);
    check_ok(open_tar(p, "a.tar", &d));
    assert_int_equal(larder__data_about(d)->count, 1);
    assert_int_not_equal(larder__data_about(d)->fingerprint, before);
    expect(d, 0, "a.tar:new.jpg", 5, "content");
    larder__data_close(&d);
    assert_int_equal(kept(p), 1);
}

static void kept_path(const place *p, char out[700]) {
    DIR *d = opendir(p->cache);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.')
            snprintf(out, 700, "%s/%s", p->cache, e->d_name);
    closedir(d);
}

/* Every byte of the index wrong once: it is never believed, and built again. */
static void test_damaged_index(void **state) {
    const place *p = *state;
    char path[700], bytes[4096];
    larder__data *d;
    FILE *f = begin(p, "a.tar");
    tar_put_sample(f, "k", "content", 7, "5");
    tar_put_end(f);
    fclose(f);
    check_ok(open_tar(p, "a.tar", &d));
    larder__data_close(&d);
    kept_path(p, path);
    f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    assert_in_range(n, 50, 1000);
    for (size_t i = 0; i <= n; i++) {
        char spoilt[4096];
        memcpy(spoilt, bytes, n);
        spoilt[i % n] ^= 0x5a;
        check_write(path, spoilt, i == n ? n / 2 : n);
        check_ok(open_tar(p, "a.tar", &d));
        expect(d, 0, "a.tar:k.jpg", 5, "content");
        larder__data_close(&d);
        f = fopen(path, "rb");
        assert_int_equal(fread(spoilt, 1, sizeof spoilt, f), n);
        fclose(f);
        assert_memory_equal(spoilt, bytes, n); /* mended */
    }
    check_write(path, "", 0);
    check_ok(open_tar(p, "a.tar?index=off", &d));
    larder__data_close(&d);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 0); /* off touches nothing */
}

/* Of many samples, so that the index has several pages. */
static void make_many(const place *p, const char *name) {
    FILE *f = begin(p, name);
    for (int i = 0; i < 1000; i++) {
        char key[32];
        snprintf(key, sizeof key, "sample-%d", i);
        tar_put_sample(f, key, "content", 7, "5");
    }
    tar_put_end(f);
    fclose(f);
}

static void says_lost(const char *why) {
    if (!strstr(why, "a.tar") || !strstr(why, "its index in the cache folder cannot be read"))
        fail_msg("%s", why);
}

/* Its kept index is made shorter, or its disk fails, while it is mapped: samples that it has no
 * place of any more are failures by name, in either way of reading, and never other bytes. */
static void cut_while_open(const place *p, size_t fields) {
    static const char *const names[] = {"jpg", "cls"};
    char path[700], uri[400];
    larder__data *d;
    larder_read out[3];
    larder_sample s;
    uint64_t ids[3] = {999, 0, 500};
    snprintf(uri, sizeof uri, "tar:%s/a.tar", p->root);
    check_ok(larder__data_open_fields(&d, uri, names, fields));
    check_ok(larder__data_read(d, ids, 3, out));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(out[i].code, 0);
        larder_buf_unref(&out[i].buf);
    }
    kept_path(p, path);
    assert_int_equal(truncate(path, 0), 0);
    check_ok(larder__data_read(d, ids, 3, out));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(out[i].code, LARDER_E_IO);
        says_lost(out[i].why);
    }
    assert_int_equal(larder__data_stat(d, 0, &s), LARDER_E_IO);
    says_lost(larder_errmsg());
    check_ok(larder__data_name(d, 999, path, sizeof path)); /* as far as it is known */
    larder__data_close(&d);
    check_ok(open_tar(p, "a.tar", &d)); /* and the next one makes it again */
    check_ok(larder__data_read(d, ids, 1, out));
    assert_int_equal(out[0].code, 0);
    larder_buf_unref(&out[0].buf);
    larder__data_close(&d);
}

static void test_index_cut_while_open(void **state) {
    const place *p = *state;
    make_many(p, "a.tar");
    cut_while_open(p, 0);
    cut_while_open(p, 2);
}

static void test_no_cache_folder(void **state) {
    const place *p = *state;
    larder__data *d;
    char path[400];
    make_plain(p, "a.tar");
    snprintf(path, sizeof path, "%s/file", p->root);
    check_write(path, "x", 1);
    snprintf(path, sizeof path, "%s/file/below", p->root);
    setenv("LARDER_CACHE_DIR", path, 1);
    check_ok(open_tar(p, "a.tar", &d));
    larder__data_close(&d);
    const char *home = getenv("HOME"), *xdg = getenv("XDG_CACHE_HOME");
    char *old_home = home ? strdup(home) : NULL, *old_xdg = xdg ? strdup(xdg) : NULL;
    setenv("LARDER_CACHE_DIR", "", 1);
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    check_ok(open_tar(p, "a.tar", &d));
    larder__data_close(&d);
    setenv("XDG_CACHE_HOME", p->root, 1);
    check_ok(open_tar(p, "a.tar", &d));
    larder__data_close(&d);
    snprintf(path, sizeof path, "%s/larder", p->root);
    assert_int_equal(access(path, F_OK), 0);
    unsetenv("XDG_CACHE_HOME");
    if (old_home)
        setenv("HOME", old_home, 1);
    if (old_xdg)
        setenv("XDG_CACHE_HOME", old_xdg, 1);
    free(old_home);
    free(old_xdg);
}

/* ---- a shard that changes during a run ------------------------------------------------------- */

static void test_shard_changes(void **state) {
    const place *p = *state;
    char path[400], other[400];
    for (int way = 0; way < 4; way++) {
        larder__data *d;
        larder_read out[2];
        uint64_t ids[2] = {0, 1};
        make_plain(p, "a.tar");
        make_plain(p, "b.tar");
        snprintf(path, sizeof path, "%s/a.tar", p->root);
        snprintf(other, sizeof other, "%s/b.tar", p->root);
        check_ok(open_tar(p, "a.tar", &d));
        if (way != 3) { /* so that it is open already */
            check_ok(larder__data_read(d, ids, 1, out));
            assert_int_equal(out[0].code, 0);
            larder_buf_unref(&out[0].buf);
        }
        if (way == 0)
            assert_int_equal(truncate(path, 600), 0);
        else if (way == 1 || way == 3)
            assert_int_equal(rename(other, path), 0);
        else
            assert_int_equal(unlink(path), 0);
        check_ok(larder__data_read(d, ids, 2, out));
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(out[i].code, LARDER_E_CHANGED);
            assert_non_null(strstr(out[i].why, "a.tar"));
            assert_non_null(strstr(out[i].why, i ? "b.jpg" : "a.jpg"));
        }
        larder__data_close(&d);
    }
}

static void test_more_shards_than_stay_open(void **state) {
    const place *p = *state;
    enum { SHARDS = 300 };
    uint64_t ids[SHARDS];
    larder_read out[SHARDS];
    larder__data *d;
    for (size_t i = 0; i < SHARDS; i++) {
        char name[32], text[16];
        snprintf(name, sizeof name, "s-%03zu.tar", i);
        snprintf(text, sizeof text, "%zu", i);
        FILE *f = begin(p, name);
        tar_put_sample(f, "k", text, strlen(text), "0");
        tar_put_end(f);
        fclose(f);
        ids[i] = i * 7 % SHARDS;
    }
    check_ok(open_tar(p, "s-{000..299}.tar?index=off", &d));
    for (int round = 0; round < 2; round++) {
        check_ok(larder__data_read(d, ids, SHARDS, out));
        for (size_t i = 0; i < SHARDS; i++) {
            char text[16];
            snprintf(text, sizeof text, "%zu", (size_t)ids[i]);
            if (out[i].code < 0)
                fail_msg("%s", out[i].why);
            assert_memory_equal(larder_buf_data(out[i].buf), text, strlen(text));
            larder_buf_unref(&out[i].buf);
        }
    }
    larder__data_close(&d);
}

static void test_real_photographs(void **state) {
    (void)state;
    char path[512], uri[600];
    larder__data *d;
    if (!check_shared("jpeg", path)) {
        print_message("skipped: no shared data here\n");
        skip();
    }
    snprintf(uri, sizeof uri, "%s/flowers102-000{0..3}.tar", path);
    check_ok(larder__data_open(&d, uri));
    assert_int_equal(larder__data_about(d)->count, 204);
    assert_int_equal(larder__data_about(d)->classes, 102);
    uint64_t id = 203;
    larder_read out;
    check_ok(larder__data_read(d, &id, 1, &out));
    assert_int_equal(out.code, 0);
    assert_memory_equal(larder_buf_data(out.buf), "\xff\xd8\xff", 3);
    larder_buf_unref(&out.buf);
    larder__data_close(&d);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_samples),
        TEST(test_long_names_and_odd_sizes),
        TEST(test_wrong_labels),
        TEST(test_cut_anywhere),
        TEST(test_wrong_headers),
        TEST(test_index_follows_the_shard),
        TEST(test_damaged_index),
        TEST(test_index_cut_while_open),
        TEST(test_no_cache_folder),
        TEST(test_shard_changes),
        TEST(test_more_shards_than_stay_open),
        TEST(test_real_photographs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
