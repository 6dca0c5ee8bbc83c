#include "wire/remote.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char SCHEME[] = "tcp://";
static const double POLL_SECONDS = 0.02;

/* ---- connecting ------------------------------------------------------------------------------ */

bool larder__remote_named(const char *path) {
    return path && strncmp(path, SCHEME, sizeof SCHEME - 1) == 0;
}

/* "tcp://[::1]:70" taken apart. */
static int split(const char *path, char host[128], char port[8]) {
    const char *at = path + sizeof SCHEME - 1, *colon = strrchr(at, ':');
    size_t n = colon ? (size_t)(colon - at) : 0;
    if (n >= 2 && at[0] == '[' && at[n - 1] == ']') {
        at++;
        n -= 2;
    }
    if (!colon || n == 0 || n >= 128 || strlen(colon + 1) == 0 || strlen(colon + 1) >= 8)
        return larder__fail(LARDER_E_ARGS, "%s: a daemon on another machine is tcp://HOST:PORT",
                            path);
    memcpy(host, at, n);
    host[n] = '\0';
    snprintf(port, 8, "%s", colon + 1);
    return 0;
}

static int connect_one(const struct addrinfo *to) {
    struct timeval t = {.tv_sec = (time_t)LARDER__ANSWER_SECONDS};
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t) == 0 &&
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0 &&
        connect(fd, to->ai_addr, to->ai_addrlen) == 0)
        return fd;
    int err = errno;
    if (fd >= 0)
        close(fd);
    errno = err;
    return -1;
}

int larder__remote_connect(const char *path, const larder__token *token) {
    char host[128], port[8];
    struct addrinfo want = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int rc = split(path, host, port), fd = -1;
    if (rc < 0)
        return rc;
    if (!token || token->size == 0)
        return larder__fail(LARDER_E_ARGS, "%s: say ?token-file=FILE behind it", path);
    int no = getaddrinfo(host, port, &want, &found);
    if (no)
        return larder__fail(LARDER_E_IO, "%s: %s", path, gai_strerror(no));
    for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
        fd = connect_one(a);
    int err = errno;
    freeaddrinfo(found);
    if (fd < 0)
        return larder__fail(larder__code_of_errno(err), "%s: %s%s", path, strerror(err),
                            err == ECONNREFUSED ? "; is larder serve --tcp running there?" : "");
    rc = larder__frame_send(fd, LARDER__MSG_TOKEN, token->bytes, token->size, NULL, 0);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    return fd;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Two numbers and bytes; NULL: not so many as there should be, or no memory. */
static larder_buf *read_buf(larder_reader *r, uint32_t *first, uint32_t *second) {
    *first = larder_read_u32(r);
    *second = larder_read_u32(r);
    size_t n = larder__read_left(r);
    larder_buf *b = larder_read_status(r) == 0 ? larder_buf_new(n) : NULL;
    if (b)
        larder_read_bytes(r, larder_buf_data(b), n);
    return b;
}

int larder__remote_values(larder__attachment *a, const larder__wire_ticket *w, size_t n,
                          larder_buf **values) {
    larder_reader body;
    int rc = 0;
    memset(values, 0, n * sizeof *values);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        uint32_t row, held;
        if (w[i].task != LARDER__READY || w[i].lease == LARDER__NO_LEASE)
            continue;
        if ((rc = larder__daemon_hear(a->fd, &a->in, LARDER__MSG_VALUE, &body)) < 0)
            break;
        values[i] = read_buf(&body, &row, &held);
        if (!values[i] || row != i || larder_buf_size(values[i]) != w[i].size)
            rc = larder__fail(LARDER_E_FORMAT, "the daemon sends other bytes than it says");
    }
    for (size_t i = 0; rc < 0 && i < n; i++)
        larder_buf_unref(&values[i]);
    if (rc < 0)
        larder__attachment_lose(a);
    return rc;
}

/* With `talk` held: is this memory, or what stands for it, still the daemon's? */
static bool is_now(const larder__attachment *a, const larder__mapping *m) {
    return a->fd >= 0 && a->map == m;
}

bool larder__remote_fill(larder__attachment *a, const larder__mapping *m, uint32_t lease,
                         uint8_t held, larder_buf *b) {
    bool sent = false;
    pthread_mutex_lock(&a->talk);
    if (is_now(a, m) && larder_buf_size(b) <= LARDER__FRAME_MOST - 64) {
        larder__attachment_begin(a);
        larder_write_u32(&a->body, lease);
        larder_write_u32(&a->body, held);
        larder_write_bytes(&a->body, larder_buf_data(b), larder_buf_size(b));
        sent = larder__attachment_tell(a, LARDER__MSG_FILL) == 0;
    }
    pthread_mutex_unlock(&a->talk);
    return sent;
}

static larder_buf *ask_bytes(larder__attachment *a, const larder__mapping *m, uint32_t lease,
                             uint32_t *state, uint8_t *held) {
    larder_reader body;
    larder_buf *b = NULL;
    uint32_t form;
    *state = LARDER__BLOCK_FAILED;
    pthread_mutex_lock(&a->talk);
    if (is_now(a, m)) {
        larder__attachment_begin(a);
        larder_write_u32(&a->body, lease);
        if (larder__attachment_ask(a, LARDER__MSG_BYTES, LARDER__MSG_BYTES_ARE, &body) == 0) {
            b = read_buf(&body, state, &form);
            *held = (uint8_t)form;
            if (*state != LARDER__BLOCK_FULL || form >= LARDER_FORMS)
                larder_buf_unref(&b);
        }
    }
    pthread_mutex_unlock(&a->talk);
    return b;
}

larder_buf *larder__remote_wait(larder__attachment *a, const larder__mapping *m, uint32_t lease,
                                uint8_t *held, double seconds) {
    double until = larder__now() + seconds;
    uint32_t state = LARDER__BLOCK_PENDING;
    larder_buf *b = ask_bytes(a, m, lease, &state, held);
    while (!b && state == LARDER__BLOCK_PENDING && larder__now() < until) {
        larder__sleep_until(larder__now() + POLL_SECONDS);
        b = ask_bytes(a, m, lease, &state, held);
    }
    return b;
}
