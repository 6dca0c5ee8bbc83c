/* Arrays as data sets: every byte of a row is where the shape says, labels and windows against a
 * slow list, and files that are not what they say. */
#include "array_kit.h"
#include "base/parcel.h"
#include "check.h"
#include "root_kit.h"
#include "source/source.h"

static larder_buf *read_one(larder__data *d, uint64_t id) {
    larder_read r;
    check_ok(larder__data_read(d, &id, 1, &r));
    check_ok(r.code);
    return r.buf;
}

static larder__data *opened(const char *format, const char *path, const char *more) {
    char uri[700];
    larder__data *d = NULL;
    snprintf(uri, sizeof uri, format, path, more);
    check_ok(larder__data_open(&d, uri));
    return d;
}

static void expect_field(larder_buf *b, const char *name, larder_dtype dtype, uint32_t ndim,
                         const void *data, size_t bytes) {
    larder__parcel p;
    larder__field f;
    check_ok(larder__parcel_open(&p, larder_buf_data(b), larder_buf_size(b)));
    assert_true(larder__parcel_find(&p, name, &f));
    assert_int_equal(f.kind, LARDER__FIELD_ARRAY);
    assert_int_equal(f.dtype, dtype);
    assert_int_equal(f.ndim, ndim);
    assert_int_equal(f.bytes, bytes);
    assert_memory_equal(f.data, data, bytes);
}

static void rows(void **state) {
    (void)state;
    unsigned char want[60];
    for (unsigned i = 0; i < 60; i++)
        want[i] = (unsigned char)i;
    static const struct {
        const char *type, *shape;
        larder_dtype dtype;
        uint32_t ndim;
        uint64_t count;
    } cases[] = {{"<f4", "(5, 3)", LARDER_F32, 1, 5},    {"<f8", "(7,)", LARDER_F64, 0, 7},
                 {"<i8", "(1, 1, 7)", LARDER_I64, 2, 1}, {"<u2", "(3, 10)", LARDER_U16, 1, 3},
                 {"|i1", "(2, 3, 10)", LARDER_I8, 2, 2}, {"|b1", "(60,)", LARDER_BOOL, 0, 60},
                 {"<f2", "(30,)", LARDER_F16, 0, 30}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kit_npy(kit_path("a.npy"), cases[i].type, cases[i].shape, 60);
        larder__data *d = opened("npy:%s%s", kit_path("a.npy"), "");
        assert_int_equal(larder__data_about(d)->count, cases[i].count);
        size_t row = (cases[i].dtype == LARDER_F64 || cases[i].dtype == LARDER_I64 ? 56u : 60u) /
                     cases[i].count;
        for (uint64_t id = 0; id < cases[i].count; id++) {
            larder_buf *b = read_one(d, id);
            expect_field(b, "x", cases[i].dtype, cases[i].ndim, want + id * row, row);
            larder_buf_unref(&b);
        }
        larder__data_close(&d);
    }
}

static void pictures(void **state) {
    (void)state;
    static const struct {
        const char *shape;
        larder_shape is;
        larder_layout layout;
    } cases[] = {{"(2, 5, 6)", {5, 6, 1}, LARDER_NCHW},
                 {"(2, 2, 5, 3)", {2, 5, 3}, LARDER_NHWC},
                 {"(2, 3, 2, 5)", {2, 5, 3}, LARDER_NCHW},
                 {"(2, 30)", {0}, LARDER_NCHW},
                 {"(2, 5, 1, 6)", {0}, LARDER_NCHW}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kit_npy(kit_path("p.npy"), "|u1", cases[i].shape, 60);
        larder__data *d = opened("%s%s", kit_path("p.npy"), ""); /* known by its ending */
        const larder_dataset *a = larder__data_about(d);
        assert_true(a->raw.h == cases[i].is.h && a->raw.w == cases[i].is.w &&
                    a->raw.c == cases[i].is.c);
        if (a->raw.h)
            assert_int_equal(a->layout, cases[i].layout);
        larder_buf *b = read_one(d, 1);
        const unsigned char *bytes = larder_buf_data(b);
        if (a->raw.h)
            assert_true(larder_buf_size(b) == 30 && bytes[0] == 30 && bytes[29] == 59);
        else
            assert_true(larder__parcel_is(bytes, larder_buf_size(b)));
        larder_buf_unref(&b);
        larder__data_close(&d);
    }
}

static void labels(void **state) {
    (void)state;
    static const int16_t classes[] = {4, -1, 0, 4, 2};
    kit_npy(kit_path("x.npy"), "<f4", "(5, 3)", 60);
    kit_npy_of(kit_path("y.npy"), "<i2", "(5, 1)", classes, sizeof classes);
    larder__data *d = opened("npy:%s?labels=%s", kit_path("x.npy"), kit_path("y.npy"));
    assert_int_equal(larder__data_about(d)->classes, 5);
    for (uint64_t id = 0; id < 5; id++) {
        larder_sample s;
        check_ok(larder__data_stat(d, id, &s));
        assert_int_equal(s.label, classes[id]);
    }
    larder__data_close(&d);
    static const float numbers[] = {0.5f, 1, 2, 3, 4};
    kit_npy_of(kit_path("y.npy"), "<f4", "(5,)", numbers, sizeof numbers);
    d = opened("npy:%s?labels=%s", kit_path("x.npy"), kit_path("y.npy"));
    larder_buf *b = read_one(d, 3);
    expect_field(b, "y", LARDER_F32, 0, &numbers[3], 4);
    larder_buf_unref(&b);
    larder__data_close(&d);
}

/* Every window of every length and stride, element by element. */
static void windows(void **state) {
    (void)state;
    enum { TOKENS = 29 };
    uint16_t tokens[TOKENS];
    for (unsigned i = 0; i < TOKENS; i++)
        tokens[i] = (uint16_t)(i * 1000);
    check_write(kit_path("t.bin"), tokens, sizeof tokens);
    kit_npy_of(kit_path("t.npy"), "<u2", "(29,)", tokens, sizeof tokens);
    for (unsigned length = 1; length < TOKENS; length += 3)
        for (unsigned stride = 0; stride < 9; stride++)
            for (int raw = 0; raw < 2; raw++) {
                char uri[400];
                larder__data *d = NULL;
                snprintf(uri, sizeof uri, "window:length=%u,stride=%u:%s", length, stride,
                         raw ? "raw:" : "");
                snprintf(uri + strlen(uri), 300, "%s%s", kit_path(raw ? "t.bin" : "t.npy"),
                         raw ? "?dtype=u16" : "");
                check_ok(larder__data_open(&d, uri));
                uint64_t n = 0;
                for (unsigned from = 0; from + length + 1 <= TOKENS;
                     from += stride ? stride : length, n++) {
                    assert_true(n < larder__data_about(d)->count);
                    larder_buf *b = read_one(d, n);
                    expect_field(b, "x", LARDER_U16, 1, tokens + from, length * 2);
                    expect_field(b, "y", LARDER_U16, 1, tokens + from + 1, length * 2);
                    larder_buf_unref(&b);
                }
                assert_int_equal(larder__data_about(d)->count, n);
                larder__data_close(&d);
            }
}

static void refused(const char *format, const char *path, const char *more, const char *says) {
    char uri[700];
    larder__data *d = NULL;
    snprintf(uri, sizeof uri, format, path, more);
    assert_true(larder__data_open(&d, uri) < 0);
    if (!strstr(larder_errmsg(), says))
        fail_msg("%s: %s", uri, larder_errmsg());
}

static void wrong_files(void **state) {
    (void)state;
    kit_npy(kit_path("x.npy"), "<f4", "(5, 3)", 60);
    kit_npy(kit_path("y.npy"), "<i4", "(4,)", 16);
    kit_npy(kit_path("cut.npy"), "<f4", "(5, 3)", 59);
    kit_npy(kit_path("none.npy"), "<f4", "(0, 3)", 0);
    kit_npy(kit_path("one.npy"), "<f4", "()", 4);
    kit_npy(kit_path("big.npy"), ">f4", "(5, 3)", 60);
    check_write(kit_path("raw"), "12345", 5);
    refused("npy:%s?labels=%s", kit_path("x.npy"), kit_path("y.npy"), "4 labels for 5 samples");
    refused("npy:%s%s", kit_path("cut.npy"), "", "cut.npy: its NumPy array is cut off");
    refused("npy:%s%s", kit_path("none.npy"), "", "holds no samples");
    refused("npy:%s%s", kit_path("one.npy"), "", "one number");
    refused("npy:%s%s", kit_path("big.npy"), "", "little-endian");
    refused("npy:%s%s", kit_path("raw"), "", "raw: this is no NumPy array");
    refused("npy:%s%s", kit_path("gone.npy"), "", "gone.npy");
    refused("raw:%s%s", kit_path("raw"), "?dtype=f32", "no whole number of rows of one float32");
    refused("raw:%s%s", kit_path("raw"), "?dtype=f31", "is no type");
    refused("raw:%s%s", kit_path("raw"), "?shape=2/x", "is none: sides");
    refused("raw:%s%s", kit_path("raw"), "?offset=6", "no whole number of rows");
    refused("raw:%s%s", kit_path("raw"), "?offset=5", "holds no samples");
    refused("window:length=5:raw:%s%s", kit_path("raw"), "", "one row of more than 5");
    refused("window:length=5:dir:%s%s", kit_path("raw"), "", "is no long array");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),    cmocka_unit_test(pictures),    cmocka_unit_test(labels),
        cmocka_unit_test(windows), cmocka_unit_test(wrong_files),
    };
    return cmocka_run_group_tests(tests, kit_root_make, kit_root_remove);
}
