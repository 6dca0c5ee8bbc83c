#include "check.h"
#include "disk_kit.h"

#include "disk/disk_form.h"
#include "disk/disk_space.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MIB = 1 << 20, LONG_AGO = 60 };

static char folder[256];
static larder__disk *open_set(uint64_t budget, uint64_t identity, uint64_t keys) {
    larder__disk *d;
    larder__disk_conf conf = disk_conf(folder, budget, identity, keys);
    check_ok(larder__disk_open(&d, &conf));
    return d;
}
static void put(larder__disk *d, uint64_t identity, uint64_t key, uint32_t size) {
    disk_put(d, identity, key, size);
    assert_true(larder__disk_settle(d, LONG_AGO));
}
static void check_value(larder__disk *d, uint64_t identity, uint64_t key, uint32_t size) {
    assert_true(larder__disk_has(d, key));
    larder_buf *b = disk_get(d, key);
    assert_non_null(b);
    assert_true(disk_same(identity, key, size, b));
    larder_buf_unref(&b);
}
static int setup(void **state) {
    (void)state;
    check_folder(folder);
    return 0;
}
static int teardown(void **state) {
    (void)state;
    check_folder_remove(folder);
    return 0;
}

/* ---- what comes back ------------------------------------------------------------------------- */

static void test_sizes(void **state) {
    (void)state;
    static const uint32_t sizes[] = {0, 1, 7, 8, 4055, 4056, 4057, 110000, (64 << 20) + 5};
    size_t n = sizeof sizes / sizeof *sizes;
    larder__disk *d = open_set(160 * MIB, 7, 100);
    for (size_t i = 0; i < n; i++) {
        assert_false(larder__disk_has(d, i));
        put(d, 7, i, sizes[i]);
        check_value(d, 7, i, sizes[i]);
    }
    assert_int_equal(disk_figures(d).writes, n);
    assert_int_equal(disk_figures(d).entries, n);
    assert_int_equal(disk_figures(d).refused, 0);
    assert_true(disk_usage(folder) <= 160 * MIB);
    larder__disk_close(&d);

    d = open_set(0, 7, 100); /* the budget is as found */
    for (size_t i = 0; i < n; i++)
        check_value(d, 7, i, sizes[i]);
    assert_int_equal(disk_figures(d).budget, 160 * MIB);
    assert_int_equal(disk_figures(d).damaged, 0);
    larder__disk_close(&d);
}

static void test_blocks_of_sizes(void **state) {
    (void)state;
    assert_int_equal(larder__disk_value_bytes(0), 4096);
    assert_int_equal(larder__disk_value_bytes(4056), 4096);
    assert_int_equal(larder__disk_value_bytes(4057), 8192);
}

static void test_too_large(void **state) {
    (void)state;
    larder__disk *d = open_set(4 * MIB, 7, 10);
    put(d, 7, 0, 1000);
    larder__disk_spare(d, 0);
    put(d, 7, 1, 5 * MIB); /* more than all: nothing is to go for it */
    assert_false(larder__disk_has(d, 1));
    assert_int_equal(disk_figures(d).refused, 1);
    check_value(d, 7, 0, 1000);
    put(d, 7, 12, 1000); /* no key of this data set */
    assert_int_equal(disk_figures(d).refused, 2);
    assert_false(larder__disk_has(d, 12));
    assert_null(disk_get(d, 12));
    larder__disk_close(&d);
}

static void test_many_at_once(void **state) {
    (void)state;
    enum { KEYS = 300 };
    larder__disk *d = open_set(8 * MIB, 3, KEYS);
    for (uint64_t k = 0; k < KEYS; k += 2)
        disk_put(d, 3, k, (uint32_t)(k * 37));
    assert_true(larder__disk_settle(d, LONG_AGO));
    larder__disk_fetch *all[KEYS];
    for (uint64_t k = 0; k < KEYS; k++) {
        all[k] = larder__disk_fetch_new(
            &(larder__value){.id = k, .form = DISK_FORM, .held = LARDER__ANY_FORM});
        assert_non_null(all[k]);
    }
    larder__disk_send(d, all, KEYS);
    for (uint64_t k = KEYS; k-- > 0;) {
        larder_buf *b = larder__disk_receive(d, all[k]);
        assert_true(k % 2 ? !b : b && disk_same(3, k, (uint32_t)(k * 37), b));
        larder_buf_unref(&b);
    }
    uint64_t keys[KEYS];
    for (uint64_t k = 0; k < KEYS; k++)
        keys[k] = k;
    larder__disk_send(d, all, KEYS); /* again, taken as they come */
    for (size_t left = KEYS; left > 0; left--) {
        size_t i = larder__disk_any(d, all, left);
        assert_true(i < left);
        larder_buf *b = larder__disk_receive(d, all[i]);
        assert_true(keys[i] % 2 ? !b : b && disk_same(3, keys[i], (uint32_t)(keys[i] * 37), b));
        larder_buf_unref(&b);
        larder__disk_fetch_unref(&all[i]);
        all[i] = all[left - 1];
        keys[i] = keys[left - 1];
    }
    larder__disk_close(&d);
}

/* A question that is dropped before its answer, and bytes that outlive their folder. */
static void test_let_go_early(void **state) {
    (void)state;
    larder__disk *d = open_set(8 * MIB, 3, 10);
    put(d, 3, 1, 100000);
    larder__disk_fetch *f = larder__disk_fetch_new(
        &(larder__value){.id = 1, .form = DISK_FORM, .held = LARDER__ANY_FORM});
    larder__disk_send(d, &f, 1);
    larder__disk_fetch_unref(&f);
    larder_buf *b = disk_get(d, 1);
    larder__disk_close(&d);
    assert_true(disk_same(3, 1, 100000, b));
    larder_buf_unref(&b);
}

static void test_what_was_asked(void **state) {
    (void)state;
    larder__disk *d = open_set(4 * MIB, 3, 10);
    put(d, 3, 1, 5000);
    put(d, 3, 2, 5000);
    larder__value exact = {.id = 1, .size = 5000, .form = DISK_FORM, .held = DISK_FORM};
    larder__value less = {.id = 2, .size = 4999, .form = DISK_FORM, .held = DISK_FORM};
    larder__disk_fetch *f = larder__disk_fetch_new(&exact);
    larder__disk_send(d, &f, 1);
    larder_buf *b = larder__disk_receive(d, f);
    assert_non_null(b);
    larder_buf_unref(&b);
    larder__disk_fetch_unref(&f);
    f = larder__disk_fetch_new(&less);
    larder__disk_send(d, &f, 1);
    assert_null(larder__disk_receive(d, f));
    larder__disk_fetch_unref(&f);
    assert_false(larder__disk_has(d, 2)); /* no longer said to be there, but not damaged */
    assert_int_equal(disk_figures(d).damaged, 0);
    larder__disk_close(&d);
}

/* ---- who stays ------------------------------------------------------------------------------- */

/* Fills the folder with values of eight blocks; how many there were. */
enum { EIGHT = 8 * 4096 - 40 };
static uint64_t fill_up(larder__disk *d, uint64_t identity) {
    uint64_t n = larder__disk_room(d) / (8 * 4096);
    for (uint64_t k = 0; k < n; k++) {
        disk_put(d, identity, k, EIGHT);
        if (k % 100 == 99)
            assert_true(larder__disk_settle(d, LONG_AGO));
    }
    assert_true(larder__disk_settle(d, LONG_AGO));
    return n;
}

static void test_spare_make_room(void **state) {
    (void)state;
    larder__disk *d = open_set(4 * MIB, 9, 1000);
    uint64_t n = fill_up(d, 9);
    assert_int_equal(disk_figures(d).entries, n);
    put(d, 9, 900, EIGHT); /* all wanted: it stays outside */
    assert_false(larder__disk_has(d, 900));
    assert_int_equal(disk_figures(d).refused, 1);
    larder__disk_spare(d, 17);
    put(d, 9, 901, EIGHT);
    assert_true(larder__disk_has(d, 901));
    assert_false(larder__disk_has(d, 17));
    larder__disk_spare(d, 18);
    larder__disk_want(d, 18); /* after all */
    put(d, 9, 902, EIGHT);
    assert_false(larder__disk_has(d, 902));
    assert_int_equal(disk_figures(d).entries, n);
    for (uint64_t k = 0; k < n; k++)
        if (k != 17)
            check_value(d, 9, k, EIGHT);
    assert_true(disk_usage(folder) <= 4 * MIB);
    larder__disk_close(&d);
}

/* When all was read once and still nothing is spare, what is not read again makes room. */
static void test_era_by_reading(void **state) {
    (void)state;
    larder__disk *d = open_set(4 * MIB, 9, 1000);
    uint64_t n = fill_up(d, 9);
    for (uint64_t k = 0; k < n; k++)
        check_value(d, 9, k, EIGHT);
    put(d, 9, 900, EIGHT);
    assert_true(larder__disk_has(d, 900));
    assert_int_equal(disk_figures(d).entries, n);
    larder__disk_close(&d);
}

/* What the next run wants stays, whatever else it writes. */
static void test_era_by_opening(void **state) {
    (void)state;
    larder__disk *d = open_set(4 * MIB, 9, 1000);
    uint64_t n = fill_up(d, 9);
    larder__disk_close(&d);
    d = open_set(4 * MIB, 9, 1000);
    for (uint64_t k = 0; k < n; k += 2)
        larder__disk_want(d, k);
    for (uint64_t k = 0; k < n; k++)
        put(d, 9, 500 + k, EIGHT);
    for (uint64_t k = 0; k < n; k += 2)
        check_value(d, 9, k, EIGHT);
    larder__disk_close(&d);
}

/* Eras are counted to 15 and round: what was wanted the last time round is not wanted again. */
static void test_eras_go_round(void **state) {
    (void)state;
    larder__disk *d = open_set(4 * MIB, 9, 1000);
    fill_up(d, 9);
    for (int i = 0; i < LARDER__DISK_ERAS; i++) {
        larder__disk_close(&d);
        d = open_set(4 * MIB, 9, 1000);
    }
    put(d, 9, 999, EIGHT);
    assert_true(larder__disk_has(d, 999));
    larder__disk_close(&d);
}

/* ---- several data sets and handles ----------------------------------------------------------- */

static void test_two_sets(void **state) {
    (void)state;
    larder__disk *a = open_set(4 * MIB, 1, 100), *b = open_set(4 * MIB, 2, 50);
    larder__disk *again = open_set(4 * MIB, 1, 100);
    for (uint64_t k = 0; k < 20; k++) {
        put(a, 1, k, (uint32_t)(9000 + k));
        put(b, 2, k, (uint32_t)(9000 + k));
    }
    for (uint64_t k = 0; k < 20; k++) {
        check_value(again, 1, k, (uint32_t)(9000 + k));
        check_value(a, 1, k, (uint32_t)(9000 + k));
        check_value(b, 2, k, (uint32_t)(9000 + k));
    }
    larder__disk_close(&a);
    check_value(b, 2, 3, 9003);
    larder__disk_close(&again);
    larder__disk_close(&b);
}

/* The index of a new data set takes its bytes from the others' room, while they use it. */
static void test_new_set_takes_room(void **state) {
    (void)state;
    larder__disk *a = open_set(4 * MIB, 1, 1000);
    uint64_t n = fill_up(a, 1), room = larder__disk_room(a);
    assert_true(disk_usage(folder) <= 4 * MIB);
    larder__disk *b = open_set(4 * MIB, 2, 100000);
    assert_true(larder__disk_room(a) <= room - 800000);
    assert_int_equal(larder__disk_room(a), larder__disk_room(b));
    assert_true(disk_usage(folder) <= 4 * MIB);
    uint64_t there = 0;
    for (uint64_t k = 0; k < n; k++) {
        larder_buf *v = disk_get(a, k);
        there += v != NULL;
        assert_true(!v || disk_same(1, k, EIGHT, v));
        larder_buf_unref(&v);
    }
    assert_true(there >= larder__disk_room(a) / (8 * 4096) - 1);
    assert_int_equal(disk_figures(a).damaged, 0);
    assert_int_equal(disk_figures(a).entries, there);
    larder__disk_close(&b);
    larder__disk_close(&a);
}

/* ---- budget ---------------------------------------------------------------------------------- */

static void test_budget_changes(void **state) {
    (void)state;
    larder__disk *d = open_set(8 * MIB, 9, 1000);
    uint64_t n = fill_up(d, 9);
    for (uint64_t k = 0; k < n; k++)
        if (k % 4 != 3) /* a quarter is wanted */
            larder__disk_spare(d, k);
    larder__disk *other = open_set(16 * MIB, 9, 1000); /* not while somebody has it */
    assert_int_equal(disk_figures(other).budget, 8 * MIB);
    larder__disk_close(&other);
    larder__disk_close(&d);
    d = open_set(4 * MIB, 9, 1000);
    assert_true(disk_usage(folder) <= 4 * MIB);
    for (uint64_t k = 3; k < n; k += 4) /* they were moved, not lost */
        check_value(d, 9, k, EIGHT);
    larder__disk_close(&d);
    d = open_set(16 * MIB, 9, 1000);
    for (uint64_t k = 3; k < n; k += 4)
        check_value(d, 9, k, EIGHT);
    assert_true(fill_up(d, 9) > n);
    assert_true(disk_usage(folder) <= 16 * MIB && disk_usage(folder) > 12 * MIB);
    larder__disk_close(&d);
}

static void refused(uint64_t budget, uint64_t keys, int code, const char *word) {
    larder__disk *d;
    larder__disk_conf conf = disk_conf(folder, budget, 1, keys);
    assert_int_equal(larder__disk_open(&d, &conf), code);
    assert_null(d);
    if (!strstr(larder_errmsg(), word))
        fail_msg("%s: does not speak of %s", larder_errmsg(), word);
}

static void test_refused(void **state) {
    (void)state;
    char path[300];
    refused(0, 10, LARDER_E_ARGS, "budget");
    refused(50000, 10, LARDER_E_ARGS, "budget");
    refused(MIB, MIB, LARDER_E_ARGS, "budget");
    refused(MIB, 0, LARDER_E_ARGS, "samples");
    chmod(folder, 0777);
    refused(MIB, 10, LARDER_E_ARGS, "others may write");
    chmod(folder, 0700);
    larder__disk_remove(folder);
    snprintf(path, sizeof path, "%s/data", folder);
    check_write(path, "mine", 4);
    refused(MIB, 10, LARDER_E_STATE, "no folder of larder's");
    assert_int_equal(access(path, F_OK), 0);
    unlink(path);
    snprintf(path, sizeof path, "%s/head", folder);
    check_write(path, "somebody's notes", 16);
    refused(MIB, 10, LARDER_E_STATE, "not written by larder");
    assert_int_equal(larder__disk_remove(folder), LARDER_E_STATE);
    assert_int_equal(access(path, F_OK), 0);
    unlink(path);
}

static void test_other_version(void **state) {
    (void)state;
    char path[300];
    larder__disk *d = open_set(MIB, 1, 10);
    larder__disk_close(&d);
    snprintf(path, sizeof path, "%s/head", folder);
    int file = open(path, O_RDWR);
    uint32_t other = 99;
    assert_int_equal(pwrite(file, &other, 4, 8), 4);
    close(file);
    refused(MIB, 10, LARDER_E_STATE, "larder disk rm");
    check_ok(larder__disk_remove(folder));
    d = open_set(MIB, 1, 10);
    larder__disk_close(&d);
}

/* ---- for `larder disk` ----------------------------------------------------------------------- */

static void count_set(void *arg, const larder__disk_set *s) {
    uint64_t *sum = arg;
    sum[0]++;
    sum[1] += s->entries * s->identity;
    assert_string_equal(s->name, "a set");
    assert_true(s->used_at > 1600000000);
}

static void spoil(uint64_t offset) {
    char path[300];
    snprintf(path, sizeof path, "%s/data", folder);
    int file = open(path, O_RDWR);
    unsigned char b;
    assert_int_equal(pread(file, &b, 1, (off_t)offset), 1);
    b ^= 4;
    assert_int_equal(pwrite(file, &b, 1, (off_t)offset), 1);
    close(file);
}

static void test_tend(void **state) {
    (void)state;
    larder__disk *a = open_set(4 * MIB, 5, 100), *b = open_set(4 * MIB, 7, 100);
    for (uint64_t k = 0; k < 10; k++)
        put(a, 5, k, 20000);
    put(b, 7, 1, 20000);
    uint64_t sum[2] = {0}, sound, damaged, freed;
    larder__disk_figures f;
    check_ok(larder__disk_list(folder, &f, count_set, sum));
    assert_int_equal(sum[0], 2);
    assert_int_equal(sum[1], 57);
    assert_int_equal(f.entries, 11);
    assert_int_equal(f.used_bytes, 11 * 5 * 4096);
    assert_int_equal(larder__disk_remove(folder), LARDER_E_STATE);
    assert_int_equal(larder__disk_trim(folder, 2 * MIB, &freed), LARDER_E_STATE);
    larder__disk_spare(a, 3);
    check_ok(larder__disk_trim(folder, 0, &freed));
    assert_false(larder__disk_has(a, 3));
    assert_true(larder__disk_has(a, 4));
    spoil(5 * 4096 + 77); /* key 1 */
    check_ok(larder__disk_check(folder, &sound, &damaged, NULL, NULL));
    assert_int_equal(sound, 9);
    assert_int_equal(damaged, 1);
    assert_false(larder__disk_has(a, 1));
    larder__disk_close(&a);
    larder__disk_close(&b);
    check_ok(larder__disk_trim(folder, 2 * MIB, &freed));
    a = open_set(0, 5, 100);
    assert_int_equal(disk_figures(a).budget, 2 * MIB);
    check_value(a, 5, 4, 20000);
    larder__disk_close(&a);
    check_ok(larder__disk_remove(folder));
    assert_int_equal(disk_usage(folder), 0);
    assert_int_equal(larder__disk_list(folder, &f, count_set, sum), LARDER_E_NOTFOUND);
}

static void test_damage_is_seen(void **state) {
    (void)state;
    larder__disk *d = open_set(4 * MIB, 5, 100);
    for (uint64_t k = 0; k < 3; k++)
        put(d, 5, k, 20000);
    spoil(5 * 4096 + 20039); /* the last byte of key 1 */
    assert_null(disk_get(d, 1));
    assert_int_equal(disk_figures(d).damaged, 1);
    assert_false(larder__disk_has(d, 1));
    assert_true(larder__disk_settle(d, LONG_AGO));
    assert_int_equal(disk_figures(d).used_bytes, 10 * 4096);
    check_value(d, 5, 0, 20000);
    check_value(d, 5, 2, 20000);
    put(d, 5, 1, 20000);
    check_value(d, 5, 1, 20000);
    larder__disk_close(&d);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static void test_space(void **state) {
    (void)state;
    uint64_t bits[4] = {0}, longest = 0;
    larder__space_take(bits, 60, 10);
    larder__space_take(bits, 200, 1);
    assert_int_equal(larder__space_count(bits, 256), 11);
    assert_int_equal(larder__space_count(bits, 65), 5);
    assert_int_equal(larder__space_next_taken(bits, 0, 256), 60);
    assert_int_equal(larder__space_next_free(bits, 60, 256), 70);
    assert_int_equal(larder__space_next_taken(bits, 70, 150), 150);
    assert_int_equal(larder__space_find(bits, 0, 250, 60, &longest), 0);
    assert_int_equal(larder__space_find(bits, 0, 250, 61, &longest), 70);
    assert_int_equal(larder__space_find(bits, 0, 250, 131, &longest), LARDER__DISK_NOWHERE);
    assert_int_equal(longest, 130);
    assert_int_equal(larder__space_free_before(bits, 200, 20), 180);
    assert_int_equal(larder__space_free_before(bits, 75, 20), 70);
    larder__space_give(bits, 64, 136);
    assert_int_equal(larder__space_count(bits, 256), 5);
    assert_true(larder__space_any(bits, 200, 1));
    assert_false(larder__space_any(bits, 64, 136));
}

static void test_words(void **state) {
    (void)state;
    uint64_t far = LARDER__DISK_MOST_BLOCKS - 5;
    uint64_t w = larder__disk_word(1, 2, far, 5, 3);
    assert_int_equal(larder__disk_place(w), far);
    assert_int_equal(larder__disk_blocks(w), 5);
    assert_int_equal(larder__disk_era(w), 3);
    assert_int_equal(larder__disk_era(larder__disk_in_era(w, 15)), 15);
    assert_true(larder__disk_word_fits(larder__disk_in_era(w, 15), 1, 2, far + 5));
    assert_false(larder__disk_word_fits(w, 1, 2, far + 4));
    assert_false(larder__disk_word_fits(0, 1, 2, far + 5));
    uint64_t passed = 0;
    for (uint64_t key = 3; key < 10003; key++)
        passed += larder__disk_word_fits(w, 1, key, far + 5);
    assert_true(passed < 40); /* ten bits: one in a thousand */
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_sizes),           T(test_blocks_of_sizes),
        T(test_too_large),       T(test_many_at_once),
        T(test_let_go_early),    T(test_what_was_asked),
        T(test_spare_make_room), T(test_era_by_reading),
        T(test_era_by_opening),  T(test_eras_go_round),
        T(test_two_sets),        T(test_new_set_takes_room),
        T(test_budget_changes),  T(test_refused),
        T(test_other_version),   T(test_tend),
        T(test_damage_is_seen),  T(test_space),
        T(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
