/* Tables as text: random cells come back as they were written; csv: and table: give what a slow
 * look at the same lines gives; wrong lines are named by their number. */
#include "base/csv.h"
#include "base/parcel.h"
#include "check.h"
#include "root_kit.h"
#include "source/label_column.h"
#include "source/source.h"

#include <larder/plugin.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static larder__data *opened(const char *source, const char *name, const char *query) {
    char uri[400];
    larder__data *d = NULL;
    snprintf(uri, sizeof uri, "%s:%s/%s%s", source, kit_root, name, query);
    check_ok(larder__data_open(&d, uri));
    return d;
}

static larder_buf *read_one(larder__data *d, uint64_t id) {
    larder_read r;
    check_ok(larder__data_read(d, &id, 1, &r));
    check_ok(r.code);
    return r.buf;
}

/* ---- the text -------------------------------------------------------------------------------- */

enum { ROWS = 7, COLUMNS = 4, CELL = 12 };

static size_t put_cell(char *to, const char *cell, bool quote) {
    size_t n = 0;
    if (quote)
        to[n++] = '"';
    for (; *cell; cell++) {
        to[n++] = *cell;
        if (*cell == '"')
            to[n++] = '"';
    }
    if (quote)
        to[n++] = '"';
    return n;
}

static void any_cells(void **state) {
    (void)state;
    larder_rng rng;
    larder_rng_seed(&rng, 3, 0);
    for (int round = 0; round < 2000; round++) {
        static const char letters[] = "ab,\"\r\n 0";
        char cells[ROWS][COLUMNS][CELL], text[ROWS * COLUMNS * CELL * 3];
        size_t at = 0;
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLUMNS; c++) {
                size_t n = larder_rng_below(&rng, CELL);
                for (size_t i = 0; i < n; i++)
                    cells[r][c][i] = letters[larder_rng_below(&rng, sizeof letters - 1)];
                cells[r][c][n] = 0;
                bool must = strpbrk(cells[r][c], ",\"\r\n") != NULL;
                at += put_cell(text + at, cells[r][c], must || larder_rng_below(&rng, 3) == 0);
                if (c < COLUMNS - 1)
                    text[at++] = ',';
                else if (r < ROWS - 1 || round % 2)
                    at += (size_t)sprintf(text + at, "%s", round % 3 ? "\n" : "\r\n");
            }
        char *copy = malloc(at + 1); /* no byte more, for sanitizers */
        larder__csv csv;
        memcpy(copy, text, at);
        larder__csv_begin(&csv, "text", copy, at);
        for (int r = 0; r < ROWS; r++) {
            assert_int_equal(larder__csv_next(&csv), 1);
            assert_int_equal(csv.count, COLUMNS);
            for (int c = 0; c < COLUMNS; c++)
                assert_string_equal(csv.fields[c], cells[r][c]);
        }
        assert_int_equal(larder__csv_next(&csv), 0);
        larder__csv_free(&csv);
        free(copy);
    }
}

static void numbers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double value;
        bool is;
    } cases[] = {{"1", 1, true},     {" -2.5e3 ", -2500, true}, {"", NAN, true},
                 {"nan", NAN, true}, {"1,5", 0, false},         {"0x10", 0, false},
                 {"1 2", 0, false},  {"one", 0, false},         {"inf", INFINITY, true},
                 {"+7", 7, true},    {"-", 0, false},           {"1e", 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double v = 0;
        if (larder__text_number(cases[i].text, &v) != cases[i].is)
            fail_msg("\"%s\"", cases[i].text);
        if (cases[i].is && !(v == cases[i].value || (isnan(v) && isnan(cases[i].value))))
            fail_msg("\"%s\" is %g", cases[i].text, v);
    }
}

/* ---- csv: ------------------------------------------------------------------------------------ */

static void expect_floats(larder_buf *b, const char *name, const float *want, size_t n) {
    larder__parcel p;
    larder__field f;
    check_ok(larder__parcel_open(&p, larder_buf_data(b), larder_buf_size(b)));
    assert_true(larder__parcel_find(&p, name, &f));
    assert_true(f.kind == LARDER__FIELD_ARRAY && f.dtype == LARDER_F32);
    assert_int_equal(f.bytes, n * sizeof *want);
    for (size_t i = 0; i < n; i++) {
        float v;
        memcpy(&v, f.data + i * sizeof v, sizeof v);
        assert_true(v == want[i] || (isnan(v) && isnan(want[i])));
    }
}

static void expect_text(larder_buf *b, const char *name, const char *want) {
    larder__parcel p;
    larder__field f;
    check_ok(larder__parcel_open(&p, larder_buf_data(b), larder_buf_size(b)));
    assert_true(larder__parcel_find(&p, name, &f));
    assert_int_equal(f.kind, LARDER__FIELD_TEXT);
    assert_int_equal(f.bytes, strlen(want));
    assert_memory_equal(f.data, want, f.bytes);
}

static void csv_rows(void **state) {
    (void)state;
    kit_put("t.csv", "a,words,b,kind,price\n1,\"x, \"\"y\"\"\n\",2.5,cat,1.5\n,,3,dog,2\n"
                     "\n-1e3,z,4,cat,3\n");
    larder__data *d = opened("csv", "t.csv", "?target=kind");
    assert_int_equal(larder__data_about(d)->count, 3);
    assert_int_equal(larder__data_about(d)->classes, 2);
    assert_string_equal(larder__data_class(d, 1), "dog");
    static const float x[][3] = {{1, 2.5f, 1.5f}, {NAN, 3, 2}, {-1000, 4, 3}};
    static const char *const words[] = {"x, \"y\"\n", "", "z"};
    static const int labels[] = {0, 1, 0};
    for (uint64_t id = 0; id < 3; id++) {
        larder_sample s;
        larder_buf *b = read_one(d, id);
        check_ok(larder__data_stat(d, id, &s));
        assert_int_equal(s.label, labels[id]);
        expect_floats(b, "x", x[id], 3);
        expect_text(b, "words", words[id]);
        larder_buf_unref(&b);
    }
    larder__data_close(&d);
    d = opened("csv", "t.csv", "?target=price&columns=b/a");
    larder_buf *b = read_one(d, 2);
    expect_floats(b, "x", (const float[]){-1000, 4}, 2); /* in the order of the file */
    expect_floats(b, "y", (const float[]){3}, 1);
    larder_buf_unref(&b);
    larder__data_close(&d);
    kit_put("n.csv", "3,1\n4,0\n");
    d = opened("csv", "n.csv", "?header=no&target=2");
    larder_sample s;
    check_ok(larder__data_stat(d, 0, &s));
    assert_int_equal(s.label, 1);
    larder__data_close(&d);
}

static void refused(const char *source, const char *text, const char *query, const char *says) {
    char uri[400];
    larder__data *d = NULL;
    kit_put("bad.csv", text);
    snprintf(uri, sizeof uri, "%s:%s/bad.csv%s", source, kit_root, query);
    assert_true(larder__data_open(&d, uri) < 0);
    if (!strstr(larder_errmsg(), says))
        fail_msg("%s: %s", text, larder_errmsg());
}

static void wrong_lines(void **state) {
    (void)state;
    refused("csv", "a,b\n1,2\n3\n", "", "bad.csv line 3: 1 cells where there are 2 columns");
    refused("csv", "a,b\n\"1\n\n2\",2\n3,4,5\n", "", "line 5: 3 cells");
    refused("csv", "a\n\"1\"2\n", "", "line 2: something follows a closing quote");
    refused("csv", "a\n\"1", "", "line 2: a quote is not closed");
    refused("csv", "a,b\n", "", "holds no samples");
    refused("csv", "", "", "holds no samples");
    refused("csv", "a,b\n1,2\n", "?target=c", "no column \"c\" for target=; it has a, b");
    refused("csv", "a,b\n1,2\n", "?columns=b/x", "no column \"x\" for columns=");
    kit_put("bytes", "0123456789");
    refused("table", "file,offset\nbytes,1\n", "", "no column \"length\"");
    refused("table", "bytes,1,5\nbytes,6,5\n", "", "bad.csv line 2: 5 bytes from 6 on, but ");
    refused("table", "bytes,1,5\nbytes,-1,5\n", "", "line 2: offset or length");
    refused("table", "bytes,1,5\nbytes,1\n", "", "line 2: only 2 cells");
    refused("table", "gone,1,5\n", "", "line 1: ");
    refused("table", "bytes,11,0\n", "", "line 1: 0 bytes from 11 on");
    refused("table", "bytes,0,1,0.5\n", "", "neither whole numbers nor names");
    refused("table", "file,offset,length\n", "", "holds no samples");
}

static void places(void **state) {
    (void)state;
    kit_put("bytes", "0123456789");
    kit_put("p.csv", "bytes,3,4,dog\nbytes,0,10,ant\nbytes,10,0,dog\nbytes,3,4,\n");
    larder__data *d = opened("table", "p.csv", "");
    static const char *const want[] = {"3456", "0123456789", "", "3456"};
    static const int labels[] = {1, 0, 1, -1};
    for (uint64_t id = 0; id < 4; id++) {
        larder_sample s;
        larder_buf *b = read_one(d, id);
        check_ok(larder__data_stat(d, id, &s));
        assert_int_equal(s.label, labels[id]);
        assert_int_equal(larder_buf_size(b), strlen(want[id]));
        assert_memory_equal(larder_buf_data(b), want[id], strlen(want[id]));
        larder_buf_unref(&b);
    }
    /* What is there later is not what the table was checked against. */
    kit_put("bytes", "01234567");
    uint64_t id = 0;
    larder_read r;
    check_ok(larder__data_read(d, &id, 1, &r));
    assert_int_equal(r.code, LARDER_E_CHANGED);
    larder__data_close(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_cells),   cmocka_unit_test(numbers), cmocka_unit_test(csv_rows),
        cmocka_unit_test(wrong_lines), cmocka_unit_test(places),
    };
    return cmocka_run_group_tests(tests, kit_root_make, kit_root_remove);
}
