#include "unix/server_inside.h"

#include "base/err.h"
#include "base/escape.h"
#include "base/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { REPLY_MOST = 64 << 20 };

void larder__server_say(larder__server *s, const char *format, ...) {
    char line[512], shown[1024]; /* jobs' names are theirs */
    va_list args;
    if (!s->conf.say)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    larder__shown(shown, sizeof shown, line);
    s->conf.say(s->conf.arg, shown);
}

void larder__server_deafen(larder__server_client *c) {
    c->deaf = true;
    larder__writer_free(&c->out);
    c->sent = 0;
}

/* What the socket takes now; the rest when it is ready again. */
int larder__server_flush(larder__server *s, larder__server_client *c) {
    while (c->sent < c->out.size) {
        ssize_t n = larder__world_send_bytes(c->fd, c->out.bytes + c->sent, c->out.size - c->sent,
                                             MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (n < 0) {
            larder__server_deafen(c);
            break;
        }
        c->sent += (size_t)n;
    }
    bool all = c->sent == c->out.size;
    if (all) {
        larder__writer_free(&c->out);
        c->sent = 0;
    }
    /* Who leaves is not listened to: what it says would wake us again and again. */
    struct epoll_event e = {.events = (c->leaving ? 0 : EPOLLIN) | (all ? 0 : EPOLLOUT),
                            .data.ptr = c};
    epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->fd, &e);
    return 0;
}

/* What the socket takes at once of a frame need not be kept. Bytes. */
static ssize_t send_now(larder__server_client *c, larder__frame_head *head,
                        const larder_writer *body) {
    struct iovec v[2] = {{head, sizeof *head}, {body->bytes, body->size}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = body->size ? 2 : 1};
    ssize_t n;
    if (c->out.size)
        return 0; /* something else comes first */
    while ((n = larder__world_send(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0 && errno == EINTR) {
    }
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (n < 0)
        larder__server_deafen(c);
    return n < 0 ? 0 : n;
}

/* What it did not take; code: it cannot be kept. */
static int keep_rest(const larder__server *s, larder__server_client *c,
                     const larder__frame_head *head, size_t gone) {
    const larder_writer *body = &s->body;
    size_t most = c->berth.ranks ? larder__unix_ranks_unread(s, c) : REPLY_MOST;
    if (c->out.size - c->sent + body->size > most)
        return larder__fail(LARDER_E_FULL, "it does not read its answers");
    size_t of_head = gone < sizeof *head ? gone : sizeof *head;
    size_t of_body = gone - of_head;
    larder_write_bytes(&c->out, (const char *)head + of_head, sizeof *head - of_head);
    larder_write_bytes(&c->out, body->bytes + of_body, body->size - of_body);
    return c->out.code;
}

int larder__server_reply(larder__server *s, larder__server_client *c, larder__message type) {
    larder__frame_head head = {.bytes = (uint32_t)s->body.size, .type = (uint16_t)type};
    int rc = s->body.code;
    s->body.code = 0; /* no memory for this one: the next may be smaller, or another's */
    if (rc < 0)
        return rc;
    ssize_t gone = c->deaf ? 0 : send_now(c, &head, &s->body);
    if (c->deaf || (size_t)gone == sizeof head + s->body.size)
        return 0;
    rc = keep_rest(s, c, &head, (size_t)gone);
    if (rc < 0 && gone > 0)
        larder__server_deafen(c); /* nothing can follow half a frame */
    return rc < 0 ? rc : larder__server_flush(s, c);
}

int larder__server_reply_with(larder__server *s, larder__server_client *c, larder__message type,
                              const int *fds, size_t count) {
    if (c->deaf || c->out.size) /* it would begin in the middle of another */
        return larder__fail(LARDER_E_FULL, "it does not read its answers");
    return larder__frame_send(c->fd, (uint16_t)type, s->body.bytes, s->body.size, fds, count);
}

int larder__server_refuse(larder__server *s, larder__server_client *c, int code) {
    s->body.size = 0;
    larder__refused_write(&s->body, code, larder_errmsg());
    c->leaving = true;
    return larder__server_reply(s, c, LARDER__MSG_REFUSED);
}
