/* Whatever a client sends, the daemon answers or hangs up; the next client finds it as it was. */
#include "unix/frame.h"
#include "unix/rank_message.h"
#include "unix/server.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static larder__server *server;
static char folder[] = "/tmp/larder-fuzz-XXXXXX";

static void leave(void) {
    larder__server_close(&server);
    rmdir(folder);
}

static void begin(void) {
    char path[64];
    if (!mkdtemp(folder))
        abort();
    snprintf(path, sizeof path, "%s/s", folder);
    larder__server_conf conf = {
        .socket = path, .mode = 0600, .cache = 4 << 20, .clients = 4, .share_data = true};
    if (larder__server_open(&server, &conf) < 0)
        abort();
    atexit(leave);
}

/* Another rank of the job that most inputs about ranks name: it waits for what they say. */
static int honest_rank(void) {
    int ends[2];
    larder_writer w = {0};
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
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) < 0)
        abort();
    larder__server_adopt(server, ends[1]);
    size_t frame = larder__frame_begin(&w, LARDER__MSG_JOIN);
    larder__join_write(&j, &w);
    larder__frame_end(&w, frame);
    frame = larder__frame_begin(&w, LARDER__MSG_WISH);
    const uint32_t wish[] = {1, 't', 1, 0, 0}; /* serial, kind, number, rank */
    larder_write_bytes(&w, wish, sizeof wish);
    larder__frame_end(&w, frame);
    if (send(ends[0], w.bytes, w.size, MSG_NOSIGNAL) != (ssize_t)w.size)
        abort();
    larder__writer_free(&w);
    larder__server_turn(server, 0);
    return ends[0];
}

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
    int ends[2], honest = -1;
    uint8_t *data = as_spoken_now(input, size);
    char answer[4096];
    if (!server)
        begin();
    if (size > 5 && data[4] == LARDER__MSG_JOIN)
        honest = honest_rank();
    uint32_t others = honest >= 0;
    open_ends(ends, size && input[size - 1] & 1);
    larder__server_adopt(server, ends[1]);
    for (size_t at = 0; at < size && larder__server_clients(server) > others;) {
        ssize_t n = send(ends[0], data + at, size - at, MSG_NOSIGNAL);
        at += n > 0 ? (size_t)n : 0;
        larder__server_turn(server, 0);
        while (recv(ends[0], answer, sizeof answer, 0) > 0) {
        }
        while (honest >= 0 && recv(honest, answer, sizeof answer, 0) > 0) {
        }
    }
    close(ends[0]);
    if (honest >= 0)
        close(honest);
    for (int i = 0; larder__server_clients(server); i++)
        if (larder__server_turn(server, 0) < 0 || i > 100000)
            abort();
    free(data);
    return 0;
}
