/* Whatever a client sends, the daemon answers or hangs up; the next client finds it as it was, and
 * those who were there before get their answers while it is still there. */
#include "cache/operation.h"
#include "unix/frame.h"
#include "unix/rank_message.h"
#include "unix/server.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct peer { /* one who means no harm */
    int fd;
    larder__inbox in;
} peer;

static larder__server *server;
static peer job; /* there from the first input to the last, with data of its own */
static char folder[] = "/tmp/larder-fuzz-XXXXXX";

/* ---- those who are to be served on ----------------------------------------------------------- */

static void peer_open(peer *p) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) < 0)
        abort();
    larder__server_adopt(server, ends[1]);
    p->fd = ends[0];
    larder__inbox_init(&p->in);
}

static void peer_close(peer *p) {
    close(p->fd);
    larder__inbox_free(&p->in);
}

static void peer_say(const peer *p, larder_writer *w) {
    if (w->code < 0 || send(p->fd, w->bytes, w->size, MSG_NOSIGNAL) != (ssize_t)w->size)
        abort();
    larder__writer_free(w);
    larder__server_turn(server, 0);
}

/* What is not meant is passed over. Nobody else has to be waited for, so few turns are enough. */
static void peer_hears(peer *p, larder__message wanted, larder_reader *body) {
    enum { TURNS = 100 };
    uint16_t type = LARDER__NO_MESSAGE;
    for (int turns = 0; type != wanted;) {
        int rc = larder__inbox_next(&p->in, &type, body);
        if (rc == 0 && (rc = larder__inbox_read(&p->in, p->fd)) == 0) {
            larder__server_turn(server, 0);
            turns++;
        }
        if (rc < 0 || turns > TURNS)
            abort();
    }
}

static void job_attach(void) {
    larder_writer w = {0};
    larder_reader body;
    larder__hello h = {.magic = LARDER__WIRE_MAGIC,
                       .version = LARDER__WIRE_VERSION,
                       .oldest = LARDER__WIRE_VERSION,
                       .batch = 4,
                       .at_once = LARDER__AT_ONCE_LEAST,
                       .identity = 0x6c6172646572,
                       .payload = 3200,
                       .size = 100,
                       .about.keys = 32,
                       .about.share = {1},
                       .about.policy = "lru",
                       .name = "honest",
                       .budget = "1600"};
    peer_open(&job);
    size_t frame = larder__frame_begin(&w, LARDER__MSG_HELLO);
    larder__hello_write(&h, &w);
    larder__frame_end(&w, frame);
    peer_say(&job, &w);
    peer_hears(&job, LARDER__MSG_WELCOME, &body);
}

/* Claims a batch, gives it back, and asks how the daemon is. */
static void job_goes_on(void) {
    enum { ROWS = 4, KEYS = 32 };
    static uint32_t from;
    larder_writer w = {0};
    larder_reader body;
    larder__row rows[ROWS];
    larder__wire_made made[ROWS];
    uint32_t leases[ROWS];
    for (uint32_t i = 0; i < ROWS; i++)
        rows[i] = (larder__row){
            .key = (from + i) % KEYS, .size = 100, .group = LARDER_NO_GROUP, .score = NAN};
    from += ROWS;
    size_t frame = larder__frame_begin(&w, LARDER__MSG_OP + LARDER__OP_CLAIM);
    larder__op_write(&(larder__op){.type = LARDER__OP_CLAIM, .n = ROWS, .rows = rows}, &w);
    larder__frame_end(&w, frame);
    peer_say(&job, &w);
    peer_hears(&job, LARDER__MSG_TICKETS, &body);
    if (larder_read_u32(&body) != ROWS || larder_read_u32(&body) != 0)
        abort();
    for (uint32_t i = 0; i < ROWS; i++) {
        larder__reply answer;
        larder_read_bytes(&body, &answer, sizeof answer);
        if (larder_read_status(&body) < 0 || answer.key != rows[i].key ||
            answer.task != LARDER__MAKE || answer.lease == LARDER__NO_LEASE)
            abort(); /* nobody else is at these samples, and there is room for a batch */
        leases[i] = answer.lease;
        made[i] = (larder__wire_made){answer.lease, LARDER_E_IO};
    }
    frame = larder__frame_begin(&w, LARDER__MSG_RETURNS);
    larder__returns_write(
        &(larder__returns){.released = leases, .made = made, .releases = ROWS, .makes = ROWS}, &w);
    larder__frame_end(&w, frame);
    frame = larder__frame_begin(&w, LARDER__MSG_STATUS);
    larder__frame_end(&w, frame);
    peer_say(&job, &w);
    peer_hears(&job, LARDER__MSG_STATUS_IS, &body);
}

/* ---- the daemon ------------------------------------------------------------------------------ */

static void leave(void) {
    peer_close(&job);
    larder__server_close(&server);
    rmdir(folder);
}

static void begin(void) {
    char path[64];
    if (!mkdtemp(folder))
        abort();
    snprintf(path, sizeof path, "%s/s", folder);
    larder__server_conf conf = {
        .socket = path, .mode = 0600, .cache = 5 << 20, .clients = 5, .share_data = true};
    if (larder__server_open(&server, &conf) < 0)
        abort();
    job_attach();
    atexit(leave);
}

/* Another rank of the job that most inputs about ranks name: it waits for what they say. */
static void rank_joins(peer *p) {
    larder_writer w = {0};
    larder_reader body;
    larder__join j = {.magic = LARDER__WIRE_MAGIC,
                      .version = LARDER__WIRE_VERSION,
                      .rank = 1,
                      .world = 2,
                      .batch = 8,
                      .turns = 2,
                      .fingerprint = 77,
                      .keys = 100,
                      .payload = 100000,
                      .want = 30000,
                      .job = "fuzz"};
    peer_open(p);
    size_t frame = larder__frame_begin(&w, LARDER__MSG_JOIN);
    larder__join_write(&j, &w);
    larder__frame_end(&w, frame);
    frame = larder__frame_begin(&w, LARDER__MSG_WISH);
    const uint32_t wish[] = {1, 't', 1, 0, 0}; /* serial, kind, number, rank */
    larder_write_bytes(&w, wish, sizeof wish);
    larder__frame_end(&w, frame);
    peer_say(p, &w);
    peer_hears(p, LARDER__MSG_JOINED, &body);
}

/* Looks for a value, whatever the rank beside it has said. */
static void rank_goes_on(peer *p) {
    enum { SERIAL = 12345 };
    larder_writer w = {0};
    larder_reader body;
    const larder__wire_value v = larder__wire_value_of(&(larder__value){.id = 99, .size = 1000});
    size_t frame = larder__frame_begin(&w, LARDER__MSG_LOOKUP);
    larder_write_u32(&w, SERIAL);
    larder_write_bytes(&w, &v, sizeof v);
    larder__frame_end(&w, frame);
    peer_say(p, &w);
    peer_hears(p, LARDER__MSG_FOUND, &body);
    if (larder_read_u32(&body) != SERIAL || larder__read_left(&body) != sizeof(larder__wire_found))
        abort();
}

/* ---- an input -------------------------------------------------------------------------------- */

/* Inputs say version 0 for the one that is spoken now, so that they outlive versions. */
static uint8_t *as_spoken_now(const uint8_t *data, size_t size) {
    enum { VERSION_AT = 12 }; /* behind the head of the frame and the magic */
    const uint32_t version = LARDER__WIRE_VERSION, zero = 0;
    uint8_t *own = malloc(size + 1);
    if (!own)
        abort();
    memcpy(own, data, size);
    if (size >= VERSION_AT + sizeof version &&
        (data[4] == LARDER__MSG_HELLO || data[4] == LARDER__MSG_JOIN) &&
        memcmp(data + VERSION_AT, &zero, sizeof zero) == 0)
        memcpy(own + VERSION_AT, &version, sizeof version);
    return own;
}

/* The daemon takes it for another user's, where we can be two, if the input ends with an odd byte.
 */
static void open_ends(int ends[2], bool stranger) {
    enum { NOBODY = 65534 };
    stranger = stranger && geteuid() == 0;
    if ((stranger && seteuid(NOBODY) < 0) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) < 0 ||
        (stranger && seteuid(0) < 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    int ends[2];
    peer rank = {.fd = -1};
    uint8_t *data = as_spoken_now(input, size);
    char answer[4096];
    if (!server)
        begin();
    bool ranks = size > 5 && data[4] == LARDER__MSG_JOIN;
    if (ranks)
        rank_joins(&rank);
    uint32_t others = ranks ? 2 : 1;
    open_ends(ends, size && input[size - 1] & 1);
    larder__server_adopt(server, ends[1]);
    for (size_t at = 0; at < size && larder__server_clients(server) > others;) {
        ssize_t n = send(ends[0], data + at, size - at, MSG_NOSIGNAL);
        at += n > 0 ? (size_t)n : 0;
        larder__server_turn(server, 0);
        while (recv(ends[0], answer, sizeof answer, 0) > 0) {
        }
    }
    job_goes_on();
    if (ranks) {
        rank_goes_on(&rank);
        peer_close(&rank);
    }
    close(ends[0]);
    for (int i = 0; larder__server_clients(server) > 1; i++)
        if (larder__server_turn(server, 0) < 0 || i > 100000)
            abort();
    free(data);
    return 0;
}
