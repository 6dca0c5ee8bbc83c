/* The daemon's loop turn by turn, in this process: what is said when, and to whom, is decided here
 * and not by who is faster. A client of another user is a pair of sockets made as that user. */
#include "base/err.h"
#include "base/mem.h"
#include "base/world.h"
#include "stranger_kit.h"
#include "unix/rank_message.h"
#include "unix/served_set_inside.h"
#include "unix/server_inside.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CACHE = 128 << 20, AT_ONCE = 4096 };

static larder__server *server;

static int begin(void **st) {
    stranger_begin(st);
    larder__server_conf conf = {
        .socket = kit_door, .mode = 0666, .cache = CACHE, .clients = 300, .share_data = true};
    check_ok(larder__server_open(&server, &conf));
    return 0;
}

static int end(void **st) {
    larder__server_close(&server);
    return stranger_end(st);
}

static void come(stranger_line *t, uid_t user) {
    int ends[2];
    uid_t own = geteuid();
    assert_int_equal(seteuid(user), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    assert_int_equal(seteuid(own), 0);
    t->fd = ends[0];
    larder__inbox_init(&t->in);
    larder__server_adopt(server, ends[1]);
}

static void turn(void) { assert_int_equal(larder__server_turn(server, 0), 1); }

/* Has the daemon nothing to do until somebody says something? */
static bool rests(void) {
    struct pollfd on = {.fd = server->epoll, .events = POLLIN};
    return !server->more && !larder__pages_to_do(&server->pages) && poll(&on, 1, 0) == 0;
}

static void settle(void) {
    for (int i = 0; !rests(); i++) {
        assert_true(i < 100000);
        turn();
    }
}

/* The next message of those that have come; 0: there is none, -1: nor will there be. */
static int next(stranger_line *t, larder_reader *body) {
    uint16_t type;
    int rc;
    while ((rc = larder__inbox_next(&t->in, &type, body)) == 0)
        if ((rc = larder__inbox_read(&t->in, t->fd)) <= 0)
            return rc < 0 ? -1 : 0;
    check_ok(rc < 0 ? rc : 0);
    return type;
}

static void say(stranger_line *t, uint16_t type, const void *bytes, size_t n) {
    check_ok(larder__frame_send(t->fd, type, bytes, n, NULL, 0));
}

static void ask_status(stranger_line *t) { say(t, LARDER__MSG_STATUS, NULL, 0); }

/* HELLO, and what it was answered with. */
static int greet(stranger_line *t, const larder__hello *about) {
    larder__hello h = *about;
    larder_writer w = {0};
    larder_reader body;
    int type;
    h.magic = LARDER__WIRE_MAGIC;
    h.version = LARDER__WIRE_VERSION;
    h.at_once = AT_ONCE;
    larder__hello_write(&h, &w);
    say(t, LARDER__MSG_HELLO, w.bytes, w.size);
    larder__writer_free(&w);
    settle();
    while ((type = next(t, &body)) == LARDER__MSG_COMING) {
    }
    return type;
}

/* ---- who talks too much ---------------------------------------------------------------------- */

/* More at once than an inbox holds: it takes several turns, in each of which root is answered. All
 * of it is heard. */
static void a_flood(void **st) {
    (void)st;
    enum { FLOOD = 2 << 20, MORE_THAN_THE_KERNEL_HOLDS = 8 << 20 };
    const int room = MORE_THAN_THE_KERNEL_HOLDS;
    const larder__hello h = stranger_hello();
    stranger_line root, floods;
    larder_reader body;
    larder_writer w = {0};
    root_or_skip();
    come(&root, 0);
    come(&floods, STRANGER_NOBODY);
    assert_int_equal(greet(&floods, &h), LARDER__MSG_WELCOME);
    if (setsockopt(floods.fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room) < 0)
        skip_since("a socket's memory cannot be made larger");
    while (w.size < FLOOD) {
        size_t frame = larder__frame_begin(&w, LARDER__MSG_RETURNS);
        larder__returns_write(&(larder__returns){.releases = 0}, &w);
        larder__frame_end(&w, frame);
    }
    larder__frame_end(&w, larder__frame_begin(&w, LARDER__MSG_STATUS));
    check_ok(w.code);
    assert_int_equal(send(floods.fd, w.bytes, w.size, MSG_NOSIGNAL), w.size);
    int turns = 0, type;
    while ((type = next(&floods, &body)) == 0) {
        ask_status(&root);
        turn();
        assert_int_equal(next(&root, &body), LARDER__MSG_STATUS_IS);
        turns++;
    }
    assert_int_equal(type, LARDER__MSG_STATUS_IS);
    assert_true(turns > 4);
    larder__writer_free(&w);
    stranger_hang_up(&root);
    stranger_hang_up(&floods);
}

/* Waits at the door, with a question. */
static void knock(stranger_line *t, uid_t user) {
    stranger_knock(t, user);
    ask_status(t);
}

/* Many others have something to say: root, who comes last, does not wait for them. */
static void a_crowd_that_talks(void **st) {
    (void)st;
    enum { CROWD = 140 };
    stranger_line crowd[CROWD], root;
    larder_reader body;
    root_or_skip();
    for (int i = 0; i < CROWD; i++) {
        come(&crowd[i], STRANGER_NOBODY);
        ask_status(&crowd[i]);
    }
    come(&root, 0);
    ask_status(&root);
    turn();
    assert_int_equal(next(&root, &body), LARDER__MSG_STATUS_IS);
    settle();
    for (int i = 0; i < CROWD; i++) {
        assert_int_equal(next(&crowd[i], &body), LARDER__MSG_STATUS_IS);
        stranger_hang_up(&crowd[i]);
    }
    stranger_hang_up(&root);
}

/* Later by a minute whenever it is asked for: of a process that is stopped at each of these. */
static double leaping_now(void) {
    static double now;
    return now += 60;
}

/* Where there was no time for others, one of them is heard in each turn all the same. */
static void no_time_for_others(void **st) {
    (void)st;
    enum { CROWD = 3 };
    stranger_line crowd[CROWD];
    larder_reader body;
    larder__world ours = *larder__world_use(NULL);
    root_or_skip();
    for (int i = 0; i < CROWD; i++)
        come(&crowd[i], STRANGER_NOBODY);
    ours.now = leaping_now;
    larder__world_use(&ours);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < CROWD; i++)
            ask_status(&crowd[i]);
        for (int heard = 0; heard < CROWD; heard++) {
            int answers = 0;
            turn();
            for (int i = 0; i < CROWD; i++)
                answers += next(&crowd[i], &body) == LARDER__MSG_STATUS_IS;
            assert_int_equal(answers, 1);
        }
    }
    larder__world_use(NULL);
    for (int i = 0; i < CROWD; i++)
        stranger_hang_up(&crowd[i]);
}

/* Many others at the door: root behind them is let in with the first. */
static void a_crowd_at_the_door(void **st) {
    (void)st;
    enum { CROWD = 40 };
    stranger_line crowd[CROWD], root;
    struct pollfd on = {.events = POLLIN};
    root_or_skip();
    for (int i = 0; i < CROWD; i++)
        knock(&crowd[i], STRANGER_NOBODY);
    knock(&root, 0);
    turn(); /* all come in, */
    turn(); /* and root is heard */
    on.fd = root.fd;
    assert_int_equal(poll(&on, 1, 0), 1);
    for (int i = 0; i < CROWD; i++)
        stranger_hang_up(&crowd[i]);
    stranger_hang_up(&root);
    settle();
    assert_int_equal(larder__server_clients(server), 0);
}

/* ---- who does not read ----------------------------------------------------------------------- */

/* Asks until an answer has to wait for it. */
static const larder__server_client *ask_in_vain(stranger_line *t) {
    const larder__server_client *c = server->clients; /* came last */
    while (c->out.size == 0) {
        ask_status(t);
        turn();
    }
    settle();
    return c;
}

/* Refused, and the answer waits for it: whatever it says then keeps nobody awake, and it is let go
 * when it hangs up. */
static void refused_and_talking(void **st) {
    (void)st;
    for (int how = 0; how < 3; how++) {
        stranger_line t;
        come(&t, geteuid());
        const larder__server_client *c = ask_in_vain(&t);
        say(&t, LARDER__MSG_HELLO, "?", 1);
        turn();
        assert_true(c->leaving && c->out.size > 0);
        ask_status(&t);
        turn();
        assert_true(rests());
        if (how == 0)
            stranger_hang_up(&t);
        else if (how == 1)
            shutdown(t.fd, SHUT_RDWR); /* with all of it unread */
        else {
            larder_reader body;
            int type;
            while ((type = next(&t, &body)) == LARDER__MSG_STATUS_IS || type == 0)
                turn();
            assert_int_equal(type, LARDER__MSG_REFUSED);
        }
        settle();
        assert_int_equal(larder__server_clients(server), 0);
        if (how > 0)
            stranger_hang_up(&t);
    }
}

/* Of every key in turn; its answer comes as TICKETS. */
static void claim(stranger_line *t, uint32_t first, uint32_t keys, uint32_t size) {
    static larder__row rows[AT_ONCE];
    larder_writer w = {0};
    for (uint32_t i = 0; i < AT_ONCE; i++)
        rows[i] = (larder__row){.key = (first + i) % keys, .size = size};
    larder__op_write(&(larder__op){.type = LARDER__OP_CLAIM, .n = AT_ONCE, .rows = rows}, &w);
    say(t, LARDER__MSG_OP + LARDER__OP_CLAIM, w.bytes, w.size);
    larder__writer_free(&w);
}

/* Asks for batches and reads none, until half an answer is on its way. */
static const larder__server_client *claim_in_vain(stranger_line *t) {
    const larder__server_client *c = server->clients; /* came last */
    const size_t answer =
        sizeof(larder__frame_head) + LARDER__TICKETS_HEAD + AT_ONCE * sizeof(larder__reply);
    const larder__hello h = stranger_hello();
    assert_int_equal(greet(t, &h), LARDER__MSG_WELCOME);
    while (c->out.size == 0) {
        claim(t, 0, STRANGER_KEYS, 100);
        turn();
    }
    assert_true(c->out.size < answer);
    return c;
}

/* It hears nothing that begins in the middle of it. */
static void hears_half(stranger_line *t) {
    larder_reader body;
    int type;
    while ((type = next(t, &body)) == LARDER__MSG_TICKETS) {
    }
    assert_int_equal(type, -1);
    assert_true(t->in.have > t->in.used);
    stranger_hang_up(t);
    settle();
    assert_int_equal(larder__server_clients(server), 0);
}

static void nonsense_with_half_an_answer(void **st) {
    (void)st;
    stranger_line t;
    come(&t, geteuid());
    const larder__server_client *c = claim_in_vain(&t);
    say(&t, LARDER__MSG_OP - 1, NULL, 0);
    settle();
    assert_true(c->expelled);
    hears_half(&t);
}

static void hoards_with_half_an_answer(void **st) {
    (void)st;
    stranger_line t;
    root_or_skip();
    come(&t, STRANGER_NOBODY);
    const larder__server_client *c = claim_in_vain(&t);
    for (int i = 0; !c->expelled; i++) {
        assert_true(i < 1000);
        claim(&t, 0, STRANGER_KEYS, 100);
        settle();
    }
    hears_half(&t);
}

/* No memory for the other half, and it reads the first before it is thrown out. */
static void no_memory_for_half(void **st) {
    (void)st;
    enum { LONG = 1 << 20 };
    static char bytes[sizeof(larder__frame_head) + LONG];
    stranger_line t;
    come(&t, geteuid());
    larder__purse *before = larder__mem_charge(&server->purse);
    server->body.size = 0;
    larder__write_space(&server->body, LONG);
    larder__mem_fail_at(1, 1);
    int rc = larder__server_reply(server, server->clients, LARDER__MSG_STATUS_IS);
    larder__mem_fail_at(0, 0);
    assert_int_equal(rc, LARDER_E_NOMEM);
    ssize_t n = recv(t.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    assert_true(n > 0 && n < (ssize_t)sizeof bytes);
    larder__server_throw_out(server, server->clients, larder__fail(LARDER_E_FULL, "no memory"));
    larder__mem_charge(before);
    assert_int_equal(recv(t.fd, bytes, sizeof bytes, MSG_DONTWAIT), 0);
    stranger_hang_up(&t);
}

/* What it comes in with is sent at once: not ahead of answers that wait, nor in the middle of one.
 */
static void hello_before_answers(void **st) {
    (void)st;
    enum { SOME = 4000 }; /* makes room in the socket, too little to be told that there is */
    static unsigned char heard[1 << 20];
    const larder__hello h = stranger_hello();
    larder_writer w = {0};
    stranger_line t;
    come(&t, geteuid());
    const larder__server_client *c = ask_in_vain(&t);
    size_t have = (size_t)recv(t.fd, heard, SOME, MSG_DONTWAIT);
    assert_int_equal(have, SOME);
    assert_true(rests() && c->out.size > 0);
    larder__hello full = h;
    full.magic = LARDER__WIRE_MAGIC;
    full.version = LARDER__WIRE_VERSION;
    larder__hello_write(&full, &w);
    say(&t, LARDER__MSG_HELLO, w.bytes, w.size);
    settle();
    for (ssize_t n; (n = recv(t.fd, heard + have, sizeof heard - have, MSG_DONTWAIT)) > 0;)
        have += (size_t)n;
    larder__frame_head head;
    for (size_t at = 0; have - at > sizeof head; at += sizeof head + head.bytes) {
        memcpy(&head, heard + at, sizeof head);
        bool last = have - at == sizeof head + head.bytes;
        assert_int_equal(head.type, last ? LARDER__MSG_REFUSED : LARDER__MSG_STATUS_IS);
        assert_true(head.bytes < have - at);
    }
    assert_int_equal(larder__server_clients(server), 0);
    larder__writer_free(&w);
    stranger_hang_up(&t);
}

/* ---- who takes more than was reckoned -------------------------------------------------------- */

/* What all of them together may come to: promises, and what the daemon has besides. */
static void is_within_promises(void) {
    enum { BESIDES = 12 << 20 };
    assert_true(server->purse.used <= server->promised + BESIDES);
}

/* There is room for another data set, and it is asked for. */
static void root_finds_room(void) {
    larder__hello h = stranger_hello();
    stranger_line root;
    come(&root, 0);
    h.identity = 99;
    assert_int_equal(greet(&root, &h), LARDER__MSG_WELCOME);
    is_within_promises();
    stranger_hang_up(&root);
    settle();
}

static void join_rank(stranger_line *t, uint32_t rank) {
    larder__join j = {.magic = LARDER__WIRE_MAGIC,
                      .version = LARDER__WIRE_VERSION,
                      .rank = rank,
                      .world = 2,
                      .batch = 8,
                      .turns = 2,
                      .identity = 3,
                      .keys = 100,
                      .payload = 100000,
                      .want = 1000,
                      .job = "run",
                      .name = "test"};
    larder_writer w = {0};
    larder_reader body;
    come(t, STRANGER_NOBODY);
    larder__join_write(&j, &w);
    say(t, LARDER__MSG_JOIN, w.bytes, w.size);
    larder__writer_free(&w);
    settle();
    assert_int_equal(next(t, &body), LARDER__MSG_JOINED);
}

/* A frame that is longer than the socket holds, as far as it is taken. */
static void say_long(stranger_line *t, const larder_writer *w) {
    for (size_t at = 0; at < w->size;) {
        ssize_t n = send(t->fd, w->bytes + at, w->size - at, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return;
        at += n > 0 ? (size_t)n : 0;
        turn();
    }
    settle();
}

/* Ranks that say more than anybody forgets, and do not hear each other. */
static void ranks_that_only_talk(void **st) {
    (void)st;
    stranger_line ranks[2];
    larder_writer w = {0};
    root_or_skip();
    for (uint32_t r = 0; r < 2; r++)
        join_rank(&ranks[r], r);
    for (uint32_t r = 0; r < 2; r++) { /* each waits for what the other says, and does not read */
        const uint32_t wish[] = {1, 't', 7, 0, 1 - r};
        say(&ranks[r], LARDER__MSG_WISH, wish, sizeof wish);
    }
    settle();
    size_t frame = larder__frame_begin(&w, LARDER__MSG_SAY);
    larder_write_u32(&w, 't');
    larder_write_u32(&w, 0); /* of so many pieces, which never end */
    larder_write_u32(&w, 100);
    larder_write_u64(&w, 7);
    larder__write_space(&w, LARDER__PIECE);
    larder__frame_end(&w, frame);
    check_ok(w.code);
    for (int i = 0; i < 2 * (CACHE >> 20); i++) {
        say_long(&ranks[i % 2], &w);
        is_within_promises();
    }
    root_finds_room();
    for (uint32_t r = 0; r < 2; r++)
        stranger_hang_up(&ranks[r]);
    settle();
    assert_int_equal(larder__server_clients(server), 0);
    larder__writer_free(&w);
}

/* The first of two pieces, said over and over: who wishes for the record hears it once. */
static void a_rank_that_repeats_itself(void **st) {
    (void)st;
    enum { TIMES = 1000 };
    const uint32_t piece[] = {'t', 0, 2, 7, 0}, wish[] = {1, 't', 7, 0, 1};
    stranger_line ranks[2];
    larder_reader body;
    int type, heard = 0;
    root_or_skip();
    for (uint32_t r = 0; r < 2; r++)
        join_rank(&ranks[r], r);
    for (int i = 0; i < TIMES; i++) {
        say(&ranks[1], LARDER__MSG_SAY, piece, sizeof piece);
        turn();
    }
    say(&ranks[0], LARDER__MSG_WISH, wish, sizeof wish);
    settle();
    while ((type = next(&ranks[0], &body)) > 0)
        heard += type == LARDER__MSG_HEARD;
    assert_int_equal(type, 0);
    assert_int_equal(heard, 1);
    for (uint32_t r = 0; r < 2; r++)
        stranger_hang_up(&ranks[r]);
    settle();
    assert_int_equal(larder__server_clients(server), 0);
}

/* Samples that are smaller than was said, so that there are more of them, none of them given back;
 * then the same one over and over. A job of root's that was there before is answered. */
static void samples_that_are_small(void **st) {
    (void)st;
    enum { KEYS = 200000, SAID = 2000 };
    stranger_line root, t;
    larder_reader body;
    larder__hello h = stranger_hello();
    root_or_skip();
    come(&root, 0);
    snprintf(h.budget, sizeof h.budget, "1MiB");
    assert_int_equal(greet(&root, &h), LARDER__MSG_WELCOME);
    h.identity++;
    h.about.keys = KEYS;
    h.payload = (uint64_t)KEYS * SAID;
    snprintf(h.budget, sizeof h.budget, "10MiB");
    come(&t, STRANGER_NOBODY);
    assert_int_equal(greet(&t, &h), LARDER__MSG_WELCOME);
    for (uint32_t k = 0; k < 2 * KEYS; k += AT_ONCE) {
        claim(&t, k < KEYS ? k : 0, k < KEYS ? KEYS : 1, 1);
        settle();
        while (next(&t, &body) == LARDER__MSG_TICKETS) {
        }
        is_within_promises();
    }
    claim(&root, 0, STRANGER_KEYS, 100);
    settle();
    assert_int_equal(next(&root, &body), LARDER__MSG_TICKETS);
    stranger_hang_up(&root);
    settle();
    root_finds_room();
    stranger_hang_up(&t);
}

/* ---- who asks for much memory ---------------------------------------------------------------- */

/* What there is of a data set's own, in turns that each root is answered in; how many. */
static int turns_until_rest(stranger_line *root) {
    enum { BESIDES = 2 << 20 }; /* of a turn: answers and notes */
    larder_reader body;
    int turns = 0;
    while (larder__pages_to_do(&server->pages)) {
        uint64_t used = server->purse.used;
        assert_true(used <= server->purse.most);
        ask_status(root);
        turn();
        assert_int_equal(next(root, &body), LARDER__MSG_STATUS_IS);
        uint64_t moved =
            server->purse.used > used ? server->purse.used - used : used - server->purse.used;
        assert_true(moved <= LARDER__PAGES_PIECE + BESIDES);
        turns++;
    }
    return turns;
}

/* HELLO for a set of LARGE bytes, turn by turn until it is answered; what it was answered with. */
static int greet_for_much(stranger_line *t, larder__hello *h, int large, larder_reader *body) {
    larder_writer w = {0};
    int type;
    h->identity++;
    h->payload = (uint64_t)large;
    snprintf(h->budget, sizeof h->budget, "%d", large);
    h->magic = LARDER__WIRE_MAGIC;
    h->version = LARDER__WIRE_VERSION;
    h->at_once = AT_ONCE;
    larder__hello_write(h, &w);
    say(t, LARDER__MSG_HELLO, w.bytes, w.size);
    larder__writer_free(&w);
    while ((type = next(t, body)) == 0 || type == LARDER__MSG_COMING)
        turn();
    return type;
}

/* A large cache is reserved a piece a turn, and given back so; a job can use it meanwhile. */
static void a_large_cache(void **st) {
    (void)st;
    enum { LARGE = 90 << 20, PIECES = LARGE / LARDER__PAGES_PIECE };
    stranger_line root, t;
    larder_reader body;
    larder__hello h = stranger_hello();
    come(&root, geteuid());
    settle();
    for (int i = 0; i < 3; i++) { /* each of them takes the place of the one before */
        come(&t, geteuid());
        assert_int_equal(greet_for_much(&t, &h, LARGE, &body), LARDER__MSG_WELCOME);
        assert_true(larder__pages_to_do(&server->pages));
        claim(&t, 0, STRANGER_KEYS, STRANGER_MIDDLE); /* before all of it is there */
        turn();
        assert_int_equal(next(&t, &body), LARDER__MSG_TICKETS);
        assert_true(turns_until_rest(&root) >= PIECES - 3 + (i > 0 ? PIECES : 0));
        assert_true(server->purse.used >= LARGE);
        is_within_promises();
        stranger_hang_up(&t);
        settle();
    }
    stranger_hang_up(&root);
}

/* Bytes that the kernel has for them. */
static uint64_t held_by(const int *fds, int count) {
    struct stat st;
    uint64_t sum = 0;
    for (int i = 0; i < count; i++) {
        assert_int_equal(fstat(fds[i], &st), 0);
        sum += (uint64_t)st.st_blocks * 512;
    }
    return sum;
}

/* Another user who reads all of a cache before it is reserved has memory there that is not counted,
 * again and again: what others left does not go at once to make room for that. */
static void touched_and_left(void **st) {
    (void)st;
    enum { LARGE = 90 << 20, ROUNDS = 6, MOST = 6 }; /* pieces that go while one is answered */
    int kept[ROUNDS];
    stranger_line root, t;
    larder_reader body;
    larder__hello h = stranger_hello();
    root_or_skip();
    come(&root, 0);
    settle();
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t before = held_by(kept, i);
        come(&t, STRANGER_NOBODY);
        assert_int_equal(greet_for_much(&t, &h, LARGE, &body), LARDER__MSG_WELCOME);
        assert_true(before <= held_by(kept, i) + MOST * (uint64_t)LARDER__PAGES_PIECE);
        const larder__arena *a = server->sets[server->sets[0] ? 0 : 1]->arena;
        assert_true((kept[i] = dup(larder__arena_fd(a))) >= 0);
        const volatile unsigned char *at = larder__arena_base(a);
        for (uint64_t k = 0; k < larder__arena_bytes(a); k += 4096)
            (void)at[k];
        stranger_hang_up(&t);
        for (int k = 0; larder__server_clients(server) > 1; k++) {
            assert_true(k < 1000);
            turn();
        }
    }
    turns_until_rest(&root);
    assert_true(held_by(kept, ROUNDS) <= LARGE + (LARGE >> 1)); /* that of the last one */
    for (int i = 0; i < ROUNDS; i++)
        close(kept[i]);
    come(&t, 0);
    assert_int_equal(greet_for_much(&t, &h, LARGE, &body), LARDER__MSG_WELCOME);
    turns_until_rest(&root);
    is_within_promises();
    stranger_hang_up(&t);
    stranger_hang_up(&root);
}

/* Another user who asks for as much as it can at once has little of it reserved for it in a turn.
 */
static void a_large_claim(void **st) {
    (void)st;
    enum { LARGE = 90 << 20, A_SAMPLE = 2 << 20, BESIDES = 2 << 20 };
    stranger_line t;
    larder_reader body;
    larder__hello h = stranger_hello();
    root_or_skip();
    come(&t, STRANGER_NOBODY);
    assert_int_equal(greet_for_much(&t, &h, LARGE, &body), LARDER__MSG_WELCOME);
    claim(&t, 0, STRANGER_KEYS, A_SAMPLE);
    uint64_t before = server->purse.used;
    turn();
    assert_int_equal(next(&t, &body), LARDER__MSG_TICKETS);
    assert_in_range(server->purse.used - before, LARDER__PAGES_PIECE,
                    3 * LARDER__PAGES_PIECE + BESIDES); /* one of them for all */
    settle();
    assert_true(server->purse.used >= LARGE);
    stranger_hang_up(&t);
}

/* Where all memory is taken all the same, root's and our own have some that nobody else gets. */
static void no_memory_for_others(void **st) {
    (void)st;
    stranger_line root, t;
    larder_reader body;
    const larder__hello h = stranger_hello();
    root_or_skip();
    come(&root, 0);
    come(&t, STRANGER_NOBODY);
    assert_int_equal(greet(&root, &h), LARDER__MSG_WELCOME);
    assert_int_equal(greet(&t, &h), LARDER__MSG_WELCOME);
    uint64_t used = server->purse.used;
    server->purse.used = server->purse.most - (4 << 20);
    claim(&t, 0, STRANGER_KEYS, 100);
    claim(&root, 0, STRANGER_KEYS, 100);
    settle();
    assert_int_equal(next(&t, &body), LARDER__MSG_REFUSED);
    assert_int_equal(next(&root, &body), LARDER__MSG_TICKETS);
    server->purse.used = used;
    stranger_hang_up(&t);
    stranger_hang_up(&root);
}

/* Not even for the word that somebody is thrown out: that is nobody else's loss. */
static void no_memory_to_say_so(void **st) {
    (void)st;
    stranger_line root, t, late;
    larder_reader body;
    const larder__hello h = stranger_hello();
    root_or_skip();
    for (int how = 0; how < 2; how++) {
        come(&root, 0);
        come(&t, STRANGER_NOBODY);
        assert_int_equal(greet(&root, &h), LARDER__MSG_WELCOME);
        larder__purse *before = larder__mem_charge(&server->purse);
        larder__writer_free(&server->body);
        larder__mem_charge(before);
        uint64_t used = server->purse.used;
        if (how == 0) {
            server->purse.used = server->purse.most - (4 << 20);
            say(&t, LARDER__MSG_OP - 1, NULL, 0);
            turn();
        } else {
            server->purse.used = server->purse.most;
            come(&late, STRANGER_NOBODY);
            stranger_hang_up(&late);
        }
        server->purse.used = used;
        claim(&root, 0, STRANGER_KEYS, 100);
        settle();
        assert_int_equal(next(&root, &body), LARDER__MSG_TICKETS);
        stranger_hang_up(&t);
        stranger_hang_up(&root);
        settle();
    }
}

/* Where no block is free, pins are looked at in each batch anew. */
static void each_claim_looks(void **st) {
    (void)st;
    const larder__hello h = stranger_hello();
    stranger_line t;
    larder_reader body;
    come(&t, geteuid());
    assert_int_equal(greet(&t, &h), LARDER__MSG_WELCOME);
    server->sets[0]->pinned.looks = 0;
    claim(&t, 0, STRANGER_KEYS, 100);
    settle();
    assert_int_equal(next(&t, &body), LARDER__MSG_TICKETS);
    assert_true(server->sets[0]->pinned.looks > 0);
    stranger_hang_up(&t);
}

/* What is promised in the moment after a look is looked at too, though nobody says a word more:
 * whoever promised it may be stopped, and others wait for it. */
static void a_promise_after_a_look(void **st) {
    (void)st;
    const larder__hello h = stranger_hello();
    stranger_line t;
    larder_reader body;
    come(&t, geteuid());
    assert_int_equal(greet(&t, &h), LARDER__MSG_WELCOME);
    claim(&t, 0, STRANGER_KEYS, 100);
    server->making = false;
    server->watch_at = larder__world_now();
    turn();
    assert_int_equal(next(&t, &body), LARDER__MSG_TICKETS);
    assert_true(server->sets[0]->makings > 0);
    assert_true(server->making); /* else it would wait until somebody says something */
    while (server->sets[0]->makings)
        assert_int_equal(larder__server_turn(server, -1), 1);
    stranger_hang_up(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_flood, begin, end),
        cmocka_unit_test_setup_teardown(a_crowd_that_talks, begin, end),
        cmocka_unit_test_setup_teardown(no_time_for_others, begin, end),
        cmocka_unit_test_setup_teardown(a_crowd_at_the_door, begin, end),
        cmocka_unit_test_setup_teardown(refused_and_talking, begin, end),
        cmocka_unit_test_setup_teardown(nonsense_with_half_an_answer, begin, end),
        cmocka_unit_test_setup_teardown(hoards_with_half_an_answer, begin, end),
        cmocka_unit_test_setup_teardown(no_memory_for_half, begin, end),
        cmocka_unit_test_setup_teardown(hello_before_answers, begin, end),
        cmocka_unit_test_setup_teardown(ranks_that_only_talk, begin, end),
        cmocka_unit_test_setup_teardown(a_rank_that_repeats_itself, begin, end),
        cmocka_unit_test_setup_teardown(samples_that_are_small, begin, end),
        cmocka_unit_test_setup_teardown(no_memory_for_others, begin, end),
        cmocka_unit_test_setup_teardown(no_memory_to_say_so, begin, end),
        cmocka_unit_test_setup_teardown(a_large_cache, begin, end),
        cmocka_unit_test_setup_teardown(touched_and_left, begin, end),
        cmocka_unit_test_setup_teardown(a_large_claim, begin, end),
        cmocka_unit_test_setup_teardown(each_claim_looks, begin, end),
        cmocka_unit_test_setup_teardown(a_promise_after_a_look, begin, end),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
