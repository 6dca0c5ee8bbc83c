#include "wires.h"

#include "descriptors.h"
#include "passed_memory.h"
#include "player.h"
#include "waits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PASSED = 4, QUEUE = 64 };

typedef struct piece { /* of a stream: what arrives at once */
    double at;
    size_t end; /* counted from the beginning of the stream */
    passed_parcel with[PASSED];
    int passed;
} piece;

typedef struct wire { /* an end of a stream, or a listener */
    opened as;
    uint32_t of; /* the process that made it, or of a stream's end has it */
    /* a stream's end: what comes in */
    struct wire *peer;
    unsigned char *bytes;
    size_t read, written, cap; /* counted from its beginning; bytes[at % cap] */
    piece *pieces;
    size_t first, count, piece_cap;
    bool ended, dead; /* nothing more comes after that; nothing can be sent */
    bool shut;        /* by who has it */
    double ended_at, last_at;
    double receive, send;
    bool nonblocking;
    /* a listener: who waits to be taken */
    char name[64];
    struct {
        struct wire *end;
        double at;
    } queue[QUEUE];
    int queued;
} wire;

static const opened_kind stream_kind, listener_kind;
wires_weather wires_now;

static wire *stream_new(void) {
    wire *t = opened_new(&stream_kind, sizeof *t);
    t->receive = t->send = ACTOR_NEVER;
    t->of = actors_current()->number;
    return t;
}

static wire *stream_at(int fd) { return (wire *)descriptor_of(fd, &stream_kind); }
static void wake(wire *t, double at) { opened_wake(&t->as, at); }

/* ---- streams --------------------------------------------------------------------------------- */

static double way(void) {
    double seconds = actors_between(wires_now.least, wires_now.most);
    if (wires_now.slow_in && actors_one_in(wires_now.slow_in))
        seconds += actors_between(0, wires_now.slow);
    return actors_now() + seconds;
}

static void copy_in(wire *t, const unsigned char *from, size_t n) {
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

static piece *piece_new(wire *t, double at) {
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

static void pass(piece *p, const struct msghdr *m, uint32_t user) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c;
         c = CMSG_NXTHDR((struct msghdr *)(uintptr_t)m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n && p->passed < PASSED; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            p->with[p->passed++] = passed_send(fd, user);
        }
    }
}

static size_t room(const wire *to) {
    size_t have = to->written - to->read;
    return have < wires_now.room ? wires_now.room - have : 0;
}

/* Until there is room; false: errno. */
static bool await_room(wire *t, int flags) {
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
    wire *t = stream_at(fd);
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
        pass(p, m, play_user(t->peer->of));
    else if (sent > 1 && actors_one_in(16)) { /* in two pieces */
        p->end -= 1 + actors_chance(sent - 1);
        p = piece_new(t->peer, way());
    }
    wake(t->peer, t->peer->pieces[t->peer->first].at);
    return (ssize_t)sent;
}

static double readable_at(const opened *o) {
    const wire *t = (const wire *)o;
    if (t->count)
        return t->pieces[t->first].at;
    return t->ended ? t->ended_at : ACTOR_NEVER;
}

static bool writable(const opened *o) {
    const wire *t = (const wire *)o;
    return t->dead || room(t->peer);
}

double wires_readable_at(int fd) {
    const wire *t = stream_at(fd);
    return t ? readable_at(&t->as) : ACTOR_NEVER;
}

bool wires_readable(int fd) { return wires_readable_at(fd) <= actors_now(); }

/* Descriptors that came with a piece; not those that do not fit. */
static void receive_passed(piece *p, struct msghdr *m) {
    int n = 0;
    struct cmsghdr *c = m->msg_control ? CMSG_FIRSTHDR(m) : NULL;
    for (int i = 0; i < p->passed; i++) {
        if (!c) {
            passed_lose(p->with[i]);
            continue;
        }
        int fd = passed_receive(p->with[i]);
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
static size_t here(const wire *t) {
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
    wire *t = stream_at(fd);
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
        if (!(t = stream_at(fd)))
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
static void end_stream(wire *t, double at, size_t keep) {
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
            passed_lose(p->with[i]);
        t->count--;
    }
    t->written = t->count ? t->pieces[t->first + t->count - 1].end : t->read;
    t->ended = true;
    t->ended_at = at > t->last_at ? at : t->last_at;
    wake(t, t->count ? t->pieces[t->first].at : t->ended_at);
}

static void cut(wire *t) {
    wire *ends[2] = {t, t->peer};
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
    wire *t = stream_at(fd);
    if (!t)
        return;
    t->shut = true;
    if (!t->peer)
        return;
    end_stream(t->peer, way(), SIZE_MAX);
    t->dead = true;
    t->peer->dead = true;
    end_stream(t, actors_now(), 0);
    wake(t, actors_now());
}

bool wires_cut(const actor_process *p) {
    int n = 0;
    wire *found = NULL;
    for (int fd = descriptor_next(-1); fd >= 0; fd = descriptor_next(fd)) {
        opened *o = descriptor_at(fd);
        wire *t = o->kind == &stream_kind ? (wire *)o : NULL;
        if (t && !t->dead && (!p || descriptor_owner(fd) == p) && actors_chance((uint64_t)++n) == 0)
            found = t;
    }
    if (found)
        cut(found);
    return found;
}

uint32_t wires_given_up(const actor_process *p) {
    uint32_t n = 0;
    for (int fd = descriptor_next(-1); fd >= 0; fd = descriptor_next(fd)) {
        opened *o = descriptor_at(fd);
        n += o->kind == &stream_kind && ((wire *)o)->shut && descriptor_owner(fd) == p;
    }
    return n;
}

void wires_hasten(void) {
    double soon = actors_now() + wires_now.most;
    for (opened *o = opened_first(); o; o = o->next) {
        wire *t = (wire *)o;
        if (o->kind != &stream_kind)
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
    wire *t = stream_new();
    t->nonblocking = nonblocking;
    t->dead = true;
    return descriptor_new(&t->as, false);
}

int wires_listen(int fd, const char *name) {
    wire *t = stream_at(fd);
    if (!t)
        return -1;
    t->as.kind = &listener_kind;
    snprintf(t->name, sizeof t->name, "%s", name);
    return 0;
}

int wires_connect(int fd, const char *name) {
    wire *a = stream_at(fd), *l = NULL;
    actors_sleep(way()); /* there */
    for (int i = descriptor_next(-1); i >= 0; i = descriptor_next(i)) {
        opened *o = descriptor_at(i);
        if (o->kind == &listener_kind && strcmp(((wire *)o)->name, name) == 0)
            l = (wire *)o;
    }
    if (!a || !l || l->queued == QUEUE) {
        errno = ECONNREFUSED;
        return -1;
    }
    wire *b = stream_new();
    b->of = l->of;
    a->peer = b;
    b->peer = a;
    a->dead = false;
    l->queue[l->queued].end = b;
    l->queue[l->queued++].at = actors_now();
    wake(l, actors_now());
    return 0;
}

uint32_t wires_peer(int fd) {
    const wire *t = stream_at(fd);
    if (!t || !t->peer)
        abort();
    return t->peer->of;
}

static int waiting_to_come(const wire *l) {
    for (int i = 0; i < l->queued; i++)
        if (l->queue[i].at <= actors_now())
            return i;
    return -1;
}

int wires_accept(int listener, bool nonblocking) {
    wire *l = (wire *)descriptor_of(listener, &listener_kind);
    int i = l ? waiting_to_come(l) : -1;
    if (i < 0) {
        errno = EAGAIN;
        return -1;
    }
    wire *t = l->queue[i].end;
    memmove(&l->queue[i], &l->queue[i + 1], (size_t)(--l->queued - i) * sizeof *l->queue);
    t->nonblocking = nonblocking;
    return descriptor_new(&t->as, false);
}

static void stream_closed(opened *o, int fd, const actor_process *of, bool lost) {
    wire *t = (wire *)o;
    (void)of;
    waits_forget(fd);
    if (o->refs || !t->peer)
        return;
    end_stream(t->peer, lost ? actors_now() : way(), lost ? 0 : SIZE_MAX);
    t->peer->dead = t->dead = true;
    o->watcher = NULL;
    wake(t->peer, actors_now());
}

static void stream_end(opened *o) {
    outside_free(((wire *)o)->bytes);
    outside_free(((wire *)o)->pieces);
}

static const opened_kind stream_kind = {
    .closed = stream_closed, .readable_at = readable_at, .writable = writable, .end = stream_end};

static double somebody_comes_at(const opened *o) {
    const wire *l = (const wire *)o;
    double at = ACTOR_NEVER;
    for (int i = 0; i < l->queued; i++)
        at = l->queue[i].at < at ? l->queue[i].at : at;
    return at;
}

static void listener_closed(opened *o, int fd, const actor_process *of, bool lost) {
    wire *l = (wire *)o;
    (void)of, (void)lost;
    waits_forget(fd);
    for (int i = 0; o->refs == 0 && i < l->queued; i++)
        cut(l->queue[i].end);
}

static const opened_kind listener_kind = {.closed = listener_closed,
                                          .readable_at = somebody_comes_at};

void wires_timeouts(int fd, double receive, double send) {
    wire *t = stream_at(fd);
    if (t && receive > 0)
        t->receive = receive;
    if (t && send > 0)
        t->send = send;
}

/* ---- the lock -------------------------------------------------------------------------------- */

static const actor_process *lock_of;

static void lock_closed(opened *o, int fd, const actor_process *of, bool lost) {
    (void)o, (void)fd, (void)lost;
    if (lock_of == of)
        lock_of = NULL;
}

static const opened_kind lock_kind = {.closed = lock_closed};

int wires_lock_file(void) { return descriptor_new(opened_new(&lock_kind, sizeof(opened)), false); }

bool wires_lock(int fd) {
    if (!descriptor_of(fd, &lock_kind) || (lock_of && lock_of != actors_current()))
        return false;
    lock_of = actors_current();
    return true;
}

void wires_begin(void) {
    wires_now = (wires_weather){.least = 5e-6, .most = 1e-4, .room = 200 << 10};
    lock_of = NULL;
}
