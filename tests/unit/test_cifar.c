#include "check.h"

#include "packed.h"
#include "source/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIXELS = 3072, N = 4 };

/* N records with `labels` label bytes; record i of file `file` has fine label (file + i) % classes. */
static size_t make(unsigned char *out, unsigned file, unsigned labels, unsigned classes) {
    for (unsigned i = 0; i < N; i++) {
        unsigned char *r = out + i * (labels + PIXELS);
        r[0] = (unsigned char)(i % 20);
        r[labels - 1] = (unsigned char)((file + i) % classes);
        memset(r + labels, (int)(file * 16 + i), PIXELS);
    }
    return N * (labels + PIXELS);
}

static bool put(const char *folder, const char *name, const void *bytes, size_t n) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return packed_write(path, bytes, n);
}

static void check_records(larder__data *d, uint64_t count, uint32_t classes) {
    const larder_dataset *about = larder__data_about(d);
    assert_int_equal(about->count, count);
    assert_int_equal(about->classes, classes);
    assert_int_equal(about->bytes, count * PIXELS);
    assert_int_equal(about->raw.h * 10000 + about->raw.w * 100 + about->raw.c, 323203);
    assert_int_equal(about->layout, LARDER_NCHW);
    for (uint64_t i = 0; i < count; i++) {
        larder_sample s;
        larder_read out;
        check_ok(larder__data_stat(d, i, &s));
        assert_int_equal(s.label, (i / N + 1 + i % N) % classes);
        check_ok(larder__data_read(d, &i, 1, &out));
        const unsigned char *p = larder_buf_data(out.buf);
        assert_int_equal(larder_buf_size(out.buf), PIXELS);
        assert_int_equal(p[0], (i / N + 1) * 16 + i % N);
        assert_int_equal(p[PIXELS - 1], p[0]);
        larder_buf_unref(&out.buf);
    }
}

static void test_cifar10(void **state) {
    (void)state;
    static const char *const endings[] = {"", ".gz", ".xz"};
    unsigned char *bytes = malloc(N * (PIXELS + 2));
    uint64_t fingerprint = 0;
    assert_non_null(bytes);
    for (size_t k = 0; k < 3; k++) {
        char folder[256], name[64];
        larder__data *d;
        bool can = true;
        check_folder(folder);
        for (unsigned f = 1; f <= 5 && can; f++) {
            size_t n = make(bytes, f, 1, 10);
            assert_int_equal(larder__data_open(&d, folder) < 0, 1);
            snprintf(name, sizeof name, "data_batch_%u.bin%s", f, endings[k]);
            can = put(folder, name, bytes, n);
        }
        if (can) {
            check_ok(larder__data_open(&d, folder));
            assert_string_equal(larder__data_plugin(d)->name, "cifar10");
            check_records(d, 5 * N, 10);
            assert_null(larder__data_class(d, 0));
            assert_true(k == 0 || fingerprint == larder__data_about(d)->fingerprint);
            fingerprint = larder__data_about(d)->fingerprint;
            check_ok(larder__data_name(d, 2 * N + 1, name, sizeof name));
            assert_non_null(strstr(name, "data_batch_3.bin"));
            assert_non_null(strstr(name, "#1"));
            larder__data_close(&d);
        }
        check_folder_remove(folder);
    }
    free(bytes);
}

static void test_cifar100_and_names(void **state) {
    (void)state;
    char folder[256], uri[300], names[1200] = "";
    unsigned char *bytes = malloc(N * (PIXELS + 2));
    larder__data *d;
    assert_non_null(bytes);
    check_folder(folder);
    put(folder, "train.bin", bytes, make(bytes, 1, 2, 100));
    put(folder, "test.bin", bytes, make(bytes, 1, 2, 100) / N);
    for (int i = 0; i < 100; i++)
        snprintf(names + strlen(names), 20, "class %d\r\n", i);
    put(folder, "fine_label_names.txt", names, strlen(names));
    check_ok(larder__data_open(&d, folder));
    assert_string_equal(larder__data_plugin(d)->name, "cifar100");
    check_records(d, N, 100);
    assert_string_equal(larder__data_class(d, 99), "class 99");
    larder__data_close(&d);
    snprintf(uri, sizeof uri, "cifar100:%s?split=test", folder);
    check_ok(larder__data_open(&d, uri));
    check_records(d, 1, 100);
    larder__data_close(&d);
    put(folder, "fine_label_names.txt", "one\ntwo\n", 8); /* too few: better none */
    check_ok(larder__data_open(&d, uri));
    assert_null(larder__data_class(d, 0));
    larder__data_close(&d);
    check_folder_remove(folder);
    free(bytes);
}

static void refused(const char *folder, int code, const char *words) {
    char uri[400];
    larder__data *d = NULL;
    snprintf(uri, sizeof uri, "cifar10:%s?split=test", folder);
    int rc = larder__data_open(&d, uri);
    if (rc != code || !strstr(larder_errmsg(), words))
        fail_msg("%d, \"%s\"; expected %d, \"%s\"", rc, larder_errmsg(), code, words);
}

static void test_wrong_files(void **state) {
    (void)state;
    char folder[256], path[400];
    unsigned char *bytes = malloc(N * (PIXELS + 2));
    larder__data *d;
    assert_non_null(bytes);
    check_folder(folder);
    refused(folder, LARDER_E_NOTFOUND, "holds no test_batch.bin");
    put(folder, "test_batch.bin", "", 0);
    refused(folder, LARDER_E_FORMAT, "is empty");
    size_t n = make(bytes, 1, 1, 10);
    put(folder, "test_batch.bin", bytes, n - 1);
    refused(folder, LARDER_E_FORMAT, "ends inside record 3, after 3072 of 3073");
    bytes[2 * (PIXELS + 1)] = 10;
    put(folder, "test_batch.bin", bytes, n);
    refused(folder, LARDER_E_FORMAT, "record 2 has label 10; there are 10 classes");
    n = make(bytes, 1, 1, 10);
    put(folder, "test_batch.bin", bytes, n);
    snprintf(path, sizeof path, "cifar10:%s?split=test", folder);
    check_ok(larder__data_open(&d, path));
    snprintf(path, sizeof path, "%s/test_batch.bin", folder);
    unlink(path);
    put(folder, "test_batch.bin", bytes, n); /* replaced under the reader */
    uint64_t id = 1;
    larder_read out;
    check_ok(larder__data_read(d, &id, 1, &out));
    assert_int_equal(out.code, LARDER_E_CHANGED);
    larder__data_close(&d);
    check_folder_remove(folder);
    free(bytes);
}

static void test_real_cifar10(void **state) {
    (void)state;
    char path[512], uri[600];
    larder__data *d;
    if (!check_shared("cifar-10-binary", path)) {
        print_message("skipped: no shared data here\n");
        skip();
    }
    snprintf(uri, sizeof uri, "%s?split=test", path);
    check_ok(larder__data_open(&d, uri));
    assert_int_equal(larder__data_about(d)->count, 10000);
    assert_string_equal(larder__data_class(d, 9), "truck");
    larder_sample s;
    check_ok(larder__data_stat(d, 0, &s));
    assert_int_equal(s.label, 3); /* a cat, as everyone knows who has looked at it */
    larder__data_close(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cifar10),
        cmocka_unit_test(test_cifar100_and_names),
        cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_real_cifar10),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
