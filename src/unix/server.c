#include "unix/server_inside.h"

#include "base/err.h"
#include "base/escape.h"
#include "base/limit.h"
#include "base/mem.h"
#include "base/world.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    EVENTS = 64,
    BACKLOG = 128,
    REPLY_MOST = 64 << 20,
    RANKS_REPLY_MOST = 1 << 30,
    MESSAGE_MOST = 4 << 20, /* bytes: whatever is said at once fits */
    KEPT_MOST = 256 << 10,  /* of room that is kept for the next message */
    OWN = 8 << 20,          /* of memory beside the cache: clients, and what they say */
    WATCH_MS = 250
};

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

/* ---- sending --------------------------------------------------------------------------------- */

/* What the socket takes now; the rest when it is ready again. */
/* Its good-bye may lie unread behind what it has no more use for: the end is when all is read. */
static void go_deaf(larder__server_client *c) {
    c->deaf = true;
    larder__writer_free(&c->out);
    c->sent = 0;
}

int larder__server_flush(larder__server *s, larder__server_client *c) {
    while (c->sent < c->out.size) {
        ssize_t n = larder__world_send_bytes(c->fd, c->out.bytes + c->sent, c->out.size - c->sent,
                                             MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (n < 0) {
            go_deaf(c);
            break;
        }
        c->sent += (size_t)n;
    }
    bool all = c->sent == c->out.size;
    if (all) {
        larder__writer_free(&c->out);
        c->sent = 0;
    }
    struct epoll_event e = {.events = all ? EPOLLIN : EPOLLIN | EPOLLOUT, .data.ptr = c};
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
        go_deaf(c);
    return n < 0 ? 0 : n;
}

int larder__server_reply(larder__server *s, larder__server_client *c, larder__message type) {
    larder__frame_head head = {.bytes = (uint32_t)s->body.size, .type = (uint16_t)type};
    if (s->body.code < 0)
        return s->body.code;
    ssize_t gone = c->deaf ? 0 : send_now(c, &head, &s->body);
    if (c->deaf || (size_t)gone == sizeof head + s->body.size)
        return 0;
    /* A rank waits for the records of all others. */
    size_t most = c->berth.ranks ? RANKS_REPLY_MOST : REPLY_MOST;
    if (c->out.size - c->sent + s->body.size > most)
        return larder__fail(LARDER_E_FULL, "it does not read its answers");
    size_t of_head = (size_t)gone < sizeof head ? (size_t)gone : sizeof head;
    size_t of_body = (size_t)gone - of_head;
    larder_write_bytes(&c->out, (const char *)&head + of_head, sizeof head - of_head);
    larder_write_bytes(&c->out, s->body.bytes + of_body, s->body.size - of_body);
    return c->out.code < 0 ? c->out.code : larder__server_flush(s, c);
}

int larder__server_refuse(larder__server *s, larder__server_client *c, int code) {
    s->body.size = 0;
    larder__refused_write(&s->body, code, larder_errmsg());
    c->leaving = true;
    return larder__server_reply(s, c, LARDER__MSG_REFUSED);
}

/* ---- clients --------------------------------------------------------------------------------- */

static void drop(larder__server *s, larder__server_client *c, const char *why) {
    larder__server_client **at = &s->clients;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    s->count--;
    if (c->about.set) {
        larder__server_say(s, "job %u left: %s (pid %u)%s%s", c->about.job, c->about.name,
                           c->about.pid, why ? ": " : "", why ? why : "");
        larder__served_leave(c->about.set, c->about.job);
    }
    larder__unix_ranks_leave(s, c);
    s->promised -= c->promise;
    epoll_ctl(s->epoll, EPOLL_CTL_DEL, c->fd, NULL); /* a forked child may keep it open */
    close(c->fd);
    larder__inbox_free(&c->in);
    larder__writer_free(&c->out);
    larder__free(c->pending);
    larder__free(c);
}

/* Of whom that cannot be told nothing is believed. */
static uint32_t user_of(int fd) {
    struct ucred who;
    socklen_t n = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 ? who.uid : UINT32_MAX;
}

/* Connections of another user are never more than those that are left, so that nobody who was let
 * in keeps all others out. */
static bool is_room(const larder__server *s, uint32_t user) {
    uint32_t theirs = 0;
    if (user == 0 || user == geteuid())
        return s->count < s->conf.clients;
    for (const larder__server_client *c = s->clients; c; c = c->next)
        theirs += c->user == user;
    return s->count + theirs < s->conf.clients;
}

static void adopt(larder__server *s, int fd) {
    uint32_t user = user_of(fd);
    larder__server_client *c = is_room(s, user) ? larder__calloc(1, sizeof *c) : NULL;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    if (!c || epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
        s->body.size = 0;
        larder__refused_write(&s->body, LARDER_E_FULL, "too many connections to the daemon");
        if (s->body.code == 0)
            larder__frame_send(fd, LARDER__MSG_REFUSED, s->body.bytes, s->body.size, NULL, 0);
        larder__free(c);
        close(fd);
        return;
    }
    c->fd = fd;
    c->user = user;
    larder__inbox_init(&c->in);
    c->in.most = MESSAGE_MOST;
    c->next = s->clients;
    s->clients = c;
    s->count++;
}

void larder__server_adopt(larder__server *s, int fd) {
    larder__purse *before = larder__mem_charge(&s->purse);
    adopt(s, fd);
    larder__mem_charge(before);
}

static int watch(larder__server *s, int *fd) {
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = fd};
    return epoll_ctl(s->epoll, EPOLL_CTL_ADD, *fd, &e);
}

static void greet(larder__server *s) {
    int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        adopt(s, fd);
    else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        /* No descriptor is left: whoever waits at the door would keep us awake for nothing. */
        epoll_ctl(s->epoll, EPOLL_CTL_DEL, s->listener, NULL);
        s->shut = true;
        s->shut_at = larder__world_now();
    }
}

/* The door is tried again now and then. */
static int open_again(larder__server *s, int milliseconds) {
    if (s->shut && larder__world_now() >= s->shut_at + WATCH_MS * 1e-3)
        s->shut = watch(s, &s->listener) < 0;
    if (!s->shut)
        return milliseconds;
    return milliseconds < 0 || milliseconds > WATCH_MS ? WATCH_MS : milliseconds;
}

/* Room that was needed for one large message is not kept. */
static void trim(larder__server *s) {
    larder_writer *const all[] = {&s->body, &s->room};
    for (int i = 0; i < 2; i++)
        if (all[i]->cap > KEPT_MOST)
            larder__writer_free(all[i]);
    if (s->idle.cap > KEPT_MOST)
        larder__inbox_free(&s->idle);
}

/* What there is of one kind: LAID, or everything else. */
static int hear_each(larder__server *s, larder__server_client *c, bool laid) {
    larder_reader body;
    uint16_t type;
    int rc;
    while ((rc = larder__inbox_next(&c->in, &type, &body)) == 1) {
        if ((type == LARDER__MSG_LAID) != laid)
            continue;
        rc = larder__server_hear(s, c, type, &body);
        s->body.code = s->room.code = 0; /* no memory for one answer: the next may be smaller */
        if (rc < 0 || c->leaving)
            break;
    }
    return rc;
}

/* One piece of what it sent, so that nobody is served for long while others wait. Copying comes
 * last: who has made something asks for more in the same breath, and waits for the answer. */
static int hear_all(larder__server *s, larder__server_client *c) {
    int rc = larder__inbox_read(&c->in, c->fd);
    size_t from = c->in.used;
    if (rc <= 0 || (rc = hear_each(s, c, false)) < 0 || c->leaving)
        return rc;
    c->in.used = from;
    return hear_each(s, c, true);
}

/* A client has room of its own only while a message of its is not whole. */
static int listen_to(larder__server *s, larder__server_client *c) {
    larder__inbox_pass(&s->idle, &c->in);
    int rc = hear_all(s, c);
    larder__inbox_pass(&c->in, &s->idle);
    trim(s);
    return rc;
}

/* 0: it is still there. */
static int ignore(const larder__server_client *c) {
    char unheard[4096];
    ssize_t n = recv(c->fd, unheard, sizeof unheard, MSG_DONTWAIT);
    bool there = n > 0 || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
    return there ? 0 : LARDER_E_IO;
}

/* Others do not wait for it any more, and nobody gets its memory yet. */
static void expel(larder__server *s, larder__server_client *c) {
    c->expelled = true;
    go_deaf(c);
    shutdown(c->fd, SHUT_WR);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->fd, &e);
    if (c->about.set)
        larder__served_break(c->about.set, c->about.job);
    larder__unix_ranks_lose(s, c);
}

static void serve(larder__server *s, larder__server_client *c, uint32_t events) {
    int rc = 0;
    if (c->expelled) {
        if (ignore(c) < 0)
            drop(s, c, NULL);
        return;
    }
    if (events & EPOLLOUT)
        rc = larder__server_flush(s, c);
    if (rc == 0 && !c->leaving && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        rc = listen_to(s, c);
    bool gone = rc == LARDER_E_IO;
    if (rc == LARDER_E_NOMEM)
        rc = larder__fail(LARDER_E_FULL,
                          "the daemon has no memory left for this: what it may use is "
                          "its --cache");
    char why[256];
    snprintf(why, sizeof why, "%s", larder_errmsg());
    if (rc < 0 && !gone)
        larder__server_refuse(s, c, rc);
    if (rc < 0 && !gone && (c->about.set || c->berth.ranks)) {
        larder__server_say(s, "thrown out: %s (pid %u): %s", c->about.name, c->about.pid, why);
        expel(s, c);
    } else if (rc < 0 || (c->leaving && c->out.size == 0))
        drop(s, c, rc < 0 && !gone ? why : NULL);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Now and then, as long as something is being made. */
static int watch_sets(larder__server *s, int milliseconds) {
    double now = larder__world_now();
    if (!s->making && now < s->watch_at + WATCH_MS * 1e-3)
        return milliseconds;
    if (now >= s->watch_at + WATCH_MS * 1e-3) {
        s->watch_at = now;
        s->making = false;
        for (size_t i = 0; i < LARDER__SETS; i++)
            if (s->sets[i] && larder__served_watch(s->sets[i], now))
                s->making = true;
    }
    return milliseconds < 0 || milliseconds > WATCH_MS ? WATCH_MS : milliseconds;
}

/* For who looks at the daemon: a few times a second, as long as something happens. */
static int show(larder__server *s, int milliseconds) {
    enum { EVERY_MS = 200 };
    double now = larder__world_now();
    larder__status_conf about;
    if (!s->seen || !s->stale)
        return milliseconds;
    if (now < s->seen_at + EVERY_MS * 1e-3)
        return milliseconds < 0 || milliseconds > EVERY_MS ? EVERY_MS : milliseconds;
    if (larder__server_about(s, &about) == 0)
        larder__server_shown_update(s->seen, &about);
    larder__free((void *)(uintptr_t)about.clients);
    s->seen_at = now;
    s->stale = false;
    return milliseconds;
}

static int turn(larder__server *s, int milliseconds) {
    struct epoll_event events[EVENTS];
    int n =
        epoll_wait(s->epoll, events, EVENTS, show(s, watch_sets(s, open_again(s, milliseconds))));
    if (n < 0 && errno != EINTR)
        return larder__fail(LARDER_E_IO, "waiting for clients: %s", strerror(errno));
    s->stale |= n > 0;
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr == &s->stop)
            return 0;
        if (events[i].data.ptr == &s->listener)
            greet(s);
        else
            serve(s, events[i].data.ptr, events[i].events);
    }
    return 1;
}

int larder__server_turn(larder__server *s, int milliseconds) {
    larder__purse *before = larder__mem_charge(&s->purse);
    int rc = turn(s, milliseconds);
    larder__mem_charge(before);
    return rc;
}

int larder__server_run(larder__server *s) {
    int rc;
    while ((rc = larder__server_turn(s, -1)) == 1) {
    }
    return rc;
}

uint32_t larder__server_clients(const larder__server *s) { return s->count; }

void larder__server_stop(larder__server *s) {
    uint64_t one = 1;
    ssize_t n = write(s->stop, &one, sizeof one);
    (void)n;
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* Whoever holds the lock beside the socket is the daemon; the lock goes with the process. */
static int take_lock(larder__server *s) {
    char path[sizeof s->path + 8];
    snprintf(path, sizeof path, "%s.lock", s->path);
    s->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lock < 0)
        return larder__fail(larder__code_of_errno(errno), "%s: %s", path, strerror(errno));
    if (flock(s->lock, LOCK_EX | LOCK_NB) < 0)
        return larder__fail(LARDER_E_STATE, "%s: another daemon serves there already", s->path);
    return 0;
}

static int bind_socket(larder__server *s) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path, s->path, sizeof a.sun_path);
    struct stat there;
    if (lstat(s->path, &there) == 0) {
        if (!S_ISSOCK(there.st_mode))
            return larder__fail(LARDER_E_ARGS, "%s is there and is no socket", s->path);
        unlink(s->path); /* of a daemon that was killed: we hold the lock */
    }
    s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t old = umask(0777); /* nobody gets in before the permissions are right */
    int rc = s->listener < 0 ? -1 : bind(s->listener, (struct sockaddr *)&a, sizeof a);
    umask(old);
    if (rc < 0 || chmod(s->path, s->conf.mode) < 0 || listen(s->listener, BACKLOG) < 0)
        return larder__fail(larder__code_of_errno(errno), "%s: %s", s->path, strerror(errno));
    return 0;
}

int larder__server_open(larder__server **out, const larder__server_conf *conf) {
    *out = NULL;
    if (conf->cache > larder__memory_limit())
        return larder__fail(LARDER_E_RANGE,
                            "a cache of %llu MiB, but this process may use %llu MiB",
                            (unsigned long long)(conf->cache >> 20),
                            (unsigned long long)(larder__memory_limit() >> 20));
    larder__server *s = larder__calloc(1, sizeof *s);
    if (!s)
        return LARDER_E_NOMEM;
    s->conf = *conf;
    s->listener = s->lock = s->epoll = s->stop = -1;
    s->started = larder__world_now();
    s->purse.most = conf->cache + OWN;
    larder__inbox_init(&s->idle);
    int rc = 0;
    if (strlen(conf->socket) >= sizeof s->path)
        rc = larder__fail(LARDER_E_ARGS, "%.40s…: a socket's path has at most %zu bytes",
                          conf->socket, sizeof s->path - 1);
    else
        memcpy(s->path, conf->socket, strlen(conf->socket));
    if (rc == 0)
        rc = take_lock(s);
    if (rc == 0)
        rc = bind_socket(s);
    if (rc == 0 && ((s->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0 ||
                    (s->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0 ||
                    watch(s, &s->listener) < 0 || watch(s, &s->stop) < 0))
        rc = larder__fail(LARDER_E_IO, "epoll: %s", strerror(errno));
    if (rc == 0) {
        s->seen = larder__server_shown_open(s->path);
        s->stale = true;
    }
    if (rc < 0)
        larder__server_close(&s);
    *out = s;
    return rc;
}

void larder__server_close(larder__server **ps) {
    larder__server *s = *ps;
    *ps = NULL;
    if (!s)
        return;
    larder__server_shown_close(&s->seen);
    larder__purse *before = larder__mem_charge(&s->purse);
    while (s->clients)
        drop(s, s->clients, NULL);
    for (size_t i = 0; i < LARDER__SETS; i++)
        larder__served_close(&s->sets[i]);
    if (s->listener >= 0) {
        close(s->listener);
        unlink(s->path);
    }
    if (s->lock >= 0) {
        char path[sizeof s->path + 8];
        snprintf(path, sizeof path, "%s.lock", s->path);
        if (s->listener >= 0)
            unlink(path);
        close(s->lock);
    }
    if (s->epoll >= 0)
        close(s->epoll);
    if (s->stop >= 0)
        close(s->stop);
    larder__writer_free(&s->body);
    larder__writer_free(&s->room);
    larder__inbox_free(&s->idle);
    larder__mem_charge(before);
    larder__free(s);
}
