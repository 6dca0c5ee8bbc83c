#include "waits.h"

#include "descriptors.h"

#include <errno.h>

enum { WATCHED = 64 };

typedef struct epoll {
    opened as;
    struct {
        int fd;
        struct epoll_event about;
    } watched[WATCHED];
    int watching;
} epoll;

typedef struct event {
    opened as;
    uint64_t rung;
} event;

/* ---- epoll ----------------------------------------------------------------------------------- */

static const opened_kind epoll_kind = {0};

int waits_epoll(void) { return descriptor_new(opened_new(&epoll_kind, sizeof(epoll)), false); }

int waits_epoll_ctl(int waiter, int what, int fd, const struct epoll_event *about) {
    epoll *e = (epoll *)descriptor_of(waiter, &epoll_kind);
    opened *o = descriptor_at(fd);
    int i = 0;
    if (!e || !o)
        return -1;
    while (i < e->watching && e->watched[i].fd != fd)
        i++;
    if (what == EPOLL_CTL_DEL) {
        if (i < e->watching)
            e->watched[i] = e->watched[--e->watching];
        o->watcher = NULL;
        return 0;
    }
    if (i == WATCHED) {
        errno = ENOSPC;
        return -1;
    }
    e->watched[i].fd = fd;
    e->watched[i].about = *about;
    e->watching += i == e->watching;
    o->watcher = e;
    return 0;
}

void waits_forget(int fd) {
    for (int k = descriptor_next(-1); k >= 0; k = descriptor_next(k)) {
        opened *o = descriptor_at(k);
        epoll *e = o->kind == &epoll_kind ? (epoll *)o : NULL;
        for (int i = 0; e && i < e->watching; i++)
            if (e->watched[i].fd == fd)
                e->watched[i--] = e->watched[--e->watching];
    }
}

/* When something can be done with it. */
static double ready_at(int fd, uint32_t events, uint32_t *which) {
    const opened *o = descriptor_at(fd);
    double at = o->kind->readable_at ? o->kind->readable_at(o) : ACTOR_NEVER;
    *which = 0;
    if (at <= actors_now())
        *which = EPOLLIN;
    if (events & EPOLLOUT && o->kind->writable && o->kind->writable(o)) {
        *which |= EPOLLOUT;
        at = actors_now();
    }
    return at;
}

int waits_epoll_wait(int waiter, struct epoll_event *out, int most, int milliseconds) {
    epoll *e = (epoll *)descriptor_of(waiter, &epoll_kind);
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

/* ---- poll ------------------------------------------------------------------------------------ */

void waits_watch(int fd, const void *on) {
    opened *o = descriptor_at(fd);
    if (o)
        o->watcher = on;
}

/* What poll finds, and when there will be something if there is nothing now. */
static int look_at(struct pollfd *at, size_t n, double *next) {
    int ready = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t which = 0;
        at[i].revents = 0;
        if (at[i].fd < 0)
            continue; /* as the system does: nothing ever happens to it */
        if (!descriptor_at(at[i].fd)) {
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
            waits_watch(at[i].fd, on);
}

int waits_poll(struct pollfd *at, size_t n, double until) {
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

/* ---- events ---------------------------------------------------------------------------------- */

static double event_readable_at(const opened *o) {
    return ((const event *)o)->rung ? 0 : ACTOR_NEVER;
}

static void event_closed(opened *o, int fd, const actor_process *of, bool lost) {
    (void)o, (void)of, (void)lost;
    waits_forget(fd);
}

static const opened_kind event_kind = {.closed = event_closed, .readable_at = event_readable_at};

int waits_event(void) { return descriptor_new(opened_new(&event_kind, sizeof(event)), false); }

void waits_ring(int fd) {
    event *e = (event *)descriptor_of(fd, &event_kind);
    if (!e)
        return;
    e->rung++;
    opened_wake(&e->as, actors_now());
}

bool waits_rung(int fd) {
    event *e = (event *)descriptor_of(fd, &event_kind);
    bool yes = e && e->rung;
    if (yes)
        e->rung = 0;
    return yes;
}
