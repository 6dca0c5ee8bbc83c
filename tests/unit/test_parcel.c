/* Parcels: what is laid down is found again, and nothing in a damaged one is believed. */
#include "base/parcel.h"
#include "check.h"

#include <larder/plugin.h>
#include <stdlib.h>
#include <string.h>

static larder__field field(const char *name, larder__field_kind kind, const void *data,
                           size_t bytes) {
    return (larder__field){.kind = kind,
                           .dtype = LARDER_U8,
                           .name = name,
                           .name_bytes = strlen(name),
                           .data = data,
                           .bytes = bytes};
}

static void array(larder__field *f, larder_dtype dtype, uint32_t ndim, uint64_t a, uint64_t b) {
    f->dtype = dtype;
    f->ndim = ndim;
    f->shape[0] = a;
    f->shape[1] = b;
}

static void whole(void **state) {
    (void)state;
    static const float numbers[6] = {1, 2, 3, 4, 5, -6};
    static const int64_t label = -7;
    larder__field f[] = {field("jpg", LARDER__FIELD_BYTES, "not a picture", 13),
                         field("(1{boxes", LARDER__FIELD_TENSOR, numbers, sizeof numbers),
                         field("", LARDER__FIELD_ARRAY, &label, 8),
                         field("txt", LARDER__FIELD_TEXT, "h\303\251", 3),
                         field("t", LARDER__FIELD_BOOL, "\1", 1),
                         field("nothing", LARDER__FIELD_NONE, NULL, 0),
                         field("[", LARDER__FIELD_EMPTY, "[", 1)};
    array(&f[1], LARDER_F32, 2, 3, 2);
    array(&f[2], LARDER_I64, 0, 0, 0);
    larder_buf *buf;
    check_ok(larder__parcel_make(&buf, f, 7));
    larder__parcel p;
    check_ok(larder__parcel_open(&p, larder_buf_data(buf), larder_buf_size(buf)));
    assert_int_equal(p.count, 7);
    size_t at = 0;
    larder__field g;
    for (size_t i = 0; i < 7; i++) {
        assert_true(larder__parcel_next(&p, &at, &g));
        assert_int_equal(g.kind, f[i].kind);
        assert_int_equal(g.dtype, f[i].dtype);
        assert_int_equal(g.name_bytes, f[i].name_bytes);
        assert_memory_equal(g.name, f[i].name, g.name_bytes);
        assert_int_equal(g.bytes, f[i].bytes);
        assert_ptr_equal(g.data, f[i].data);
        assert_int_equal((uintptr_t)g.data % 16, 0);
        assert_true(larder__shape_same(g.shape, g.ndim, f[i].shape, f[i].ndim));
    }
    assert_false(larder__parcel_next(&p, &at, &g));
    assert_true(larder__parcel_find(&p, "(1{boxes", &g));
    assert_memory_equal(g.data, numbers, sizeof numbers);
    assert_true(larder__parcel_find(&p, "", &g));
    assert_memory_equal(g.data, &label, 8);
    assert_false(larder__parcel_find(&p, "jp", &g));
    larder_buf_unref(&buf);
}

static void refused(void **state) {
    (void)state;
    static const float numbers[6] = {0};
    larder__field f = field("a", LARDER__FIELD_ARRAY, numbers, 23);
    array(&f, LARDER_F32, 2, 3, 2);
    assert_int_equal(larder__parcel_bytes(&f, 1), 0); /* a byte is missing */
    f.bytes = 24;
    assert_true(larder__parcel_bytes(&f, 1) > 0);
    f.shape[0] = f.shape[1] = UINT64_C(1) << 32; /* 2^64 elements are not 0 */
    f.bytes = 0;
    assert_int_equal(larder__parcel_bytes(&f, 1), 0);
    char name[257];
    memset(name, 'n', 256);
    name[256] = 0;
    f = field(name, LARDER__FIELD_BYTES, NULL, 0);
    assert_int_equal(larder__parcel_bytes(&f, 1), 0);
    f = field("big", LARDER__FIELD_BYTES, NULL, UINT32_MAX);
    assert_int_equal(larder__parcel_bytes(&f, 1), 0);
    assert_int_equal(larder__parcel_bytes(&f, 5000), 0);
}

/* Every byte changed in every way that a bit can: it is refused, or all it names lies inside. */
static void damaged(void **state) {
    (void)state;
    static const int16_t numbers[4] = {1, 2, 3, 4};
    larder__field f[] = {field("npy", LARDER__FIELD_ARRAY, numbers, 8),
                         field("json", LARDER__FIELD_BYTES, "{}", 2)};
    array(&f[0], LARDER_I16, 2, 2, 2);
    size_t size = (size_t)larder__parcel_bytes(f, 2), refusals = 0;
    unsigned char *good = malloc(size), *bad = malloc(size);
    assert_non_null(good);
    assert_non_null(bad);
    larder__parcel_lay(good, f, 2);
    for (size_t i = 0; i < size * 8; i++) {
        memcpy(bad, good, size);
        bad[i / 8] ^= (unsigned char)(1u << i % 8);
        larder__parcel p;
        if (larder__parcel_open(&p, bad, size) < 0) {
            refusals++;
            continue;
        }
        larder__field g;
        for (size_t at = 0; larder__parcel_next(&p, &at, &g);)
            assert_true(g.data >= bad && g.data + g.bytes <= bad + size);
    }
    assert_true(refusals > 200);
    for (size_t cut = 0; cut < size; cut++) {
        larder__parcel p;
        assert_true(larder__parcel_open(&p, good, cut) < 0);
    }
    free(good);
    free(bad);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole), cmocka_unit_test(refused),
                                       cmocka_unit_test(damaged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
