/* The parts of a cache in Redis that need no server: heads of values, slots, answers. */
#include "check.h"
#include "redis/conn.h"
#include "redis/slots.h"
#include "shared/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#if LARDER_HAVE_HIREDIS
#include <hiredis/hiredis.h>
#endif

static void test_values(void **unused) {
    (void)unused;
    unsigned char bytes[LARDER__VALUE_HEAD + 100], *head = bytes,
                                                   *body = bytes + LARDER__VALUE_HEAD;
    for (uint32_t size = 0; size <= 100; size += 7) {
        larder__value v = {.id = 77, .mark = 5, .size = size, .form = 1, .held = 0};
        for (uint32_t i = 0; i < size; i++)
            body[i] = (unsigned char)(i * 31 + size);
        larder__value_write(head, &v, body);
        assert_true(larder__value_fits(head, &v, size) && larder__value_sound(head, body, size));
        for (uint32_t bit = 0; bit < 8 * (LARDER__VALUE_HEAD + size); bit++) {
            bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
            assert_false(larder__value_fits(head, &v, size) &&
                         larder__value_sound(head, body, size));
            bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
        for (uint32_t cut = 0; cut < size; cut++)
            assert_false(larder__value_fits(head, &v, cut));
        larder__value other = v;
        other.id++;
        assert_false(larder__value_fits(head, &other, size));
        other = v;
        other.mark++;
        assert_false(larder__value_fits(head, &other, size));
        other = v;
        other.form = 2;
        assert_false(larder__value_fits(head, &other, size));
    }
}

static void test_slots(void **unused) {
    (void)unused;
    larder__moved m;
    /* CRC-16/XMODEM's check value, and what CLUSTER KEYSLOT says. */
    assert_int_equal(larder__redis_slot("123456789", 9), 0x31c3);
    assert_int_equal(larder__redis_slot("foo", 3), 12182);
    assert_int_equal(larder__redis_slot("a{foo}b", 7), 12182);
    assert_int_equal(larder__redis_slot("{}foo", 5), larder__redis_slot("{}foo", 5));
    assert_int_not_equal(larder__redis_slot("{}foo", 5), 12182);
    assert_int_equal(larder__redis_slot("", 0), 0);
    assert_true(larder__redis_moved("MOVED 3999 127.0.0.1:6381", &m));
    assert_true(!m.ask && m.slot == 3999 && m.port == 6381);
    assert_string_equal(m.host, "127.0.0.1");
    assert_true(larder__redis_moved("ASK 0 ::1:6381", &m));
    assert_true(m.ask && m.port == 6381);
    assert_string_equal(m.host, "::1");
    assert_true(larder__redis_moved("MOVED 1 :6381", &m));
    assert_string_equal(m.host, "");
    static const char *const wrong[] = {
        "MOVED",           "MOVED ",       "MOVED 16384 h:1", "MOVED 1 h",  "MOVED 1 h:0",
        "MOVED 1 h:65536", "MOVED -1 h:1", "ASK 1 h:1x",      "MOVED 1h:1", "ERR MOVED 1 h:1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(larder__redis_moved(wrong[i], &m));
}

typedef struct tape { /* answers in pieces of at most `most` bytes */
    const char *text;
    size_t at, size, most;
} tape;

static int play(void *arg, struct iovec *to, int count) {
    tape *t = arg;
    size_t left = t->most, got = 0;
    for (int i = 0; i < count; i++) {
        size_t n = to[i].iov_len < left ? to[i].iov_len : left;
        n = n < t->size - t->at ? n : t->size - t->at;
        memcpy(to[i].iov_base, t->text + t->at, n);
        t->at += n;
        left -= n;
        got += n;
    }
    return got ? (int)got : LARDER_E_IO;
}

static void test_answers(void **unused) {
    (void)unused;
    static const char text[] = "*3\r\n$5\r\nhello\r\n$-1\r\n$0\r\n\r\n+OK\r\n-ERR no\r\n:-42\r\n"
                               "$11\r\nhello world\r\n";
    for (size_t most = 1; most < sizeof text; most++) {
        tape t = {text, 0, sizeof text - 1, most};
        larder__resp in;
        larder__resp_reply r;
        char five[12] = "";
        check_ok(larder__resp_open(&in, play, &t));
        check_ok(larder__resp_next(&in, &r));
        assert_true(r.type == '*' && r.number == 3);
        check_ok(larder__resp_next(&in, &r));
        assert_true(r.type == '$' && r.number == 5);
        check_ok(larder__resp_bytes(&in, five, 5));
        assert_string_equal(five, "hello");
        check_ok(larder__resp_tail(&in));
        check_ok(larder__resp_next(&in, &r));
        assert_true(r.type == '$' && r.number == -1);
        check_ok(larder__resp_next(&in, &r));
        assert_true(r.type == '$' && r.number == 0);
        check_ok(larder__resp_tail(&in));
        check_ok(larder__resp_next(&in, &r));
        assert_string_equal(r.text, "OK");
        check_ok(larder__resp_next(&in, &r));
        assert_true(r.type == '-');
        assert_string_equal(r.text, "ERR no");
        check_ok(larder__resp_next(&in, &r));
        assert_int_equal(r.number, -42);
        check_ok(larder__resp_next(&in, &r));
        check_ok(larder__resp_skip(&in, 6));
        check_ok(larder__resp_bytes(&in, five, 5));
        assert_string_equal(five, "world");
        check_ok(larder__resp_tail(&in));
        assert_true(larder__resp_next(&in, &r) < 0);
        larder__resp_close(&in);
    }
    static const char *const wrong[] = {"hello\r\n", "$x\r\n", "$-2\r\n", "$99999999999\r\n",
                                        "\r\n",      "+OK\n",  "*\r\n",   "$1 \r\n",
                                        "!3\r\n",    "$-\r\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tape t = {wrong[i], 0, strlen(wrong[i]), 100};
        larder__resp in;
        larder__resp_reply r;
        check_ok(larder__resp_open(&in, play, &t));
        assert_true(larder__resp_next(&in, &r) < 0);
        larder__resp_close(&in);
    }
}

#if LARDER_HAVE_HIREDIS
/* What a server says to a question, before it hangs up. */
static int asked(const char *says, redisReply **out) {
    static const char *const ping[] = {"PING"};
    int ends[2];
    tape none = {0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    larder__conn c = {.timeout = 60, .context = redisConnectFd(ends[0]), .name = "redis here"};
    check_ok(larder__resp_open(&c.in, play, &none));
    assert_int_equal(write(ends[1], says, strlen(says)), strlen(says));
    shutdown(ends[1], SHUT_WR);
    int rc = larder__conn_ask(&c, out, 1, ping, NULL);
    larder__conn_close(&c);
    close(ends[1]);
    return rc;
}

/* No room is made for what was only promised. */
static void test_long_lists(void **unused) {
    (void)unused;
    redisReply *r;
    check_ok(asked("*2\r\n*1\r\n:7\r\n$2\r\nab\r\n", &r));
    assert_true(r->elements == 2 && r->element[0]->element[0]->integer == 7);
    freeReplyObject(r);
    assert_int_equal(asked("*4000000\r\n", &r), LARDER_E_IO); /* it has hung up */
    static const char *const wrong[] = {"*299999999\r\n", "*2\r\n*5000000\r\n", "*2147483647\r\n",
                                        "*-2\r\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(asked(wrong[i], &r), LARDER_E_FORMAT);
        assert_null(r);
        assert_string_equal(larder_errmsg(), "redis here answers with something else");
    }
}
#else
static void test_long_lists(void **unused) { (void)unused; }
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_long_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
