/* What another rank is about to bring is waited for, not read a second time; and a rank that brings
 * nothing is not waited for again and again. The depot and the clock are made up. */
#include "base/buf.h"
#include "base/mem.h"
#include "base/world.h"
#include "check.h"
#include "shared/rank_store.h"

enum { KEYS = 64, TURNS = 3, BYTES = 8 };

static double clock_now;
static double made_now(void) { return clock_now; }
static void made_sleep(double when) { clock_now = when; }

/* ---- a depot in which values appear at a time of their own ----------------------------------- */

typedef struct made_promise {
    larder__value value;
    larder_buf *token;
} made_promise;

static double appears[KEYS];
static unsigned asked, puts_of[KEYS], drops_of[KEYS];

static void promise_done(void *arg, uint64_t unused) {
    (void)unused;
    larder_buf_unref(&((made_promise *)arg)->token);
    larder__free(arg);
}

static larder_buf *look(const larder__value *v) {
    asked++;
    return clock_now < appears[v->id] ? NULL : larder_buf_new(BYTES);
}

static void made_send(void *st, larder_buf **tokens, size_t n, larder__value_of_fn value_of) {
    (void)st;
    for (size_t i = 0; i < n; i++) {
        made_promise *p = larder__calloc(1, sizeof *p);
        *p = (made_promise){*value_of(tokens[i]), tokens[i]};
        tokens[i] = larder__buf_outside(NULL, BYTES, promise_done, p, 0);
    }
}

static const larder__value *made_wanted(larder_buf *b) {
    const made_promise *p = larder__buf_outside_arg(b, promise_done);
    return &p->value;
}

static void made_again(void *st, larder_buf *b, larder_buf **out, uint8_t *held) {
    (void)st, (void)held;
    *out = look(made_wanted(b));
}

static bool made_receive(void *st, larder_buf *b, larder_buf **out, uint8_t *held) {
    made_again(st, b, out, held);
    return true;
}

static void made_put(void *st, const larder__value *v, larder_buf *b, larder__depot_done_fn done,
                     void *arg) {
    (void)st, (void)b;
    puts_of[v->id]++;
    done(arg, true);
}
static void made_drop(void *st, const larder__value *v) { (void)st, drops_of[v->id]++; }
static void made_note(void *st, char *out, size_t cap) { (void)st, (void)cap, *out = '\0'; }
static void made_close(void **st) { *st = NULL; }

static const larder__depot_ops ops = {.send = made_send,
                                      .receive = made_receive,
                                      .wanted = made_wanted,
                                      .again = made_again,
                                      .put = made_put,
                                      .drop = made_drop,
                                      .note = made_note,
                                      .close = made_close};

/* ---- the store over it ----------------------------------------------------------------------- */

static void *store;

static int set_up(void **st) {
    static const larder__world made = {.now = made_now, .sleep_until = made_sleep};
    (void)st;
    larder__world_use(&made);
    clock_now = 1000;
    asked = 0;
    return larder__job_store_open(
        &store, &(larder__job_store_conf){
                    .depot = {&ops, NULL}, .keys = KEYS, .slots = KEYS, .turns = TURNS});
}

static int tear_down(void **st) {
    (void)st;
    for (larder_slot slot = 0; slot < KEYS; slot++) /* as a cache does before it closes its store */
        larder__store_job.drop(store, slot);
    larder__store_job.close(&store);
    larder__world_use(NULL);
    return 0;
}

static void next_batch(void) { larder__store_job.turn(store); }

/* Another rank is to make it: in the depot after so many seconds. */
static void expect_in(uint64_t key, double seconds) {
    appears[key] = clock_now + seconds;
    larder__store_job.expect(store, (larder_slot)key, BYTES, &(larder__entry){.key = key});
}

static bool comes(uint64_t key) {
    uint8_t held;
    larder_buf *b = larder__store_job.get(store, (larder_slot)key);
    assert_non_null(b);
    larder__store_job.send(store, &b, 1);
    b = larder__store_job.receive(store, b, &held);
    bool came = b != NULL;
    larder_buf_unref(&b);
    return came;
}

static void test_waits_for_what_is_made(void **st) {
    (void)st;
    expect_in(1, 0.05);
    expect_in(2, 0);
    next_batch();
    assert_true(comes(1));
    assert_true(clock_now >= 1000.05 && clock_now < 1000.2);
    asked = 0;
    assert_true(comes(2));
    assert_int_equal(asked, 1);
}

/* Two ranks with rows of one batch might wait for each other. */
static void test_of_the_same_batch_is_read(void **st) {
    (void)st;
    expect_in(1, 0.05);
    assert_false(comes(1));
    assert_true(clock_now == 1000);
    next_batch();
    assert_true(comes(1));
}

/* Decided to leave before it was made: the others get it all the same. */
static void test_what_has_left_is_passed_on(void **st) {
    (void)st;
    larder_buf *b = larder_buf_new(BYTES);
    larder__store_job.pass(store, b, &(larder__entry){.key = 5});
    assert_int_equal(puts_of[5], 1);
    for (int batch = 0; batch < TURNS; batch++) {
        assert_int_equal(drops_of[5], 0);
        next_batch();
    }
    assert_int_equal(drops_of[5], 1);
    larder_buf_unref(&b);
}

/* A rank whose time to delete has come leaves alone what another has made again since, although
 * that has been decided to leave, too: some rank may still be before that. */
static void test_a_later_entry_stays_until_its_own_end(void **st) {
    (void)st;
    larder_buf *b = larder_buf_new(BYTES);
    larder__store_job.put(store, 6, b, &(larder__entry){.key = 6});
    larder__store_job.drop(store, 6);
    next_batch();
    expect_in(6, 0);
    larder__store_job.drop(store, 6);
    for (int batch = 1; batch < TURNS; batch++)
        next_batch();
    assert_int_equal(puts_of[6], 1);
    assert_int_equal(drops_of[6], 0);
    next_batch();
    assert_int_equal(drops_of[6], 1); /* by whoever wrote it, should the other never have */
    larder__store_job.put(store, 7, b, &(larder__entry){.key = 7});
    larder__store_job.drop(store, 7);
    for (int batch = 0; batch < TURNS; batch++)
        next_batch();
    assert_int_equal(drops_of[7], 1);
    larder_buf_unref(&b);
}

static void test_who_stands_still_is_left_alone(void **st) {
    (void)st;
    double waited[4] = {0};
    uint64_t key = 0;
    for (int wave = 0; wave < 4; wave++) {
        expect_in(key, 1e9);
        next_batch();
        double begun = clock_now;
        assert_false(comes(key++));
        waited[wave] = clock_now - begun;
        assert_true(waited[wave] > 0.1 && waited[wave] < 1);
        /* Not again during so many batches, twice as many after the next time. */
        for (int batch = 0; batch < (TURNS << wave) - 1 && key < KEYS - 1; batch++) {
            expect_in(key, 1e9);
            next_batch();
            begun = clock_now;
            assert_false(comes(key++));
            assert_true(clock_now == begun);
        }
    }
    /* Who is back is waited for. */
    for (int batch = 0; batch < TURNS << 4; batch++)
        next_batch();
    for (key = 0; key < 8; key++) {
        expect_in(key, 0.1);
        next_batch();
        assert_true(comes(key));
    }
    expect_in(8, 1e9);
    next_batch();
    assert_false(comes(8));
    for (int batch = 0; batch < TURNS; batch++)
        next_batch();
    expect_in(9, 0.1);
    next_batch();
    assert_true(comes(9));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_waits_for_what_is_made, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_of_the_same_batch_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_has_left_is_passed_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_later_entry_stays_until_its_own_end, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_who_stands_still_is_left_alone, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
