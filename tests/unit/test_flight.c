/* Flights: found by their keys however many there are, one for each key, and gone when they land.
 */
#include "check.h"

#include "base/err.h"
#include "base/mem.h"
#include "cache/flight.h"

enum { MANY = 5000 };

static larder__flight *under_way[MANY];

/* In steps, as batches are decided: the table grows while flights are listed in it. */
static void start_many(larder__flights *f) {
    for (size_t i = 0; i < MANY; i++) {
        if (i % 100 == 0)
            check_ok(larder__flights_reserve(f, 100));
        under_way[i] = larder__flights_start(f, i * 7919, 3, 0, i % 5 != 0);
    }
}

static void found_while_listed(void **state) {
    (void)state;
    larder__flights f;
    larder__flights_init(&f);
    assert_null(larder__flights_find(&f, 1)); /* before there is room for any */
    start_many(&f);
    for (size_t i = 0; i < MANY; i++)
        assert_ptr_equal(larder__flights_find(&f, i * 7919), i % 5 ? under_way[i] : NULL);
    assert_null(larder__flights_find(&f, 1));
    for (size_t i = 0; i < MANY; i += 2)
        larder__flight_forget(under_way[i]);
    for (size_t i = 0; i < MANY; i++)
        assert_ptr_equal(larder__flights_find(&f, i * 7919), i % 5 && i % 2 ? under_way[i] : NULL);
    for (size_t i = 0; i < MANY; i++)
        larder__flights_land(&f, under_way[i], NULL, 0, LARDER_E_IO, "gone");
    for (size_t i = 0; i < MANY; i++)
        assert_null(larder__flights_find(&f, i * 7919));
    assert_int_equal(f.spares, f.made);
    start_many(&f); /* those that landed serve again */
    assert_true(f.made <= MANY + 100);
    larder__flights_free(&f); /* with listed ones: frees those, we the rest */
    for (size_t i = 0; i < MANY; i += 5)
        larder__free(under_way[i]);
}

/* A table that cannot grow leaves the old one as it was. */
static void no_memory(void **state) {
    (void)state;
    larder__flights f;
    larder__flights_init(&f);
    check_ok(larder__flights_reserve(&f, 1000));
    larder__flight *one = larder__flights_start(&f, 42, 3, 0, true);
    for (uint64_t n = 1; n < 50; n += 7) {
        larder__mem_fail_at(n, 1);
        int rc = larder__flights_reserve(&f, 3000);
        larder__mem_fail_at(0, 0);
        assert_int_equal(rc, LARDER_E_NOMEM);
        assert_ptr_equal(larder__flights_find(&f, 42), one);
    }
    check_ok(larder__flights_reserve(&f, 3000));
    assert_ptr_equal(larder__flights_find(&f, 42), one);
    larder__flights_land(&f, one, NULL, 0, LARDER_E_IO, "gone");
    larder__flights_free(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found_while_listed),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
