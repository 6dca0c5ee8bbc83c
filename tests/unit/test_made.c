/* What a function of the program's own is given of samples of larder's sources, and what becomes of
 * what it makes. */
#include "check.h"

#include "base/parcel.h"

#include <larder/larder.h>

#include <larder/plugin.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { N = 12, TOLD = 5 };

/* Of a sample: kind, sides, first byte; as a row of numbers. */
static int tell(void *arg, const uint64_t *ids, const uint64_t *chances, larder_buf *const *in,
                size_t n, larder_read *out) {
    (void)arg, (void)chances;
    for (size_t i = 0; i < n; i++) {
        larder__parcel p;
        larder__field f = {0};
        size_t at = 0;
        int rc = larder__parcel_open(&p, larder_buf_data(in[i]), larder_buf_size(in[i]));
        if (rc < 0 || ids[i] >= N || !larder__parcel_next(&p, &at, &f))
            return LARDER_E_FORMAT; /* no assert in a thread of larder's */
        int32_t row[TOLD] = {(int32_t)f.kind, (int32_t)f.shape[0], (int32_t)f.shape[1],
                             (int32_t)f.shape[2], f.data[0]};
        larder__field made = {.kind = LARDER__FIELD_ARRAY,
                              .dtype = LARDER_I32,
                              .ndim = 1,
                              .shape = {TOLD},
                              .name = "",
                              .data = (const unsigned char *)row,
                              .bytes = sizeof row};
        out[i] = (larder_read){0};
        out[i].code = larder__parcel_make(&out[i].buf, &made, 1);
    }
    return 0;
}

static larder_loader *opened(const char *source, const char *augment, bool pictures,
                             const char *cache, int *rc) {
    static larder_own_maker maker; /* copied when a loader is opened */
    maker = (larder_own_maker){.size = sizeof maker, .pictures = pictures, .make = tell};
    larder_loader_conf conf = {.size = sizeof conf,
                               .source = source,
                               .augment = augment,
                               .cache = cache,
                               .batch = 5,
                               .threads = 2,
                               .epochs = 2,
                               .maker = &maker};
    larder_loader *l = NULL;
    *rc = larder_loader_open(&l, &conf);
    return l;
}

/* What was told of each sample, in both epochs the same. */
static void told_of(larder_loader *l, int32_t told[N][TOLD]) {
    const larder_batch *b;
    size_t seen = 0;
    for (int rc; (rc = larder_loader_next(l, &b)) != LARDER_END;) {
        check_ok(rc);
        if (rc == LARDER_END_EPOCH)
            continue;
        assert_int_equal(b->column_count, 1);
        const int32_t *rows = b->columns[0].data;
        for (size_t i = 0; i < b->n; i++, seen++)
            memcpy(told[b->served[i]], rows + i * TOLD, sizeof told[0]);
        check_ok(larder_loader_done(l, b));
    }
    assert_int_equal(seen, 2 * N);
}

/* A picture of w x 3 pixels of one level; every third file is of a sort nobody knows. */
static void put(const char *root, int i) {
    char path[400], bytes[400];
    snprintf(path, sizeof path, "%s/c", root);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/c/%02d.ppm", root, i);
    size_t n = (size_t)snprintf(bytes, sizeof bytes, i % 3 ? "P6 %d 3 255 " : "?? %d", i + 1);
    if (i % 3) {
        bytes[n - 1] = '\n';
        memset(bytes + n, 100 + i, (size_t)(i + 1) * 9);
        n += (size_t)(i + 1) * 9;
    }
    check_write(path, bytes, n);
}

static void test_pictures_as_they_are(void **st) {
    (void)st;
    char root[256];
    int32_t told[N][TOLD];
    int rc;
    check_folder(root);
    for (int i = 0; i < N; i++)
        put(root, i);
    larder_loader *l = opened(root, NULL, true, "50%", &rc);
    check_ok(rc);
    told_of(l, told);
    larder_loader_close(&l);
    for (int i = 0; i < N; i++) {
        const int32_t known[TOLD] = {LARDER__FIELD_ARRAY, 3, i + 1, 3, 100 + i};
        const int32_t strange[TOLD] = {LARDER__FIELD_BYTES, 0, 0, 0, '?'};
        assert_memory_equal(told[i], i % 3 ? known : strange, sizeof known);
    }
    assert_null(opened(root, "flip", true, "0", &rc));
    assert_int_equal(rc, LARDER_E_ARGS);
    assert_null(opened(root, NULL, true, "50%:50/50/0", &rc));
    assert_int_equal(rc, LARDER_E_ARGS);
    check_folder_remove(root);
}

static void test_raw_pixels(void **st) {
    (void)st;
    int32_t told[N][TOLD], rows[N][TOLD];
    int rc;
    larder_loader *l = opened("mem:?n=12&h=4&w=6", NULL, true, "0", &rc);
    check_ok(rc);
    told_of(l, told);
    larder_loader_close(&l);
    l = opened("mem:?n=12&h=4&w=6", NULL, false, "0", &rc); /* rows of the stages, planes first */
    check_ok(rc);
    told_of(l, rows);
    larder_loader_close(&l);
    for (int i = 0; i < N; i++) {
        const int32_t sides[] = {LARDER__FIELD_ARRAY, 4, 6, 3};
        const int32_t planes[] = {LARDER__FIELD_ARRAY, 3, 4, 6};
        assert_memory_equal(told[i], sides, sizeof sides);
        assert_memory_equal(rows[i], planes, sizeof planes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pictures_as_they_are),
        cmocka_unit_test(test_raw_pixels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
