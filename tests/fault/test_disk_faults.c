/* A disk that fails, hangs, fills up or wears out. */
#include "bad_disk.h"

#include "base/mem.h"

#include <errno.h>
#include <string.h>

/* ---- errors ---------------------------------------------------------------------------------- */

static void test_write_errors(void **state) {
    (void)state;
    static const int errors[] = {ENOSPC, EROFS, EIO};
    larder__disk *d = bad_disk_open(4 * MIB);
    bad_disk_put(d, 0, 5000);
    for (uint64_t i = 0; i < 3; i++) {
        uint64_t before = disk_figures(d).refused, used = disk_figures(d).used_bytes;
        bad_disk.write_error = errors[i];
        bad_disk_put(d, 10 + i, 5000);
        assert_false(larder__disk_has(d, 10 + i));
        bad_disk_noted(d, strerror(errors[i]));
        bad_disk.write_error = 0;
        bad_disk.tries = 0;
        bad_disk_put(d, 20 + i, 5000); /* not even tried */
        assert_int_equal(bad_disk.tries, 0);
        assert_int_equal(disk_figures(d).refused, before + 1);
        bad_disk_check(d, 0, 5000);
        bad_disk.ahead = bad_disk.ahead + 31;
        bad_disk_put(d, 20 + i, 5000);
        bad_disk_check(d, 20 + i, 5000);
        assert_int_equal(disk_figures(d).used_bytes, used + 2 * BLOCK); /* none was lost */
    }
    larder__disk_close(&d);
}

static void test_read_error(void **state) {
    (void)state;
    larder__disk *d = bad_disk_open(4 * MIB);
    bad_disk_put(d, 0, 5000);
    bad_disk_put(d, 1, 5000);
    bad_disk.read_error = EIO;
    assert_null(disk_get(d, 0));
    bad_disk_noted(d, strerror(EIO));
    bad_disk.read_error = 0;
    assert_false(larder__disk_has(d, 1)); /* the disk is left alone */
    assert_null(disk_get(d, 1));
    bad_disk.ahead = bad_disk.ahead + 31;
    bad_disk_check(d, 1, 5000);
    bad_disk_check(d, 0, 5000);
    assert_int_equal(disk_figures(d).damaged, 0);
    larder__disk_close(&d);
}

static void test_short(void **state) {
    (void)state;
    larder__disk *d = bad_disk_open(4 * MIB);
    bad_disk.piece = BLOCK;
    bad_disk.interrupts = 2;
    bad_disk_put(d, 0, 100000);
    bad_disk.interrupts = 3;
    bad_disk_check(d, 0, 100000);
    bad_disk.piece = 3 * BLOCK;
    bad_disk_check(d, 0, 100000);
    larder__disk_close(&d);
}

/* Given up; the read comes when nobody waits any more, and may be asked for again later. */
static void test_slow_read(void **state) {
    (void)state;
    larder__disk_conf conf = disk_conf(bad_disk.folder, 4 * MIB, 1, 1000);
    conf.patience = 0.02;
    larder__disk *d = bad_disk_open_with(&conf);
    bad_disk_put(d, 0, 50000);
    bad_disk_gate(&bad_disk.reads_hang, true);
    larder__disk_fetch *f = larder__disk_fetch_new(
        &(larder__value){.id = 0, .form = DISK_FORM, .held = LARDER__ANY_FORM});
    larder__disk_send(d, &f, 1);
    assert_null(larder__disk_receive(d, f));
    bad_disk_noted(d, "too long");
    assert_false(larder__disk_has(d, 0));
    bad_disk.ahead = bad_disk.ahead + 31;
    assert_true(larder__disk_has(d, 0));
    larder__disk_send(d, &f, 1); /* its memory is still out */
    assert_null(larder__disk_receive(d, f));
    larder__disk_fetch_unref(&f);
    bad_disk_await_hanging();
    bad_disk_gate(&bad_disk.reads_hang, false);
    larder__disk_close(&d);
    d = bad_disk_open(4 * MIB);
    bad_disk_check(d, 0, 50000);
    larder__disk_close(&d);
}

/* Closed while a read hangs: what it writes to stays, for good. */
static void test_close_while_hanging(void **state) {
    (void)state;
    larder__disk_conf conf = disk_conf(bad_disk.folder, 4 * MIB, 1, 1000);
    conf.patience = 0.02;
    larder__disk *d = bad_disk_open_with(&conf);
    bad_disk_put(d, 0, 50000);
    bad_disk_gate(&bad_disk.reads_hang, true);
    assert_null(disk_get(d, 0));
    bad_disk_await_hanging();
    larder__disk_close(&d);
    bad_disk_gate(&bad_disk.reads_hang, false);
    bad_disk_await_none(); /* the thread lets go of it by itself */
}

/* ---- what is not written --------------------------------------------------------------------- */

static void test_spare_stops_a_write(void **state) {
    (void)state;
    larder__disk *d = bad_disk_open(4 * MIB);
    bad_disk_gate(&bad_disk.writes_hang, true);
    disk_put(d, 1, 0, 5000);
    bad_disk_await_hanging();
    disk_put(d, 1, 1, 5000);
    disk_put(d, 1, 2, 5000);
    larder__disk_spare(d, 0); /* on its way already: it is spare when it comes */
    larder__disk_spare(d, 1);
    bad_disk_gate(&bad_disk.writes_hang, false);
    assert_true(larder__disk_settle(d, PATIENCE));
    assert_false(larder__disk_has(d, 1));
    bad_disk_check(d, 2, 5000);
    uint64_t freed;
    check_ok(larder__disk_trim(bad_disk.folder, 0, &freed));
    assert_false(larder__disk_has(d, 0));
    assert_true(larder__disk_has(d, 2));
    larder__disk_close(&d);
}

static void test_full_queue(void **state) {
    (void)state;
    larder__disk *d = bad_disk_open(128 * MIB);
    bad_disk_gate(&bad_disk.writes_hang, true);
    for (uint64_t k = 0; k < 20; k++) /* 16 of them are 64 MiB */
        disk_put(d, 1, k, 4 * MIB - 40);
    assert_int_equal(disk_figures(d).refused, 4);
    assert_false(larder__disk_settle(d, 0));
    bad_disk_gate(&bad_disk.writes_hang, false);
    assert_true(larder__disk_settle(d, PATIENCE));
    assert_int_equal(disk_figures(d).writes, 16);
    larder__disk_close(&d);
}

/* So many bytes a second, ten seconds' worth at once. */
static void test_wear(void **state) {
    (void)state;
    larder__disk_conf conf = disk_conf(bad_disk.folder, 8 * MIB, 1, 1000);
    conf.wear = 8 * BLOCK;
    larder__disk *d = bad_disk_open_with(&conf);
    bad_disk.ahead = bad_disk.ahead + 1000;
    for (uint64_t k = 0; k < 50; k++)
        bad_disk_put(d, k, EIGHT);
    uint64_t first = disk_figures(d).writes;
    assert_true(first >= 10 && first <= 10 + PATIENCE); /* and one a second of this test's own */
    assert_int_equal(disk_figures(d).refused, 50 - first);
    bad_disk.ahead = bad_disk.ahead + 5;
    for (uint64_t k = 100; k < 150; k++)
        bad_disk_put(d, k, EIGHT);
    assert_true(disk_figures(d).writes >= first + 5);
    larder__disk_close(&d);
}

/* Nobody reads what is written: values that displace others are written ever more rarely, and
 * again when they are read. */
static void test_guard(void **state) {
    (void)state;
    larder__disk *d = bad_disk_open(2 * MIB);
    uint64_t room = larder__disk_room(d) / (8 * BLOCK), key = 0;
    for (; key < room; key++)
        bad_disk_put(d, key, EIGHT);
    assert_int_equal(disk_figures(d).writes, room);
    uint64_t writes[2];
    for (int i = 0; i < 2; i++) {
        uint64_t before = disk_figures(d).writes;
        for (int n = 0; n < 320; n++) {
            for (uint64_t k = 0; k < 1000; k++)
                larder__disk_spare(d, k);
            bad_disk_put(d, key++ % 1000, EIGHT);
        }
        writes[i] = disk_figures(d).writes - before;
    }
    assert_true(writes[0] < 100 && writes[0] > 5);
    assert_in_range(writes[1], 3, 12); /* one in 64, and what its bounds admit */
    for (int i = 0; i < 2; i++) {
        uint64_t before = disk_figures(d).writes;
        for (int n = 0; n < 320; n++) {
            for (uint64_t k = 0, read = 0; k < 1000; k++) {
                if (read < 2 && larder__disk_has(d, k)) {
                    bad_disk_check(d, k, EIGHT);
                    read++;
                }
                larder__disk_spare(d, k);
            }
            bad_disk_put(d, key++ % 1000, EIGHT);
        }
        writes[i] = disk_figures(d).writes - before;
    }
    assert_in_range(writes[1], 319, 320);
    larder__disk_close(&d);
}

/* Each allocation fails once: the call says so, or does without. */
static void test_no_memory(void **state) {
    (void)state;
    larder__disk *d = bad_disk_open(4 * MIB);
    larder__disk_close(&d);
    larder_buf *b = disk_bytes(1, 3, 5000);
    larder__value v = {.id = 3, .size = 5000, .form = DISK_FORM, .held = DISK_FORM};
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        larder__disk_conf conf = disk_conf(bad_disk.folder, 4 * MIB, 1, 1000);
        larder__mem_fail_at(n, 0);
        int rc = larder__disk_open(&d, &conf);
        if (rc == 0) {
            larder__disk_put(d, &v, b);
            larder__disk_settle(d, PATIENCE);
            larder__disk_fetch *f = larder__disk_fetch_new(&v);
            if (f) {
                larder__disk_send(d, &f, 1);
                larder_buf *got = larder__disk_receive(d, f);
                assert_true(!got || disk_same(1, 3, 5000, got));
                larder_buf_unref(&got);
            }
            larder__disk_fetch_unref(&f);
        }
        failed = larder__mem_failed();
        larder__mem_fail_at(0, 0);
        assert_true(rc == 0 || (failed && rc == LARDER_E_NOMEM));
        larder__disk_close(&d);
    }
    larder_buf_unref(&b);
    d = bad_disk_open(4 * MIB);
    bad_disk_check(d, 3, 5000);
    larder__disk_close(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, bad_disk_setup, bad_disk_teardown)
        T(test_write_errors),
        T(test_read_error),
        T(test_short),
        T(test_slow_read),
        T(test_close_while_hanging),
        T(test_spare_stops_a_write),
        T(test_full_queue),
        T(test_wear),
        T(test_guard),
        T(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
