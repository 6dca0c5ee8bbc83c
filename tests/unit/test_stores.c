/* LMDB and HDF5: every value is what was written, and what is no such store is refused. */
#include "base/parcel.h"
#include "check.h"
#include "root_kit.h"
#include "source/source.h"
#include "stores.h"

#include <stdio.h>
#include <string.h>

static larder__data *opened(const char *source, const char *rest) {
    char uri[400];
    larder__data *d = NULL;
    snprintf(uri, sizeof uri, "%s:%s%s", source, kit_root, rest);
    check_ok(larder__data_open(&d, uri));
    return d;
}

static larder_buf *read_one(larder__data *d, uint64_t id) {
    larder_read r;
    check_ok(larder__data_read(d, &id, 1, &r));
    check_ok(r.code);
    return r.buf;
}

static void keys_in_order(void **state) {
    (void)state;
    static const char *const keys[] = {"b", "a\x01", "a", "__keys__"};
    static const char *const values[] = {"second", "", "first", "?"};
    static const char *const names[] = {"a", "a\\x01", "b"}, *const want[] = {"first", "",
                                                                              "second"};
    if (!kit_lmdb(kit_root, keys, (const void *const *)values, (const size_t[]){6, 0, 5, 1}, 4))
        skip();
    larder__data *d = opened("lmdb", "");
    char text[200];
    assert_int_equal(larder__data_about(d)->count, 3);
    for (uint64_t id = 0; id < 3; id++) {
        larder_buf *b = read_one(d, id);
        assert_int_equal(larder_buf_size(b), strlen(want[id]));
        assert_memory_equal(larder_buf_data(b), want[id], strlen(want[id]));
        check_ok(larder__data_name(d, id, text, sizeof text));
        assert_string_equal(text, names[id]);
        larder_buf_unref(&b);
    }
    assert_non_null(larder__data_note(d, 0, text, sizeof text));
    assert_non_null(strstr(text, "1 keys as __len__ are not used"));
    larder__data_close(&d);
}

static void expect_field(larder_buf *b, const char *name, larder_dtype dtype, const void *want,
                         size_t bytes) {
    larder__parcel p;
    larder__field f;
    check_ok(larder__parcel_open(&p, larder_buf_data(b), larder_buf_size(b)));
    assert_true(larder__parcel_find(&p, name, &f));
    assert_int_equal(f.dtype, dtype);
    assert_int_equal(f.bytes, bytes);
    assert_memory_equal(f.data, want, bytes);
}

static void rows(void **state) {
    (void)state;
    enum { N = 7 };
    char path[300];
    snprintf(path, sizeof path, "%s/all.h5", kit_root);
    if (!kit_hdf5(path, N))
        skip();
    larder__data *pictures = opened("hdf5", "/all.h5?y=y"), *d = opened("hdf5", "/all.h5?x=f&y=t");
    assert_int_equal(larder__data_about(pictures)->raw.h, 4);
    assert_int_equal(larder__data_about(pictures)->raw.w, 3);
    assert_int_equal(larder__data_about(pictures)->classes, N);
    for (uint64_t id = 0; id < N; id++) {
        larder_sample s;
        larder_buf *b = read_one(pictures, id);
        for (size_t i = 0; i < 12; i++)
            assert_int_equal(((uint8_t *)larder_buf_data(b))[i], (uint8_t)(id * 12 + i));
        larder_buf_unref(&b);
        check_ok(larder__data_stat(pictures, id, &s));
        assert_int_equal(s.label, N - 1 - id);
        b = read_one(d, id);
        expect_field(b, "x", LARDER_F32, (const float[]){(float)id, -(float)id}, 8);
        expect_field(b, "y", LARDER_F64, (const double[]){(double)id / 2}, 8);
        larder_buf_unref(&b);
    }
    larder__data_close(&pictures);
    larder__data_close(&d);
    static const struct {
        const char *query, *says;
    } wrong[] = {{"?x=none", "no data set \"none\" (x=)"}, {"?y=/", "no data set \"/\" (y=)"}};
    for (size_t i = 0; i < 2; i++) {
        char uri[400];
        snprintf(uri, sizeof uri, "%s%s", path, wrong[i].query); /* known by its ending */
        assert_true(larder__data_open(&d, uri) < 0);
        if (!strstr(larder_errmsg(), wrong[i].says))
            fail_msg("%s", larder_errmsg());
    }
    check_write(path, "no file of this kind", 20);
    assert_true(larder__data_open(&d, path) < 0);
    assert_non_null(strstr(larder_errmsg(), "no HDF5 file"));
}

static void missing_libraries(void **state) {
    (void)state;
    larder__data *d = NULL;
    if (strstr(larder_features(), "-lmdb")) {
        assert_int_equal(larder__data_open(&d, "lmdb:x"), LARDER_E_UNSUPPORTED);
        assert_non_null(strstr(larder_errmsg(), "apt install liblmdb-dev"));
    }
    if (strstr(larder_features(), "-hdf5")) {
        assert_int_equal(larder__data_open(&d, "hdf5:x"), LARDER_E_UNSUPPORTED);
        assert_non_null(strstr(larder_errmsg(), "apt install libhdf5-dev"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_in_order),
        cmocka_unit_test(rows),
        cmocka_unit_test(missing_libraries),
    };
    return cmocka_run_group_tests(tests, kit_root_make, kit_root_remove);
}
