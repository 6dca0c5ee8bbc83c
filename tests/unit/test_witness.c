/* Which samples users are asked about, and who says the same. */
#include "base/state.h"
#include "check.h"
#include "unix/witness.h"

#include <string.h>

/* All of a small data set; of a large one different ones, the same for everybody who asks this
 * daemon about it. */
static void which_are_asked(void **st) {
    (void)st;
    const uint64_t keys[] = {0, 1, 5, 32, 33, 1000, (uint64_t)1 << 40, UINT64_MAX};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        larder__prove asked, again, other;
        larder__witness_ask(&asked, 7, 3, keys[i]);
        larder__witness_ask(&again, 7, 3, keys[i]);
        larder__witness_ask(&other, 8, 3, keys[i]);
        assert_int_equal(asked.count, keys[i] < LARDER__WITNESSES ? keys[i] : LARDER__WITNESSES);
        assert_memory_equal(&asked, &again, sizeof asked);
        assert_int_not_equal(asked.nonce, other.nonce);
        for (uint32_t a = 0; a < asked.count; a++) {
            assert_true(asked.keys[a] < keys[i]);
            for (uint32_t b = 0; b < a; b++)
                assert_int_not_equal(asked.keys[a], asked.keys[b]);
        }
    }
}

/* Each as often as any other: half of 64, of 4,000 daemons; within 6 standard deviations. */
static void by_chance(void **st) {
    (void)st;
    enum { KEYS = 64, DAEMONS = 4000 };
    int often[KEYS] = {0};
    for (uint64_t secret = 0; secret < DAEMONS; secret++) {
        larder__prove asked;
        larder__witness_ask(&asked, secret, 3, KEYS);
        for (uint32_t i = 0; i < asked.count; i++)
            often[asked.keys[i]]++;
    }
    for (int k = 0; k < KEYS; k++)
        assert_in_range(often[k], DAEMONS / 2 - 190, DAEMONS / 2 + 190);
}

static larder__testimony hear(const larder__prove *asked, const uint64_t *words, size_t bytes) {
    larder__testimony out;
    const unsigned char *at = (const unsigned char *)words;
    larder_reader r = {.at = at, .end = at + bytes};
    larder__witness_hear(&out, asked, &r);
    return out;
}

static void who_agrees(void **st) {
    (void)st;
    larder__prove asked;
    larder__witness w = {.user_count = 0};
    uint64_t words[LARDER__WITNESSES + 1] = {0};
    larder__witness_ask(&asked, 7, 3, 1000);
    for (size_t i = 0; i <= LARDER__WITNESSES; i++)
        words[i] = i * 77;
    const larder__testimony right = hear(&asked, words, sizeof words - 8);
    assert_int_equal(right.count, LARDER__WITNESSES);
    assert_false(larder__witness_agrees(&w, &right)); /* nobody has shown anything */
    w.shown = right;
    assert_true(larder__witness_agrees(&w, &right));
    for (size_t i = 0; i < LARDER__WITNESSES; i++) { /* one that is wrong is enough */
        words[i] ^= 1;
        larder__testimony wrong = hear(&asked, words, sizeof words - 8);
        assert_false(larder__witness_agrees(&w, &wrong));
        words[i] ^= 1;
    }
    const size_t lengths[] = {0, 8, sizeof words - 16, sizeof words - 9, sizeof words};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        larder__testimony none = hear(&asked, words, lengths[i]);
        assert_int_equal(none.count, 0);
        assert_false(larder__witness_agrees(&w, &none));
        w.shown = none; /* and who has shown nothing agrees with nobody who has not either */
        assert_false(larder__witness_agrees(&w, &none));
        w.shown = right;
    }
    for (uint32_t user = 0; user < 100; user++) {
        assert_false(larder__witness_knows(&w, user));
        check_ok(larder__witness_admit(&w, user));
        check_ok(larder__witness_admit(&w, user));
        assert_true(larder__witness_knows(&w, user));
    }
    assert_int_equal(w.user_count, 100);
    larder__witness_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(which_are_asked),
                                       cmocka_unit_test(by_chance), cmocka_unit_test(who_agrees)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
