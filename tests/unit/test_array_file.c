/* The bytes of NumPy files that are not what they say: refused, and nothing beyond them is read. */
#include "check.h"

#include "base/array_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In memory of just that size, so that a sanitizer sees a step beyond. */
static int look(const unsigned char *bytes, size_t size, larder__field *f) {
    unsigned char *copy = malloc(size + !size);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    int rc = larder__npy_view(f, copy, size);
    if (rc == 0)
        assert_true(f->data >= copy && f->bytes <= size && f->data + f->bytes <= copy + size);
    free(copy);
    return rc;
}

static size_t make_npy(unsigned char *to, unsigned char version, const char *head, size_t data) {
    size_t n = strlen(head), start = version == 1 ? 10 : 12;
    memcpy(to, "\x93NUMPY", 6);
    to[6] = version;
    to[7] = 0;
    to[8] = (unsigned char)n;
    to[9] = (unsigned char)(n >> 8);
    to[10] = to[11] = 0;
    memcpy(to + start, head, n);
    memset(to + start + n, 1, data);
    return start + n + data;
}

static void heads(void **state) {
    (void)state;
    static const struct {
        unsigned char version;
        const char *head;
        size_t data;
        const char *why; /* NULL: taken */
    } cases[] = {
#define F4 "{'descr': '<f4', 'fortran_order': False, "
        {1, F4 "'shape': (3,), }", 12, NULL},
        {2, F4 "'shape': (3,), }", 12, NULL},
        {3, F4 "'shape': (), }", 4, NULL},
        {0, F4 "'shape': (3,), }", 12, "no NumPy array"},
        {4, F4 "'shape': (3,), }", 12, "no NumPy array"},
        {1, F4 "'shape': (3,), }", 11, "cut off"},
        {1, F4 "'shape': 3, }", 12, "shape of its NumPy array"},
        {1, F4 "'shape': (3", 12, "shape of its NumPy array"},
        {1, F4 "'shape': (-3,), }", 12, "shape of its NumPy array"},
        {1, F4 "'shape': (a,), }", 12, "shape of its NumPy array"},
        {1, F4 "'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1), }", 12, "shape of its"},
        {1, F4 "'shape': (9999999999,9999999999), }", 12, "cut off"},
        {1, F4 "'shape': (4611686018427387904,), }", 12, "cut off"}, /* 2^62 of four bytes */
        {1, F4 "}", 12, "header cannot be read"},
        {1, "{'fortran_order': False, 'shape': (3,), }", 12, "header cannot be read"},
        {1, "{'descr': '<f4', 'shape': (3,), }", 12, "header cannot be read"},
        {1, "{'descr': '<f4', 'fortran_order': True, 'shape': (3,), }", 12, "Fortran"},
        {1, "{'descr': '>f4', 'fortran_order': False, 'shape': (3,), }", 12, "little-endian"},
        {1, "{'descr': <f4, 'fortran_order': False, 'shape': (3,), }", 12, "little-endian"},
        {1, "{'descr': '<f4x', 'fortran_order': False, 'shape': (3,), }", 12, "little-endian"},
        {1, "", 12, "header cannot be read"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char bytes[512];
        larder__field f;
        size_t n = make_npy(bytes, cases[i].version, cases[i].head, cases[i].data);
        int rc = look(bytes, n, &f);
        if (cases[i].why ? rc != LARDER_E_FORMAT || !strstr(larder_errmsg(), cases[i].why)
                         : rc != 0)
            fail_msg("%s: %d, %s", cases[i].head, rc, rc < 0 ? larder_errmsg() : "");
        for (size_t cut = 0; cut < n; cut++)
            assert_int_equal(look(bytes, cut, &f), LARDER_E_FORMAT);
    }
    unsigned char long_head[6000] = "\x93NUMPY\1\0\xff\x0f";
    larder__field f;
    memset(long_head + 10, ' ', sizeof long_head - 10);
    long_head[9] = 0x10;
    assert_int_equal(look(long_head, sizeof long_head, &f), LARDER_E_FORMAT);
    assert_non_null(strstr(larder_errmsg(), "too long"));
}

/* ---- .npz ------------------------------------------------------------------------------------ */

enum { LOCAL = 30, CENTRAL = 46, END = 22, NAME = 5, DATA = 8 };

/* One stored member "x.npy" of eight bytes. */
static size_t make_zip(unsigned char *to) {
    size_t central = LOCAL + NAME + DATA, end = central + CENTRAL + NAME;
    memset(to, 0, end + END);
    memcpy(to, "PK\3\4", 4);
    to[26] = NAME;
    memcpy(to + LOCAL, "x.npy", NAME);
    memcpy(to + LOCAL + NAME, "contents", DATA);
    memcpy(to + central, "PK\1\2", 4);
    to[central + 20] = to[central + 24] = DATA;
    to[central + 28] = NAME;
    memcpy(to + central + CENTRAL, "x.npy", NAME);
    memcpy(to + end, "PK\5\6", 4);
    to[end + 10] = 1;
    to[end + 16] = (unsigned char)central;
    return end + END;
}

static int find(const unsigned char *bytes, size_t size, const char *name) {
    unsigned char *copy = malloc(size + !size), out[DATA];
    larder__zip_member m;
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    int rc = larder__zip_find(&m, name, copy, size);
    if (rc == 0 && m.size == DATA && (rc = larder__zip_unpack(&m, copy, out)) == 0 && m.stored)
        assert_memory_equal(out, "contents", DATA);
    free(copy);
    return rc;
}

static void zips(void **state) {
    (void)state;
    enum { C = LOCAL + NAME + DATA, E = C + CENTRAL + NAME };
    static const struct {
        size_t at;
        unsigned char value;
        int code;
    } cases[] = {
        {0, 'Q', LARDER_E_FORMAT},        /* the member's own head */
        {26, 200, LARDER_E_FORMAT},       /* its name goes beyond the end */
        {C, 'Q', LARDER_E_FORMAT},        /* the list of members */
        {C + 8, 1, LARDER_E_UNSUPPORTED}, /* encrypted */
        {C + 10, 9, LARDER_E_UNSUPPORTED},
        {C + 10, 8, LARDER_E_FORMAT}, /* packed, it says, and is not */
        {C + 20, 7, LARDER_E_FORMAT}, /* stored, and smaller than it is */
        {C + 20, 255, LARDER_E_FORMAT},
        {C + 29, 9, LARDER_E_FORMAT}, /* a long name */
        {C + 31, 9, LARDER_E_FORMAT},
        {C + 42, 255, LARDER_E_FORMAT}, /* where it stands */
        {C + 42, 100, LARDER_E_FORMAT},
        {E, 'Q', LARDER_E_FORMAT},
        {E + 10, 0, LARDER_E_NOTFOUND},
        {E + 16, 255, LARDER_E_FORMAT},
        {E + 16, 90, LARDER_E_FORMAT},
        {E + 16, C + 1, LARDER_E_FORMAT},
    };
    unsigned char bytes[256];
    size_t n = make_zip(bytes);
    check_ok(find(bytes, n, ""));
    check_ok(find(bytes, n, "x"));
    check_ok(find(bytes, n, "x.npy"));
    static const char *const others[] = {"y", "x.npz", "xx", "longer_than_its", "y.npy"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(find(bytes, n, others[i]), LARDER_E_NOTFOUND);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_zip(bytes);
        bytes[cases[i].at] = cases[i].value;
        int rc = find(bytes, n, "x");
        if (rc != cases[i].code && rc != LARDER_E_UNSUPPORTED) /* the latter without zlib */
            fail_msg("byte %zu: %d", cases[i].at, rc);
    }
    make_zip(bytes);
    for (size_t cut = 0; cut < n; cut++)
        assert_int_equal(find(bytes, cut, "x"), LARDER_E_FORMAT);
    memset(bytes + n, ' ', 9); /* a comment */
    check_ok(find(bytes, n + 9, "x"));
    bytes[C + CENTRAL + 4] = 'z'; /* no .npy */
    assert_int_equal(find(bytes, n, ""), LARDER_E_NOTFOUND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads),
        cmocka_unit_test(zips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
