/* The progress line: what it says, and that a file gets no control bytes. */
#include "check.h"

#include "cli/progress.c" /* the command's own file, not part of the library */

static const larder__progress_view view = {.name = "minio",
                                           .epoch = 2,
                                           .epochs = 4,
                                           .step = 100,
                                           .steps = 400,
                                           .served = 10000,
                                           .hits = 2000,
                                           .storage_bytes = 50000000,
                                           .requests = 500,
                                           .seconds = 10,
                                           .stall_seconds = 6,
                                           .h = NAN};

static void test_format(void **state) {
    (void)state;
    char line[256];
    larder__progress_format(line, sizeof line, &view);
    assert_string_equal(
        line, "minio epoch 2/4  25%  left 0:30  1000/s  stall 60%  hits 20%  read 5.0 MB/s  "
              "50 req/s");
    larder__progress_view start = {.name = "lru", .epoch = 1, .epochs = 4, .h = 0.5};
    larder__progress_format(line, sizeof line, &start);
    assert_string_equal(line, "lru epoch 1/4   0%  left ?  0/s  stall 0%  hits 0%  read 0.0 MB/s  "
                              "h 0.50  0 req/s");
    larder__progress_view standing_in = view;
    standing_in.substitutes = 500;
    larder__progress_format(line, sizeof line, &standing_in);
    assert_string_equal(line,
                        "minio epoch 2/4  25%  left 0:30  1000/s  stall 60%  hits 20%  subst 5%  "
                        "read 5.0 MB/s  50 req/s");
    larder__progress_view planned = view;
    planned.planned = true;
    planned.encoded = 58, planned.decoded = 42;
    larder__progress_format(line, sizeof line, &planned);
    assert_string_equal(
        line, "minio epoch 2/4  25%  left 0:30  1000/s  stall 60%  hits 20%  read 5.0 MB/s  "
              "split 58/42/0  50 req/s");
    char small[8];
    volatile size_t room = sizeof small; /* or the compiler warns of the cut that is meant */
    larder__progress_format(small, room, &view);
    assert_string_equal(small, "minio e");
}

static void test_left(void **state) {
    (void)state;
    char out[16];
    format_left(out, 59.6);
    assert_string_equal(out, "1:00");
    format_left(out, 3661);
    assert_string_equal(out, "1:01:01");
    format_left(out, 1e18);
    assert_string_equal(out, "?");
    format_left(out, -1);
    assert_string_equal(out, "?");
}

static void test_plain_file(void **state) {
    (void)state;
    char text[2048] = "";
    FILE *f = tmpfile();
    assert_non_null(f);
    larder__progress p;
    larder__progress_open(&p, f);
    assert_false(p.live || p.colour);
    for (int i = 0; i < 120; i++) /* twelve seconds of batches */
        larder__progress_show(&p, &view, 1000 + i * 0.1);
    larder__progress_clear(&p);
    rewind(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    size_t lines = 0;
    for (size_t i = 0; i < n; i++) {
        assert_true(text[i] == '\n' || text[i] >= ' ');
        lines += text[i] == '\n';
    }
    assert_int_equal(lines, 2); /* after five and ten */
    fclose(f);
}

static void test_live(void **state) {
    (void)state;
    char text[2048] = "";
    FILE *f = tmpfile();
    assert_non_null(f);
    larder__progress p = {.to = f, .live = true};
    larder__progress_show(&p, &view, 1000);
    larder__progress_show(&p, &view, 1000.05); /* too early */
    larder__progress_clear(&p);
    larder__progress_clear(&p); /* nothing to take away any more */
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    assert_memory_equal(text, "\r\033[Kminio", 9);
    assert_null(strstr(text, "\033[36m"));
    assert_null(strstr(strstr(text, "minio") + 1, "minio"));
    assert_string_equal(text + strlen(text) - 4, "\r\033[K");
    assert_true(strlen(text) < 80 + 8); /* no terminal, no width: 80 */
    fclose(f);
}

static void test_silent(void **state) {
    (void)state;
    larder__progress p;
    larder__progress_open(&p, NULL);
    larder__progress_show(&p, &view, 1);
    larder__progress_clear(&p);
    assert_false(p.drawn);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format),     cmocka_unit_test(test_left),
        cmocka_unit_test(test_plain_file), cmocka_unit_test(test_live),
        cmocka_unit_test(test_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
