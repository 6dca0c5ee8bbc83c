/* Memory that runs out at every single allocation, and a disk that fills, in each source. */
#include "check.h"

#include "base/mem.h"
#include "packed.h"
#include "source/source.h"
#include "tar_maker.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[256];

static void path_of(char out[512], const char *name) { snprintf(out, 512, "%s/%s", root, name); }

static void make_dir(void) {
    static const char *const names[] = {"dir", "dir/a", "dir/b", "dir/b/deep"};
    char path[512];
    for (size_t i = 0; i < 4; i++) {
        path_of(path, names[i]);
        mkdir(path, 0700);
    }
    for (int i = 0; i < 40; i++) {
        char name[64];
        snprintf(name, sizeof name, "dir/%s/%02d.jpg", i % 3 ? "a" : i % 2 ? "b" : "b/deep", i);
        path_of(path, name);
        check_write(path, name, strlen(name));
    }
}

static void make_tar(void) {
    char path[512];
    for (int s = 0; s < 2; s++) {
        char name[64];
        snprintf(name, sizeof name, "s-%d.tar", s);
        path_of(path, name);
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        for (int i = 0; i < 20; i++) {
            snprintf(name, sizeof name, "%02d", i);
            tar_put_sample(f, name, name, 2, "1");
        }
        tar_put(f, 'x', "pax", "14 path=z.jpg\n", 14);
        tar_put(f, '0', "z", "z", 1);
        tar_put_end(f);
        fclose(f);
    }
}

static void make_idx(void) {
    static const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 1, 1, 2, 3, 4};
    static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 0};
    char path[512];
    path_of(path, "idx");
    mkdir(path, 0700);
    path_of(path, "idx/train-images-idx3-ubyte.gz");
    if (!packed_write(path, images, sizeof images)) {
        path_of(path, "idx/train-images-idx3-ubyte");
        check_write(path, images, sizeof images);
    }
    path_of(path, "idx/train-labels-idx1-ubyte");
    check_write(path, labels, sizeof labels);
}

static void make_cifar(void) {
    static unsigned char bytes[2 * 3074];
    char path[512];
    path_of(path, "cifar");
    mkdir(path, 0700);
    path_of(path, "cifar/train.bin");
    check_write(path, bytes, sizeof bytes);
    path_of(path, "cifar/test.bin.xz");
    if (!packed_write(path, bytes, sizeof bytes)) {
        path_of(path, "cifar/test.bin");
        check_write(path, bytes, sizeof bytes);
    }
}

static int set_up(void **state) {
    (void)state;
    char path[512];
    check_folder(root);
    path_of(path, "cache");
    setenv("LARDER_CACHE_DIR", path, 1);
    make_dir();
    make_tar();
    make_idx();
    make_cifar();
    return 0;
}
static int tear_down(void **state) {
    (void)state;
    check_folder_remove(root);
    return 0;
}

/* Opens, reads, closes. Failures are fine; wrong answers are not. */
static void walk(const char *uri) {
    larder__data *d = NULL;
    int rc = larder__data_open(&d, uri);
    if (rc < 0) {
        assert_null(d);
        assert_int_not_equal(strlen(larder_errmsg()), 0);
        return;
    }
    enum { MOST = 50 };
    uint64_t ids[MOST], n = larder__data_about(d)->count;
    larder_read out[MOST];
    char name[64];
    n = n < MOST ? n : MOST;
    for (uint64_t i = 0; i < n; i++)
        ids[i] = n - 1 - i;
    if (larder__data_read(d, ids, n, out) == 0)
        for (uint64_t i = 0; i < n; i++) {
            larder_sample s;
            check_ok(larder__data_stat(d, ids[i], &s));
            check_ok(larder__data_name(d, ids[i], name, sizeof name));
            assert_true((out[i].code == 0) == (out[i].buf != NULL));
            assert_true(out[i].code == 0 || out[i].code == LARDER_E_NOMEM);
            if (out[i].buf)
                assert_int_equal(larder_buf_size(out[i].buf), s.bytes);
            larder_buf_unref(&out[i].buf);
        }
    larder__data_close(&d);
}

static void test_memory_runs_out(void **state) {
    (void)state;
    static const char *const uris[] = {
        "dir:%s/dir?io=plain",   "dir:%s/dir",          "tar:%s/s-{0..1}.tar", "tar:%s/s-*.tar?index=off",
        "idx:%s/idx",            "cifar100:%s/cifar",   "cifar100:%s/cifar?split=test",
        "slow:none,latency=1us:dir:%s/dir?io=plain", "%s/idx", "%s"};
    for (size_t k = 0; k < sizeof uris / sizeof *uris; k++) {
        char uri[512];
        const char *mark = strstr(uris[k], "%s");
        snprintf(uri, sizeof uri, "%.*s%s%s", (int)(mark - uris[k]), uris[k], root, mark + 2);
        for (int all = 0; all < 2; all++) {
            int more = 1;
            for (uint64_t at = 1; more && at < 5000; at++) {
                larder__mem_fail_at(at, all);
                walk(uri);
                more = larder__mem_failed();
                larder__mem_fail_at(0, 0);
            }
            assert_false(more);
        }
        walk(uri);
    }
    for (uint64_t at = 1; at < 20; at++) {
        larder__mem_fail_at(at, 0);
        walk("mem:?n=10&bytes=5-10&bad=77");
        larder__mem_fail_at(0, 0);
    }
}

/* The disk is full while the index is written: the data set opens all the same, and nothing half
 * written stays. */
static void test_disk_fills(void **state) {
    (void)state;
    char uri[512], path[512];
    snprintf(uri, sizeof uri, "tar:%s/s-{0..1}.tar", root);
    path_of(path, "cache");
    check_folder_remove(path);
    struct rlimit old, none = {.rlim_cur = 100};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    none.rlim_max = old.rlim_max;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    larder__data *d = NULL;
    int rc = larder__data_open(&d, uri);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, handler);
    check_ok(rc);
    assert_int_equal(larder__data_about(d)->count, 42);
    larder__data_close(&d);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *e; (e = readdir(folder));)
        assert_int_equal(e->d_name[0], '.');
    closedir(folder);
    walk(uri); /* with room again it is kept */
    size_t kept = 0;
    folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *e; (e = readdir(folder));)
        kept += e->d_name[0] != '.';
    closedir(folder);
    assert_int_equal(kept, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_memory_runs_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_disk_fills, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
