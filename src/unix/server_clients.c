#include "unix/server_inside.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/own_user.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MESSAGE_MOST = 4 << 20, /* bytes: whatever is said at once fits */
    OTHERS = 5 << 20        /* that those of other users hold: one whole message, and a little */
};

/* ---- coming and going ------------------------------------------------------------------------ */

void larder__server_drop(larder__server *s, larder__server_client *c, const char *why) {
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

bool larder__server_trusts(uint32_t user) { return larder__is_own_or_root(user); }

bool larder__server_is_room(uint32_t user, uint32_t all, uint32_t theirs, uint32_t most) {
    if (larder__server_trusts(user))
        return all < most;
    return all + theirs < most && all < most - most / 8;
}

/* Those who have hung up and left nothing unheard make room for who comes, whether it was their
 * turn or not. For other users once a turn: many of theirs may come at once, and be here. */
static void drop_gone(larder__server *s, uint32_t user) {
    char byte;
    if (!larder__server_trusts(user)) {
        if (s->looked_at > s->turns)
            return;
        s->looked_at = s->turns + 1;
    }
    for (larder__server_client *c = s->clients, *next; c; c = next) {
        next = c->next;
        if (!c->more && recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
            larder__server_drop(s, c, NULL);
    }
}

static bool is_room(const larder__server *s, uint32_t user) {
    uint32_t theirs = 0;
    for (const larder__server_client *c = s->clients; c; c = c->next)
        theirs += c->user == user;
    return larder__server_is_room(user, s->count, theirs, s->conf.clients);
}

static void adopt(larder__server *s, int fd) {
    uint32_t user = user_of(fd);
    if (!is_room(s, user))
        drop_gone(s, user);
    larder__server_client *c = is_room(s, user) ? larder__calloc(1, sizeof *c) : NULL;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    if (!c || epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
        s->body.size = 0;
        larder__refused_write(&s->body, LARDER_E_FULL, "too many connections to the daemon");
        if (s->body.code == 0)
            larder__frame_send(fd, LARDER__MSG_REFUSED, s->body.bytes, s->body.size, NULL, 0);
        s->body.code = 0;
        larder__free(c);
        close(fd);
        return;
    }
    c->fd = fd;
    c->user = user;
    larder__inbox_init(&c->in);
    c->in.most = MESSAGE_MOST;
    c->in.bytes_alone = true;
    larder__frame_refuse_fds(fd); /* it may have come some other way than through the door */
    c->next = s->clients;
    s->clients = c;
    s->count++;
}

void larder__server_adopt(larder__server *s, int fd) {
    larder__purse *before = larder__mem_charge(&s->purse);
    adopt(s, fd);
    larder__mem_charge(before);
}

/* ---- thrown out ------------------------------------------------------------------------------ */

/* Others do not wait for it any more, and nobody gets its memory yet. */
static void expel(larder__server *s, larder__server_client *c) {
    c->expelled = true;
    c->more = false;
    larder__inbox_free(&c->in);
    larder__server_deafen(c);
    shutdown(c->fd, SHUT_WR);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->fd, &e);
    if (c->about.set)
        larder__served_break(c->about.set, c->about.job);
    larder__unix_ranks_lose(s, c);
}

void larder__server_throw_out(larder__server *s, larder__server_client *c, int code) {
    char why[256];
    snprintf(why, sizeof why, "%s", larder_errmsg());
    larder__server_refuse(s, c, code);
    if (c->about.set || c->berth.ranks) {
        larder__server_say(s, "thrown out: %s (pid %u): %s", c->about.name, c->about.pid, why);
        expel(s, c);
    } else
        larder__server_drop(s, c, why);
}

/* Answers to ranks lie in memory of their job (larder__unix_ranks_unread). */
size_t larder__server_held(const larder__server_client *c) {
    return c->in.cap + (c->berth.ranks ? 0 : c->out.cap);
}

void larder__server_hold_down(larder__server *s) {
    for (;;) {
        larder__server_client *most = NULL;
        size_t sum = 0;
        for (larder__server_client *c = s->clients; c; c = c->next)
            if (!larder__server_trusts(c->user)) {
                sum += larder__server_held(c);
                most = !most || larder__server_held(c) > larder__server_held(most) ? c : most;
            }
        if (sum <= OTHERS)
            return;
        s->hoarded = most->hoards = true; /* this turn may come to it yet */
        most->more = false;
        larder__inbox_free(&most->in);
        if (most->out.size) /* part of it may be sent: nothing can follow */
            larder__server_deafen(most);
    }
}

void larder__server_throw_out_hoarders(larder__server *s) {
    for (larder__server_client *c = s->clients, *next; s->hoarded && c; c = next) {
        next = c->next;
        if (!c->hoards)
            continue;
        c->hoards = false;
        larder__server_throw_out(
            s, c,
            larder__fail(LARDER_E_FULL,
                         "it begins messages and does not end them, or does not read its "
                         "answers, and the daemon needs the memory"));
    }
    s->hoarded = false;
}
