/* A folder on disk, by several handles of two data sets, against a slow twin that only has a list
 * of what lies there and who is wanted. Never a wrong byte, never above the budget, and what is
 * wanted stays. */
#include "check.h"
#include "disk_kit.h"

#include <larder/plugin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SETS = 2, HANDLES = 4, KEYS = 150, BUDGET = 1 << 20, BLOCK = 4096, EACH = 3 };

static char folder[256];
static larder_rng rng;
static uint32_t below(uint32_t n) { return larder_rng_below(&rng, n); }
static bool is_long(void) { return getenv("LARDER_LONG") != NULL; }
static uint32_t size_of(uint64_t key) { /* all of them three blocks */
    return (uint32_t)(EACH * BLOCK - 40 - key % BLOCK);
}

typedef struct twin { /* what should be there */
    bool there[SETS][KEYS], wanted[SETS][KEYS];
    uint64_t entries, touched; /* touched: blocks read since all were wanted or not */
} twin;

static larder__disk *handles[HANDLES];
static uint64_t set_of(size_t handle) { return handle % SETS; }

static void open_handle(size_t h) {
    larder__disk_conf conf = disk_conf(folder, BUDGET, 100 + set_of(h), KEYS);
    check_ok(larder__disk_open(&handles[h], &conf));
}

static void new_era(twin *t) {
    memset(t->wanted, 0, sizeof t->wanted);
    t->touched = 0;
}

static bool any_spare(const twin *t) {
    for (size_t s = 0; s < SETS; s++)
        for (size_t k = 0; k < KEYS; k++)
            if (t->there[s][k] && !t->wanted[s][k])
                return true;
    return false;
}

static void get(twin *t, size_t h, uint64_t key) {
    uint64_t s = set_of(h);
    larder_buf *b = disk_get(handles[h], key);
    assert_int_equal(b != NULL, t->there[s][key]);
    if (!b)
        return;
    assert_true(disk_same(100 + s, key, size_of(key), b));
    larder_buf_unref(&b);
    t->wanted[s][key] = true;
    t->touched += EACH;
}

static uint64_t any_there(const twin *t, uint64_t s) {
    uint64_t from = below(KEYS), k = 0;
    while (k < KEYS && !t->there[s][(from + k) % KEYS])
        k++;
    return (from + k) % KEYS;
}

/* The twin does not say who leaves for what comes, only that it was one, and spare. */
static void displace(twin *t, size_t h, uint64_t key) {
    if (!any_spare(t)) {
        if (t->touched < t->entries * EACH) {
            assert_false(larder__disk_has(handles[h], key));
            return;
        }
        new_era(t);
    }
    assert_true(larder__disk_has(handles[h], key));
    size_t gone = 0;
    for (size_t other = 0; other < HANDLES; other++)
        for (size_t k = 0; handles[other] && k < KEYS; k++) {
            uint64_t s = set_of(other);
            if (!t->there[s][k] || larder__disk_has(handles[other], k))
                continue;
            assert_false(t->wanted[s][k]);
            t->there[s][k] = false;
            gone++;
        }
    assert_int_equal(gone, 1);
    t->entries--;
}

static void put(twin *t, size_t h, uint64_t key, uint64_t capacity) {
    uint64_t s = set_of(h);
    disk_put(handles[h], 100 + s, key, size_of(key));
    assert_true(larder__disk_settle(handles[h], 60));
    if (!t->there[s][key]) {
        if (t->entries >= capacity)
            displace(t, h, key);
        if (!larder__disk_has(handles[h], key))
            return;
        t->there[s][key] = true;
        t->entries++;
    }
    t->wanted[s][key] = true;
}

/* One leaves or comes back; its data set stays open by the other, so that nothing happens unseen.
 */
static void come_or_go(size_t h) {
    if (!handles[h])
        open_handle(h);
    else if (handles[(h + SETS) % HANDLES])
        larder__disk_close(&handles[h]);
}

/* All leave, and the first one to come back is alone. */
static void all_again(twin *t) {
    for (size_t h = 0; h < HANDLES; h++)
        larder__disk_close(&handles[h]);
    for (size_t h = 0; h < HANDLES; h++)
        open_handle(h);
    new_era(t);
    for (size_t s = 0; s < SETS; s++)
        for (size_t k = 0; k < KEYS; k++)
            assert_int_equal(larder__disk_has(handles[s], k), t->there[s][k]);
}

static void step(twin *t) {
    uint32_t h = below(HANDLES), key = below(KEYS), what = below(100);
    uint64_t s = set_of(h);
    if (!handles[h] || what < 2) {
        come_or_go(h);
    } else if (what < 3) {
        all_again(t);
    } else if (what < 40) {
        put(t, h, key, larder__disk_room(handles[h]) / BLOCK / EACH);
    } else if (what < 50) {
        larder__disk_spare(handles[h], key);
        t->wanted[s][key] = false;
    } else if (what < 60) {
        larder__disk_want(handles[h], key);
        t->wanted[s][key] = t->there[s][key];
    }
    /* Reading back more than is written keeps the guard of the disk's life quiet. */
    for (int i = 0; handles[h] && i < 2; i++)
        get(t, h, any_there(t, s));
    if (handles[h])
        get(t, h, below(KEYS));
    assert_true(disk_usage(folder) <= BUDGET);
}

/* Both data sets are known from the beginning: an index of its own would take room. */
static void test_twin(void **state) {
    (void)state;
    check_folder(folder);
    larder_rng_seed(&rng, 1, 0);
    twin t = {0};
    for (size_t h = 0; h < HANDLES; h++)
        open_handle(h);
    for (uint64_t i = 0; i < (is_long() ? 60000 : 4000); i++)
        step(&t);
    all_again(&t);
    uint64_t there = 0;
    for (size_t s = 0; s < SETS; s++)
        for (size_t k = 0; k < KEYS; k++) {
            assert_int_equal(larder__disk_has(handles[s], k), t.there[s][k]);
            there += t.there[s][k];
        }
    assert_int_equal(disk_figures(handles[0]).entries, there);
    assert_int_equal(disk_figures(handles[0]).used_bytes, there * EACH * BLOCK);
    for (size_t h = 0; h < HANDLES; h++) {
        assert_int_equal(disk_figures(handles[h]).damaged, 0);
        larder__disk_close(&handles[h]);
    }
    check_folder_remove(folder);
}

/* ---- threads and all sizes ------------------------------------------------------------------- */

typedef struct worker {
    pthread_t thread;
    larder__disk *disk;
    uint64_t seed, identity;
    bool wrong;
} worker;

static uint32_t any_size(uint64_t key) { return (uint32_t)(key * key * 17 % 60000); }

static void read_some(worker *w, larder_rng *r) {
    larder__disk_fetch *all[8];
    uint64_t keys[8];
    for (size_t i = 0; i < 8; i++) {
        keys[i] = larder_rng_below(r, KEYS);
        all[i] = larder__disk_fetch_new(
            &(larder__value){.id = keys[i], .form = DISK_FORM, .held = LARDER__ANY_FORM});
    }
    larder__disk_send(w->disk, all, 8);
    for (size_t i = 0; i < 8; i++) {
        larder_buf *b = larder__disk_receive(w->disk, all[i]);
        w->wrong |= b && !disk_same(w->identity, keys[i], any_size(keys[i]), b);
        larder_buf_unref(&b);
        larder__disk_fetch_unref(&all[i]);
    }
}

static void *churn(void *arg) {
    worker *w = arg;
    larder_rng r;
    larder_rng_seed(&r, w->seed, 1);
    for (int i = 0; i < (is_long() ? 5000 : 150); i++) {
        for (int k = 0; k < 3; k++) {
            uint64_t key = larder_rng_below(&r, KEYS);
            disk_put(w->disk, w->identity, key, any_size(key));
            larder__disk_spare(w->disk, larder_rng_below(&r, KEYS));
            larder__disk_want(w->disk, larder_rng_below(&r, KEYS));
        }
        read_some(w, &r);
    }
    return NULL;
}

/* Two handles of each data set and two threads a handle; what nobody ever spares stays. */
static void test_threads(void **state) {
    (void)state;
    check_folder(folder);
    enum { THREADS = 8 };
    worker w[THREADS];
    for (size_t h = 0; h < HANDLES; h++)
        open_handle(h);
    for (size_t i = 0; i < THREADS; i++) {
        w[i] = (worker){
            .disk = handles[i % HANDLES], .seed = i, .identity = 100 + set_of(i % HANDLES)};
        assert_int_equal(pthread_create(&w[i].thread, NULL, churn, &w[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(w[i].thread, NULL);
        assert_false(w[i].wrong);
    }
    assert_true(disk_usage(folder) <= BUDGET);
    uint64_t blocks = 0;
    for (size_t h = 0; h < HANDLES; h++)
        assert_true(larder__disk_settle(handles[h], 60));
    for (size_t s = 0; s < SETS; s++)
        for (uint64_t k = 0; k < KEYS; k++) {
            larder_buf *b = disk_get(handles[s], k);
            blocks += b ? larder__disk_value_bytes(any_size(k)) : 0;
            assert_true(!b || disk_same(100 + s, k, any_size(k), b));
            larder_buf_unref(&b);
        }
    for (size_t h = 0; h < HANDLES; h++)
        assert_true(larder__disk_settle(handles[h], 60));
    assert_int_equal(disk_figures(handles[0]).used_bytes, blocks); /* none is lost */
    assert_true(blocks > larder__disk_room(handles[0]) / 2);
    for (size_t h = 0; h < HANDLES; h++)
        larder__disk_close(&handles[h]);
    check_folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_twin),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
