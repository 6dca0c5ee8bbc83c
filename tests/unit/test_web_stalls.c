/* After an attempt has stalled: who gets a connection of its own. */
#include "check.h"

#if LARDER_HAVE_CURL
#include "source/web/web_engine.c"

static void answer(larder__web_engine *e, const char *line) {
    note_version(e, line, strlen(line));
    note_version(e, "etag: HTTP/2", 12); /* no version of anything */
}

static void until_they_have_left_or_moved(void **st) {
    (void)st;
    larder__web_try one = {.begun = 1, .moved = 1}, other = {.begun = 2, .moved = 3};
    larder__web_engine e = {.busy = &one};
    one.next = &other;
    assert_false(doubts_connections(&e)); /* nothing has stalled */
    e.stalled = 5;
    assert_true(doubts_connections(&e)); /* nobody has answered: it may be either */
    answer(&e, "HTTP/2 200 \r\n");
    other.moved = 6; /* its connection lives */
    assert_true(doubts_connections(&e));
    e.busy = &other; /* the first has left */
    assert_false(doubts_connections(&e));
    e.stalled = 7;
    assert_true(doubts_connections(&e));
    e.busy = NULL;
    assert_false(doubts_connections(&e));
}

static void none_where_nobody_shares_one(void **st) {
    (void)st;
    larder__web_try one = {.begun = 1, .moved = 1};
    larder__web_engine e = {.busy = &one, .stalled = 5};
    answer(&e, "HTTP/1.1 206 Partial Content\r\n");
    assert_false(doubts_connections(&e));
    answer(&e, "HTTP/2 206 \r\n"); /* of another host, after a redirect */
    assert_true(doubts_connections(&e));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(until_they_have_left_or_moved),
        cmocka_unit_test(none_where_nobody_shares_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) { return 77; }
#endif
