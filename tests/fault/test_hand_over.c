/* How a job of another user hands over what it has made: through its tray, or in pieces over the
 * socket. Whatever it says of them, it writes nothing but what it promised to make. */
#include "stranger_kit.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* More at once than its tray holds: some of it goes over the socket, among the rest. */
static void it_makes_much(void **st) {
    (void)st;
    enum { AT_ONCE = 32 };
    root_or_skip();
    stranger_serve(false);
    stranger first = {.lie = 0}, second = {.lie = 0};
    larder_access a[AT_ONCE];
    larder__ticket t[AT_ONCE];
    stranger_attach(&first, STRANGER_NOBODY, NULL);
    for (uint64_t k = 0; k < AT_ONCE; k++)
        a[k] = (larder_access){.key = k, .size = stranger_size(k), .score = NAN};
    check_ok(larder__cache_claim(first.cache, a, AT_ONCE, t));
    for (size_t k = 0; k < AT_ONCE; k++) {
        larder_buf *b = NULL;
        assert_int_equal(t[k].task, LARDER__MAKE);
        check_ok(stranger_make(&first, &a[k], NULL, &b));
        t[k].held = LARDER_ENCODED;
        larder__cache_fill(first.cache, &t[k], b);
        larder_buf_unref(&b);
    }
    assert_int_equal(stranger_read_all(&first), 0); /* also what was just laid down */
    assert_int_equal(first.made, STRANGER_KEYS);
    stranger_attach(&second, STRANGER_NOBODY, NULL);
    assert_int_equal(stranger_read_all(&second), 0);
    assert_int_equal(second.made, 0);
    stranger_leave(&first);
    stranger_leave(&second);
}

/* What it fails to make is somebody else's to make at once. */
static void it_fails(void **st) {
    (void)st;
    root_or_skip();
    stranger_serve(false);
    stranger first = {.lie = 0}, second = {.lie = 0};
    stranger_attach(&first, STRANGER_NOBODY, NULL);
    stranger_attach(&second, STRANGER_NOBODY, NULL);
    larder_access a = {.key = 1, .size = stranger_size(1), .score = NAN}, b = a;
    larder__ticket mine, theirs;
    larder_buf *out = NULL;
    check_ok(larder__cache_claim(first.cache, &a, 1, &mine));
    assert_int_equal(mine.task, LARDER__MAKE);
    check_ok(larder__cache_claim(second.cache, &b, 1, &theirs));
    assert_int_equal(theirs.task, LARDER__WAIT);
    larder__cache_fail(first.cache, &mine, LARDER_E_IO, "");
    assert_int_equal(larder__cache_wait(second.cache, &theirs, &out), LARDER__TAKE_OVER);
    assert_int_equal(stranger_read_all(&second), 0);
    stranger_leave(&first);
    stranger_leave(&second);
}

typedef struct raw {
    stranger_line line;
    larder__tray *tray;
} raw;

/* A client that says what it likes; the first sample is its to make, at lease 0. */
static void come_in(raw *c, uid_t user) {
    larder__hello h = stranger_hello();
    larder_writer w = {0};
    larder_reader body;
    larder__welcome m = {0};
    int fds[LARDER__FRAME_FDS];
    stranger_knock(&c->line, user);
    check_ok(stranger_greet(&c->line, &h, &m));
    assert_int_equal(m.tray, user != 0);
    for (int i = 0; i < LARDER__FRAME_FDS; i++)
        fds[i] = larder__inbox_take_fd(&c->line.in);
    c->tray = NULL;
    if (m.tray) {
        c->tray = mmap(NULL, sizeof *c->tray, PROT_READ | PROT_WRITE, MAP_SHARED, fds[3], 0);
        assert_true(c->tray != MAP_FAILED);
    }
    for (int i = 0; i < LARDER__FRAME_FDS; i++)
        close(fds[i]);
    larder__row row = {.key = 0, .size = stranger_size(0)};
    larder__op claim = {.type = LARDER__OP_CLAIM, .n = 1, .rows = &row};
    larder__op_write(&claim, &w);
    check_ok(larder__frame_send(c->line.fd, LARDER__MSG_OP + LARDER__OP_CLAIM, w.bytes, w.size,
                                NULL, 0));
    check_ok(stranger_hear(&c->line, LARDER__MSG_TICKETS, &body));
    larder__writer_free(&w);
}

static int ask_how_it_is(raw *c) {
    larder_reader body;
    larder__frame_send(c->line.fd, LARDER__MSG_STATUS, NULL, 0, NULL, 0); /* it may have hung up */
    return stranger_hear(&c->line, LARDER__MSG_STATUS_IS, &body);
}

static void go(raw *c) {
    if (c->tray)
        munmap(c->tray, sizeof *c->tray);
    stranger_hang_up(&c->line);
}

/* What it handed over is as it should be, and the only one; then it goes. */
static void one_is_there(raw *c) {
    stranger after = {.lie = 0};
    stranger_attach(&after, STRANGER_NOBODY, NULL);
    assert_int_equal(stranger_read_all(&after), 0);
    assert_int_equal(after.made, STRANGER_KEYS - 1);
    stranger_leave(&after);
    go(c);
}

/* Pieces of what was promised that do not fit are the end of the connection, and nothing is kept.
 */
static void pieces_that_do_not_fit(void **st) {
    (void)st;
    root_or_skip();
    stranger_serve(true);
    const larder__wire_piece bad[] = {
        {.lease = 0, .whole = 2000, .at = 0},            /* longer than promised */
        {.lease = 0, .whole = 1000, .at = 5},            /* not from the beginning */
        {.lease = 0, .whole = 4, .at = 0},               /* more than it says itself */
        {.lease = 0, .whole = 1000, .at = 0, .held = 9}, /* in no form there is */
        {.lease = 0, .whole = 1000, .at = UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        raw c;
        come_in(&c, i % 2 ? STRANGER_NOBODY : 0);
        check_ok(larder__frame_send_two(c.line.fd, LARDER__MSG_BYTES, &bad[i], sizeof bad[i],
                                        "01234567", 8));
        assert_int_equal(ask_how_it_is(&c), LARDER_E_FORMAT);
        assert_non_null(strstr(larder_errmsg(), "promised to make"));
        go(&c);
    }
}

/* One that says after its first piece that all is less than that has no room left: what it sends
 * then would lie in the entries behind its own. */
static void pieces_that_shrink(void **st) {
    (void)st;
    root_or_skip();
    stranger_serve(true);
    const uint16_t ways[] = {LARDER__MSG_BYTES, LARDER__MSG_LAID};
    static unsigned char bytes[STRANGER_MIDDLE];
    for (size_t i = 0; i < 2; i++) {
        raw c;
        come_in(&c, STRANGER_NOBODY);
        larder__wire_piece p = {.lease = 0, .whole = stranger_size(0)};
        check_ok(larder__frame_send_two(c.line.fd, LARDER__MSG_BYTES, &p, sizeof p, bytes, 990));
        p.at = 990;
        p.whole = 989;
        check_ok(larder__frame_send_two(c.line.fd, ways[i], &p, sizeof p, bytes,
                                        ways[i] == LARDER__MSG_BYTES ? sizeof bytes : 0));
        int rc = ask_how_it_is(&c);
        assert_int_equal(rc == 0 ? ask_how_it_is(&c) : rc, LARDER_E_FORMAT);
        assert_non_null(strstr(larder_errmsg(), "promised to make"));
        go(&c);
    }
}

/* The same of what lies in a tray. */
static void trays_that_do_not_fit(void **st) {
    (void)st;
    root_or_skip();
    stranger_serve(true);
    const struct {
        larder__wire_piece p;
        uid_t user;
        const char *says;
    } bad[] = {
        {{.lease = 0, .whole = 2000}, STRANGER_NOBODY, "promised to make"},
        {{.lease = 0, .whole = 1000, .at = 5}, STRANGER_NOBODY, "promised to make"},
        {{.lease = 0, .whole = 1000, .held = 9}, STRANGER_NOBODY, "promised to make"},
        {{.lease = 7, .whole = LARDER__TRAY_BYTES + 1}, STRANGER_NOBODY, "tray"},
        {{.lease = 7, .whole = UINT32_MAX, .code = -1}, STRANGER_NOBODY, "tray"},
        {{.lease = 0, .whole = 1000}, 0, "tray"}, /* it has none, and needs none */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        raw c;
        come_in(&c, bad[i].user);
        check_ok(
            larder__frame_send(c.line.fd, LARDER__MSG_LAID, &bad[i].p, sizeof bad[i].p, NULL, 0));
        int rc = ask_how_it_is(&c);
        assert_int_equal(rc == 0 ? ask_how_it_is(&c) : rc, LARDER_E_FORMAT);
        assert_non_null(strstr(larder_errmsg(), bad[i].says));
        go(&c);
    }
}

/* All that it says at once lies there at once: copying the same again and again would take as long
 * as it likes. */
static void more_than_a_tray_at_once(void **st) {
    (void)st;
    root_or_skip();
    stranger_serve(true);
    for (uint32_t most = 0; most < 2; most++) {
        raw c;
        larder_writer w = {0};
        come_in(&c, STRANGER_NOBODY);
        for (int i = 0; i < 4; i++) {
            const larder__wire_piece p = {.lease = 7, .whole = LARDER__TRAY_BYTES / 4 + most};
            size_t frame = larder__frame_begin(&w, LARDER__MSG_LAID);
            larder_write_bytes(&w, &p, sizeof p);
            larder__frame_end(&w, frame);
        }
        check_ok(larder__frames_send(c.line.fd, &w));
        int rc = ask_how_it_is(&c);
        rc = rc == 0 ? ask_how_it_is(&c) : rc;
        assert_int_equal(rc, most ? LARDER_E_FORMAT : 0);
        larder__writer_free(&w);
        go(&c);
    }
}

/* What nobody waits for is passed over; and what others read does not lie in the tray. */
static void it_scribbles(void **st) {
    (void)st;
    root_or_skip();
    stranger_serve(false);
    raw c;
    uint32_t laid = 0;
    unsigned char right[2000] = {0};
    come_in(&c, STRANGER_NOBODY);
    const larder__wire_piece all[] = {{.lease = 7, .whole = 1001},
                                      {.lease = 7, .whole = 999, .code = -1},
                                      {.lease = 0, .whole = stranger_size(0)}};
    for (size_t i = 0; i < 3; i++) {
        if (i == 2)
            stranger_paint(right, 0, 0);
        assert_true(larder__tray_lay(c.tray, &laid, right, all[i].whole));
        atomic_store(&c.tray->taken, 12345); /* the daemon does not go by it */
        check_ok(larder__frame_send(c.line.fd, LARDER__MSG_LAID, &all[i], sizeof all[i], NULL, 0));
        for (int k = 0; k < 2; k++) /* questions of the same breath come first */
            check_ok(ask_how_it_is(&c));
        assert_int_equal(atomic_load(&c.tray->taken), laid);
    }
    memset(c.tray, 0x5a, sizeof *c.tray);
    one_is_there(&c);
}

/* One that knows of no tray says all in BYTES. */
static void it_has_no_tray(void **st) {
    (void)st;
    root_or_skip();
    stranger_serve(false);
    raw c;
    unsigned char right[2000];
    stranger_paint(right, 0, 0);
    come_in(&c, STRANGER_NOBODY);
    larder__wire_piece p = {.lease = 0, .whole = stranger_size(0)};
    check_ok(larder__frame_send_two(c.line.fd, LARDER__MSG_BYTES, &p, sizeof p, right, 100));
    p.at = 100;
    check_ok(larder__frame_send_two(c.line.fd, LARDER__MSG_BYTES, &p, sizeof p, right + 100,
                                    stranger_size(0) - 100));
    check_ok(ask_how_it_is(&c));
    one_is_there(&c);
}

/* One that is thrown out still reads what it was lent: nobody else writes there before it has hung
 * up. */
static void thrown_out_while_reading(void **st) {
    (void)st;
    enum { KEY = 1, ROUNDS = 40 };
    root_or_skip();
    stranger_serve(true);
    stranger root = {.lie = 0};
    stranger_line c;
    larder__attach_conf conf = {.door = larder__door_at(kit_door), .hello = stranger_hello()};
    larder__hello h = stranger_hello();
    larder__welcome m = {0};
    larder_writer w = {0};
    larder_reader body;
    snprintf(conf.hello.budget, sizeof conf.hello.budget, "1MiB"); /* not all that there are */
    check_ok(larder__attach_open(&root.cache, &conf));
    larder_buf *b = stranger_take(&root, KEY);
    larder_buf_unref(&b);
    stranger_knock(&c, STRANGER_NOBODY);
    check_ok(stranger_greet(&c, &h, &m));
    int arena = larder__inbox_take_fd(&c.in);
    const unsigned char *at = mmap(NULL, m.arena_bytes, PROT_READ, MAP_SHARED, arena, 0);
    assert_true(at != MAP_FAILED);
    larder__row row = {.key = KEY, .size = stranger_size(KEY)};
    larder__op claim = {.type = LARDER__OP_CLAIM, .n = 1, .rows = &row};
    larder__op_write(&claim, &w);
    check_ok(larder__frame_send(c.fd, LARDER__MSG_OP + LARDER__OP_CLAIM, w.bytes, w.size, NULL, 0));
    check_ok(stranger_hear(&c, LARDER__MSG_TICKETS, &body));
    larder__reply got;
    memcpy(&got, body.at + LARDER__TICKETS_HEAD, sizeof got);
    assert_int_equal(got.task, LARDER__READY);
    assert_true(got.lease != LARDER__NO_LEASE);
    static unsigned char right[STRANGER_LARGE];
    const unsigned char *bytes = at + got.offset + sizeof(larder__block_head);
    stranger_paint(right, KEY, 0);
    assert_memory_equal(bytes, right, stranger_size(KEY));
    const larder__wire_piece none = {.whole = LARDER__TRAY_BYTES + 1};
    check_ok(larder__frame_send_two(c.fd, LARDER__MSG_LAID, &none, sizeof none, "", 0));
    assert_int_equal(stranger_hear(&c, LARDER__MSG_STATUS_IS, &body), LARDER_E_FORMAT);
    for (uint64_t k = 0; k < (uint64_t)ROUNDS * STRANGER_KEYS; k++) {
        if (k % STRANGER_KEYS == KEY)
            continue;
        b = stranger_take(&root, k % STRANGER_KEYS);
        larder_buf_unref(&b);
        assert_memory_equal(bytes, right, stranger_size(KEY));
    }
    assert_true(root.made > STRANGER_KEYS);
    munmap((void *)(uintptr_t)at, m.arena_bytes);
    close(arena);
    stranger_hang_up(&c);
    larder__writer_free(&w);
    larder__cache_close(&root.cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_makes_much, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(it_fails, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(pieces_that_do_not_fit, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(pieces_that_shrink, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(trays_that_do_not_fit, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(more_than_a_tray_at_once, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(it_scribbles, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(it_has_no_tray, stranger_begin, stranger_end),
        cmocka_unit_test_setup_teardown(thrown_out_while_reading, stranger_begin, stranger_end),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
