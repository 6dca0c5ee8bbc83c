/* LIBSVM text: what is read, and what is said about what cannot be. */
#include "check.h"

#include "svm/svm_data.h"
#include "svm/svm_text.h"

#include <larder/plugin.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static larder_svm_data *parse(const char *text, unsigned flags) {
    larder_svm_data *d = NULL;
    check_ok(larder__svm_parse(&d, text, strlen(text), "f", flags));
    return d;
}

static void plain_rows(void **state) {
    (void)state;
    larder_svm_data *d = parse("+1 1:0.5 3:-2e-1 \r\n-1.0\n1e0 2:.5 4:3.\t\n\n \n", 0);
    assert_int_equal(d->rows, 3);
    assert_int_equal(d->features, 4);
    assert_true(d->label[0] == 1 && d->label[1] == -1 && d->label[2] == 1);
    assert_true(d->start[1] == 2 && d->start[2] == 2 && d->start[3] == 4);
    assert_true(d->value[0] == 0.5 && d->value[1] == -0.2 && d->value[2] == 0.5 &&
                d->value[3] == 3);
    larder_svm_data_close(&d);
}

/* Digits are rounded as the C library rounds them. */
static void numbers_round_right(void **state) {
    (void)state;
    static const char *const texts[] = {
        "0.1",
        "123456789.123456789",
        "1e22",
        "1e23",
        "2.2250738585072014e-308",
        "4.9e-324",
        "9007199254740993",
        "0.30000000000000004",
        "1e-400",
        "-0",
        "00012.500",
        "179769313486231570814527423731704356798070567525844996598917476803157e240"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char line[256];
        snprintf(line, sizeof line, "1 1:%s\n", texts[i]);
        larder_svm_data *d = parse(line, 0);
        double want = strtod(texts[i], NULL);
        assert_memory_equal(&d->value[0], &want, sizeof want);
        larder_svm_data_close(&d);
    }
}

/* Digit by digit or eight at a time, what is read is what the C library reads. */
static void numbers_of_all_lengths(void **state) {
    (void)state;
    larder_rng rng;
    larder_rng_seed(&rng, 5, 1);
    static char text[200000];
    static double want[4000];
    static uint32_t index[4000];
    for (int turn = 0; turn < 40; turn++) {
        size_t n = 0, at = (size_t)snprintf(text, sizeof text, "1");
        for (uint32_t last = 0; n < 400; n++) {
            char number[64];
            int whole = (int)larder_rng_below(&rng, 10), part = (int)larder_rng_below(&rng, 18);
            size_t k = 0;
            if (larder_rng_below(&rng, 4) == 0)
                number[k++] = '-';
            for (int i = 0; i < whole || (whole + part == 0 && i == 0); i++)
                number[k++] = (char)('0' + larder_rng_below(&rng, 10));
            if (part || larder_rng_below(&rng, 2))
                number[k++] = '.';
            for (int i = 0; i < part; i++)
                number[k++] = (char)('0' + larder_rng_below(&rng, 10));
            number[k] = '\0';
            if (larder_rng_below(&rng, 8) == 0)
                snprintf(number + k, sizeof number - k, "e%d",
                         (int)larder_rng_below(&rng, 40) - 20);
            last += 1 + larder_rng_below(&rng, n % 7 ? 30 : 100000);
            index[n] = last;
            want[n] = strtod(number, NULL);
            static const char *const blanks[] = {" ", "  ", "\t", " \t "};
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%u:%s",
                                   blanks[larder_rng_below(&rng, 4)], last, number);
        }
        snprintf(text + at, sizeof text - at, turn % 3 ? "\n" : turn % 2 ? "" : " \r\n");
        larder_svm_data *d = parse(text, 0);
        assert_int_equal(d->start[1], n);
        assert_memory_equal(d->index, index, n * sizeof *index);
        for (size_t i = 0; i < n; i++)
            if (memcmp(&d->value[i], &want[i], sizeof *want) != 0)
                fail_msg("turn %d, number %zu: %.17g is not %.17g", turn, i, d->value[i], want[i]);
        larder_svm_data_close(&d);
    }
}

/* As printf writes them. */
static void short_numbers(void **state) {
    (void)state;
    larder_rng rng;
    larder_rng_seed(&rng, 6, 1);
    int done = 0;
    for (int i = 0; i < 200000; i++) {
        char mine[24], theirs[64];
        double x = (double)larder_rng_below(&rng, 1u << 30);
        for (uint32_t k = larder_rng_below(&rng, 15); k > 0; k--)
            x /= 10;
        if (larder_rng_below(&rng, 3) == 0)
            x = (double)(larder_rng_next(&rng) >> 12) / (1 << 20) / (1 << 20);
        x = i % 2 ? x : -x;
        size_t n = larder__text_short(mine, x);
        int want = snprintf(theirs, sizeof theirs, "%.8g", x);
        done += n > 0;
        if (n > 0 && (n != (size_t)want || memcmp(mine, theirs, n) != 0))
            fail_msg("%.*s is not %s", (int)n, mine, theirs);
    }
    assert_true(done > 50000);
    char none[24];
    assert_int_equal(larder__text_short(none, 0), 0);
    assert_int_equal(larder__text_short(none, 1e300), 0);
}

static void label_lists(void **state) {
    (void)state;
    larder_svm_data *d = parse("1,4,7 1:1\n, 2:1\n3\n", LARDER_SVM_MULTI_LABEL);
    assert_int_equal(d->rows, 3);
    assert_true(larder__svm_data_has(d, 0, 4) && larder__svm_data_has(d, 0, 7));
    assert_false(larder__svm_data_has(d, 1, 1));
    assert_true(larder__svm_data_has(d, 2, 3) && !larder__svm_data_has(d, 2, 1));
    larder_svm_data_close(&d);
}

static void wrong(const char *text, unsigned flags, const char *sentence) {
    larder_svm_data *d = NULL;
    int rc = larder__svm_parse(&d, text, strlen(text), "f", flags);
    assert_int_equal(rc, LARDER_E_FORMAT);
    assert_null(d);
    if (!strstr(larder_errmsg(), sentence))
        fail_msg("said \"%s\", not \"%s\"", larder_errmsg(), sentence);
}

static void sentences(void **state) {
    (void)state;
    wrong("", 0, "f: there is no row in it");
    wrong("\n\n", 0, "f: there is no row in it");
    wrong("1 1:1\n\n1 1:1\n", 0,
          "f: line 2, column 1: expected a label, found the end of the line");
    wrong("one 1:1\n", 0, "line 1, column 1: expected a label that is a number, found 'one'");
    wrong("1,2 1:1\n", 0, "line 1, column 2: expected one label");
    wrong("1 1:nan\n", 0, "line 1, column 5: expected a number after the ':', found 'nan'");
    wrong("1 1:inf\n", 0, "column 5: expected a number");
    wrong("1 1:0x10\n", 0, "column 5: expected a number");
    wrong("1 1:1e400\n", 0, "column 5: expected a number that fits a double, found '1e400'");
    wrong("nan 1:1\n", 0, "column 1: expected a label");
    wrong("1 1:1 1:2\n", 0, "column 7: expected an index above 1 (indices ascend, each once)");
    wrong("1 2:1 1:2\n", 0, "column 7: expected an index above 2");
    wrong("1 0:1\n", 0, "column 3: expected an index of 1 or more");
    wrong("1 -3:1\n", 0,
          "column 3: expected index:value with a whole number as index, found '-3:1'");
    wrong("1 3\n", 0, "column 4: expected ':' after the index, found the end of the line");
    wrong("1 3:\r\n", 0, "column 5: expected a number after the ':', found the end of the line");
    wrong("1 3:1,\n", 0, "column 6: expected a blank after the value, found ','");
    wrong("1 99999999999:1\n", 0, "column 3: expected an index of at most 2147483647");
    wrong("1 1:1\n1 1:\x01\n", 0,
          "line 2, column 5: expected a number after the ':', found byte 0x01");
    wrong("1 1:1e\n", 0, "column 5: expected a number");
    wrong("1 1:--1\n", 0, "column 5: expected a number");
    wrong("1 1:.\n", 0, "column 5: expected a number");
}

static void zero_index(void **state) {
    (void)state;
    larder_svm_data *d = parse("1 0:1 1:4 2:6\n", LARDER_SVM_INDEX_ZERO);
    assert_int_equal(d->index[0], 0);
    larder_svm_data_close(&d);
}

/* A line far longer than the reader's chunk, and a file whose last line has no newline; of 100 MB
 * with LARDER_LONG. */
static void long_line(void **state) {
    (void)state;
    char folder[256], path[300];
    const uint32_t pairs = getenv("LARDER_LONG") ? 7500000 : 400000;
    snprintf(path, sizeof path, "%s/long", check_folder(folder));
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("-1 1:1\n1", f);
    for (uint32_t i = 1; i <= pairs; i++)
        fprintf(f, " %u:0.25", i);
    assert_int_equal(fclose(f), 0);
    larder_svm_data *d = NULL;
    check_ok(larder_svm_read(&d, path, 0));
    assert_int_equal(d->rows, 2);
    assert_int_equal(d->start[2], pairs + 1);
    assert_true(d->value[pairs] == 0.25);
    larder_svm_data_close(&d);
    assert_int_equal(larder_svm_read(&d, "no/such/file", 0), LARDER_E_NOTFOUND);
    assert_null(d);
    check_folder_remove(folder);
}

static void rows_from_memory(void **state) {
    (void)state;
    const uint64_t start[] = {0, 1, 3};
    const uint32_t index[] = {2, 1, 2}, bad[] = {2, 2, 1};
    const double value[] = {1, 2, 3}, label[] = {1, -1};
    larder_svm_data *d = NULL;
    check_ok(larder_svm_copy(&d, &(larder_svm_matrix){.size = sizeof(larder_svm_matrix),
                                                      .rows = 2,
                                                      .start = start,
                                                      .index = index,
                                                      .value = value,
                                                      .label = label}));
    assert_int_equal(d->rows, 2);
    assert_true(d->label[1] == -1);
    larder_svm_data_close(&d);
    assert_int_equal(larder_svm_copy(&d, &(larder_svm_matrix){.size = sizeof(larder_svm_matrix),
                                                              .rows = 2,
                                                              .start = start,
                                                              .index = bad,
                                                              .value = value,
                                                              .label = label}),
                     LARDER_E_ARGS);
    assert_null(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_rows),
        cmocka_unit_test(numbers_round_right),
        cmocka_unit_test(numbers_of_all_lengths),
        cmocka_unit_test(short_numbers),
        cmocka_unit_test(label_lists),
        cmocka_unit_test(sentences),
        cmocka_unit_test(zero_index),
        cmocka_unit_test(long_line),
        cmocka_unit_test(rows_from_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
