/* Refcounted buffers and the account that knows the living ones. */
#include "base/buf.h"
#include "base/mem.h"
#include "check.h"

#include <pthread.h>
#include <string.h>

static void test_basics(void **st) {
    (void)st;
    const size_t sizes[] = {0, 1, 63, 64, 65, 100000};
    for (int i = 0; i < 6; i++) {
        larder_buf *b = larder_buf_new(sizes[i]);
        assert_non_null(b);
        assert_int_equal(larder_buf_size(b), sizes[i]);
        assert_int_equal((uintptr_t)larder_buf_data(b) % 16, 0);
        memset(larder_buf_data(b), 7, sizes[i]);
        larder_buf *second = larder_buf_ref(b);
        assert_ptr_equal(second, b);
        larder_buf_unref(&b);
        assert_null(b);
        if (sizes[i])
            assert_int_equal(((char *)larder_buf_data(second))[sizes[i] - 1], 7);
        larder_buf_unref(&second);
        larder_buf_unref(&second); /* NULL by now */
    }
    assert_null(larder_buf_new(SIZE_MAX));
    assert_null(larder_buf_new(SIZE_MAX - 100));
    larder__mem_fail_at(1, 0);
    assert_null(larder_buf_new(10));
    larder__mem_fail_at(0, 0);
}

static void test_account(void **st) {
    (void)st;
    larder__account *a = larder__account_new(), *mine = a;
    larder_buf *b = larder_buf_new(100), *c = larder_buf_new(50);
    larder__buf_enter(b, a);
    larder__buf_enter(b, a); /* counted once */
    larder__buf_enter(c, a);
    assert_int_equal(a->bytes, 150);
    larder_buf *again = larder_buf_ref(b);
    larder_buf_unref(&b);
    assert_int_equal(a->bytes, 150);
    larder_buf_unref(&again);
    assert_int_equal(a->bytes, 50);
    larder__account_unref(&mine); /* lives on until its last buffer goes */
    assert_int_equal(a->bytes, 50);
    larder_buf_unref(&c);
}

static void *ref_and_unref(void *arg) {
    for (int i = 0; i < 20000; i++) {
        larder_buf *b = larder_buf_ref(arg);
        larder_buf_unref(&b);
    }
    return NULL;
}

static void test_threads(void **st) {
    (void)st;
    larder_buf *b = larder_buf_new(8);
    pthread_t t[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&t[i], NULL, ref_and_unref, b), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(b->refs, 1);
    larder_buf_unref(&b);
}

static void note_done(void *arg, uint64_t tag) { *(uint64_t *)arg += tag; }

static void test_outside(void **st) {
    (void)st;
    char bytes[] = "elsewhere";
    uint64_t done = 0;
    larder_buf *b = larder__buf_outside(bytes, sizeof bytes, note_done, &done, 42), *again;
    assert_ptr_equal(larder_buf_data(b), bytes);
    assert_int_equal(larder_buf_size(b), sizeof bytes);
    larder__account *mine = larder__account_new(), *a = mine;
    larder__buf_enter(b, a);
    again = larder_buf_ref(b);
    larder_buf_unref(&b);
    assert_int_equal(done, 0);
    assert_int_equal(a->bytes, sizeof bytes);
    larder_buf_unref(&again);
    assert_int_equal(done, 42);
    assert_int_equal(a->bytes, 0);
    larder__account_unref(&mine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_basics),
        cmocka_unit_test(test_account),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
