/* What tells bytes apart: few of them are looked at, all where there are few; the identity of a
 * data set follows its bytes and files, its fingerprint does not; a read of what was changed since
 * is refused, and a mere change of rights is not. */
#include "check.h"
#include "packed.h"
#include "source/content.h"
#include "source/source.h"
#include "source/stamp.h"
#include "tar_maker.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- places ---------------------------------------------------------------------------------- */

typedef struct looked {
    size_t reads;
    uint64_t bytes;
    const unsigned char *file; /* what is there; NULL: zeros */
} looked;

static int look(void *arg, void *out, size_t n, uint64_t at) {
    looked *l = arg;
    l->reads++;
    l->bytes += n;
    if (l->file)
        memcpy(out, l->file + at, n);
    else
        memset(out, 0, n);
    return 0;
}

static void test_bounded(void **state) {
    (void)state;
    static const struct {
        uint64_t files, size;
    } sets[] = {{1, (uint64_t)1 << 40}, {10000000, 1000}, {10000000, 1}, {3, 100000}, {1, 1}};
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
        larder__content c;
        looked l = {0};
        larder__content_begin(&c, sets[k].files * sets[k].size);
        for (uint64_t i = 0; i < sets[k].files; i++)
            larder__content_add(&c, sets[k].size, look, &l);
        assert_true(l.reads > 0 && l.reads <= LARDER__CONTENT_PLACES * LARDER__CONTENT_FILES);
        assert_true(l.bytes <= LARDER__CONTENT_PLACES * LARDER__CONTENT_BYTES);
        if (sets[k].size > 100000) /* all over it */
            assert_int_equal(l.bytes, LARDER__CONTENT_PLACES * LARDER__CONTENT_BYTES);
    }
}

static uint64_t hash_of(unsigned char *const files[], const size_t *sizes, size_t n) {
    larder__content c;
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++)
        all += sizes[i];
    larder__content_begin(&c, all);
    for (size_t i = 0; i < n; i++)
        larder__content_add(&c, sizes[i], look, &(looked){.file = files[i]});
    return c.hash;
}

/* Where all of it fits, no byte escapes, however the files divide it. */
static void test_every_byte(void **state) {
    (void)state;
    static const size_t sizes[] = {4095, 1, 0, 4097, 9000, 3, 777};
    enum { FILES = sizeof sizes / sizeof *sizes };
    unsigned char *files[FILES];
    for (size_t i = 0; i < FILES; i++)
        files[i] = calloc(sizes[i] + 1, 1);
    uint64_t before = hash_of(files, sizes, FILES);
    for (size_t i = 0; i < FILES; i++)
        for (size_t at = 0; at < sizes[i]; at++) {
            files[i][at] = 1;
            if (hash_of(files, sizes, FILES) == before)
                fail_msg("byte %zu of file %zu", at, i);
            files[i][at] = 0;
        }
    assert_int_equal(hash_of(files, sizes, FILES), before);
    for (size_t i = 0; i < FILES; i++)
        free(files[i]);
}

/* ---- sources --------------------------------------------------------------------------------- */

enum { N = 20, BYTES = 64 };
typedef void (*maker)(const char *root, unsigned char pixel, const char *ending);

static void make_idx(const char *root, unsigned char pixel, const char *ending) {
    unsigned char images[16 + N * BYTES] = {0, 0, 8, 3, 0, 0, 0, N, 0, 0, 0, 8, 0, 0, 0, 8};
    unsigned char labels[8 + N] = {0, 0, 8, 1, 0, 0, 0, N};
    char path[400];
    memset(images + 16, pixel, N * BYTES);
    snprintf(path, sizeof path, "%s/train-images-idx3-ubyte%s", root, ending);
    if (!packed_write(path, images, sizeof images))
        skip();
    snprintf(path, sizeof path, "%s/train-labels-idx1-ubyte", root);
    check_write(path, labels, sizeof labels);
}

static void make_cifar(const char *root, unsigned char pixel, const char *ending) {
    unsigned char record[3073];
    char path[400];
    memset(record, pixel, sizeof record);
    record[0] = 3;
    for (int i = 1; i <= 5; i++) {
        snprintf(path, sizeof path, "%s/data_batch_%d.bin%s", root, i, ending);
        if (!packed_write(path, record, sizeof record))
            skip();
    }
}

static void make_tar(const char *root, unsigned char pixel, const char *ending) {
    unsigned char bytes[BYTES];
    char path[400], key[16];
    (void)ending;
    memset(bytes, pixel, sizeof bytes);
    snprintf(path, sizeof path, "%s/a.tar", root);
    FILE *f = fopen(path, "wbe");
    assert_non_null(f);
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof key, "%04d", i);
        tar_put_sample(f, key, bytes, sizeof bytes, "0");
    }
    tar_put_end(f);
    fclose(f);
}

static void make_dir(const char *root, unsigned char pixel, const char *ending) {
    unsigned char bytes[BYTES];
    char path[400];
    (void)ending;
    memset(bytes, pixel, sizeof bytes);
    snprintf(path, sizeof path, "%s/c", root);
    mkdir(path, 0700);
    for (int i = 0; i < N; i++) {
        snprintf(path, sizeof path, "%s/c/%04d.png", root, i);
        check_write(path, bytes, sizeof bytes);
    }
}

static const struct {
    const char *name, *touched, *ending, *query;
    maker make;
} kinds[] = {
    {"idx", "train-images-idx3-ubyte", "", "", make_idx},
    {"idx", NULL, ".gz", "", make_idx},
    {"idx", NULL, ".xz", "", make_idx},
    {"cifar10", "data_batch_1.bin", "", "", make_cifar},
    {"cifar10", NULL, ".xz", "", make_cifar},
    {"tar", "a.tar", "", "index=off", make_tar},
    {"dir", "c/0000.png", "", "io=plain", make_dir},
    {"dir", "c/0000.png", "", "io=auto", make_dir},
};

/* Opens a kind in a folder, with a further query or "". */
static larder__data *open_set(size_t kind, const char *root, const char *more) {
    char uri[500];
    larder__data *d;
    const char *query = kinds[kind].query;
    snprintf(uri, sizeof uri, "%s:%s%s%s%s%s", kinds[kind].name, root,
             query[0] || more[0] ? "?" : "", query, query[0] && more[0] ? "&" : "", more);
    check_ok(larder__data_open(&d, uri));
    return d;
}

static larder_dataset about(size_t kind, const char *root, const char *more) {
    larder__data *d = open_set(kind, root, more);
    larder_dataset a = *larder__data_about(d);
    larder__data_close(&d);
    return a;
}

static void test_identity(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char root[256], copy[256], twin[256];
        check_folder(root);
        check_folder(copy);
        check_folder(twin);
        kinds[k].make(root, 1, kinds[k].ending);
        kinds[k].make(copy, 1, kinds[k].ending);
        kinds[k].make(twin, 2, kinds[k].ending);
        larder_dataset a = about(k, root, ""), again = about(k, root, ""), c = about(k, copy, ""),
                       t = about(k, twin, "");
        assert_int_equal(a.identity, again.identity);
        assert_int_equal(a.fingerprint,
                         c.fingerprint); /* a state made on one goes on on the other */
        assert_int_equal(a.content, c.content);
        assert_int_not_equal(a.identity, c.identity); /* nobody has said that they are the same */
        assert_int_equal(a.fingerprint, t.fingerprint);
        assert_int_not_equal(a.content, t.content);
        assert_int_not_equal(a.identity, t.identity);
        a = about(k, root, "content=x");
        c = about(k, copy, "content=x");
        t = about(k, twin, "content=x");
        assert_int_equal(a.identity, c.identity);
        assert_int_not_equal(a.identity, t.identity); /* whatever was said */
        assert_int_not_equal(a.identity, about(k, root, "content=y").identity);
        assert_int_not_equal(a.identity, again.identity);
        check_folder_remove(root);
        check_folder_remove(copy);
        check_folder_remove(twin);
    }
}

/* A packed and a plain file of one data set may be said to be the same. */
static void test_packed(void **state) {
    (void)state;
    char plain[256], packed[256];
    check_folder(plain);
    check_folder(packed);
    make_idx(plain, 7, "");
    make_idx(packed, 7, ".gz");
    assert_int_equal(about(0, plain, "content=x").identity, about(1, packed, "content=x").identity);
    check_folder_remove(plain);
    check_folder_remove(packed);
}

static size_t count_codes(larder__data *d, int code, const char *word) {
    uint64_t ids[N];
    larder_read out[N];
    size_t found = 0, n = (size_t)larder__data_about(d)->count;
    for (size_t i = 0; i < n; i++)
        ids[i] = i;
    check_ok(larder__data_read(d, ids, n, out));
    for (size_t i = 0; i < n; i++) {
        found += out[i].code == code && (code == 0 || strstr(out[i].why, word));
        assert_true((out[i].buf != NULL) == (out[i].code == 0));
        larder_buf_unref(&out[i].buf);
    }
    return found;
}

/* Samples whose file has another time are refused, by name; other rights make no difference. */
static void test_changed(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char root[256], path[400];
        if (!kinds[k].touched)
            continue;
        check_folder(root);
        kinds[k].make(root, 1, "");
        larder__data *d = open_set(k, root, "content=x"); /* the name covers what it was, not is */
        size_t all = (size_t)larder__data_about(d)->count;
        snprintf(path, sizeof path, "%s/%s", root, kinds[k].touched);
        assert_int_equal(chmod(path, 0640), 0);
        assert_int_equal(count_codes(d, 0, ""), all);
        const struct timespec then[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
        assert_int_equal(utimensat(AT_FDCWD, path, then, 0), 0);
        size_t hurt =
            strcmp(kinds[k].name, "dir") == 0 || strcmp(kinds[k].name, "cifar10") == 0 ? 1 : all;
        assert_int_equal(count_codes(d, LARDER_E_CHANGED, path), hurt);
        assert_int_equal(count_codes(d, LARDER_E_CHANGED, "start again"), hurt);
        assert_int_equal(count_codes(d, 0, ""), all - hurt);
        larder__data_close(&d);
        check_folder_remove(root);
    }
}

/* ---- the query ------------------------------------------------------------------------------- */

static uint64_t identity(const char *uri) {
    larder__data *d;
    check_ok(larder__data_open(&d, uri));
    uint64_t i = larder__data_about(d)->identity;
    larder__data_close(&d);
    return i;
}

static void refused(const char *uri, const char *word) {
    larder__data *d = NULL;
    assert_int_equal(larder__data_open(&d, uri), LARDER_E_ARGS);
    if (!strstr(larder_errmsg(), word))
        fail_msg("%s: %s", uri, larder_errmsg());
}

static void test_query(void **state) {
    (void)state;
    uint64_t plain = identity("mem:?n=10"), said = identity("mem:?n=10&content=a");
    assert_int_not_equal(plain, 0);
    assert_int_not_equal(plain, said);
    assert_int_not_equal(plain, identity("mem:?n=10&seed=2"));
    assert_int_equal(said, identity("mem:?content=a&n=10"));
    assert_int_equal(said, identity("mem:?seed=1&content=a&n=10"));
    assert_int_not_equal(said, identity("mem:?content=a&n=11"));
    assert_int_equal(said, identity("slow:latency=1ms:mem:?n=10&content=a"));
    assert_int_equal(plain, identity("slow:latency=1ms:mem:?n=10"));
    identity("mem:?content=a.b-c_9");
    assert_int_equal(plain, identity("mem:?content=&n=10")); /* as if it were not said */
    refused("mem:?content=a/b", "content=NAME");
    refused("mem:?content=aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggg",
            "content=NAME");
    refused("mem:?discontent=a", "discontent");
}

/* Images are made with the same inodes and times: the file system's own number tells. */
static void test_volumes(void **state) {
    (void)state;
    char folder[256], path[2][320];
    larder__stamp stamps[2];
    check_folder(folder);
    pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
            _exit(77);
        for (int i = 0; i < 2; i++) {
            struct stat st;
            snprintf(path[i], sizeof path[i], "%s/%d", folder, i);
            if (mkdir(path[i], 0700) != 0 || mount("none", path[i], "tmpfs", 0, NULL) != 0)
                _exit(77);
            strcat(path[i], "/x");
            check_write(path[i], "same", 4);
            int fd = open(path[i], O_RDONLY);
            must(larder__stamp_fd(fd, &st, &stamps[i]));
        }
        stamps[1].inode = stamps[0].inode;
        stamps[1].mtime_ns = stamps[0].mtime_ns;
        stamps[1].ctime_ns = stamps[0].ctime_ns;
        if (!stamps[0].volume && !stamps[1].volume)
            _exit(77); /* a kernel that does not number them */
        must(larder__stamp_hash(0, &stamps[0]) != larder__stamp_hash(0, &stamps[1]));
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    check_folder_remove(folder);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounded),  cmocka_unit_test(test_every_byte),
        cmocka_unit_test(test_identity), cmocka_unit_test(test_packed),
        cmocka_unit_test(test_changed),  cmocka_unit_test(test_query),
        cmocka_unit_test(test_volumes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
