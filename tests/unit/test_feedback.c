/* What training said, kept until its batch is due: places, order, and hostile saved notes. */
#include "check.h"

#include "base/state.h"
#include "loader/feedback/feedback.h"

#include <math.h>

static const uint64_t ids[2] = {3, 1};
static const int64_t labels[2] = {0, 1};
static const float losses[2] = {0.5f, 2};

static void a_note_comes_back_once(void **state) {
    (void)state;
    larder__feedback *f;
    larder_report r;
    larder__losses told;
    check_ok(larder__feedback_open(&f, 4, 3));
    check_ok(larder__feedback_note(
        f, 0, 0, 2, ids, labels,
        &(larder_feedback){.size = sizeof(larder_feedback), .loss = losses}, NULL, NULL));
    check_ok(larder__feedback_note_accuracy(f, 1, 0.25));
    assert_int_equal(larder__feedback_note_accuracy(f, 5, 0.5), LARDER_E_STATE); /* too early */
    assert_true(larder__feedback_take(f, 0, &r, &told));
    assert_int_equal(r.n, 2);
    assert_int_equal(r.ids[1], 1);
    assert_true(r.loss[0] == 0.5f && isnan(r.accuracy));
    assert_true(larder__feedback_take(f, 1, &r, &told));
    assert_true(r.n == 0 && r.accuracy == 0.25);
    assert_false(larder__feedback_take(f, 2, &r, &told));
    assert_int_equal(larder__feedback_note_accuracy(f, 2, 0.5), LARDER_E_STATE); /* too late */
    larder__feedback_close(&f);
}

/* Embeddings of 16 bits are floats from here on. */
static void narrow_embeddings_widen(void **state) {
    (void)state;
    const uint16_t f16[4] = {0x3c00, 0xc000, 0x0001, 0x7c00};  /* 1, -2, 2^-24, infinity */
    const uint16_t bf16[4] = {0x3f80, 0xc000, 0x3380, 0x7f80}; /* the same */
    for (int kind = 0; kind < 2; kind++) {
        larder__feedback *f;
        larder_report r;
        larder__losses told;
        larder_feedback fb = {.size = sizeof fb,
                              .embeddings = kind ? bf16 : f16,
                              .dim = 2,
                              .embeddings_dtype = kind ? LARDER_BF16 : LARDER_F16};
        check_ok(larder__feedback_open(&f, 4, 3));
        check_ok(larder__feedback_note(f, 0, 0, 2, ids, labels, &fb, NULL, NULL));
        assert_true(larder__feedback_take(f, 0, &r, &told));
        assert_true(r.embeddings[0] == 1 && r.embeddings[1] == -2 && isinf(r.embeddings[3]));
        assert_true(r.embeddings[2] == 0x1p-24f && r.dim == 2);
        larder__feedback_close(&f);
    }
}

/* Batch numbers at the end of their range: next + size wraps around. */
static void hostile_places_are_refused(void **state) {
    (void)state;
    for (uint64_t ahead = 0; ahead < 8; ahead++) {
        larder__feedback *f;
        larder_writer w = {0};
        check_ok(larder__feedback_open(&f, 4, 3));
        larder_write_u64(&w, UINT64_MAX - 1);
        larder_write_u32(&w, 1);
        larder_write_u32(&w, 1);
        larder_write_u64(&w, UINT64_MAX - 1 + ahead);
        larder_write_u64(&w, 0);
        larder_write_f64(&w, 0.5);
        larder_write_u32(&w, 0);
        larder__losses_save(&(larder__losses){0}, &w);
        larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
        assert_int_equal(larder__feedback_load(f, 0, &r), ahead < 2 ? 0 : LARDER_E_FORMAT);
        larder__writer_free(&w);
        larder__feedback_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_note_comes_back_once),
        cmocka_unit_test(narrow_embeddings_widen),
        cmocka_unit_test(hostile_places_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
