#include "check.h"

#include "packed.h"
#include "source/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 6, H = 3, W = 4 };

static void number(unsigned char *out, uint32_t v) {
    for (int i = 0; i < 4; i++)
        out[i] = (unsigned char)(v >> (24 - 8 * i));
}

/* Images and labels for N samples, each header number as given. */
static size_t make_images(unsigned char *out, uint32_t magic, uint32_t n, uint32_t h, uint32_t w) {
    number(out, magic);
    number(out + 4, n);
    number(out + 8, h);
    number(out + 12, w);
    for (int i = 0; i < N * H * W; i++)
        out[16 + i] = (unsigned char)(i * 3);
    return 16 + N * H * W;
}
static size_t make_labels(unsigned char *out, uint32_t magic, uint32_t n) {
    static const unsigned char labels[N] = {3, 0, 9, 1, 1, 7};
    number(out, magic);
    number(out + 4, n);
    memcpy(out + 8, labels, N);
    return 8 + N;
}

static bool put(const char *folder, const char *name, const char *ending, const void *bytes,
                size_t n) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    return packed_write(path, bytes, n);
}
static void drop(const char *folder, const char *name, const char *ending) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    unlink(path);
}

static void test_every_packing(void **state) {
    (void)state;
    static const char *const endings[] = {"", ".gz", ".xz"};
    char folder[256], uri[400];
    unsigned char images[200] = {0}, labels[64] = {0};
    uint64_t fingerprint = 0;
    check_folder(folder);
    size_t ni = make_images(images, 0x803, N, H, W), nl = make_labels(labels, 0x801, N);
    for (size_t k = 0; k < 3; k++) {
        larder__data *d;
        if (!put(folder, "t10k-images-idx3-ubyte", endings[k], images, ni) ||
            !put(folder, "t10k-labels-idx1-ubyte", endings[k], labels, nl))
            continue;
        assert_int_equal(larder__data_open(&d, folder), LARDER_E_NOTFOUND); /* no training part */
        snprintf(uri, sizeof uri, "%s?split=test", folder);
        check_ok(larder__data_open(&d, uri));
        const larder_dataset *about = larder__data_about(d);
        assert_string_equal(larder__data_plugin(d)->name, "idx");
        assert_int_equal(about->count, N);
        assert_int_equal(about->classes, 10);
        assert_int_equal(about->raw.h, H);
        assert_int_equal(about->raw.w, W);
        assert_int_equal(about->raw.c, 1);
        assert_true(k == 0 || about->fingerprint == fingerprint);
        fingerprint = about->fingerprint;
        uint64_t ids[2] = {5, 2};
        larder_read out[2];
        larder_sample s;
        check_ok(larder__data_stat(d, 2, &s));
        assert_int_equal(s.label, 9);
        check_ok(larder__data_read(d, ids, 2, out));
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(larder_buf_size(out[i].buf), H * W);
            assert_memory_equal(larder_buf_data(out[i].buf), images + 16 + ids[i] * H * W, H * W);
            larder_buf_unref(&out[i].buf);
        }
        if (k == 0) { /* a plain file may change under us */
            char path[400];
            snprintf(path, sizeof path, "%s/t10k-images-idx3-ubyte", folder);
            assert_int_equal(truncate(path, 20), 0);
            check_ok(larder__data_read(d, ids, 1, out));
            assert_int_equal(out[0].code, LARDER_E_CHANGED);
            assert_non_null(strstr(out[0].why, "sample 5"));
        }
        larder__data_close(&d);
        drop(folder, "t10k-images-idx3-ubyte", endings[k]);
        drop(folder, "t10k-labels-idx1-ubyte", endings[k]);
    }
    check_folder_remove(folder);
}

static void refused(const char *folder, const char *query, int code, const char *words) {
    char uri[400];
    larder__data *d = NULL;
    snprintf(uri, sizeof uri, "idx:%s%s", folder, query);
    int rc = larder__data_open(&d, uri);
    if (rc != code || !strstr(larder_errmsg(), words))
        fail_msg("%d, \"%s\"; expected %d, \"%s\"", rc, larder_errmsg(), code, words);
}

static void test_wrong_files(void **state) {
    (void)state;
    static const char *const endings[] = {"", ".gz", ".xz"};
    static const struct {
        uint32_t magic, n, h, w;
        int code;
        const char *words;
    } heads[] = {{0x801, N, H, W, LARDER_E_FORMAT, "starts with 00000801"},
                 {0x803, 0, H, W, LARDER_E_NOTFOUND, "holds no samples"},
                 {0x803, N, 0, W, LARDER_E_FORMAT, "0 x 4"},
                 {0x803, N, H, 0xffffffff, LARDER_E_FORMAT, "pixels"},
                 {0x803, 0xffffffff, 28, 28, LARDER_E_FORMAT, "over 4 GiB"},
                 {0x803, N + 1, H, W, LARDER_E_FORMAT, ""},
                 {0x803, N - 1, H, W, LARDER_E_FORMAT, ""}};
    char folder[256];
    unsigned char images[200] = {0}, labels[64] = {0};
    check_folder(folder);
    for (size_t k = 0; k < 3; k++) {
        size_t nl = make_labels(labels, 0x801, N), ni = 0;
        if (!put(folder, "train-labels-idx1-ubyte", endings[k], labels, nl))
            continue;
        refused(folder, "", LARDER_E_NOTFOUND, "holds no train-images-idx3-ubyte");
        for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
            ni = make_images(images, heads[i].magic, heads[i].n, heads[i].h, heads[i].w);
            put(folder, "train-images-idx3-ubyte", endings[k], images, ni);
            refused(folder, "", heads[i].code, heads[i].words);
        }
        for (size_t cut = 0; cut < 16 + N * H * W; cut += 5) {
            make_images(images, 0x803, N, H, W);
            put(folder, "train-images-idx3-ubyte", endings[k], images, cut);
            refused(folder, "", LARDER_E_FORMAT, "train-images");
        }
        ni = make_images(images, 0x803, N, H, W);
        put(folder, "train-images-idx3-ubyte", endings[k], images, ni);
        nl = make_labels(labels, 0x803, N);
        put(folder, "train-labels-idx1-ubyte", endings[k], labels, nl);
        refused(folder, "", LARDER_E_FORMAT, "starts with 00000803");
        nl = make_labels(labels, 0x801, N - 1);
        put(folder, "train-labels-idx1-ubyte", endings[k], labels, nl);
        refused(folder, "", LARDER_E_FORMAT, "5 labels for 6 images");
        nl = make_labels(labels, 0x801, N);
        put(folder, "train-labels-idx1-ubyte", endings[k], labels, nl - 1);
        refused(folder, "", LARDER_E_FORMAT, "train-labels");
        put(folder, "train-labels-idx1-ubyte", endings[k], labels, nl + 1);
        refused(folder, "", LARDER_E_FORMAT, "goes on");
        put(folder, "train-labels-idx1-ubyte", endings[k], labels, nl);
        refused(folder, "?classes=9", LARDER_E_FORMAT, "sample 2 has label 9 of 9 classes");
        drop(folder, "train-labels-idx1-ubyte", endings[k]);
        refused(folder, "", LARDER_E_NOTFOUND, "holds no train-labels-idx1-ubyte");
        drop(folder, "train-images-idx3-ubyte", endings[k]);
    }
    check_folder_remove(folder);
}

static void test_real_mnist(void **state) {
    (void)state;
    char path[512], uri[600];
    larder__data *d;
    if (!check_shared("mnist", path)) {
        print_message("skipped: no shared data here\n");
        skip();
    }
    snprintf(uri, sizeof uri, "%s?split=test", path);
    check_ok(larder__data_open(&d, uri));
    assert_int_equal(larder__data_about(d)->count, 10000);
    uint64_t counts[10] = {0};
    for (uint64_t i = 0; i < 10000; i++) {
        larder_sample s;
        check_ok(larder__data_stat(d, i, &s));
        counts[s.label]++;
    }
    assert_int_equal(counts[0], 980);
    assert_int_equal(counts[1], 1135);
    larder__data_close(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_packing),
        cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_real_mnist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
