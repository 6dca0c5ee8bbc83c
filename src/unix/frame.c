#include "unix/frame.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/world.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PIECE = 64 << 10 };

void larder__inbox_init(larder__inbox *in) {
    *in = (larder__inbox){.most = LARDER__FRAME_MOST};
    for (int i = 0; i < LARDER__FRAME_FDS; i++)
        in->fds[i] = -1;
}

void larder__inbox_free(larder__inbox *in) {
    for (int i = 0; i < LARDER__FRAME_FDS; i++)
        if (in->fds[i] >= 0)
            close(in->fds[i]);
    larder__free(in->bytes);
    size_t most = in->most;
    bool bytes_alone = in->bytes_alone;
    larder__inbox_init(in);
    in->most = most;
    in->bytes_alone = bytes_alone;
}

void larder__inbox_pass(larder__inbox *from, larder__inbox *to) {
    if (from->have != from->used || !from->bytes)
        return;
    if (to->bytes)
        larder__free(from->bytes);
    else
        to->bytes = from->bytes, to->cap = from->cap;
    from->bytes = NULL;
    from->have = from->used = from->cap = 0;
}

void larder__inbox_fit(larder__inbox *in) {
    size_t left = in->have - in->used;
    if (left == 0 || left + PIECE / 64 > in->cap)
        return;
    memmove(in->bytes, in->bytes + in->used, left);
    in->have = left;
    in->used = 0;
    unsigned char *fit = larder__realloc(in->bytes, left);
    if (!fit)
        return;
    in->bytes = fit;
    in->cap = left;
}

/* ---- receiving ------------------------------------------------------------------------------- */

static int make_space(larder__inbox *in) {
    if (in->used) {
        memmove(in->bytes, in->bytes + in->used, in->have - in->used);
        in->have -= in->used;
        in->used = 0;
    }
    if (in->cap - in->have >= PIECE)
        return 0;
    size_t least = in->have + 2 * (size_t)PIECE, enough = in->most + 2 * (size_t)PIECE;
    size_t cap = in->cap * 2 > least ? in->cap * 2 : least; /* it may have been made to fit */
    cap = cap < enough || in->cap >= enough ? cap : enough;
    unsigned char *grown = larder__realloc(in->bytes, cap);
    if (!grown)
        return LARDER_E_NOMEM;
    in->bytes = grown;
    in->cap = cap;
    return 0;
}

/* A connection may have been set to wait at its end until all is sent. */
static void close_at_once(int fd) {
    const struct linger not = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &not, sizeof not );
    close(fd);
}

void larder__frame_refuse_fds(int fd) {
    enum { PASSRIGHTS = 83 }; /* SO_PASSRIGHTS; most headers have none yet */
    const int none = 0;
    setsockopt(fd, SOL_SOCKET, PASSRIGHTS, &none, sizeof none);
}

/* More descriptors than anybody should send are closed at once. How many came. */
static size_t keep_fds(larder__inbox *in, struct msghdr *m) {
    size_t came = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (in->fd_count < LARDER__FRAME_FDS && !in->bytes_alone)
                in->fds[in->fd_count++] = fd;
            else
                close_at_once(fd);
        }
        came += n;
    }
    return came;
}

int larder__inbox_read(larder__inbox *in, int fd) {
    enum { FDS = 253 }; /* the kernel passes no more at once; what we left there it would close */
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int) * FDS)];
    } control;
    int rc = make_space(in);
    if (rc < 0)
        return rc;
    struct iovec v = {in->bytes + in->have, in->cap - in->have};
    struct msghdr m = {.msg_iov = &v,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof control.bytes};
    ssize_t n = larder__world_receive(fd, &m, MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    if (n <= 0)
        return larder__fail(LARDER_E_IO, "the other side is gone%s%s", n < 0 ? ": " : "",
                            n < 0 ? strerror(errno) : "");
    if (keep_fds(in, &m) && in->bytes_alone)
        return larder__fail(LARDER_E_FORMAT, "descriptors came along, which nobody asked for");
    in->have += (size_t)n;
    return 1;
}

int larder__inbox_next(larder__inbox *in, uint16_t *type, larder_reader *body) {
    larder__frame_head head;
    if (in->have - in->used < sizeof head)
        return 0;
    memcpy(&head, in->bytes + in->used, sizeof head);
    if (head.bytes > in->most || head.zero != 0)
        return larder__fail(LARDER_E_FORMAT, "what came over the socket is not larder's protocol");
    if (in->have - in->used - sizeof head < head.bytes)
        return 0;
    *type = head.type;
    *body = (larder_reader){.at = in->bytes + in->used + sizeof head,
                            .end = in->bytes + in->used + sizeof head + head.bytes};
    in->used += sizeof head + head.bytes;
    return 1;
}

int larder__inbox_take_fd(larder__inbox *in) {
    if (in->fd_count == 0)
        return -1;
    int fd = in->fds[0];
    in->fd_count--;
    memmove(in->fds, in->fds + 1, in->fd_count * sizeof *in->fds);
    in->fds[in->fd_count] = -1;
    return fd;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void attach_fds(struct msghdr *m, char *control, size_t cap, const int *fds, size_t n) {
    if (n == 0)
        return;
    memset(control, 0, cap);
    m->msg_control = control;
    m->msg_controllen = CMSG_SPACE(n * sizeof *fds);
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(n * sizeof *fds);
    memcpy(CMSG_DATA(c), fds, n * sizeof *fds);
}

static int send_all(int fd, struct msghdr *m) {
    while (m->msg_iovlen) {
        ssize_t n = larder__world_send(fd, m, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return larder__fail(LARDER_E_IO, "the other side does not take it: %s",
                                strerror(errno));
        m->msg_control = NULL; /* went along with the first bytes */
        m->msg_controllen = 0;
        for (size_t left = (size_t)n; m->msg_iovlen && left >= m->msg_iov->iov_len;) {
            left -= m->msg_iov->iov_len;
            m->msg_iov++;
            m->msg_iovlen--;
            n = (ssize_t)left;
        }
        if (m->msg_iovlen) {
            m->msg_iov->iov_base = (char *)m->msg_iov->iov_base + n;
            m->msg_iov->iov_len -= (size_t)n;
        }
    }
    return 0;
}

int larder__frame_send(int fd, uint16_t type, const void *body, size_t bytes, const int *fds,
                       size_t fd_count) {
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int) * LARDER__FRAME_FDS)];
    } control;
    larder__frame_head head = {.bytes = (uint32_t)bytes, .type = type};
    struct iovec v[2] = {{&head, sizeof head}, {(void *)(uintptr_t)body, bytes}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = bytes ? 2 : 1};
    attach_fds(&m, control.bytes, sizeof control.bytes, fds, fd_count);
    return send_all(fd, &m);
}

int larder__frame_send_two(int fd, uint16_t type, const void *first, size_t n, const void *rest,
                           size_t bytes) {
    larder__frame_head head = {.bytes = (uint32_t)(n + bytes), .type = type};
    struct iovec v[3] = {
        {&head, sizeof head}, {(void *)(uintptr_t)first, n}, {(void *)(uintptr_t)rest, bytes}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = bytes ? 3 : 2};
    return send_all(fd, &m);
}

int larder__frames_send(int fd, const larder_writer *w) {
    struct iovec v = {w->bytes, w->size};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = w->size ? 1 : 0};
    return w->code < 0 ? w->code : send_all(fd, &m);
}

size_t larder__frame_begin(larder_writer *w, uint16_t type) {
    larder__frame_head head = {.type = type};
    size_t place = w->size;
    larder_write_bytes(w, &head, sizeof head);
    return place;
}

void larder__frame_end(larder_writer *w, size_t place) {
    larder__frame_head head;
    if (w->code < 0)
        return;
    memcpy(&head, w->bytes + place, sizeof head);
    head.bytes = (uint32_t)(w->size - place - sizeof head);
    memcpy(w->bytes + place, &head, sizeof head);
}
