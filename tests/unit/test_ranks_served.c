/* Ranks in the daemon, message by message: values and records come as they were given, whoever says
 * what makes no sense is shown out, and nobody else notices. Also the values alone, at random,
 * against a list. */
#include "check.h"
#include "unix/frame.h"
#include "unix/rank_link.h"
#include "unix/rank_message.h"
#include "unix/rank_values.h"
#include "unix/server.h"

#include <fcntl.h>
#include <larder/plugin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- values ---------------------------------------------------------------------------------- */

enum { NAMES = 200, ARENA = 16 << 10 };

static larder__value name_of(uint32_t i) {
    return (larder__value){
        .id = i / 4, .mark = i % 2, .form = (uint8_t)(i / 2 % 2), .size = i % 700};
}

static void values_at_random(void **st) {
    (void)st;
    larder__unix_ranks_values v;
    larder_buf *twin[NAMES] = {0}, *read[NAMES] = {0};
    uint64_t refused = 0, found = 0, bytes = 0, count = 0;
    larder_rng rng;
    larder_rng_seed(&rng, 5, 0);
    check_ok(larder__unix_ranks_values_open(&v, ARENA, NULL, false));
    for (int step = 0; step < 40000; step++) {
        uint32_t i = (uint32_t)(larder_rng_next(&rng) % NAMES);
        larder__value name = name_of(i), about;
        larder_buf *room, *there = larder__unix_ranks_values_find(&v, &name, &about);
        assert_ptr_equal(there, twin[i]);
        switch (larder_rng_next(&rng) % 4) {
        case 0: /* put; a second one of the name is of no use */
            room = larder__unix_ranks_values_room(&v, name.size);
            refused += !room;
            if (!room)
                break;
            memset(larder_buf_data(room), (int)i, name.size);
            check_ok(larder__unix_ranks_values_keep(&v, &name, room));
            if (!there)
                twin[i] = room;
            larder_buf_unref(&room);
            break;
        case 1:
            larder__unix_ranks_values_drop(&v, &name);
            twin[i] = NULL;
            break;
        case 2: /* read on, though it be dropped */
            larder_buf_unref(&read[i]);
            read[i] = there ? larder_buf_ref(there) : NULL;
            break;
        default:
            for (size_t k = 0; read[i] && k < name.size; k++, found++)
                assert_int_equal(((unsigned char *)larder_buf_data(read[i]))[k], i);
        }
        assert_true(larder__arena_sound(v.arena));
    }
    for (uint32_t i = 0; i < NAMES; i++) {
        larder_buf_unref(&read[i]);
        count += twin[i] != NULL;
        bytes += twin[i] ? name_of(i).size : 0;
    }
    assert_true(refused > 10 && found > 1000);
    assert_int_equal(v.count, count);
    assert_int_equal(v.bytes, bytes);
    for (uint32_t i = 0; i < NAMES; i++)
        larder__unix_ranks_values_drop(&v, &(larder__value){.id = name_of(i).id,
                                                            .mark = name_of(i).mark,
                                                            .form = name_of(i).form});
    assert_int_equal(larder__arena_taken(v.arena), 0);
    larder__unix_ranks_values_close(&v);
}

/* ---- messages -------------------------------------------------------------------------------- */

typedef struct rank {
    int fd;
    larder__inbox in;
    larder_writer w;
    unsigned char *arena;
    uint64_t arena_bytes;
} rank;

static larder__server *server;
static char folder[32];

static void begin(void) {
    char path[64];
    snprintf(folder, sizeof folder, "/tmp/larder-ranks-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/s", folder);
    larder__server_conf conf = {.socket = path, .mode = 0600, .cache = 4 << 20, .clients = 8};
    check_ok(larder__server_open(&server, &conf));
}

static void end(void) {
    larder__server_close(&server);
    rmdir(folder);
}

static void send_frame(rank *r, uint16_t type) {
    check_ok(r->w.code);
    check_ok(larder__frame_send(r->fd, type, r->w.bytes, r->w.size, NULL, 0));
    r->w.size = 0;
    check_ok(larder__server_turn(server, 0)); /* before anybody else says something */
}

/* The next message, or 0: the daemon has hung up. */
static uint16_t hear(rank *r, larder_reader *body) {
    uint16_t type;
    for (int i = 0; i < 10000; i++) {
        if (larder__inbox_next(&r->in, &type, body) == 1)
            return type;
        check_ok(larder__server_turn(server, 0));
        if (larder__inbox_read(&r->in, r->fd) < 0)
            return 0;
    }
    fail_msg("the daemon says nothing");
    return 0;
}

static larder__join introduction(uint32_t number, uint32_t world) {
    return (larder__join){.magic = LARDER__WIRE_MAGIC,
                          .version = LARDER__WIRE_VERSION,
                          .rank = number,
                          .world = world,
                          .batch = 8,
                          .turns = 2,
                          .fingerprint = 77,
                          .keys = 100,
                          .payload = 100000,
                          .want = 30000,
                          .job = "ranks",
                          .name = "test"};
}

static void come(rank *r) {
    int ends[2];
    *r = (rank){0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    r->fd = ends[0];
    larder__inbox_init(&r->in);
    larder__server_adopt(server, ends[1]);
}

static void knock(rank *r, const larder__join *j) {
    come(r);
    larder__join_write(j, &r->w);
    send_frame(r, LARDER__MSG_JOIN);
}

static void hear_ranks(rank *r, uint32_t missing, bool met) {
    larder_reader body;
    assert_int_equal(hear(r, &body), LARDER__MSG_RANKS);
    assert_int_equal(larder_read_u32(&body), missing);
    assert_int_equal(larder_read_u64(&body) != 0, met);
}

static void join(rank *r, uint32_t number, uint32_t world) {
    larder_reader body;
    larder__joined m;
    larder__join j = introduction(number, world);
    knock(r, &j);
    assert_int_equal(hear(r, &body), LARDER__MSG_JOINED);
    check_ok(larder__joined_read(&m, &body));
    assert_int_equal(m.budget, 30000);
    int fd = larder__inbox_take_fd(&r->in);
    r->arena_bytes = m.arena_bytes;
    r->arena = mmap(NULL, m.arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(r->arena != MAP_FAILED);
    close(fd);
}

static void leave(rank *r) {
    close(r->fd);
    if (r->arena)
        munmap(r->arena, r->arena_bytes);
    larder__inbox_free(&r->in);
    larder__writer_free(&r->w);
    for (int i = 0; i < 4; i++)
        check_ok(larder__server_turn(server, 0));
}

static void write_value(rank *r, uint64_t id, uint32_t size) {
    larder__value v = {.id = id, .size = size};
    larder__wire_value w = larder__wire_value_of(&v);
    larder_write_bytes(&r->w, &w, sizeof w);
}

static larder__wire_found ask(rank *r, uint16_t type, uint16_t answer, uint64_t id, uint32_t size) {
    larder_reader body;
    larder__wire_found out;
    larder_write_u32(&r->w, 9);
    write_value(r, id, size);
    send_frame(r, type);
    assert_int_equal(hear(r, &body), answer);
    assert_int_equal(larder_read_u32(&body), 9);
    larder_read_bytes(&body, &out, sizeof out);
    check_ok(larder_read_status(&body));
    return out;
}

static larder__wire_found look(rank *r, uint64_t id, uint32_t size) {
    return ask(r, LARDER__MSG_LOOKUP, LARDER__MSG_FOUND, id, size);
}

static void give(rank *r, uint16_t type, uint32_t number) {
    larder_write_u32(&r->w, number);
    send_frame(r, type);
}

static void put(rank *r, uint64_t id, uint32_t size) {
    larder__wire_found f = ask(r, LARDER__MSG_PLACE, LARDER__MSG_PLACED, id, size);
    assert_int_not_equal(f.lease, LARDER__NO_LEASE);
    memset(r->arena + f.offset, (int)id, size);
    give(r, LARDER__MSG_STORED, f.lease);
}

static void values_of_two(void **st) {
    (void)st;
    rank a, b;
    begin();
    join(&a, 0, 2);
    hear_ranks(&a, 1, false);
    join(&b, 1, 2);
    hear_ranks(&a, UINT32_MAX, true);
    hear_ranks(&b, UINT32_MAX, true);
    assert_int_equal(look(&b, 5, 100).lease, LARDER__NO_LEASE);
    put(&a, 5, 100);
    assert_int_equal(look(&a, 5, 99).lease, LARDER__NO_LEASE); /* larger than was asked for */
    larder__wire_found f = look(&b, 5, 100);
    assert_int_equal(f.size, 100);
    assert_int_equal(b.arena[f.offset + 99], 5);
    larder__wire_found twice = ask(&b, LARDER__MSG_PLACE, LARDER__MSG_PLACED, 5, 100);
    assert_true(twice.lease == LARDER__NO_LEASE && twice.size == 1);
    write_value(&a, 5, 0); /* gone for others, but b reads on */
    send_frame(&a, LARDER__MSG_DROP);
    assert_int_equal(look(&a, 5, 100).lease, LARDER__NO_LEASE);
    put(&a, 6, 100);
    assert_int_equal(b.arena[f.offset + 99], 5);
    give(&b, LARDER__MSG_RELEASE, f.lease);
    give(&b, LARDER__MSG_RELEASE, f.lease); /* twice: nothing */
    assert_int_equal(look(&b, 6, 100).size, 100);
    larder__wire_found full = ask(&a, LARDER__MSG_PLACE, LARDER__MSG_PLACED, 7, 1u << 30);
    assert_true(full.lease == LARDER__NO_LEASE && full.size == 0);
    leave(&a);
    leave(&b);
    assert_int_equal(larder__server_clients(server), 0);
    end();
}

/* ---- records --------------------------------------------------------------------------------- */

static void say(rank *r, uint64_t number, uint32_t piece, uint32_t pieces, const char *text) {
    larder_write_u32(&r->w, 't');
    larder_write_u32(&r->w, piece);
    larder_write_u32(&r->w, pieces);
    larder_write_u64(&r->w, number);
    larder_write_bytes(&r->w, text, strlen(text));
    send_frame(r, LARDER__MSG_SAY);
}

static void wish(rank *r, uint32_t serial, uint64_t number, uint32_t whose) {
    larder_write_u32(&r->w, serial);
    larder_write_u32(&r->w, 't');
    larder_write_u64(&r->w, number);
    larder_write_u32(&r->w, whose);
    send_frame(r, LARDER__MSG_WISH);
    hear_ranks(r, UINT32_MAX, true);
}

static void hear_piece(rank *r, uint32_t serial, uint32_t whose, uint32_t piece, const char *text) {
    larder_reader body;
    char got[16] = {0};
    assert_int_equal(hear(r, &body), LARDER__MSG_HEARD);
    assert_int_equal(larder_read_u32(&body), serial);
    assert_int_equal(larder_read_u32(&body), whose);
    assert_int_equal(larder_read_u32(&body), piece);
    larder_read_u32(&body);
    assert_int_equal(larder__read_left(&body), strlen(text));
    larder_read_bytes(&body, got, strlen(text));
    assert_string_equal(got, text);
}

static void hear_gone(rank *r, uint32_t serial, uint32_t whose, bool ended) {
    larder_reader body;
    assert_int_equal(hear(r, &body), LARDER__MSG_GONE);
    assert_int_equal(larder_read_u32(&body), serial);
    assert_int_equal(larder_read_u32(&body), whose);
    assert_int_equal(larder_read_u32(&body), ended);
}

static void records_of_three(void **st) {
    (void)st;
    rank r[3];
    begin();
    for (uint32_t k = 0; k < 3; k++) {
        join(&r[k], k, 3);
        for (uint32_t i = 0; i <= k; i++)
            hear_ranks(&r[i], k < 2 ? k + 1 : UINT32_MAX, k == 2);
    }
    say(&r[0], 1, 0, 2, "one"); /* before and after somebody wishes for it */
    wish(&r[1], 4, 1, 0);
    hear_piece(&r[1], 4, 0, 0, "one");
    say(&r[0], 2, 0, 1, "other");
    say(&r[0], 1, 1, 2, "two");
    hear_piece(&r[1], 4, 0, 1, "two");
    wish(&r[2], 1, 1, 0);
    hear_piece(&r[2], 1, 0, 0, "one");
    hear_piece(&r[2], 1, 0, 1, "two");
    larder_write_u32(&r[0].w, 't');
    larder_write_u64(&r[0].w, 1);
    send_frame(&r[0], LARDER__MSG_FORGET);
    wish(&r[2], 2, 1, 0); /* nothing is left of it */
    wish(&r[1], 5, 2, 0);
    hear_piece(&r[1], 5, 0, 0, "other");
    send_frame(&r[0], LARDER__MSG_BYE);
    leave(&r[0]);
    hear_gone(&r[2], 2, 0, true);
    wish(&r[1], 6, 2, 0); /* what it said last is still there */
    hear_piece(&r[1], 6, 0, 0, "other");
    wish(&r[1], 7, 9, 2);
    leave(&r[2]);
    hear_gone(&r[1], 7, 2, false);
    larder__join late = introduction(0, 3); /* a job that has been complete takes nobody in */
    knock(&r[0], &late);
    larder_reader body;
    assert_int_equal(hear(&r[0], &body), LARDER__MSG_JOINED);
    hear_ranks(&r[0], 1, false);
    leave(&r[0]);
    leave(&r[1]);
    end();
}

/* A rank that gave up before it was heard was never there, and comes again. */
static void who_did_not_wait(void **st) {
    (void)st;
    rank a, b;
    int ends[2];
    larder_writer w = {0};
    larder__join j = introduction(1, 2);
    begin();
    join(&a, 0, 2);
    hear_ranks(&a, 1, false);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    larder__join_write(&j, &w);
    check_ok(larder__frame_send(ends[0], LARDER__MSG_JOIN, w.bytes, w.size, NULL, 0));
    larder__writer_free(&w);
    close(ends[0]);
    larder__server_adopt(server, ends[1]);
    for (int i = 0; i < 4; i++)
        check_ok(larder__server_turn(server, 0));
    assert_int_equal(larder__server_clients(server), 1);
    join(&b, 1, 2);
    hear_ranks(&a, UINT32_MAX, true);
    hear_ranks(&b, UINT32_MAX, true);
    leave(&a);
    leave(&b);
    end();
}

/* ---- a rank of our own ----------------------------------------------------------------------- */

static _Atomic bool serving;
static const larder__value wanted = {.id = 7, .size = 64};

static void *serve(void *arg) {
    while (atomic_load(&serving))
        check_ok(larder__server_turn(server, 10));
    return arg;
}

static void note_stored(void *arg, bool there) { atomic_store((_Atomic int *)arg, there ? 1 : -1); }
static const larder__value *value_wanted(larder_buf *token) {
    (void)token;
    return &wanted;
}

/* What is still read in the daemon's memory is nobody else's, though the link be closed. */
static void leases_outlive_the_link(void **st) {
    (void)st;
    larder__unix_ranks_link *link;
    larder__unix_ranks_conf conf = {.join = introduction(0, 1), .patience = 30};
    pthread_t thread;
    char path[64];
    _Atomic int stored = 0;
    uint8_t held;
    begin();
    snprintf(path, sizeof path, "%s/s", folder);
    conf.door = larder__door_at(path);
    atomic_store(&serving, true);
    assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
    check_ok(larder__unix_ranks_open(&link, &conf));
    larder__depot depot = larder__unix_ranks_depot(link);
    larder_buf *bytes = larder_buf_new(wanted.size), *token = larder_buf_new(wanted.size), *read;
    memset(larder_buf_data(bytes), 9, wanted.size);
    depot.ops->put(depot.state, &wanted, bytes, note_stored, &stored);
    while (atomic_load(&stored) == 0)
        usleep(1000);
    assert_int_equal(atomic_load(&stored), 1);
    depot.ops->send(depot.state, &token, 1, value_wanted);
    assert_true(depot.ops->receive(depot.state, token, &read, &held));
    assert_non_null(read);
    larder_buf_unref(&token);
    larder_buf_unref(&bytes);
    depot.ops->close(&depot.state);
    larder__unix_ranks_close(&link);
    atomic_store(&serving, false);
    pthread_join(thread, NULL);
    for (int i = 0; i < 4; i++)
        check_ok(larder__server_turn(server, 0));
    assert_int_equal(larder__server_clients(server), 1);
    assert_int_equal(((const unsigned char *)larder_buf_data(read))[63], 9);
    larder_buf_unref(&read);
    for (int i = 0; i < 4; i++)
        check_ok(larder__server_turn(server, 0));
    assert_int_equal(larder__server_clients(server), 0);
    end();
}

/* ---- nonsense -------------------------------------------------------------------------------- */

static void shown_out(rank *r) {
    larder_reader body;
    assert_int_equal(hear(r, &body), LARDER__MSG_REFUSED);
    assert_int_equal(hear(r, &body), 0);
}

static void wrong_message(rank *r, int which) {
    static unsigned char much[LARDER__PIECE + 64];
    switch (which) {
    case 0:
        give(r, LARDER__MSG_STORED, 3); /* where it was given no room */
        break;
    case 1:
        give(r, LARDER__MSG_RELEASE, 1);
        give(r, LARDER__MSG_OP + LARDER__OP_CLAIM, 1); /* none of a rank's */
        break;
    case 2: /* a form that there is not */
        larder_write_u32(&r->w, 1);
        memset(much, 0xee, sizeof(larder__wire_value));
        larder_write_bytes(&r->w, much, sizeof(larder__wire_value));
        send_frame(r, LARDER__MSG_LOOKUP);
        break;
    case 3:
        larder_write_u32(&r->w, 1);
        for (uint32_t i = 0; i <= LARDER__LOOKUP_MOST; i++)
            write_value(r, i, 1);
        send_frame(r, LARDER__MSG_LOOKUP);
        break;
    case 4:
        say(r, 1, 3, 2, "the third of two");
        break;
    case 5: /* of itself; of nobody */
    case 6:
        larder_write_u32(&r->w, 1);
        larder_write_u32(&r->w, 't');
        larder_write_u64(&r->w, 1);
        larder_write_u32(&r->w, which == 5 ? 0 : 7);
        send_frame(r, LARDER__MSG_WISH);
        break;
    case 7:
        larder_write_u32(&r->w, 1); /* a value cut short */
        larder_write_u32(&r->w, 1);
        send_frame(r, LARDER__MSG_PLACE);
        break;
    case 8: { /* twice */
        larder__join j = introduction(0, 2);
        larder__join_write(&j, &r->w);
        send_frame(r, LARDER__MSG_JOIN);
        break;
    }
    default:
        give(r, LARDER__MSG_FORGET, 1); /* half a number */
    }
}

static void nonsense(void **st) {
    (void)st;
    rank good, bad;
    larder_reader body;
    begin();
    join(&good, 1, 2);
    hear_ranks(&good, 0, false);
    put(&good, 3, 50);
    for (int which = 0; which < 10; which++) {
        larder__join j = introduction(0, 2);
        snprintf(j.job, sizeof j.job, "other%d", which);
        knock(&bad, &j);
        assert_int_equal(hear(&bad, &body), LARDER__MSG_JOINED);
        hear_ranks(&bad, 1, false);
        wrong_message(&bad, which);
        shown_out(&bad);
        leave(&bad);
    }
    larder__join wrong[7];
    for (int i = 0; i < 7; i++)
        wrong[i] = introduction(0, 2);
    wrong[0].rank = 2;
    wrong[1].world = 0;
    wrong[2].keys = 0;
    wrong[3].want = (uint64_t)1 << 40; /* more than there is */
    wrong[3].pixels = 1;
    snprintf(wrong[3].job, sizeof wrong[3].job, "more");
    wrong[4].version--;
    snprintf(wrong[5].job, sizeof wrong[5].job, "a b");
    wrong[6].payload = UINT64_MAX; /* a mean of nothing */
    wrong[6].keys = 1;
    snprintf(wrong[6].job, sizeof wrong[6].job, "huge");
    for (int i = 0; i < 7; i++) {
        knock(&bad, &wrong[i]);
        shown_out(&bad);
        leave(&bad);
    }
    larder__hello hello = {.magic = LARDER__WIRE_MAGIC, /* a job of its own, as large */
                           .version = LARDER__WIRE_VERSION,
                           .about.keys = 1,
                           .payload = UINT64_MAX,
                           .about.policy = "minio",
                           .budget = "1MiB"};
    come(&bad);
    larder__hello_write(&hello, &bad.w);
    send_frame(&bad, LARDER__MSG_HELLO);
    shown_out(&bad);
    leave(&bad);
    assert_int_equal(look(&good, 3, 50).size, 50);
    leave(&good);
    assert_int_equal(larder__server_clients(server), 0);
    end();
}

/* One that is thrown out may still read what it was lent: nobody else writes there before it has
 * hung up, and the others hear at once that it is gone. */
static void thrown_out_while_reading(void **st) {
    (void)st;
    rank a, b;
    begin();
    join(&a, 0, 2);
    hear_ranks(&a, 1, false);
    join(&b, 1, 2);
    hear_ranks(&a, UINT32_MAX, true);
    hear_ranks(&b, UINT32_MAX, true);
    put(&a, 5, 20000);
    larder__wire_found f = look(&b, 5, 20000);
    assert_int_equal(f.size, 20000);
    wish(&a, 1, 1, 1);
    give(&b, LARDER__MSG_STORED, 77);
    shown_out(&b);
    hear_gone(&a, 1, 1, false);
    write_value(&a, 5, 0);
    send_frame(&a, LARDER__MSG_DROP);
    for (uint64_t id = 10; id < 40; id++) { /* all the memory there is, more than once */
        larder__wire_found g = ask(&a, LARDER__MSG_PLACE, LARDER__MSG_PLACED, id, 10000);
        if (g.lease != LARDER__NO_LEASE) {
            memset(a.arena + g.offset, (int)id, 10000);
            give(&a, LARDER__MSG_STORED, g.lease);
        }
        for (size_t i = 0; i < f.size; i++)
            if (b.arena[f.offset + i] != 5)
                fail_msg("byte %zu is another's", i);
        write_value(&a, id - 2, 0);
        send_frame(&a, LARDER__MSG_DROP);
    }
    assert_int_equal(larder__server_clients(server), 2);
    send(b.fd, "anything", 8, MSG_NOSIGNAL); /* is not heard */
    check_ok(larder__server_turn(server, 0));
    leave(&b);
    assert_int_equal(larder__server_clients(server), 1);
    put(&a, 50, 20000); /* there is room for it again */
    put(&a, 51, 20000);
    leave(&a);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_at_random),         cmocka_unit_test(values_of_two),
        cmocka_unit_test(records_of_three),         cmocka_unit_test(who_did_not_wait),
        cmocka_unit_test(leases_outlive_the_link),  cmocka_unit_test(nonsense),
        cmocka_unit_test(thrown_out_while_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
