#include "wires.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 1 << 20, FDS = 1024, PASSED = 4, QUEUE = 64, WATCHED = 64 };

typedef enum { NOTHING, STREAM, LISTENER, EPOLL, EVENT, MEMORY, LOCK } kind;

typedef struct piece { /* of a stream: what arrives at once */
    double at;
    size_t end; /* counted from the beginning of the stream */
    struct thing *memory[PASSED];
    int passed;
} piece;

typedef struct thing {
    kind kind;
    uint32_t refs;       /* descriptors and mappings */
    const void *watcher; /* an epoll, or whatever its owner waits on */
    /* a stream's end: what comes in */
    struct thing *peer;
    unsigned char *bytes;
    size_t read, written, cap; /* counted from its beginning; bytes[at % cap] */
    piece *pieces;
    size_t first, count, piece_cap;
    bool ended, dead; /* nothing more comes after that; nothing can be sent */
    double ended_at, last_at;
    double receive, send;
    bool nonblocking;
    /* a listener: who waits to be taken */
    char name[64];
    struct {
        struct thing *end;
        double at;
    } queue[QUEUE];
    int queued;
    /* an epoll */
    struct {
        int fd;
        struct epoll_event about;
    } watched[WATCHED];
    int watching;
    uint64_t rung; /* an event */
    /* memory */
    void *memory;
    size_t size;
} thing;

static struct {
    struct {
        thing *thing;
        actor_process *of;
    } fds[FDS];
    int top; /* descriptors below it were used */
    thing **things;
    size_t used, cap;
    const actor_process *lock_of;
    struct {
        thing *thing;
        actor_process *of;
    } maps[FDS];
    int mapped;
} all;
wires_weather wires_now;

/* ---- things ---------------------------------------------------------------------------------- */

/* They stay until the end, and their room for the next schedule. */
static thing *thing_new(kind k) {
    if (all.used == all.cap) {
        all.cap = all.cap ? 2 * all.cap : 256;
        all.things = outside_resize(all.things, all.cap * sizeof *all.things);
        if (!all.things)
            abort();
        for (size_t i = all.used; i < all.cap; i++)
            all.things[i] = NULL;
    }
    thing *t = all.things[all.used];
    if (!t && !(t = all.things[all.used] = outside_zeroed(sizeof *t)))
        abort();
    all.used++;
    unsigned char *bytes = t->bytes;
    piece *pieces = t->pieces;
    size_t cap = t->cap, piece_cap = t->piece_cap;
    *t = (thing){.kind = k,
                 .bytes = bytes,
                 .cap = cap,
                 .pieces = pieces,
                 .piece_cap = piece_cap,
                 .receive = ACTOR_NEVER,
                 .send = ACTOR_NEVER};
    return t;
}

static int fd_new(thing *t) {
    for (int i = 0; i < FDS; i++)
        if (!all.fds[i].thing) {
            all.fds[i].thing = t;
            all.fds[i].of = actors_current();
            t->refs++;
            if (i >= all.top)
                all.top = i + 1;
            return FIRST + i;
        }
    abort(); /* FDS is too small, or descriptors are not closed */
}

static thing *of_fd(int fd, kind k) {
    thing *t = fd >= FIRST && fd < FIRST + FDS ? all.fds[fd - FIRST].thing : NULL;
    if (!t || t->kind != k) {
        errno = EBADF;
        return NULL;
    }
    return t;
}

int wires_again(int fd) {
    thing *t = wires_is(fd) ? all.fds[fd - FIRST].thing : NULL;
    if (t)
        return fd_new(t);
    errno = ENOENT;
    return -1;
}

bool wires_is(int fd) { return fd >= FIRST && fd < FIRST + FDS; }

static void wake(thing *t, double at) {
    actors_wake(t, at);
    if (t->watcher)
        actors_wake(t->watcher, at);
}

/* ---- streams --------------------------------------------------------------------------------- */

static double way(void) {
    double seconds = actors_between(wires_now.least, wires_now.most);
    if (wires_now.slow_in && actors_one_in(wires_now.slow_in))
        seconds += actors_between(0, wires_now.slow);
    return actors_now() + seconds;
}

static void copy_in(thing *t, const unsigned char *from, size_t n) {
    size_t have = t->written - t->read;
    if (have + n > t->cap) {
        size_t cap = t->cap ? t->cap : 1024;
        while (cap < have + n)
            cap *= 2;
        unsigned char *more = outside_alloc(cap);
        if (!more)
            abort();
        for (size_t i = 0; i < have; i++)
            more[(t->read + i) & (cap - 1)] = t->bytes[(t->read + i) & (t->cap - 1)];
        outside_free(t->bytes);
        t->bytes = more;
        t->cap = cap;
    }
    while (n) {
        size_t at = t->written & (t->cap - 1), m = t->cap - at < n ? t->cap - at : n;
        memcpy(t->bytes + at, from, m);
        from += m;
        n -= m;
        t->written += m;
    }
}

static piece *piece_new(thing *t, double at) {
    if (t->first + t->count == t->piece_cap) {
        if (t->first > t->piece_cap / 2) {
            memmove(t->pieces, t->pieces + t->first, t->count * sizeof *t->pieces);
            t->first = 0;
        } else {
            t->piece_cap = t->piece_cap ? 2 * t->piece_cap : 16;
            t->pieces = outside_resize(t->pieces, t->piece_cap * sizeof *t->pieces);
            if (!t->pieces)
                abort();
        }
    }
    t->last_at = at > t->last_at ? at : t->last_at; /* nothing overtakes */
    piece *p = &t->pieces[t->first + t->count++];
    *p = (piece){.at = t->last_at, .end = t->written};
    return p;
}

static void pass(piece *p, const struct msghdr *m) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c;
         c = CMSG_NXTHDR((struct msghdr *)(uintptr_t)m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n && p->passed < PASSED; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            thing *t = of_fd(fd, MEMORY);
            if (!t)
                abort();
            t->refs++;
            p->memory[p->passed++] = t;
        }
    }
}

static size_t room(const thing *to) {
    size_t have = to->written - to->read;
    return have < wires_now.room ? wires_now.room - have : 0;
}

/* Until there is room; false: errno. */
static bool await_room(thing *t, int flags) {
    double until = actors_now() + t->send;
    while (!t->dead && room(t->peer) == 0) {
        if (t->nonblocking || flags & MSG_DONTWAIT || actors_now() >= until) {
            errno = EAGAIN;
            return false;
        }
        actors_wait(t, until);
    }
    if (t->dead)
        errno = EPIPE;
    return !t->dead;
}

ssize_t wires_send(int fd, const struct msghdr *m, int flags) {
    thing *t = of_fd(fd, STREAM);
    bool buffered = (flags & WIRES_BUFFERED) != 0;
    if (!t || (!buffered && !await_room(t, flags)))
        return -1;
    if (t->dead) {
        errno = EPIPE;
        return -1;
    }
    size_t left = buffered ? SIZE_MAX : room(t->peer), sent = 0;
    for (size_t i = 0; i < m->msg_iovlen && left; i++) {
        size_t n = m->msg_iov[i].iov_len < left ? m->msg_iov[i].iov_len : left;
        if (n)
            copy_in(t->peer, m->msg_iov[i].iov_base, n);
        left -= n;
        sent += n;
    }
    double at = way();
    piece *p = piece_new(t->peer, at);
    if (m->msg_controllen)
        pass(p, m);
    else if (sent > 1 && actors_one_in(16)) { /* in two pieces */
        p->end -= 1 + actors_chance(sent - 1);
        p = piece_new(t->peer, way());
    }
    wake(t->peer, t->peer->pieces[t->peer->first].at);
    return (ssize_t)sent;
}

double wires_readable_at(int fd) {
    thing *t = of_fd(fd, STREAM);
    if (!t)
        return ACTOR_NEVER;
    if (t->count)
        return t->pieces[t->first].at;
    return t->ended ? t->ended_at : ACTOR_NEVER;
}

bool wires_readable(int fd) { return wires_readable_at(fd) <= actors_now(); }

/* Descriptors that came with a piece; not those that do not fit. */
static void receive_passed(piece *p, struct msghdr *m) {
    int n = 0;
    struct cmsghdr *c = m->msg_control ? CMSG_FIRSTHDR(m) : NULL;
    for (int i = 0; i < p->passed; i++) {
        int fd = c ? fd_new(p->memory[i]) : -1;
        p->memory[i]->refs--;
        if (c)
            memcpy(CMSG_DATA(c) + (size_t)n++ * sizeof fd, &fd, sizeof fd);
    }
    p->passed = 0;
    m->msg_controllen = c && n ? CMSG_SPACE((size_t)n * sizeof(int)) : 0;
    if (!c || !n)
        return;
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
}

/* Bytes that are here, up to the next that come with descriptors. */
static size_t here(const thing *t) {
    size_t end = t->read;
    double now = actors_now();
    for (size_t i = 0; i < t->count; i++) {
        const piece *p = &t->pieces[t->first + i];
        if (p->at > now || (i && p->passed))
            break;
        end = p->end;
    }
    return end - t->read;
}

ssize_t wires_receive(int fd, struct msghdr *m, int flags) {
    thing *t = of_fd(fd, STREAM);
    if (!t)
        return -1;
    double until = actors_now() + t->receive;
    while (!wires_readable(fd)) {
        if (t->nonblocking || flags & MSG_DONTWAIT || actors_now() >= until) {
            errno = EAGAIN;
            return -1;
        }
        double at = wires_readable_at(fd);
        actors_wait(t, at < until ? at : until);
        if (!(t = of_fd(fd, STREAM)))
            return -1;
    }
    if (t->count && t->pieces[t->first].passed)
        receive_passed(&t->pieces[t->first], m);
    else
        m->msg_controllen = 0;
    size_t n = here(t), got = 0;
    if (n > 1 && actors_one_in(16))
        n = 1 + actors_chance(n);
    for (size_t i = 0; i < m->msg_iovlen && n; i++) {
        unsigned char *to = m->msg_iov[i].iov_base;
        for (size_t left = m->msg_iov[i].iov_len; left && n;) {
            size_t at = t->read & (t->cap - 1), k = t->cap - at;
            k = k < n ? k : n;
            k = k < left ? k : left;
            memcpy(to, t->bytes + at, k);
            to += k;
            left -= k;
            n -= k;
            t->read += k;
            got += k;
        }
    }
    while (t->count && t->pieces[t->first].end <= t->read) {
        t->first++;
        t->count--;
    }
    if (t->count == 0)
        t->first = 0;
    if (got && !t->peer->dead)
        wake(t->peer, actors_now()); /* there is room again */
    return (ssize_t)got;
}

/* The other end of what is closed or cut at `at`; `keep`: bytes under way that still arrive. */
static void end_stream(thing *t, double at, size_t keep) {
    if (t->ended)
        return;
    while (t->count && t->pieces[t->first + t->count - 1].end - t->read > keep) {
        piece *p = &t->pieces[t->first + t->count - 1];
        size_t before = t->count > 1 ? p[-1].end : t->read;
        if (before - t->read < keep) {
            p->end = t->read + keep;
            break;
        }
        for (int i = 0; i < p->passed; i++)
            p->memory[i]->refs--;
        t->count--;
    }
    t->written = t->count ? t->pieces[t->first + t->count - 1].end : t->read;
    t->ended = true;
    t->ended_at = at > t->last_at ? at : t->last_at;
    wake(t, t->count ? t->pieces[t->first].at : t->ended_at);
}

static void cut(thing *t) {
    thing *ends[2] = {t, t->peer};
    for (int i = 0; i < 2; i++) {
        size_t under_way = ends[i]->written - ends[i]->read;
        ends[i]->last_at = 0;
        end_stream(ends[i], actors_now(),
                   under_way && actors_one_in(2) ? actors_chance(under_way + 1) : 0);
        ends[i]->dead = true;
        wake(ends[i], actors_now());
    }
}

void wires_shutdown(int fd) {
    thing *t = of_fd(fd, STREAM);
    if (!t || !t->peer)
        return;
    end_stream(t->peer, way(), SIZE_MAX);
    t->dead = true;
    t->peer->dead = true;
    end_stream(t, actors_now(), 0);
    wake(t, actors_now());
}

bool wires_cut(const actor_process *p) {
    int n = 0, found = -1;
    for (int i = 0; i < all.top; i++) {
        const thing *t = all.fds[i].thing;
        if (t && t->kind == STREAM && !t->dead && (!p || all.fds[i].of == p) &&
            actors_chance((uint64_t)++n) == 0)
            found = i;
    }
    if (found >= 0)
        cut(all.fds[found].thing);
    return found >= 0;
}

void wires_hasten(void) {
    double soon = actors_now() + wires_now.most;
    for (size_t i = 0; i < all.used; i++) {
        thing *t = all.things[i];
        if (t->kind != STREAM)
            continue;
        for (size_t k = 0; k < t->count; k++)
            if (t->pieces[t->first + k].at > soon)
                t->pieces[t->first + k].at = soon;
        t->last_at = t->last_at < soon ? t->last_at : soon;
        t->ended_at = t->ended_at < soon ? t->ended_at : soon;
        wake(t, soon);
    }
}

/* ---- coming and going ------------------------------------------------------------------------ */

int wires_socket(bool nonblocking) {
    thing *t = thing_new(STREAM);
    t->nonblocking = nonblocking;
    t->dead = true;
    return fd_new(t);
}

int wires_listen(int fd, const char *name) {
    thing *t = of_fd(fd, STREAM);
    if (!t)
        return -1;
    t->kind = LISTENER;
    snprintf(t->name, sizeof t->name, "%s", name);
    return 0;
}

int wires_connect(int fd, const char *name) {
    thing *a = of_fd(fd, STREAM), *l = NULL;
    actors_sleep(way()); /* there */
    for (int i = 0; i < all.top; i++)
        if (all.fds[i].thing && all.fds[i].thing->kind == LISTENER &&
            strcmp(all.fds[i].thing->name, name) == 0)
            l = all.fds[i].thing;
    if (!a || !l || l->queued == QUEUE) {
        errno = ECONNREFUSED;
        return -1;
    }
    thing *b = thing_new(STREAM);
    a->peer = b;
    b->peer = a;
    a->dead = false;
    l->queue[l->queued].end = b;
    l->queue[l->queued++].at = actors_now();
    wake(l, actors_now());
    return 0;
}

static int waiting_to_come(const thing *l) {
    for (int i = 0; i < l->queued; i++)
        if (l->queue[i].at <= actors_now())
            return i;
    return -1;
}

int wires_accept(int listener, bool nonblocking) {
    thing *l = of_fd(listener, LISTENER);
    int i = l ? waiting_to_come(l) : -1;
    if (i < 0) {
        errno = EAGAIN;
        return -1;
    }
    thing *t = l->queue[i].end;
    memmove(&l->queue[i], &l->queue[i + 1], (size_t)(--l->queued - i) * sizeof *l->queue);
    t->nonblocking = nonblocking;
    return fd_new(t);
}

static void memory_unref(thing *t) {
    if (t->refs == 0) {
        outside_free(t->memory);
        t->memory = NULL;
    }
}

/* `lost`: what it had sent and is still under way. */
static void close_at(int i, bool lost) {
    thing *t = all.fds[i].thing;
    const actor_process *of = all.fds[i].of;
    all.fds[i].thing = NULL;
    for (int k = 0; k < all.top; k++) { /* nobody watches it any more */
        thing *e = all.fds[k].thing;
        for (int j = 0; e && e->kind == EPOLL && j < e->watching; j++)
            if (e->watched[j].fd == FIRST + i)
                e->watched[j--] = e->watched[--e->watching];
    }
    if (--t->refs)
        return;
    if (t->kind == STREAM && t->peer) {
        end_stream(t->peer, lost ? actors_now() : way(), lost ? 0 : SIZE_MAX);
        t->peer->dead = t->dead = true;
        t->watcher = NULL;
        wake(t->peer, actors_now());
    } else if (t->kind == LISTENER) {
        for (int k = 0; k < t->queued; k++)
            cut(t->queue[k].end);
        t->kind = NOTHING;
    } else if (t->kind == MEMORY)
        memory_unref(t);
    else if (t->kind == LOCK && all.lock_of == of)
        all.lock_of = NULL;
}

int wires_close(int fd) {
    if (!wires_is(fd) || !all.fds[fd - FIRST].thing) {
        actors_complain("a descriptor is closed twice");
        errno = EBADF;
        return -1;
    }
    close_at(fd - FIRST, false);
    return 0;
}

void wires_crash(actor_process *p) {
    for (int i = 0; i < all.mapped; i++)
        if (all.maps[i].of == p && all.maps[i].thing) {
            all.maps[i].thing->refs--;
            memory_unref(all.maps[i].thing);
            all.maps[i].thing = NULL;
        }
    for (int i = 0; i < all.top; i++)
        if (all.fds[i].thing && all.fds[i].of == p)
            close_at(i, actors_one_in(2));
    if (all.lock_of == p)
        all.lock_of = NULL;
}

uint32_t wires_open_of(const actor_process *p) {
    uint32_t n = 0;
    for (int i = 0; i < all.top; i++)
        n += all.fds[i].thing && all.fds[i].of == p;
    for (int i = 0; i < all.mapped; i++)
        n += all.maps[i].thing && all.maps[i].of == p;
    return n;
}

void wires_timeouts(int fd, double receive, double send) {
    thing *t = of_fd(fd, STREAM);
    if (t && receive > 0)
        t->receive = receive;
    if (t && send > 0)
        t->send = send;
}

void wires_watch(int fd, const void *on) {
    if (wires_is(fd) && all.fds[fd - FIRST].thing)
        all.fds[fd - FIRST].thing->watcher = on;
}

/* ---- waiting for several --------------------------------------------------------------------- */

int wires_epoll(void) { return fd_new(thing_new(EPOLL)); }
int wires_event(void) { return fd_new(thing_new(EVENT)); }

int wires_epoll_ctl(int epoll, int what, int fd, const struct epoll_event *about) {
    thing *e = of_fd(epoll, EPOLL), *t = wires_is(fd) ? all.fds[fd - FIRST].thing : NULL;
    int i = 0;
    if (!e || !t)
        return -1;
    while (i < e->watching && e->watched[i].fd != fd)
        i++;
    if (what == EPOLL_CTL_DEL) {
        if (i < e->watching)
            e->watched[i] = e->watched[--e->watching];
        t->watcher = NULL;
        return 0;
    }
    if (i == WATCHED) {
        errno = ENOSPC;
        return -1;
    }
    e->watched[i].fd = fd;
    e->watched[i].about = *about;
    e->watching += i == e->watching;
    t->watcher = e;
    return 0;
}

/* When something can be done with it. */
static double ready_at(int fd, uint32_t events, uint32_t *which) {
    const thing *t = all.fds[fd - FIRST].thing;
    double at = ACTOR_NEVER;
    *which = 0;
    if (t->kind == LISTENER)
        for (int i = 0; i < t->queued; i++)
            at = t->queue[i].at < at ? t->queue[i].at : at;
    if (t->kind == STREAM)
        at = wires_readable_at(fd);
    if (t->kind == EVENT && t->rung)
        at = 0;
    if (at <= actors_now())
        *which = EPOLLIN;
    if (t->kind == STREAM && events & EPOLLOUT && (t->dead || room(t->peer))) {
        *which |= EPOLLOUT;
        at = actors_now();
    }
    return at;
}

int wires_epoll_wait(int epoll, struct epoll_event *out, int most, int milliseconds) {
    thing *e = of_fd(epoll, EPOLL);
    double until = milliseconds < 0 ? ACTOR_NEVER : actors_now() + milliseconds * 1e-3;
    if (!e)
        return -1;
    for (;;) {
        int n = 0;
        double next = until;
        int from = e->watching ? (int)actors_chance((uint64_t)e->watching) : 0;
        for (int i = 0; i < e->watching && n < most; i++) {
            int k = (from + i) % e->watching;
            uint32_t which;
            double at = ready_at(e->watched[k].fd, e->watched[k].about.events, &which);
            if (which)
                out[n++] = (struct epoll_event){.events = which, .data = e->watched[k].about.data};
            next = at < next ? at : next;
        }
        if (n || actors_now() >= until)
            return n;
        actors_wait(e, next);
    }
}

/* What poll finds, and when there will be something if there is nothing now. */
static int look_at(struct pollfd *at, size_t n, double *next) {
    int ready = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t which = 0;
        at[i].revents = 0;
        if (at[i].fd < 0)
            continue; /* as the system does: nothing ever happens to it */
        if (!wires_is(at[i].fd) || !all.fds[at[i].fd - FIRST].thing) {
            actors_complain("descriptor %d is waited for and is not open", at[i].fd);
            continue;
        }
        double when = ready_at(at[i].fd, at[i].events & POLLOUT ? EPOLLOUT : 0, &which);
        *next = when < *next ? when : *next;
        at[i].revents = (short)((which & EPOLLIN && at[i].events & POLLIN ? POLLIN : 0) |
                                (which & EPOLLOUT ? POLLOUT : 0));
        ready += at[i].revents != 0;
    }
    return ready;
}

static void set_watcher(const struct pollfd *at, size_t n, const void *on) {
    for (size_t i = 0; i < n; i++)
        if (at[i].fd >= 0)
            wires_watch(at[i].fd, on);
}

int wires_poll(struct pollfd *at, size_t n, double until) {
    for (;;) {
        double next = until;
        int ready = look_at(at, n, &next);
        if (ready || actors_now() >= until || actors_complaint())
            return ready;
        set_watcher(at, n, at);
        actors_wait(at, next);
        set_watcher(at, n, NULL);
    }
}

void wires_ring(int fd) {
    thing *t = of_fd(fd, EVENT);
    if (!t)
        return;
    t->rung++;
    wake(t, actors_now());
}

bool wires_rung(int fd) {
    thing *t = of_fd(fd, EVENT);
    bool yes = t && t->rung;
    if (yes)
        t->rung = 0;
    return yes;
}

/* ---- memory and the lock --------------------------------------------------------------------- */

int wires_memory(void) { return fd_new(thing_new(MEMORY)); }

int wires_memory_size(int fd, size_t bytes) {
    thing *t = of_fd(fd, MEMORY);
    if (!t || wires_now.memory_out) {
        errno = t ? ENOSPC : EBADF;
        return -1;
    }
    if (t->memory)
        return 0;
    t->memory = outside_zeroed(bytes);
    t->size = bytes;
    return t->memory ? 0 : -1;
}

size_t wires_memory_bytes(int fd) {
    const thing *t = of_fd(fd, MEMORY);
    return t ? t->size : 0;
}

void *wires_map(int fd, size_t bytes) {
    thing *t = of_fd(fd, MEMORY);
    if (!t || !t->memory || bytes > t->size)
        return NULL;
    int i = 0;
    while (i < all.mapped && all.maps[i].thing)
        i++;
    if (i == FDS)
        abort();
    all.mapped += i == all.mapped;
    all.maps[i].thing = t;
    all.maps[i].of = actors_current();
    t->refs++;
    return t->memory;
}

int wires_unmap(void *at, size_t bytes) {
    (void)bytes;
    for (int i = 0; i < all.mapped; i++) {
        thing *t = all.maps[i].thing;
        if (!t || t->memory != at || all.maps[i].of != actors_current())
            continue;
        all.maps[i].thing = NULL;
        t->refs--;
        memory_unref(t);
        return 0;
    }
    errno = EINVAL;
    return -1;
}

int wires_lock_file(void) { return fd_new(thing_new(LOCK)); }

bool wires_lock(int fd) {
    if (!of_fd(fd, LOCK) || (all.lock_of && all.lock_of != actors_current()))
        return false;
    all.lock_of = actors_current();
    return true;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

void wires_begin(void) {
    wires_now = (wires_weather){.least = 5e-6, .most = 1e-4, .room = 200 << 10};
    all.used = 0;
    all.top = all.mapped = 0;
    all.lock_of = NULL;
}

void wires_end(void) {
    for (int i = 0; i < all.top; i++)
        all.fds[i].thing = NULL;
    for (size_t i = 0; i < all.used; i++) {
        outside_free(all.things[i]->memory);
        all.things[i]->memory = NULL;
    }
}
