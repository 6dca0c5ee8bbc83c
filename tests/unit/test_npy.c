/* NumPy's array files: every shape and type that is read, and what is wrong with the others. */
#include "base/npy.h"
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file with this dict as its header; free() it. */
static unsigned char *make(const char *dict, const void *data, size_t bytes, size_t *size) {
    size_t length = strlen(dict);
    *size = 10 + length + bytes;
    unsigned char *out = malloc(*size);
    assert_non_null(out);
    memcpy(out, "\x93NUMPY\x01\0", 8);
    out[8] = (unsigned char)length;
    out[9] = (unsigned char)(length >> 8);
    memcpy(out + 10, dict, length);
    memcpy(out + 10 + length, data, bytes);
    return out;
}

static const char *dict_of(const char *type, const char *shape) {
    static char dict[2000];
    snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", type,
             shape);
    return dict;
}

static void shapes(void **state) {
    (void)state;
    static const struct {
        const char *shape;
        uint32_t dims;
        uint64_t rows, cols, last;
    } cases[] = {{"(12,)", 1, 12, 1, 12},
                 {"(3, 4)", 2, 3, 4, 4},
                 {"(2,3,2)", 3, 2, 6, 2},
                 {"(2, 1, 2, 3)", 4, 2, 6, 3}};
    unsigned char data[12];
    for (unsigned char i = 0; i < 12; i++)
        data[i] = i;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        size_t size;
        unsigned char *file = make(dict_of("|u1", cases[k].shape), data, 12, &size);
        larder__npy a, head;
        check_ok(larder__npy_parse(&a, file, size, "x"));
        assert_int_equal(a.dims, cases[k].dims);
        assert_int_equal(a.rows, cases[k].rows);
        assert_int_equal(a.cols, cases[k].cols);
        assert_int_equal(a.shape[a.dims - 1], cases[k].last);
        for (uint64_t i = 0; i < 12; i++)
            assert_true(larder__npy_float(&a, i / a.cols, i % a.cols) == (float)i);
        check_ok(larder__npy_head(&head, file, size, "x"));
        assert_null(head.data);
        assert_int_equal(head.head, size - 12);
        free(file);
    }
}

static void types(void **state) {
    (void)state;
    static const struct {
        const char *type;
        size_t bytes;
        unsigned char data[4];
        float is;
    } cases[] = {{"|u1", 1, {200}, 200},
                 {"|i1", 1, {200}, -56},
                 {"<f2", 2, {0x00, 0xc0}, -2},
                 {"<f4", 4, {0, 0, 0x20, 0x40}, 2.5f}};
    for (size_t k = 0; k < 4; k++) {
        size_t size;
        unsigned char *file =
            make(dict_of(cases[k].type, "(1,)"), cases[k].data, cases[k].bytes, &size);
        larder__npy a;
        check_ok(larder__npy_parse(&a, file, size, "x"));
        assert_true(larder__npy_float(&a, 0, 0) == cases[k].is);
        assert_int_equal(larder__npy_parse(&a, file, size - 1, "x"), LARDER_E_FORMAT);
        assert_null(a.data);
        free(file);
    }
}

static void refused(void **state) {
    (void)state;
    static const struct {
        const char *type, *shape, *says;
    } cases[] = {{"<f8", "(1,)", "none of"},
                 {">f4", "(1,)", "none of"},
                 {"|u1", "(1)", "shape"},
                 {"|u1", "()", "shape"},
                 {"|u1", "(x,)", "shape"},
                 {"|u1", "(-1,)", "shape"},
                 {"|u1", "(1, -1)", "shape"},
                 {"|u1", "(1;)", "shape"},
                 {"|u1", "[1,]", "C order"},
                 {"|u1", "(1, 1, 1, 1, 1)", "more than 4 dimensions"},
                 {"|u1", "(5,)", "do not fit"},
                 {"|u1", "(2, 3)", "do not fit"},
                 {"|u1", "(99999999999999999999999999,)", "do not fit"},
                 {"|u1", "(1, 4294967296, 4294967296, 4294967296)", "more elements"},
                 {"|u1", "(0, 99)", "do not fit"}};
    larder__npy a;
    size_t size;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        unsigned char *file = make(dict_of(cases[k].type, cases[k].shape), "abcd", 4, &size);
        assert_int_equal(larder__npy_parse(&a, file, size, "x"), LARDER_E_FORMAT);
        if (!strstr(larder_errmsg(), cases[k].says))
            fail_msg("%s %s: %s", cases[k].type, cases[k].shape, larder_errmsg());
        free(file);
    }
    char longest[1100];
    memset(longest, ' ', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    unsigned char *file = make(longest, "", 0, &size);
    assert_int_equal(larder__npy_head(&a, file, size, "x"), LARDER_E_FORMAT);
    file[1] = 'M';
    assert_int_equal(larder__npy_head(&a, file, size, "x"), LARDER_E_FORMAT);
    assert_non_null(strstr(larder_errmsg(), "not a NumPy array"));
    free(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),
        cmocka_unit_test(types),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
