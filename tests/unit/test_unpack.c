#include "check.h"

#include "base/mem.h"
#include "packed.h"
#include "source/unpack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 300000 };

static unsigned char *make_content(void) {
    unsigned char *c = malloc(SIZE);
    assert_non_null(c);
    for (size_t i = 0; i < SIZE; i++)
        c[i] = (unsigned char)(i * i >> 7);
    return c;
}

/* Whole, in odd pieces, twice over, cut and damaged. */
static void each_form(const char *ending) {
    char folder[256], path[300];
    unsigned char *content = make_content(), *all;
    larder__unpack *u;
    size_t got, at = 0;
    unsigned char piece[7001];
    check_folder(folder);
    snprintf(path, sizeof path, "%s/f%s", folder, ending);
    if (!packed_write(path, content, SIZE)) {
        check_folder_remove(folder);
        free(content);
        print_message("skipped: this build cannot unpack %s\n", ending);
        skip();
    }
    check_ok(larder__unpack_open(&u, path));
    assert_int_equal(larder__unpack_is_plain(u), !ending[0]);
    do {
        check_ok(larder__unpack_read(u, piece, sizeof piece, &got));
        assert_memory_equal(piece, content + at, got);
        at += got;
    } while (got == sizeof piece);
    assert_int_equal(at, SIZE);
    check_ok(larder__unpack_end(u));
    larder__unpack_close(&u);

    check_ok(larder__unpack_open(&u, path));
    check_ok(larder__unpack_all(u, SIZE - 1, &all));
    assert_memory_equal(all, content, SIZE - 1);
    larder__free(all);
    assert_int_equal(larder__unpack_end(u), LARDER_E_FORMAT);
    assert_non_null(strstr(larder_errmsg(), "should end at byte 299999"));
    larder__unpack_close(&u);

    check_ok(larder__unpack_open(&u, path));
    assert_int_equal(larder__unpack_all(u, (uint64_t)1 << 40, &all), LARDER_E_FORMAT);
    assert_null(all);
    assert_non_null(strstr(larder_errmsg(), "too soon"));
    larder__unpack_close(&u);

    FILE *f = fopen(path, "rb");
    unsigned char *stored = malloc(2 * SIZE);
    assert_non_null(stored);
    size_t n = fread(stored, 1, SIZE, f);
    fclose(f);
    if (ending[0]) {
        memcpy(stored + n, stored, n);
        check_write(path, stored, 2 * n); /* two packed files in a row make one */
        check_ok(larder__unpack_open(&u, path));
        check_ok(larder__unpack_all(u, 2 * SIZE, &all));
        assert_memory_equal(all + SIZE, content, SIZE);
        larder__free(all);
        check_ok(larder__unpack_end(u));
        larder__unpack_close(&u);
        for (size_t cut = 1; cut < n; cut += n / 5) {
            check_write(path, stored, n - cut);
            check_ok(larder__unpack_open(&u, path));
            int rc = larder__unpack_all(u, SIZE, &all);
            if (rc == 0)
                rc = larder__unpack_end(u);
            assert_int_equal(rc, LARDER_E_FORMAT);
            larder__free(all);
            larder__unpack_close(&u);
        }
        stored[n / 2] ^= 0x40;
        check_write(path, stored, n);
        check_ok(larder__unpack_open(&u, path));
        int rc = larder__unpack_all(u, SIZE, &all);
        if (rc == 0)
            rc = larder__unpack_end(u);
        assert_int_equal(rc, LARDER_E_FORMAT);
        larder__free(all);
        larder__unpack_close(&u);
        check_write(path, "neither of them", 15);
        check_ok(larder__unpack_open(&u, path));
        assert_int_equal(larder__unpack_read(u, piece, 1, &got), LARDER_E_FORMAT);
        larder__unpack_close(&u);
    }
    free(stored);
    free(content);
    check_folder_remove(folder);
}
static void test_plain(void **state) {
    (void)state;
    each_form("");
}
static void test_gz(void **state) {
    (void)state;
    each_form(".gz");
}
static void test_xz(void **state) {
    (void)state;
    each_form(".xz");
}

static void test_find_and_missing(void **state) {
    (void)state;
    char folder[256], path[300], found[300];
    larder__unpack *u;
    check_folder(folder);
    assert_false(larder__unpack_find(folder, "f", found, sizeof found));
    snprintf(path, sizeof path, "%s/f.xz", folder);
    check_write(path, "", 0);
    assert_true(larder__unpack_find(folder, "f", found, sizeof found));
    assert_string_equal(found, path);
    snprintf(path, sizeof path, "%s/f", folder);
    check_write(path, "", 0);
    assert_true(larder__unpack_find(folder, "f", found, sizeof found));
    assert_string_equal(found, path);
    assert_int_equal(larder__unpack_open(&u, "/nowhere/f"), LARDER_E_NOTFOUND);
    assert_int_equal(larder__unpack_open(&u, folder) == 0
                         ? larder__unpack_exact(u, path, 1)
                         : LARDER_E_IO,
                     LARDER_E_IO); /* a folder is no file */
    larder__unpack_close(&u);
    check_folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_gz),
        cmocka_unit_test(test_xz),
        cmocka_unit_test(test_find_and_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
