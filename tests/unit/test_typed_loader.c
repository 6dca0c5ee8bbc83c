/* Arrays, tokens, tables and sounds through a loader: columns are what lies in the files, for the
 * id that was served, whether it comes from storage or from the cache. */
#include "array_kit.h"
#include "base/parcel.h"
#include "check.h"
#include "loader_kit.h"
#include "root_kit.h"
#include "source/source.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const larder_column *column(const larder_batch *b, const char *name) {
    for (size_t i = 0; i < b->column_count; i++)
        if (strcmp(b->columns[i].name, name) == 0)
            return &b->columns[i];
    fail_msg("there is no column %s", name);
    return NULL;
}

static const void *row_of(const larder_column *c, size_t row, size_t bytes) {
    return c->data ? (const char *)c->data + row * bytes : c->pieces[row].data;
}

/* Every array field of every sample, in two epochs. */
static void expect_all(const char *uri) {
    larder_loader_conf c = kit_conf(uri, "lru");
    larder__data *d = NULL;
    larder_loader *l = NULL;
    const larder_batch *b;
    size_t compared = 0;
    int rc;
    c.augment = NULL;
    c.epochs = 2;
    c.batch = 3;
    check_ok(larder__data_open(&d, uri));
    check_ok(larder_loader_open(&l, &c));
    while ((rc = larder_loader_next(l, &b)) == 0 || rc == LARDER_END_EPOCH) {
        for (size_t i = 0; rc == 0 && i < b->n; i++) {
            larder_read r;
            larder__parcel p;
            larder__field f;
            check_ok(larder__data_read(d, &b->served[i], 1, &r));
            check_ok(larder__parcel_open(&p, larder_buf_data(r.buf), larder_buf_size(r.buf)));
            for (size_t at = 0; larder__parcel_next(&p, &at, &f);) {
                char name[32];
                snprintf(name, sizeof name, "%.*s", (int)f.name_bytes, f.name);
                const larder_column *col = column(b, name);
                if (f.kind == LARDER__FIELD_ARRAY) {
                    assert_int_equal(col->dtype, f.dtype);
                    assert_int_equal(col->ndim, f.ndim);
                }
                assert_memory_equal(row_of(col, i, f.bytes), f.data, f.bytes);
                compared++;
            }
            larder_buf_unref(&r.buf);
        }
        if (rc == 0)
            larder_loader_done(l, b);
    }
    assert_true(compared >= 2 * larder__data_about(d)->count);
    larder_loader_close(&l);
    larder__data_close(&d);
}

static void arrays(void **state) {
    (void)state;
    char uri[700];
    kit_npy(kit_path("x.npy"), "<f4", "(10, 3)", 120);
    kit_npy(kit_path("y.npy"), "<f8", "(10, 2)", 160);
    kit_npy(kit_path("t.npy"), "<u2", "(100,)", 200);
    snprintf(uri, sizeof uri, "npy:%s?labels=%s", kit_path("x.npy"), kit_path("y.npy"));
    expect_all(uri);
    snprintf(uri, sizeof uri, "window:length=16,stride=5:npy:%s", kit_path("t.npy"));
    expect_all(uri);
    snprintf(uri, sizeof uri, "raw:%s?dtype=i16&shape=2/5&take=-20%%", kit_path("t.bin"));
    check_write(kit_path("t.bin"),
                "0123456789012345678901234567890123456789012345678901234567890"
                "123456789012345678901234567890123456789",
                100);
    expect_all(uri);
    snprintf(uri, sizeof uri, "mix:1*npy:%s,3*npy:%s", kit_path("x.npy"), kit_path("x.npy"));
    expect_all(uri);
}

/* By id, more at once than a batch has: the same labels as in batches. */
static void by_id(void **state) {
    (void)state;
    char uri[700];
    const int64_t labels[10] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3};
    const uint64_t ids[10] = {9, 0, 3, 3, 7, 1, 2, 8, 4, 5};
    int64_t y[10];
    float x[10 * 3];
    larder_loader *l = NULL;
    kit_npy(kit_path("x.npy"), "<f4", "(10, 3)", 120);
    kit_npy_of(kit_path("l.npy"), "<i8", "(10,)", labels, sizeof labels);
    snprintf(uri, sizeof uri, "npy:%s?labels=%s", kit_path("x.npy"), kit_path("l.npy"));
    larder_loader_conf c = kit_conf(uri, "lru");
    c.augment = NULL;
    c.batch = 4;
    check_ok(larder_loader_open(&l, &c));
    check_ok(larder_loader_get(l, ids, 10, NULL, x, y));
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(y[i], labels[ids[i]]);
    const larder_batch *b = NULL;
    assert_int_equal(larder_loader_gather(l, ids, 5, NULL, &b), LARDER_E_ARGS);
    assert_int_equal(larder_loader_get(l, (const uint64_t[]){10}, 1, NULL, x, y), LARDER_E_RANGE);
    larder_loader_close(&l);
}

/* Whole numbers of any type are classes, but for those that none can have. */
static void labels_of_all_types(void **state) {
    (void)state;
    static const struct {
        const char *type;
        size_t bytes;
    } types[] = {{"|u1", 1}, {"|i1", 1}, {"<u2", 2}, {"<i2", 2}, {"<u4", 4},
                 {"<i4", 4}, {"<u8", 8}, {"<i8", 8}, {"|b1", 1}};
    char uri[700];
    kit_npy(kit_path("x.npy"), "<f4", "(2, 3)", 24);
    snprintf(uri, sizeof uri, "npy:%s?labels=%s", kit_path("x.npy"), kit_path("l.npy"));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        unsigned char bytes[16] = {0};
        larder__data *d = NULL;
        larder_sample s;
        bytes[types[i].bytes] = 1; /* little-endian: 0 and 1 */
        kit_npy_of(kit_path("l.npy"), types[i].type, "(2,)", bytes, 2 * types[i].bytes);
        check_ok(larder__data_open(&d, uri));
        check_ok(larder__data_stat(d, 1, &s));
        assert_int_equal(s.label, 1);
        larder__data_close(&d);
    }
    static const int64_t none[][2] = {{0, -2}, {0, INT32_MAX}, {INT64_MIN, 0}};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        larder__data *d = NULL;
        kit_npy_of(kit_path("l.npy"), "<i8", "(2,)", none[i], 16);
        assert_true(larder__data_open(&d, uri) < 0);
        assert_true(larder_errmsg()[0]);
        assert_null(d);
    }
}

static void tables(void **state) {
    (void)state;
    char uri[400];
    static const char text[] = "a,word,b,c\n1,one,2,0.5\n3,two,4,1.5\n5,\"th,ree\",6,2\n7,,8,3\n";
    check_write(kit_path("t.csv"), text, sizeof text - 1);
    snprintf(uri, sizeof uri, "csv:%s?target=c", kit_path("t.csv"));
    expect_all(uri);
}

#if LARDER_HAVE_SNDFILE
/* A folder of sounds, a class each: what a sample is, its one field says. */
static void sounds(void **state) {
    (void)state;
    char uri[400];
    mkdir(kit_path("sounds"), 0700);
    for (unsigned char k = 0; k < 3; k++) {
        /* 400 samples of 8 kHz, 8 bits, all of one level */
        unsigned char wav[444] = "RIFF\xb4\1\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x40\x1f\0\0"
                                 "\1\0\x08\0data\x90\1\0";
        char name[40];
        memset(wav + 44, 128 + 32 * k, 400);
        snprintf(name, sizeof name, "sounds/%c", 'a' + k);
        mkdir(kit_path(name), 0700);
        snprintf(name, sizeof name, "sounds/%c/1.wav", 'a' + k);
        check_write(kit_path(name), wav, sizeof wav);
    }
    snprintf(uri, sizeof uri, "dir:%s", kit_path("sounds"));
    larder_loader_conf c = kit_conf(uri, "lru");
    larder_loader *l = NULL;
    const larder_batch *b;
    c.augment = NULL;
    c.batch = 3;
    c.fields = "sound=wav:sound;seconds=0.02;rate=16000";
    check_ok(larder_loader_open(&l, &c));
    check_ok(larder_loader_next(l, &b));
    const larder_column *col = column(b, "sound");
    assert_true(col->dtype == LARDER_F32 && col->ndim == 2 && col->shape[0] == 1 &&
                col->shape[1] == 320);
    for (size_t i = 0; i < b->n; i++) {
        float v;
        memcpy(&v, (const char *)col->data + (i * 320 + 160) * sizeof v, sizeof v);
        assert_true(v > 0.25f * (float)b->y[i] - 0.01f && v < 0.25f * (float)b->y[i] + 0.01f);
    }
    larder_loader_close(&l);
    /* Plain bytes of a source without fields are one, whatever it is called. */
    static const char rows[] = "sounds/a/1.wav,0,444,0\nsounds/c/1.wav,0,444,2\n";
    check_write(kit_path("places.csv"), rows, sizeof rows - 1);
    snprintf(uri, sizeof uri, "table:%s", kit_path("places.csv"));
    c.fields = "sound=any:sound;seconds=0.02";
    c.source = uri;
    check_ok(larder_loader_open(&l, &c));
    check_ok(larder_loader_next(l, &b));
    assert_int_equal(column(b, "sound")->shape[1], 320);
    larder_loader_close(&l);
    c.fields = "wav,txt";
    assert_int_equal(larder_loader_open(&l, &c), LARDER_E_ARGS);
    assert_non_null(strstr(larder_errmsg(), "no fields to choose"));
}
#else
static void sounds(void **state) { (void)state; }
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays), cmocka_unit_test(by_id),  cmocka_unit_test(labels_of_all_types),
        cmocka_unit_test(tables), cmocka_unit_test(sounds),
    };
    return cmocka_run_group_tests(tests, kit_root_make, kit_root_remove);
}
