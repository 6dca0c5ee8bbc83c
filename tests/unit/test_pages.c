/* Shared memory that is reserved and given back a piece at a time. */
#include "base/mem.h"
#include "check.h"
#include "unix/arena.h"

#include <fcntl.h>
#include <larder/plugin.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE ((uint64_t)LARDER__PAGES_PIECE)
enum { PIECES = 5, REST = 4096 * 3 };

static uint64_t reserved(int fd) {
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

/* Reserved in order, and no more than is counted. */
static void a_piece_at_a_time(void **st) {
    (void)st;
    larder__purse purse = {.most = UINT64_MAX};
    larder__all_pages all = {.open = NULL};
    larder__pages *p, *small;
    larder__mem_charge(&purse);
    check_ok(larder__pages_open(&p, PIECES * PIECE + REST - 100, &all, false));
    uint64_t besides = purse.used - PIECE;
    assert_true(besides < 4096);
    assert_int_equal(larder__pages_bytes(p), PIECES * PIECE + REST);
    for (uint64_t i = 1; i <= PIECES; i++) {
        assert_int_equal(larder__pages_ready(p), i * PIECE);
        assert_int_equal(reserved(larder__pages_fd(p)), i * PIECE);
        assert_int_equal(purse.used, i * PIECE + besides);
        assert_true(larder__pages_to_do(&all));
        assert_int_equal(larder__pages_work(&all), i < PIECES);
    }
    assert_false(larder__pages_to_do(&all));
    assert_int_equal(larder__pages_work(&all), 0);
    assert_int_equal(larder__pages_reserve(p), 0);
    assert_int_equal(reserved(larder__pages_fd(p)), PIECES * PIECE + REST);
    check_ok(larder__pages_open(&small, 5000, &all, false));
    assert_false(larder__pages_to_do(&all));
    larder__pages_close(&small, true); /* at once: it is but a piece */
    assert_false(larder__pages_to_do(&all));

    int kept = dup(larder__pages_fd(p));
    assert_true(kept >= 0);
    memset(larder__pages_base(p), 7, PIECES * PIECE + REST);
    int fd = larder__pages_fd(p);
    larder__pages_close(&p, true);
    assert_null(p);
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* what waits holds none */
    uint64_t left = PIECES * PIECE + REST;
    for (int i = 0; left; i++) {
        assert_true(larder__pages_to_do(&all) && i <= PIECES);
        assert_int_equal(reserved(kept), left);
        assert_true(purse.used >= left && purse.used < left + 4096);
        int rc = larder__pages_work(&all);
        left -= left < PIECE ? left : PIECE;
        assert_int_equal(rc, left > 0);
    }
    assert_int_equal(reserved(kept), 0);
    assert_int_equal(purse.used, 0);
    assert_false(larder__pages_yield(&all));
    close(kept);
    larder__mem_charge(NULL);
}

/* Who looks where nothing is reserved yet has memory there, which is given back in the same way,
 * and counted unless that is too much. */
static void touched_before_it_was_reserved(void **st) {
    (void)st;
    larder__purse purse = {.most = PIECES * PIECE + 4096};
    larder__all_pages all = {.open = NULL};
    larder__pages *p;
    larder__mem_charge(&purse);
    for (int round = 0; round < 3; round++) {
        check_ok(larder__pages_open(&p, PIECES * PIECE, &all, false));
        if (round == 1)
            assert_int_equal(larder__pages_work(&all), 1);
        int kept = dup(larder__pages_fd(p));
        assert_true(kept >= 0);
        volatile unsigned char *at = larder__pages_base(p);
        for (uint64_t i = 0; i < PIECES * PIECE; i += 4096)
            (void)at[i];
        assert_int_equal(reserved(kept), PIECES * PIECE);
        void *other = round == 2 ? larder__malloc(PIECE) : NULL;
        larder__pages_close(&p, true);
        for (uint64_t left = PIECES; left > 0; left--) {
            assert_int_equal(reserved(kept), left * PIECE);
            assert_true(purse.used >= (other ? 1 : left) * PIECE && purse.used <= purse.most);
            assert_int_equal(larder__pages_work(&all), left > 1);
        }
        assert_int_equal(reserved(kept), 0);
        larder__free(other);
        assert_int_equal(purse.used, 0);
        close(kept);
    }
    larder__mem_charge(NULL);
}

/* Nor does it make room for itself by others that go: that would hold up everybody. */
static void closed_one_after_the_other(void **st) {
    (void)st;
    larder__all_pages all = {.open = NULL};
    larder__purse purse = {.most = PIECES * PIECE + 8192, .more = larder__pages_yield, .arg = &all};
    larder__pages *p;
    larder__mem_charge(&purse);
    for (int touched = 0; touched < 2; touched++) {
        check_ok(larder__pages_open(&p, PIECES * PIECE, &all, false));
        while (larder__pages_work(&all) == 1) {
        }
        int kept = dup(larder__pages_fd(p));
        assert_true(kept >= 0);
        larder__pages_close(&p, true);
        check_ok(larder__pages_open(&p, PIECES * PIECE, &all, false)); /* for its first piece */
        assert_int_equal(reserved(kept), (PIECES - 1) * PIECE);
        volatile unsigned char *at = larder__pages_base(p);
        for (uint64_t i = 0; touched && i < PIECES * PIECE; i += 4096)
            (void)at[i];
        larder__pages_close(&p, true);
        assert_int_equal(reserved(kept), (PIECES - 1) * PIECE);
        int pieces = 1;
        while (larder__pages_work(&all) == 1)
            pieces++;
        assert_int_equal(pieces, PIECES - 1 + (touched ? PIECES : 0));
        assert_int_equal(reserved(kept), 0);
        assert_int_equal(purse.used, 0);
        close(kept);
    }
    larder__mem_charge(NULL);
}

/* Of several the first that has something to do; what is closed comes first, so that there is room.
 */
static void many(void **st) {
    (void)st;
    enum { ALL = 6 };
    larder__purse purse = {.most = UINT64_MAX};
    larder__all_pages all = {.open = NULL};
    larder__pages *p[ALL];
    larder_rng rng;
    larder_rng_seed(&rng, 4, 0);
    larder__mem_charge(&purse);
    for (int round = 0; round < 40; round++) {
        uint64_t sum = 0;
        for (int i = 0; i < ALL; i++) {
            uint64_t bytes = 1 + larder_rng_below(&rng, 4 * LARDER__PAGES_PIECE);
            check_ok(larder__pages_open(&p[i], bytes, &all, false));
            sum += larder__pages_bytes(p[i]);
        }
        for (uint32_t n = larder_rng_below(&rng, 24); n > 0; n--)
            larder__pages_work(&all);
        for (int left = ALL; left > 0; left--) { /* in any order, with work in between */
            int i = (int)larder_rng_below(&rng, ALL);
            while (!p[i])
                i = (i + 1) % ALL;
            uint64_t ready = larder__pages_ready(p[i]), before = purse.used;
            bool vacant = larder_rng_below(&rng, 3) > 0;
            larder__pages_close(&p[i], vacant);
            if (vacant && ready > PIECE)
                assert_int_equal(purse.used, before); /* until it is done */
            else
                assert_true(purse.used <= before - ready);
            for (uint32_t n = larder_rng_below(&rng, 4); n > 0; n--)
                larder__pages_work(&all);
            assert_true(purse.used < 2 * sum);
        }
        if (round % 2)
            larder__pages_end(&all);
        else
            while (larder__pages_work(&all) == 1) {
            }
        assert_false(larder__pages_to_do(&all));
        assert_int_equal(purse.used, 0);
    }
    larder__mem_charge(NULL);
}

/* As long as there may be no more, there is none, and then there is. */
static void no_more_now(void **st) {
    (void)st;
    larder__purse purse = {.most = 2 * PIECE + 4096};
    larder__all_pages all = {.open = NULL};
    larder__pages *p = NULL, *q = NULL;
    larder__mem_charge(&purse);
    check_ok(larder__pages_open(&p, 3 * PIECE, &all, false));
    assert_int_equal(larder__pages_work(&all), 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(larder__pages_work(&all), LARDER_E_FULL);
        assert_non_null(
            strstr(larder_errmsg(), "more than there may be now behind the first 16777216"));
        assert_true(larder__pages_to_do(&all));
    }
    assert_int_equal(larder__pages_open(&q, 1, &all, false), LARDER_E_FULL);
    assert_null(q);
    purse.most += PIECE;
    assert_int_equal(larder__pages_work(&all), 0);
    assert_int_equal(larder__pages_ready(p), 3 * PIECE);
    larder__pages_close(&p, false);
    assert_int_equal(purse.used, 0);
    larder__mem_charge(NULL);
}

/* Whoever is served meanwhile gets some and no more of what nobody has reserved; all may have what
 * is there. */
static void limited(void **st) {
    (void)st;
    larder__all_pages all = {.open = NULL};
    larder__arena *a;
    check_ok(larder__arena_open(&a, PIECES * PIECE, &all, false));
    all.limited = true;
    all.left = 2 * PIECE + 1;
    larder__arena_block b[PIECES];
    for (int i = 0; i < 3; i++)
        assert_int_not_equal(b[i] = larder__arena_take(a, PIECE), LARDER__NO_BLOCK);
    assert_int_equal(larder__arena_take(a, PIECE), LARDER__NO_BLOCK);
    assert_int_equal(reserved(larder__arena_fd(a)), 3 * PIECE);
    all.limited = false;
    assert_int_equal(larder__pages_work(&all), 1);
    all.limited = true;
    all.left = 0;
    assert_int_not_equal(b[3] = larder__arena_take(a, PIECE), LARDER__NO_BLOCK);
    assert_int_equal(larder__arena_take(a, 1), LARDER__NO_BLOCK);
    all.limited = false;
    assert_int_not_equal(b[4] = larder__arena_take(a, PIECE), LARDER__NO_BLOCK);
    for (int i = 0; i < PIECES; i++)
        larder__arena_give(a, b[i]);
    assert_true(larder__arena_sound(a));
    larder__arena_close(&a);
}

/* The kernel has no more: that is said once, and what there is stays. */
static void refused(void **st) {
    (void)st;
    larder__purse purse = {.most = UINT64_MAX};
    larder__all_pages all = {.open = NULL};
    larder__pages *p, *q;
    larder__mem_charge(&purse);
    check_ok(larder__pages_open(&p, 3 * PIECE, &all, false));
    uint64_t used = purse.used;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC); /* which reserves nothing */
    int fd = dup(larder__pages_fd(p));
    assert_true(null >= 0 && fd >= 0);
    assert_int_equal(dup2(null, larder__pages_fd(p)), larder__pages_fd(p));
    assert_true(larder__pages_reserve(p) < 0);
    assert_int_equal(dup2(fd, larder__pages_fd(p)), larder__pages_fd(p));
    assert_true(larder__pages_to_do(&all));
    assert_int_equal(larder__pages_work(&all), LARDER_E_NOMEM);
    assert_non_null(
        strstr(larder_errmsg(), "behind the first 8388608; give the daemon a smaller --cache"));
    assert_int_equal(purse.used, used);
    assert_false(larder__pages_to_do(&all));
    assert_int_equal(larder__pages_work(&all), 0);
    check_ok(larder__pages_open(&q, 2 * PIECE, &all, false)); /* others are looked after still */
    assert_true(larder__pages_to_do(&all));
    assert_int_equal(larder__pages_work(&all), 0);
    assert_int_equal(larder__pages_ready(q), 2 * PIECE);
    assert_int_equal(larder__pages_ready(p), PIECE);
    larder__pages_close(&q, true);
    larder__pages_close(&p, true);
    larder__pages_end(&all);
    assert_int_equal(purse.used, 0);
    close(fd);
    close(null);
    larder__mem_charge(NULL);
}

/* What strangers write to is counted, and the kernel is asked for nothing that they could hold up.
 */
static void strangers_write(void **st) {
    (void)st;
    larder__purse purse = {.most = UINT64_MAX};
    larder__all_pages all = {.open = NULL};
    larder__pages *p;
    larder__mem_charge(&purse);
    check_ok(larder__pages_open(&p, 3 * PIECE, &all, true));
    while (larder__pages_work(&all)) {
    }
    assert_true(purse.used >= 3 * PIECE);
    assert_int_equal(reserved(larder__pages_fd(p)), 0);
    int kept = dup(larder__pages_fd(p));
    assert_int_equal(pwrite(kept, "x", 1, 2 * LARDER__PAGES_PIECE), 1);
    larder__pages_close(&p, true);
    assert_true(reserved(kept) > 0);
    assert_false(larder__pages_to_do(&all));
    assert_int_equal(purse.used, 0);
    close(kept);
    larder__mem_charge(NULL);
}

/* Memory of what is closed is there for whoever asks for some, as much of it as it takes. */
static void yields(void **st) {
    (void)st;
    larder__all_pages all = {.open = NULL};
    larder__purse purse = {.most = 4 * PIECE, .more = larder__pages_yield, .arg = &all};
    larder__pages *p;
    larder__mem_charge(&purse);
    check_ok(larder__pages_open(&p, 3 * PIECE, &all, false));
    while (larder__pages_work(&all)) {
    }
    larder__pages_close(&p, true);
    assert_true(purse.used >= 3 * PIECE);
    void *a = larder__malloc(2 * PIECE);
    assert_true(a && purse.used <= purse.most && purse.used >= 3 * PIECE);
    assert_true(larder__pages_to_do(&all));
    assert_null(larder__malloc(3 * PIECE)); /* all of it is not enough */
    assert_false(larder__pages_to_do(&all));
    larder__free(a);
    assert_int_equal(purse.used, 0);
    larder__mem_charge(NULL);
}

/* Blocks lie in what is reserved, whoever had it reserved, and all of it becomes blocks. */
static void an_arena_grows(void **st) {
    (void)st;
    enum { HELD = 256, LARGEST = 2 << 20 };
    larder__all_pages all = {.open = NULL};
    for (int round = 0; round < 6; round++) {
        larder__arena *a;
        larder__arena_block held[HELD];
        uint64_t end = 0;
        size_t n = 0;
        larder_rng rng;
        larder_rng_seed(&rng, 9, (uint64_t)round);
        check_ok(larder__arena_open(&a, PIECES * PIECE, &all, false));
        for (int step = 0; step < 3000; step++) {
            if (round % 3 == 1 && larder_rng_below(&rng, 100) == 0)
                larder__pages_work(&all);
            if (n < HELD && larder_rng_below(&rng, 5) < 3) {
                uint64_t bytes = 1 + larder_rng_below(&rng, LARGEST);
                larder__arena_block b = larder__arena_take(a, bytes);
                if (b == LARDER__NO_BLOCK)
                    continue;
                uint64_t to = larder__arena_offset(a, b) + larder__arena_length(a, b);
                assert_true(to <= reserved(larder__arena_fd(a)));
                end = to > end ? to : end;
                held[n++] = b;
            } else if (n) {
                size_t i = larder_rng_below(&rng, (uint32_t)n);
                larder__arena_give(a, held[i]);
                held[i] = held[--n];
            }
            if (step % 50 == 0)
                assert_true(larder__arena_sound(a));
        }
        if (round % 3 == 0) /* nobody reserves what nobody wants */
            assert_true(reserved(larder__arena_fd(a)) < end + 2 * PIECE);
        while (n)
            larder__arena_give(a, held[--n]);
        assert_true(larder__arena_sound(a));
        assert_int_equal(larder__arena_taken(a), 0);
        assert_int_equal(larder__arena_take(a, PIECES * PIECE + 1), LARDER__NO_BLOCK);
        larder__arena_block whole = larder__arena_take(a, PIECES * PIECE);
        assert_int_not_equal(whole, LARDER__NO_BLOCK);
        assert_int_equal(larder__arena_take(a, 1), LARDER__NO_BLOCK);
        assert_true(larder__arena_sound(a));
        larder__arena_give(a, whole);
        assert_false(larder__pages_to_do(&all));
        if (round % 2)
            larder__arena_vacate(a);
        larder__arena_close(&a);
        larder__pages_end(&all);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_piece_at_a_time),
        cmocka_unit_test(touched_before_it_was_reserved),
        cmocka_unit_test(closed_one_after_the_other),
        cmocka_unit_test(many),
        cmocka_unit_test(no_more_now),
        cmocka_unit_test(refused),
        cmocka_unit_test(limited),
        cmocka_unit_test(strangers_write),
        cmocka_unit_test(yields),
        cmocka_unit_test(an_arena_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
