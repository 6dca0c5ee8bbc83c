/* Columns of typed samples, as a source of parcels gives them: types and shapes as they are, pieces
 * where rows differ, kept as long as somebody holds the batch, and no memory left behind. */
#include "check.h"

#include "base/array_file.h"
#include "base/convert.h"
#include "base/csv.h"
#include "base/json_read.h"
#include "base/mem.h"
#include "base/parcel.h"

#include <larder/plugin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a source of typed samples --------------------------------------------------------------- */

enum { N = 50, ODD = 17 };

/* The sample, or with no `out` its bytes. */
static int make(uint64_t id, larder_buf **out) {
    float a[6], scale = (float)id / 2;
    int32_t label = (int32_t)(id % 7);
    char text[64];
    uint16_t ragged[8];
    for (int i = 0; i < 6; i++)
        a[i] = (float)id + (float)i;
    for (int i = 0; i < 8; i++)
        ragged[i] = (uint16_t)(id * 10 + (uint64_t)i);
    size_t n = (size_t)snprintf(text, sizeof text, "sample %d", (int)id), k = id % 8;
    larder__field f[] = {
        {LARDER__FIELD_TENSOR, LARDER_F32, 2, {3, 2}, "(0", 2, (void *)a, sizeof a},
        {LARDER__FIELD_ARRAY, LARDER_I32, 0, {0}, "(1{label", 8, (void *)&label, 4},
        {LARDER__FIELD_ARRAY, LARDER_F32, 0, {0}, "(1{scale", 8, (void *)&scale, 4},
        {LARDER__FIELD_TEXT, LARDER_U8, 0, {0}, "(2", 2, (void *)text, n},
        {LARDER__FIELD_BYTES, LARDER_U8, 0, {0}, "(3", 2, (void *)ragged, k},
        {LARDER__FIELD_BOOL, LARDER_U8, 0, {0}, "(4", 2, (void *)(id % 2 ? "\1" : "\0"), 1}};
    if (id == ODD) /* of another shape than the first one */
        f[0].shape[0] = 2, f[0].bytes = 16;
    return out ? larder__parcel_make(out, f, 6) : (int)larder__parcel_bytes(f, 6);
}

static int src_open(void *st, const char *where, const larder_args *args) {
    (void)st, (void)where, (void)args;
    return 0;
}
static void src_close(void *st) { (void)st; }
static uint32_t bytes_of(uint64_t id) { return (uint32_t)make(id, NULL); }
static int describe(void *st, larder_dataset *out) {
    (void)st;
    *out = (larder_dataset){.count = N, .fingerprint = 5, .parcels = true};
    for (uint64_t i = 0; i < N; i++)
        out->bytes += bytes_of(i);
    return 0;
}
static int stat_one(void *st, uint64_t id, larder_sample *out) {
    (void)st;
    *out = (larder_sample){bytes_of(id), -1};
    return 0;
}
static int name(void *st, uint64_t id, char *out, size_t cap) {
    (void)st;
    snprintf(out, cap, "typed/%d", (int)id);
    return 0;
}
static int read_some(void *st, const uint64_t *ids, size_t n, larder_read *out) {
    (void)st;
    for (size_t i = 0; i < n; i++) {
        out[i] = (larder_read){0};
        out[i].code = make(ids[i], &out[i].buf);
    }
    return 0;
}

static const larder_source typed = {.plugin = {.name = "typedtest", .summary = "for a test"},
                                    .open = src_open,
                                    .close = src_close,
                                    .describe = describe,
                                    .stat = stat_one,
                                    .name = name,
                                    .read = read_some};

static larder_loader_conf conf_of(void) {
    return (larder_loader_conf){.size = sizeof(larder_loader_conf),
                                .source = "typedtest:",
                                .recipe = "lru",
                                .cache = "30%",
                                .batch = 8,
                                .threads = 2,
                                .prefetch = 2,
                                .on_bad = LARDER_BAD_SKIP,
                                .record = "",
                                .seed = 3};
}

static void look(const larder_batch *b) {
    static const char *const kinds[] = {"tensor", "number", "number", "text", "bytes", "bool"};
    assert_null(b->x);
    assert_int_equal(b->column_count, 6);
    for (size_t c = 0; c < 6; c++)
        assert_string_equal(b->columns[c].kind, kinds[c]);
    assert_string_equal(b->columns[1].name, "(1{label");
    assert_int_equal(b->columns[0].ndim, 2);
    assert_int_equal(b->columns[0].shape[0], 3);
    assert_int_equal(b->columns[1].dtype, LARDER_I32);
    assert_int_equal(b->columns[1].use, LARDER_COLUMN_Y);
    for (size_t i = 0; i < b->n; i++) {
        uint64_t id = b->served[i];
        larder_buf *buf;
        larder__parcel p;
        larder__field f;
        check_ok(make(id, &buf));
        check_ok(larder__parcel_open(&p, larder_buf_data(buf), larder_buf_size(buf)));
        assert_int_not_equal(id, ODD);
        assert_int_equal(b->y[i], id % 7);
        for (size_t at = 0, c = 0; larder__parcel_next(&p, &at, &f); c++) {
            const larder_column *col = &b->columns[c];
            if (col->data)
                assert_memory_equal((const char *)col->data + i * f.bytes, f.data, f.bytes);
            else {
                assert_int_equal(col->pieces[i].bytes, f.bytes);
                assert_memory_equal(col->pieces[i].data, f.data, f.bytes);
            }
        }
        larder_buf_unref(&buf);
    }
}

static void typed_samples(void **state) {
    (void)state;
    larder_loader_conf c = conf_of();
    larder_loader *l;
    const larder_batch *b, *held[64], *twice;
    size_t n = 0;
    check_ok(larder_loader_open(&l, &c));
    for (int rc, ends = 0; ends < 2;) {
        check_ok(rc = larder_loader_next(l, &b));
        if (rc == LARDER_END_EPOCH) {
            ends++;
            continue;
        }
        look(b);
        if (b->number % 2) { /* of the others nothing is left */
            check_ok(larder_loader_hold(l, b, &held[n++]));
            check_ok(larder_loader_hold(l, b, &twice));
            larder_batch_release(&twice);
        }
        check_ok(larder_loader_done(l, b));
    }
    larder_bad bad = {.size = sizeof bad};
    check_ok(larder_loader_bad(l, 0, &bad));
    assert_int_equal(bad.id, ODD);
    assert_non_null(strstr(bad.why, "(typed/17): column \"(0\": an array of 2x2 float32, and the "
                                    "first sample's is of 3x2 float32"));
    uint64_t ids[9] = {5, 4, 49};
    check_ok(larder_loader_gather(l, ids, 3, NULL, &held[n++]));
    assert_int_equal(held[n - 1]->n, 3);
    assert_int_equal(larder_loader_gather(l, ids, 9, NULL, &twice), LARDER_E_ARGS);
    larder_loader_close(&l);
    for (size_t i = 0; i < n; i++) { /* they outlive the loader */
        look(held[i]);
        larder_batch_release(&held[i]);
    }
}

/* Every allocation fails once: nothing is lost or used after it is gone. */
static void without_memory(void **state) {
    (void)state;
    larder_loader_conf c = conf_of();
    uint64_t reached = 0;
    for (uint64_t at = 1; at < 400; at += 1 + at / 20) {
        larder_loader *l = NULL;
        const larder_batch *b = NULL;
        larder__mem_fail_at(at, 0);
        int rc = larder_loader_open(&l, &c);
        for (int k = 0; rc == 0 && k < 4; k++)
            if ((rc = larder_loader_next(l, &b)) == 0 && b)
                rc = larder_loader_done(l, b);
        int failed = larder__mem_failed();
        larder__mem_fail_at(0, 0);
        larder_loader_close(&l);
        reached += failed != 0;
    }
    assert_true(reached > 20);
}

/* ---- what they are made of ------------------------------------------------------------------- */

static void json(void **state) {
    (void)state;
    static const char text[] =
        "{\"a\": [1, {\"b.c\": -2.5e1}], \"s\": \"x\\u00e9\\ud83d\\ude00\\n\", "
        "\"m\": [[1,2],[3,4]], \"e\": [], \"r\": [[1],[2,3]], \"t\": true}";
    larder__json_value v;
    double d[8];
    int64_t i[8];
    bool whole;
    size_t n;
    uint64_t shape[8];
    uint32_t ndim;
    char out[64];
    check_ok(larder__json_find(text, sizeof text - 1, "a.1.b\\.c", &v));
    check_ok(larder__json_number(&v, d, i, &whole));
    assert_true(d[0] == -25 && !whole);
    check_ok(larder__json_find(text, sizeof text - 1, "s", &v));
    check_ok(larder__json_unescape(&v, out, &n));
    assert_int_equal(n, 8);
    assert_memory_equal(out, "x\303\251\360\237\230\200\n", 8);
    check_ok(larder__json_find(text, sizeof text - 1, "m", &v));
    check_ok(larder__json_numbers(&v, d, i, 8, &n, shape, &ndim, 8, &whole));
    assert_true(whole && n == 4 && ndim == 2 && shape[0] == 2 && shape[1] == 2 && i[3] == 4);
    check_ok(larder__json_find(text, sizeof text - 1, "e", &v));
    check_ok(larder__json_numbers(&v, d, i, 8, &n, shape, &ndim, 8, &whole));
    assert_true(n == 0 && ndim == 1 && shape[0] == 0);
    check_ok(larder__json_find(text, sizeof text - 1, "r", &v));
    assert_int_equal(larder__json_numbers(&v, d, i, 8, &n, shape, &ndim, 8, &whole),
                     LARDER_E_FORMAT);
    assert_int_equal(larder__json_find(text, sizeof text - 1, "a.2", &v), LARDER_E_NOTFOUND);
    for (size_t cut = 0; cut < sizeof text - 1; cut++) /* all of it is asked for */
        assert_true(larder__json_find(text, cut, "", &v) < 0);
    char deep[200];
    memset(deep, '[', sizeof deep);
    assert_int_equal(larder__json_find(deep, sizeof deep, "", &v), LARDER_E_FORMAT);
}

static void numbers(void **state) {
    (void)state;
    double d[] = {-1, 255, 256, 1.5};
    uint8_t u[4];
    int64_t i, most = INT64_MAX;
    uint64_t big = UINT64_MAX;
    assert_int_equal(larder__convert(u, LARDER_U8, d, LARDER_F64, 1), LARDER_E_RANGE);
    check_ok(larder__convert(u, LARDER_U8, d + 1, LARDER_F64, 1));
    assert_int_equal(u[0], 255);
    assert_int_equal(larder__convert(u, LARDER_U8, d + 2, LARDER_F64, 1), LARDER_E_RANGE);
    assert_int_equal(larder__convert(&i, LARDER_I64, d + 3, LARDER_F64, 1), LARDER_E_RANGE);
    check_ok(larder__convert(&i, LARDER_I64, &most, LARDER_I64, 1));
    assert_true(i == INT64_MAX);
    assert_int_equal(larder__convert(&i, LARDER_I64, &big, LARDER_U64, 1), LARDER_E_RANGE);
}

int main(void) {
    check_ok(larder_register_source(&typed));
    const struct CMUnitTest tests[] = {cmocka_unit_test(typed_samples),
                                       cmocka_unit_test(without_memory), cmocka_unit_test(json),
                                       cmocka_unit_test(numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
