/* Saved state: little-endian, bounded, sticky errors. */
#include "base/mem.h"
#include "base/state.h"
#include "check.h"

#include <math.h>
#include <string.h>

static larder_reader reader_of(const larder_writer *w) {
    return (larder_reader){.at = w->bytes, .end = w->bytes + w->size};
}

static void test_round_trip(void **st) {
    (void)st;
    larder_writer w = {0};
    larder_write_u32(&w, 0x01020304);
    larder_write_u64(&w, 0x05060708090a0b0cu);
    larder_write_f64(&w, -1.5);
    larder_write_f64(&w, NAN);
    larder__write_text(&w, "lru");
    larder__write_text(&w, NULL);
    larder_write_bytes(&w, "xyz", 3);
    assert_int_equal(w.code, 0);
    const unsigned char start[] = {4, 3, 2, 1, 0xc, 0xb, 0xa, 9, 8, 7, 6, 5};
    assert_memory_equal(w.bytes, start, sizeof start);
    larder_reader r = reader_of(&w);
    char name[4], bytes[3];
    assert_int_equal(larder_read_u32(&r), 0x01020304);
    assert_int_equal(larder_read_u64(&r), 0x05060708090a0b0cu);
    assert_true(larder_read_f64(&r) == -1.5);
    assert_true(isnan(larder_read_f64(&r)));
    larder__read_text(&r, name, sizeof name);
    assert_string_equal(name, "lru");
    larder__read_text(&r, name, sizeof name);
    assert_string_equal(name, "");
    larder_read_bytes(&r, bytes, 3);
    assert_memory_equal(bytes, "xyz", 3);
    assert_int_equal(larder_read_status(&r), 0);
    assert_int_equal(larder__read_left(&r), 0);
    larder__writer_free(&w);
}

static void test_too_short(void **st) {
    (void)st;
    const unsigned char bytes[] = {1, 0, 0, 0, 9, 9};
    larder_reader r = {.at = bytes, .end = bytes + sizeof bytes};
    assert_int_equal(larder_read_u32(&r), 1);
    assert_int_equal(larder_read_u32(&r), 0); /* two bytes are not four */
    assert_int_equal(larder_read_status(&r), LARDER_E_FORMAT);
    assert_int_equal(larder__read_left(&r), 0);
    unsigned char out[2] = {7, 7};
    larder_read_bytes(&r, out, 2); /* sticky: zeros, though two bytes are there */
    assert_int_equal(out[0] | out[1], 0);
    assert_int_equal(larder_read_reject(&r, "another reason"), LARDER_E_FORMAT);
    assert_non_null(strstr(larder_errmsg(), "ends too early")); /* the first reason stays */
    larder_reader none = {0};
    larder_read_bytes(&none, NULL, 0);
    assert_int_equal(larder_read_status(&none), 0);
}

static uint32_t index_of(uint32_t value, uint64_t limit, bool none, int *code) {
    larder_writer w = {0};
    larder_write_u32(&w, value);
    larder_reader r = reader_of(&w);
    uint32_t got = larder_read_index(&r, limit, none);
    *code = larder_read_status(&r);
    larder__writer_free(&w);
    return got;
}

static void test_index(void **st) {
    (void)st;
    int code;
    assert_int_equal(index_of(4, 5, false, &code), 4);
    assert_int_equal(code, 0);
    assert_int_equal(index_of(5, 5, false, &code), 0);
    assert_int_equal(code, LARDER_E_FORMAT);
    index_of(UINT32_MAX, 5, false, &code);
    assert_int_equal(code, LARDER_E_FORMAT);
    assert_int_equal(index_of(UINT32_MAX, 5, true, &code), UINT32_MAX);
    assert_int_equal(code, 0);
    index_of(0, 0, false, &code);
    assert_int_equal(code, LARDER_E_FORMAT);
}

static void test_text_too_long(void **st) {
    (void)st;
    const uint32_t lengths[] = {4, 1000, UINT32_MAX};
    for (int i = 0; i < 3; i++) {
        larder_writer w = {0};
        larder_write_u32(&w, lengths[i]);
        larder_write_bytes(&w, "abcd", 4);
        larder_reader r = reader_of(&w);
        char out[4] = "zzz";
        larder__read_text(&r, out, sizeof out);
        assert_string_equal(out, "");
        assert_int_equal(larder_read_status(&r), LARDER_E_FORMAT);
        larder__writer_free(&w);
    }
}

static void test_growth_and_failure(void **st) {
    (void)st;
    static char block[5000];
    memset(block, 'q', sizeof block);
    larder_writer w = {0};
    for (int i = 0; i < 50; i++)
        larder_write_bytes(&w, block, sizeof block);
    assert_int_equal(w.size, 250000);
    assert_int_equal(w.bytes[249999], 'q');
    larder__writer_free(&w);
    larder_write_u32(&w, 1);
    larder__mem_fail_at(1, 0);
    larder_write_bytes(&w, block, sizeof block);
    larder__mem_fail_at(0, 0);
    assert_int_equal(w.code, LARDER_E_NOMEM);
    larder_write_u32(&w, 2); /* sticky */
    assert_int_equal(w.size, 4);
    larder__writer_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_too_short),
        cmocka_unit_test(test_index),
        cmocka_unit_test(test_text_too_long),
        cmocka_unit_test(test_growth_and_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
