/* The shared arena: random taking and giving against a list of ranges that must not overlap. */
#include "check.h"
#include "unix/arena.h"

#include <larder/plugin.h>
#include <string.h>
#include <sys/mman.h>

enum { ARENA = 1 << 20, HELD = 512 };

typedef struct held {
    larder__arena_block block;
    uint64_t bytes;
    unsigned char mark;
} held;

static void check_marks(const larder__arena *a, const held *h) {
    const unsigned char *at = larder__arena_at(a, h->block);
    for (uint64_t i = 0; i < h->bytes; i++)
        assert_int_equal(at[i], h->mark);
}

/* Every block carries its own mark; a block that overlapped another would spoil it. */
static void test_random_use(void **st) {
    (void)st;
    larder__arena *a = NULL;
    larder_rng rng;
    held all[HELD] = {0};
    size_t refused = 0;
    larder_rng_seed(&rng, 3, 0);
    check_ok(larder__arena_open(&a, ARENA, NULL, false));
    for (int step = 0; step < 20000; step++) {
        held *h = &all[larder_rng_below(&rng, HELD)];
        if (h->bytes) {
            check_marks(a, h);
            larder__arena_give(a, h->block);
            h->bytes = 0;
        } else {
            h->bytes = 1 + larder_rng_below(&rng, 1u << larder_rng_below(&rng, 17));
            h->mark = (unsigned char)larder_rng_next(&rng);
            h->block = larder__arena_take(a, h->bytes);
            if (h->block == LARDER__NO_BLOCK) {
                h->bytes = 0;
                refused++;
                continue;
            }
            assert_int_equal(larder__arena_offset(a, h->block) % LARDER__ARENA_GRAIN, 0);
            assert_true(larder__arena_length(a, h->block) >= h->bytes);
            assert_true(larder__arena_length(a, h->block) < h->bytes + LARDER__ARENA_GRAIN);
            memset(larder__arena_at(a, h->block), h->mark, h->bytes);
        }
        if (step % 64 == 0)
            assert_true(larder__arena_sound(a));
    }
    assert_true(refused > 0); /* it was full at times, or this proves little */
    for (int i = 0; i < HELD; i++)
        if (all[i].bytes)
            larder__arena_give(a, all[i].block);
    assert_true(larder__arena_sound(a));
    assert_int_equal(larder__arena_taken(a), 0);
    larder__arena_block whole = larder__arena_take(a, ARENA); /* all pieces have become one again */
    assert_int_not_equal(whole, LARDER__NO_BLOCK);
    assert_int_equal(larder__arena_take(a, 1), LARDER__NO_BLOCK);
    larder__arena_give(a, whole);
    larder__arena_close(&a);
}

/* How much of it can be used with photographs of unequal size, all the time evicting at random. */
static void test_little_is_lost_to_holes(void **st) {
    (void)st;
    larder__arena *a = NULL;
    larder_rng rng;
    larder__arena_block blocks[4096];
    uint64_t sizes[4096], held_bytes = 0;
    size_t n = 0;
    larder_rng_seed(&rng, 4, 0);
    check_ok(larder__arena_open(&a, 64 << 20, NULL, false));
    for (int step = 0; step < 50000; step++) {
        uint64_t bytes = 20000 + larder_rng_below(&rng, 180000);
        larder__arena_block b;
        while ((b = larder__arena_take(a, bytes)) == LARDER__NO_BLOCK) {
            assert_true(n > 0);
            size_t i = larder_rng_below(&rng, (uint32_t)n);
            larder__arena_give(a, blocks[i]);
            held_bytes -= sizes[i];
            n--;
            blocks[i] = blocks[n];
            sizes[i] = sizes[n];
        }
        blocks[n] = b;
        sizes[n++] = bytes;
        held_bytes += bytes;
    }
    assert_true(held_bytes > (uint64_t)(0.75 * (64 << 20)));
    larder__arena_close(&a);
}

static void test_other_process_sees_it(void **st) {
    (void)st;
    larder__arena *a = NULL;
    check_ok(larder__arena_open(&a, 5000, NULL, false));
    assert_true(larder__arena_bytes(a) >= 5000);
    larder__arena_block b = larder__arena_take(a, 100);
    memset(larder__arena_at(a, b), 7, 100);
    unsigned char *other =
        mmap(NULL, larder__arena_bytes(a), PROT_READ, MAP_SHARED, larder__arena_fd(a), 0);
    assert_true(other != MAP_FAILED);
    assert_int_equal(other[larder__arena_offset(a, b) + 99], 7);
    munmap(other, larder__arena_bytes(a));
    larder__arena_close(&a);
}

static void test_impossible_sizes(void **st) {
    (void)st;
    larder__arena *a = NULL;
    assert_int_equal(larder__arena_open(&a, 0, NULL, false), LARDER_E_RANGE);
    assert_int_equal(larder__arena_open(&a, UINT64_MAX, NULL, false), LARDER_E_RANGE);
    assert_null(a);
    larder__arena_close(&a);
    check_ok(larder__arena_open(&a, 4096, NULL, false));
    assert_int_equal(larder__arena_take(a, UINT64_MAX), LARDER__NO_BLOCK);
    assert_int_equal(larder__arena_take(a, 4097), LARDER__NO_BLOCK);
    larder__arena_block b = larder__arena_take(a, 0); /* a block all the same */
    assert_int_not_equal(b, LARDER__NO_BLOCK);
    assert_true(larder__arena_sound(a));
    larder__arena_close(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_use),
        cmocka_unit_test(test_little_is_lost_to_holes),
        cmocka_unit_test(test_other_process_sees_it),
        cmocka_unit_test(test_impossible_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
