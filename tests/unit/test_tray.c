/* A tray: what is laid down is taken in that order, whole, over its end and over the end of counts;
 * one that is full says so. */
#include "check.h"
#include "unix/tray.h"

#include <stdlib.h>
#include <string.h>

static unsigned char in[LARDER__TRAY_BYTES], out[LARDER__TRAY_BYTES + 1];

static void paint(unsigned char *to, uint32_t n, uint32_t seed) {
    for (uint32_t i = 0; i < n; i++)
        to[i] = (unsigned char)((i + seed * 7919) * 2654435761u >> 15);
}

static void in_order(void **st) {
    (void)st;
    enum { WAITING = 64 };
    larder__tray *t = aligned_alloc(64, sizeof *t);
    uint32_t laid = UINT32_MAX - 20 * LARDER__TRAY_BYTES + 1, taken = laid, refused = 0;
    uint32_t sizes[WAITING], first = 0, waiting = 0, seed = 0;
    assert_non_null(t);
    atomic_init(&t->taken, taken);
    for (uint32_t i = 0; i < 4000; i++) {
        uint32_t n = (uint32_t)((i * 2654435761u >> 7) % (i % 5 ? 3000 : 300000));
        paint(in, n, seed + waiting);
        if (waiting < WAITING && i % 3 && larder__tray_lay(t, &laid, in, n)) {
            sizes[(first + waiting++) % WAITING] = n;
            continue;
        }
        refused += i % 3 != 0;
        if (waiting == 0)
            continue;
        n = sizes[first++ % WAITING];
        paint(in, n, seed++);
        out[n] = 0xee;
        bool wanted = i % 7 != 0;
        larder__tray_take(t, &taken, wanted ? out : NULL, n);
        if (wanted)
            assert_memory_equal(in, out, n);
        assert_int_equal(out[n], 0xee);
        waiting--;
    }
    assert_true(refused > 0 && taken < LARDER__TRAY_BYTES * 1000u);
    free(t);
}

static void to_the_brim(void **st) {
    (void)st;
    larder__tray *t = aligned_alloc(64, sizeof *t);
    uint32_t laid = 0, taken = 0;
    assert_non_null(t);
    atomic_init(&t->taken, 0);
    paint(in, sizeof in, 1);
    assert_true(larder__tray_lay(t, &laid, in, 0));
    assert_int_equal(laid, 0);
    assert_true(larder__tray_lay(t, &laid, in, LARDER__TRAY_BYTES - 1));
    assert_false(larder__tray_lay(t, &laid, in, 1)); /* lines are whole */
    larder__tray_take(t, &taken, out, LARDER__TRAY_BYTES - 1);
    assert_memory_equal(in, out, LARDER__TRAY_BYTES - 1);
    assert_true(larder__tray_lay(t, &laid, in, LARDER__TRAY_BYTES));
    larder__tray_take(t, &taken, out, LARDER__TRAY_BYTES);
    assert_memory_equal(in, out, LARDER__TRAY_BYTES);
    atomic_store(&t->taken, laid + 64); /* a daemon that has taken more than there was */
    assert_false(larder__tray_lay(t, &laid, in, 1));
    free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_order), cmocka_unit_test(to_the_brim)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
