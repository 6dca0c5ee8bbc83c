#include "unix/server_inside.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/world.h"
#include "unix/tray.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
    EVENTS = 64,
    KEPT_MOST = 256 << 10, /* of room that is kept for the next message */
    /* Bytes that other users' clients leave, however much they come to: a whole message of root's
     * or our own, and a little. */
    OURS = 5 << 20,
    FOR_OTHERS_PIECES = 2, /* that they may have reserved in one turn */
    WATCH_MS = 250
};
/* Seconds in a row that one client is listened to, and in one turn all those of other users. */
#define A_WHILE 0.005
#define FOR_OTHERS 0.01

/* ---- one client ------------------------------------------------------------------------------ */

/* Room that was needed for one large message is not kept. */
static void trim(larder__server *s) {
    larder_writer *const all[] = {&s->body, &s->room};
    for (int i = 0; i < 2; i++)
        if (all[i]->cap > KEPT_MOST)
            larder__writer_free(all[i]);
    if (s->idle.cap > KEPT_MOST)
        larder__inbox_free(&s->idle);
}

static uint64_t laid_bytes(const larder_reader *body) {
    larder_reader r = *body;
    larder__wire_piece p;
    larder_read_bytes(&r, &p, sizeof p);
    return larder_read_status(&r) < 0 ? 0 : p.whole;
}

/* What there is of one kind, LAID or everything else, up to a place in its inbox and for a while.
 * 1: there is more. */
static int hear_each(larder__server *s, larder__server_client *c, bool laid, size_t to,
                     double until) {
    larder_reader body;
    uint16_t type;
    uint64_t taken = 0;
    int rc = 0;
    while (c->in.used < to && (rc = larder__inbox_next(&c->in, &type, &body)) == 1) {
        if ((type == LARDER__MSG_LAID) != laid)
            continue;
        if (laid && (taken += laid_bytes(&body)) > LARDER__TRAY_BYTES)
            return larder__fail(LARDER_E_FORMAT, "it laid down more than its tray holds");
        rc = larder__server_hear(s, c, type, &body);
        s->body.code = s->room.code = 0; /* no memory for one answer: the next may be smaller */
        if (rc < 0 || c->leaving)
            return rc;
        if (!laid && c->in.used < to && larder__world_now() > until)
            return 1;
    }
    return rc < 0 ? rc : 0;
}

/* One piece of what it sent, and no longer than a while, so that nobody is served for long while
 * others wait. Copying comes last: who has made something asks for more in the same breath, and
 * waits for the answer. */
static int hear_all(larder__server *s, larder__server_client *c) {
    double until = larder__world_now() + A_WHILE;
    int rc = c->more ? 1 : larder__inbox_read(&c->in, c->fd);
    size_t from = c->in.used, to = c->in.have;
    c->more = false;
    if (rc <= 0 || (rc = hear_each(s, c, false, to, until)) < 0 || c->leaving)
        return rc;
    s->more |= c->more = rc == 1;
    to = c->in.used;
    c->in.used = from;
    return hear_each(s, c, true, to, until);
}

/* A client has room of its own only while a message of its is not whole. */
static int listen_to(larder__server *s, larder__server_client *c) {
    larder__inbox_pass(&s->idle, &c->in);
    int rc = hear_all(s, c);
    larder__inbox_pass(&c->in, &s->idle);
    if (c->in.bytes && !larder__server_trusts(c->user))
        larder__inbox_fit(&c->in);
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

static void serve(larder__server *s, larder__server_client *c, uint32_t events) {
    int rc = 0;
    c->heard_at = s->turns;
    if (c->expelled) {
        if (ignore(c) < 0)
            larder__server_drop(s, c, NULL);
        return;
    }
    if (events & EPOLLOUT || c->leaving) /* which may have hung up with its answer unread */
        rc = larder__server_flush(s, c);
    if (rc == 0 && !c->leaving && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        rc = listen_to(s, c);
    if (rc == LARDER_E_NOMEM)
        rc = larder__fail(LARDER_E_FULL,
                          "the daemon has no memory left for this: what it may use is "
                          "its --cache");
    bool holds = !larder__server_trusts(c->user) && larder__server_held(c);
    if (rc < 0 && rc != LARDER_E_IO)
        larder__server_throw_out(s, c, rc);
    else if (rc < 0 || (c->leaving && c->out.size == 0))
        larder__server_drop(s, c, NULL);
    else if (holds)
        larder__server_hold_down(s);
}

/* ---- the door -------------------------------------------------------------------------------- */

/* Somebody was there. */
static bool greet(larder__server *s) {
    int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        larder__server_adopt(s, fd);
    else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        /* No descriptor is left: whoever waits at the door would keep us awake for nothing. */
        epoll_ctl(s->epoll, EPOLL_CTL_DEL, s->listener, NULL);
        s->shut = true;
        s->shut_at = larder__world_now();
    }
    return fd >= 0;
}

/* All who wait there: whoever comes behind many others is not to wait for a turn of each. */
static void greet_all(larder__server *s) {
    for (int i = 0; i < LARDER__BACKLOG && greet(s); i++) {
    }
}

/* The door is tried again now and then. */
static int open_again(larder__server *s, int milliseconds) {
    if (s->shut && larder__world_now() >= s->shut_at + WATCH_MS * 1e-3)
        s->shut = larder__server_watch(s, &s->listener) < 0;
    if (!s->shut)
        return milliseconds;
    return milliseconds < 0 || milliseconds > WATCH_MS ? WATCH_MS : milliseconds;
}

/* ---- one turn -------------------------------------------------------------------------------- */

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

/* A piece of the memory that somebody has asked for or left, which may be so much that all others
 * would wait for seconds. */
static int tend_pages(larder__server *s, int milliseconds) {
    enum {
        OTHER_TIMES = 3,
        BREATH_MS = 1
    }; /* so much more time is for clients that ask for some */
    if (!larder__pages_to_do(&s->pages))
        return milliseconds;
    double began = larder__world_now();
    if (s->busy && began < s->pages_at)
        return milliseconds < 0 || milliseconds > BREATH_MS ? BREATH_MS : milliseconds;
    int rc = larder__pages_work(&s->pages);
    double now = larder__world_now();
    s->pages_at = now + OTHER_TIMES * (now - began);
    if (rc < 0 && rc != LARDER_E_FULL)
        larder__server_say(s, "%s; what finds no room there is not kept", larder_errmsg());
    if (rc == LARDER_E_FULL) /* what others hold for a while */
        return milliseconds < 0 || milliseconds > WATCH_MS ? WATCH_MS : milliseconds;
    return larder__pages_to_do(&s->pages) ? 0 : milliseconds;
}

/* Of those who are ready or have more, and were not listened to in this turn, the one that has
 * waited longest; NULL: none. Of other users', or of root's and our own. */
static larder__server_client *whose_turn(const larder__server *s, bool others) {
    larder__server_client *first = NULL;
    for (larder__server_client *c = s->clients; c; c = c->next)
        if ((c->ready || c->more) && !c->hoards && c->heard_at < s->turns &&
            (!first || c->heard_at < first->heard_at) && larder__server_trusts(c->user) != others)
            first = c;
    return first;
}

static void serve_ready(larder__server *s, larder__server_client *c) {
    uint32_t events = c->ready | (c->more ? EPOLLIN : 0);
    c->ready = 0;
    serve(s, c, events);
}

/* What root's and our own have left to say, and then other users' clients, for a while; one of
 * these in any case, however late it is by then. */
static void serve_waiting(larder__server *s) {
    for (larder__server_client *c; (c = whose_turn(s, false));)
        serve_ready(s, c);
    double until = larder__world_now() + FOR_OTHERS;
    s->purse.most -= OURS;
    s->pages.limited = true;
    s->pages.left = (uint64_t)FOR_OTHERS_PIECES * LARDER__PAGES_PIECE;
    for (larder__server_client *c = whose_turn(s, true); c;
         c = larder__world_now() <= until ? whose_turn(s, true) : NULL)
        serve_ready(s, c);
    s->pages.limited = false;
    s->purse.most += OURS;
    larder__server_throw_out_hoarders(s);
    s->more = false;
    for (const larder__server_client *c = s->clients; c; c = c->next)
        s->more |= c->more || c->ready;
}

/* Some of what epoll has to say: root's and our own are served at once, others noted. How many; 0:
 * nothing, or it is to stop. */
static int hear_events(larder__server *s, int milliseconds, bool *door, bool *stop) {
    struct epoll_event events[EVENTS];
    int n = epoll_wait(s->epoll, events, EVENTS, milliseconds);
    if (n < 0)
        return errno == EINTR
                   ? 0
                   : larder__fail(LARDER_E_IO, "waiting for clients: %s", strerror(errno));
    for (int i = 0; i < n && !*stop; i++) {
        larder__server_client *c = events[i].data.ptr;
        if (events[i].data.ptr == &s->stop)
            *stop = true;
        else if (events[i].data.ptr == &s->listener)
            *door = true;
        else if (larder__server_trusts(c->user)) {
            if (c->heard_at < s->turns)
                serve(s, c, events[i].events);
        } else {
            c->ready |= events[i].events;
            s->more = true;
        }
    }
    return *stop ? 0 : n;
}

static int turn(larder__server *s, int milliseconds) {
    bool door = false, stop = false;
    if (s->more)
        milliseconds = 0;
    milliseconds = tend_pages(s, show(s, watch_sets(s, open_again(s, milliseconds))));
    s->turns++;
    int n = hear_events(s, milliseconds, &door, &stop);
    s->stale |= s->busy = n > 0;
    /* By now something may be: one look more, though nobody says anything. */
    s->making |= n > 0 || s->more;
    /* It names all in turn: nobody of root's or our own waits behind many others. */
    for (uint32_t seen = EVENTS; n == EVENTS && seen < s->count + 2; seen += EVENTS)
        n = hear_events(s, 0, &door, &stop);
    if (n < 0 || stop)
        return n < 0 ? n : 0;
    if (s->more)
        serve_waiting(s);
    if (door) /* last: it may drop others */
        greet_all(s);
    return 1;
}

int larder__server_turn(larder__server *s, int milliseconds) {
    larder__purse *before = larder__mem_charge(&s->purse);
    int rc = turn(s, milliseconds);
    larder__mem_charge(before);
    return rc;
}
