/* What can go wrong while packing and reading parts: memory, a full disk, files that change. */
#include "pack_kit.h"

#include "base/mem.h"
#include "pack/extract.h"
#include "pack/inspect.h"
#include "source/source.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static char plain[256], packed[256], uri[300];
static size_t pictures;

static int set_up(void **state) {
    (void)state;
    check_folder(plain);
    check_folder(packed);
    pictures = kit_pictures(plain);
    snprintf(uri, sizeof uri, "dir:%s", plain);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    check_folder_remove(plain);
    check_folder_remove(packed);
    return 0;
}

static int pack(void) {
    larder__pack_conf conf = kit_pack_conf(uri, packed);
    larder__pack_result r;
    conf.jobs = 1;
    return larder__pack_run(&conf, &r);
}

static size_t count_files(const char *ending) {
    size_t n = 0;
    DIR *d = opendir(packed);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        size_t len = strlen(e->d_name), k = strlen(ending);
        n += len > k && strcmp(e->d_name + len - k, ending) == 0;
    }
    closedir(d);
    return n;
}

static int walk(void) {
    larder__data *d = NULL;
    char where[300];
    snprintf(where, sizeof where, "pack:%s", packed);
    int rc = larder__data_open(&d, where);
    for (uint64_t id = 0; rc == 0 && id < larder__data_about(d)->count; id += 5) {
        larder_read r = {0};
        larder_rect rect = {.shrink = 1};
        char name[100];
        uint32_t bytes;
        rc = larder__data_extent(d, id, &rect.x1, &rect.y1);
        rect.x0 = rect.x1 / 2;
        if (rc == 0)
            rc = larder__data_part_bytes(d, id, &rect, &bytes);
        if (rc == 0)
            rc = larder__data_name(d, id, name, sizeof name);
        if (rc == 0)
            rc = larder__data_read_parts(d, &id, &rect, 1, &r);
        if (rc == 0)
            rc = r.code;
        larder_buf_unref(&r.buf);
    }
    larder__data_close(&d);
    return rc;
}

static int inspect(void) {
    larder__inspect_conf conf = {.where = packed, .deep = true};
    larder__pack_tally t;
    int rc = larder__pack_inspect(&conf, &t);
    return rc == 0 && t.bad ? LARDER_E_FORMAT : rc;
}

/* Every allocation fails once; each time there is a sentence, nothing half-written, no leak. */
static void fail_everywhere(int (*what)(void)) {
    int more = 1;
    for (uint64_t at = 1; more && at < 3000; at++) {
        larder__mem_fail_at(at, 0);
        int rc = what();
        more = larder__mem_failed();
        larder__mem_fail_at(0, 0);
        assert_true(!more || rc <= 0);
        assert_int_equal(count_files(".tmp"), 0);
    }
    assert_false(more);
    check_ok(what());
}

static int pack_afresh(void) {
    check_folder_remove(packed);
    check_folder(packed);
    return pack();
}

static void test_memory_runs_out(void **state) {
    (void)state;
    if (!pictures)
        skip();
    fail_everywhere(pack_afresh);
    fail_everywhere(walk);
    fail_everywhere(inspect);
}

/* The disk fills in the middle of a shard: said with its name, nothing of it stays, what was
 * finished does; with room again the rest is made. */
static void test_disk_fills(void **state) {
    (void)state;
    if (!pictures)
        skip();
    check_folder_remove(packed);
    check_folder(packed);
    struct rlimit old, less = {.rlim_cur = 30000};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    less.rlim_max = old.rlim_max;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
    int rc = pack();
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, handler);
    assert_true(rc < 0);
    assert_non_null(strstr(larder_errmsg(), "shard-00000"));
    assert_int_equal(count_files(".tmp"), 0);
    assert_int_equal(count_files(".tar"), count_files(".larder"));
    check_ok(pack());
    check_ok(inspect());
}

/* A shard that is replaced while it is in use is noticed at the next read. */
static void test_shard_replaced(void **state) {
    (void)state;
    if (!pictures)
        skip();
    check_ok(pack_afresh());
    larder__data *d = NULL;
    check_ok(larder__data_open(&d, packed));
    char path[400];
    size_t size;
    snprintf(path, sizeof path, "%s/shard-000000.tar", packed);
    unsigned char *bytes = kit_read(path, &size);
    unlink(path);
    check_write(path, bytes, size);
    free(bytes);
    uint64_t id = 0;
    larder_rect rect = {0, 0, 20, 20, 1};
    larder_read r = {0};
    check_ok(larder__data_read_parts(d, &id, &rect, 1, &r));
    assert_int_equal(r.code, LARDER_E_CHANGED);
    assert_non_null(strstr(r.why, "shard-000000.tar, sample 0"));
    rect.x1 = 5000; /* outside the picture */
    id = larder__data_about(d)->count - 1;
    check_ok(larder__data_read_parts(d, &id, &rect, 1, &r));
    assert_int_equal(r.code, LARDER_E_RANGE);
    larder__data_close(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory_runs_out),
                                       cmocka_unit_test(test_disk_fills),
                                       cmocka_unit_test(test_shard_replaced)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
