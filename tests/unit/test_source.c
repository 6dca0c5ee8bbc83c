#include "check.h"

#include "source/source.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A URI that must fail with this code, and a sentence that contains these words. */
static void refused(const char *uri, int code, const char *words) {
    larder__data *d = NULL;
    int rc = larder__data_open(&d, uri);
    if (rc != code || !strstr(larder_errmsg(), words))
        fail_msg("%s: %d, \"%s\"; expected %d, \"%s\"", uri, rc, larder_errmsg(), code, words);
    assert_null(d);
}

static void test_wrong_uris(void **state) {
    (void)state;
    refused("", LARDER_E_ARGS, "no data set was named");
    refused("cifra10:x", LARDER_E_ARGS, "did you mean cifar10");
    refused("zebra:x", LARDER_E_ARGS, "there are dir, tar");
    refused("dir:", LARDER_E_ARGS, "needs a place");
    refused("mem:x?n=1", LARDER_E_ARGS, "takes no place");
    refused("mem:?n=1&m=2", LARDER_E_ARGS, "no parameter \"m\"");
    refused("mem:?n=-1", LARDER_E_RANGE, "n: -1");
    refused("mem:?n=x", LARDER_E_ARGS, "not a number");
    refused("mem:?n", LARDER_E_ARGS, "takes no place"); /* without '=' it is no query */
    refused("/nowhere/at/all", LARDER_E_NOTFOUND, "there is no file or folder");
    refused("slow:nfs", LARDER_E_ARGS, "needs parameters and a data set");
    refused("slow:warp:mem:?n=1", LARDER_E_ARGS, "none of none|nfs|hdd|s3");
    refused("slow:bandwidth=-1:mem:?n=1", LARDER_E_ARGS, "negative");
    refused("slow:latency=2h:mem:?n=1", LARDER_E_ARGS, "unknown unit");
    refused("slow:latency=1e9:mem:?n=1", LARDER_E_RANGE, "over an hour");
    refused("slow:nfs:slow:nfs:mem:?n=1", LARDER_E_ARGS, "makes no sense");
    refused("slow:nfs:zebra:1", LARDER_E_ARGS, "no source \"zebra\"");
}

static void test_unrecognised_file(void **state) {
    (void)state;
    char folder[256], path[300];
    check_folder(folder);
    snprintf(path, sizeof path, "%s/notes:1.txt", folder);
    check_write(path, "hello", 5);
    refused(path, LARDER_E_FORMAT, "no source recognises");
    check_folder_remove(folder);
}

static void test_ids_are_checked(void **state) {
    (void)state;
    larder__data *d;
    larder_sample s;
    char name[32];
    larder_read out[3];
    uint64_t ids[3] = {0, 7, 1};
    check_ok(larder__data_open(&d, "mem:?n=2&bytes=10"));
    assert_int_equal(larder__data_stat(d, 2, &s), LARDER_E_RANGE);
    assert_int_equal(larder__data_name(d, UINT64_MAX, name, sizeof name), LARDER_E_RANGE);
    check_ok(larder__data_read(d, ids, 3, out));
    assert_int_equal(out[0].code, 0);
    assert_int_equal(out[1].code, LARDER_E_RANGE);
    assert_non_null(strstr(out[1].why, "no sample 7"));
    assert_null(out[1].buf);
    assert_int_equal(out[2].code, 0);
    larder_buf_unref(&out[0].buf);
    larder_buf_unref(&out[2].buf);
    larder__data_close(&d);
    larder__data_close(&d); /* takes NULL */
}

static void test_empty_read_and_set(void **state) {
    (void)state;
    larder__data *d;
    check_ok(larder__data_open(&d, "mem:?n=0"));
    assert_int_equal(larder__data_about(d)->count, 0);
    check_ok(larder__data_read(d, NULL, 0, NULL));
    assert_string_equal(larder__data_uri(d), "mem:?n=0");
    assert_string_equal(larder__data_plugin(d)->name, "mem");
    larder__data_close(&d);
    check_ok(larder__data_open(&d, "slow:latency=1ms:mem:?n=0"));
    check_ok(larder__data_read(d, NULL, 0, NULL));
    larder__data_close(&d);
}

static void test_wrapper_keeps_inner_query(void **state) {
    (void)state;
    larder__data *d, *plain;
    check_ok(larder__data_open(&d, "slow:nfs,latency=1us,jitter=1us:mem:?n=17&classes=3"));
    check_ok(larder__data_open(&plain, "mem:?n=17&classes=3"));
    assert_int_equal(larder__data_about(d)->count, 17);
    assert_int_equal(larder__data_about(d)->classes, 3);
    assert_int_equal(larder__data_about(d)->fingerprint, larder__data_about(plain)->fingerprint);
    larder__data_close(&d);
    larder__data_close(&plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_uris),          cmocka_unit_test(test_unrecognised_file),
        cmocka_unit_test(test_ids_are_checked),     cmocka_unit_test(test_empty_read_and_set),
        cmocka_unit_test(test_wrapper_keeps_inner_query),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
