/* The linked list over slots against an array, and its saved form against hostile bytes. */
#include "base/list.h"
#include "base/state.h"
#include "check.h"

#include <string.h>

enum { SLOTS = 50 };

static void test_against_array(void **st) {
    (void)st;
    larder__link links[SLOTS];
    larder__list l;
    larder__list_init(&l);
    larder_slot twin[SLOTS]; /* oldest first */
    bool in[SLOTS] = {0};
    int n = 0;
    larder_rng rng;
    larder_rng_seed(&rng, 5, 0);
    for (int step = 0; step < 20000; step++) {
        larder_slot s = larder_rng_below(&rng, SLOTS);
        if (in[s]) {
            int at = 0;
            while (twin[at] != s)
                at++;
            memmove(twin + at, twin + at + 1, (size_t)(n - at - 1) * sizeof *twin);
            n--;
            larder__list_cut(&l, links, s);
        } else {
            twin[n++] = s;
            larder__list_push(&l, links, s);
        }
        in[s] = !in[s];
        int i = 0;
        for (larder_slot at = l.oldest; at != LARDER_NO_SLOT; at = links[at].newer, i++)
            assert_int_equal(at, twin[i]);
        assert_int_equal(i, n);
        for (larder_slot at = l.newest; at != LARDER_NO_SLOT; at = links[at].older)
            assert_int_equal(at, twin[--i]);
    }
}

/* Residents 0, 2 and 3 of four slots. */
static const uint32_t key_of[4] = {7, UINT32_MAX, 8, 9};
static const larder_slots table = {.keys = 10, .used = 4, .resident = 3, .key_of = key_of};

static int load(const uint32_t *words, size_t n, larder__list *l, larder__link *links) {
    larder_writer w = {0};
    for (size_t i = 0; i < n; i++)
        larder_write_u32(&w, words[i]);
    larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
    int rc = larder__list_load(l, links, &table, &r);
    larder__writer_free(&w);
    return rc;
}

static void test_load(void **st) {
    (void)st;
    larder__link links[4];
    larder__list l;
    const uint32_t good[] = {3, 2, 0, 3};
    check_ok(load(good, 4, &l, links));
    assert_int_equal(l.oldest, 2);
    assert_int_equal(l.newest, 3);
    const uint32_t twice[] = {3, 2, 0, 2}, empty[] = {3, 2, 1, 0}, beyond[] = {3, 2, 0, 4},
                   few[] = {2, 2, 0}, many[] = {4, 2, 0, 3, 1}, cut[] = {3, 2, 0},
                   none[] = {3, 2, 0, UINT32_MAX};
    assert_int_equal(load(twice, 4, &l, links), LARDER_E_FORMAT);
    assert_int_equal(load(empty, 4, &l, links), LARDER_E_FORMAT);
    assert_int_equal(load(beyond, 4, &l, links), LARDER_E_FORMAT);
    assert_int_equal(load(few, 3, &l, links), LARDER_E_FORMAT);
    assert_int_equal(load(many, 5, &l, links), LARDER_E_FORMAT);
    assert_int_equal(load(cut, 3, &l, links), LARDER_E_FORMAT);
    assert_int_equal(load(none, 4, &l, links), LARDER_E_FORMAT);
    assert_int_equal(load(good, 0, &l, links), LARDER_E_FORMAT);
}

static void test_save_and_load(void **st) {
    (void)st;
    larder__link links[4], again[4];
    larder__list l, copy;
    larder__list_init(&l);
    const larder_slot order[] = {3, 0, 2};
    for (int i = 0; i < 3; i++)
        larder__list_push(&l, links, order[i]);
    larder_writer w = {0};
    larder__list_save(&l, links, &w);
    larder_reader r = {.at = w.bytes, .end = w.bytes + w.size};
    check_ok(larder__list_load(&copy, again, &table, &r));
    assert_int_equal(larder__read_left(&r), 0);
    int i = 0;
    for (larder_slot s = copy.oldest; s != LARDER_NO_SLOT; s = again[s].newer)
        assert_int_equal(s, order[i++]);
    assert_int_equal(i, 3);
    larder__writer_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_array),
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_save_and_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
