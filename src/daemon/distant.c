#include "daemon/distant.h"

#include "base/err.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { VALUES_MOST = 32 << 20 }; /* bytes of one answer */

/* ---- the port -------------------------------------------------------------------------------- */

/* "[::1]:70" or "host:70" taken apart. */
static int split(const char *where, char host[256], char port[8]) {
    const char *colon = strrchr(where, ':');
    size_t n = colon ? (size_t)(colon - where) : 0;
    if (n >= 2 && where[0] == '[' && where[n - 1] == ']') {
        where++;
        n -= 2;
    }
    if (!colon || n == 0 || n >= 256 || strlen(colon + 1) == 0 || strlen(colon + 1) >= 8)
        return larder__fail(LARDER_E_ARGS, "--tcp is ADDRESS:PORT such as 127.0.0.1:7070");
    memcpy(host, where, n);
    host[n] = '\0';
    snprintf(port, 8, "%s", colon + 1);
    return 0;
}

static int listen_at(const struct addrinfo *at) {
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, 64) == 0)
        return fd;
    int err = errno;
    if (fd >= 0)
        close(fd);
    errno = err;
    return -1;
}

int larder__distant_listen(int *fd, const char *where) {
    char host[256], port[8];
    struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    *fd = -1;
    int rc = split(where, host, port);
    if (rc < 0)
        return rc;
    int no = getaddrinfo(host, port, &want, &found);
    if (no)
        return larder__fail(LARDER_E_ARGS, "--tcp %s: %s", where, gai_strerror(no));
    for (const struct addrinfo *a = found; a && *fd < 0; a = a->ai_next)
        *fd = listen_at(a);
    int err = errno;
    freeaddrinfo(found);
    return *fd >= 0
               ? 0
               : larder__fail(larder__code_of_errno(err), "--tcp %s: %s", where, strerror(err));
}

uint16_t larder__distant_port(int fd) {
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } at;
    memset(&at, 0, sizeof at);
    socklen_t n = sizeof at;
    if (fd < 0 || getsockname(fd, &at.any, &n) < 0)
        return 0;
    return ntohs(at.any.sa_family == AF_INET6 ? at.six.sin6_port : at.four.sin_port);
}

int larder__distant_token(larder__server *s, larder__client *c, larder_reader *r) {
    size_t n = larder__read_left(r);
    if (c->distant && !c->known && s->conf.token && larder__token_same(s->conf.token, r->at, n)) {
        c->known = true;
        return 0;
    }
    return larder__fail(LARDER_E_ARGS, "that is not this daemon's token");
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool comes(const larder__wire_ticket *t) {
    return t->task == LARDER__READY && t->lease != LARDER__NO_LEASE;
}

void larder__distant_trim(larder__client *c, larder__wire_ticket *t, size_t rows, size_t besides) {
    uint64_t sum = 0;
    for (size_t i = 0; i < rows + besides; i++) {
        bool fits = sum + t[i].size <= VALUES_MOST;
        if (!comes(&t[i]) || (i < rows && fits)) {
            sum += comes(&t[i]) ? t[i].size : 0;
            continue;
        }
        larder__shelf_release(c->about.shelf, c->about.job, t[i].lease);
        t[i].lease = LARDER__NO_LEASE;
        if (i < rows) {
            t[i].task = LARDER__MAKE;
            t[i].kind = LARDER_MISS;
            t[i].form = t[i].make = LARDER_ENCODED;
        }
    }
}

/* Eight bytes of numbers, then the bytes; nothing is sent yet. */
static int queue_bytes(larder__client *c, larder__message type, uint32_t first, uint32_t second,
                       const void *bytes, size_t n) {
    larder__frame_head head = {.bytes = (uint32_t)n + 8, .type = (uint16_t)type};
    larder_write_bytes(&c->out, &head, sizeof head);
    larder_write_u32(&c->out, first);
    larder_write_u32(&c->out, second);
    larder_write_bytes(&c->out, bytes, n);
    return c->out.code;
}

int larder__distant_values(larder__server *s, larder__client *c, const larder__wire_ticket *t,
                           size_t rows) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < rows; i++) {
        larder__lent b;
        if (!comes(&t[i]))
            continue;
        if (!larder__shelf_lent(c->about.shelf, c->about.job, t[i].lease, &b))
            return larder__fail(LARDER_E_STATE, "a lease that is not held");
        rc = queue_bytes(c, LARDER__MSG_VALUE, (uint32_t)i, t[i].held, b.bytes, b.whole);
        larder__shelf_release(c->about.shelf, c->about.job, t[i].lease);
    }
    return rc < 0 ? rc : larder__server_flush(s, c);
}

int larder__distant_fill(larder__client *c, larder_reader *r) {
    uint32_t lease = larder_read_u32(r), held = larder_read_u32(r);
    if (larder_read_status(r) < 0)
        return larder__fail(LARDER_E_FORMAT, "bytes of nothing");
    larder__shelf_fill(c->about.shelf, c->about.job, lease, held, r->at, larder__read_left(r));
    return 0;
}

int larder__distant_bytes(larder__server *s, larder__client *c, larder_reader *r) {
    uint32_t lease = larder_read_u32(r);
    larder__lent b = {.state = LARDER__BLOCK_FAILED};
    if (larder_read_status(r) < 0)
        return larder__fail(LARDER_E_FORMAT, "it asks for the bytes of nothing");
    bool there = larder__shelf_lent(c->about.shelf, c->about.job, lease, &b) &&
                 b.state == LARDER__BLOCK_FULL && b.size <= LARDER__FRAME_MOST - 64;
    uint32_t state = b.state == LARDER__BLOCK_FULL && !there ? LARDER__BLOCK_FAILED : b.state;
    int rc = queue_bytes(c, LARDER__MSG_BYTES_ARE, state, b.held, b.bytes, there ? b.size : 0);
    return rc < 0 ? rc : larder__server_flush(s, c);
}
