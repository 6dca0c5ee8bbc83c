/* What the daemon is made of, for the files that make it up: server.c (its socket, opening and
 * closing), server_clients.c (who comes, goes and is thrown out), server_turns.c (the loop: who is
 * listened to, and for how long), server_hears.c (what clients say) and server_sends.c. */
#ifndef LARDER_UNIX_SERVER_INSIDE_H
#define LARDER_UNIX_SERVER_INSIDE_H

#include "base/mem.h"
#include "unix/cost.h"
#include "unix/frame.h"
#include "unix/ranks_served.h"
#include "unix/served_set.h"
#include "unix/server.h"
#include "unix/server_shown.h"
#include "unix/status.h"

#include <stddef.h>
#include <sys/un.h>

enum { LARDER__BACKLOG = 128 }; /* who may wait at the door */

typedef struct larder__pending { /* what a client wants, once it has answered */
    larder__hello hello;
    larder__prove asked;
} larder__pending;

typedef struct larder__server_client {
    struct larder__server_client *next;
    int fd;
    bool leaving; /* what is left to send, then goodbye */
    /* Thrown out: nothing is said or heard any more, and what it holds is its own until it hangs
     * up, since it may still read there. */
    bool expelled;
    uint32_t ready;    /* what epoll said of it and was not heeded yet */
    bool more;         /* has said more than was heard yet */
    uint64_t heard_at; /* in which turn it was listened to last */
    bool hoards;       /* is thrown out when this turn ends */
    bool deaf; /* has closed: nothing is sent any more, and what it said before is still heard */
    uint32_t user;            /* whose process it is */
    larder__pending *pending; /* NULL: it was not asked to show anything */
    uint32_t wire;            /* the version of the protocol that it speaks */
    uint64_t promise;         /* bytes that it may come to */
    uint32_t at_once;         /* requests in one message */
    larder__inbox in;
    larder_writer out; /* not yet taken by the socket */
    size_t sent;
    larder__client_about about; /* set is NULL before HELLO */
    larder__berth berth;        /* ranks is NULL before JOIN */
} larder__server_client;

struct larder__server {
    larder__server_conf conf;
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    int listener, lock, epoll, stop;
    larder__server_client *clients;
    uint32_t count;
    larder__served *sets[LARDER__SETS];
    larder__unix_ranks *rank_jobs;
    uint64_t secret;         /* decides which samples users are asked about */
    uint64_t promised;       /* bytes that sets, their jobs and jobs of ranks may come to */
    larder__purse purse;     /* what there is, of all kinds; most: --cache and a little more */
    larder__all_pages pages; /* that its clients map */
    larder_writer body, room;
    double started, watch_at;
    double shut_at; /* since when nobody new is let in, if `shut`: there was no descriptor left */
    bool shut;
    uint64_t turns;
    uint64_t looked_at; /* in which turn it was looked who has hung up, and 1; 0: in none */
    bool more;          /* some clients are ready, or have more */
    bool busy;          /* somebody had something to say in the last turn */
    double pages_at;    /* when a piece of memory is due though others are busy */
    bool hoarded;
    bool ending;                /* clients are left alone, with what they still read */
    larder__inbox idle;         /* room for what comes in, of whoever it comes from */
    bool making;                /* something was being made when we last looked, or may be since */
    larder__server_shown *seen; /* NULL: not shown */
    double seen_at; /* when that was brought up to date; `stale`: not since something happened */
    bool stale;
};

/* Root and the daemon's own user can do with it what they like anyway. */
bool larder__server_trusts(uint32_t user);
/* One more of what there are at most `most` and are `all`? Another user's, of which there are
 * `theirs`, are never more than those that are left, so that nobody who was let in keeps all others
 * out; and an eighth is for whom it trusts, as who has a range of numbers is many users. */
bool larder__server_is_room(uint32_t user, uint32_t all, uint32_t theirs, uint32_t most);
void larder__server_drop(larder__server *, larder__server_client *, const char *why); /* or NULL */
/* For what larder_errmsg says; it is told. */
void larder__server_throw_out(larder__server *, larder__server_client *, int code);
/* Of the daemon's memory, by what it has not said to the end or has not read: bytes. */
size_t larder__server_held(const larder__server_client *);
/* Of other users whoever holds most gives it back, until what is left for root's and our own is
 * enough; they are thrown out when the turn ends, which may come to them yet. */
void larder__server_hold_down(larder__server *);
void larder__server_throw_out_hoarders(larder__server *);
/* One of the daemon's own descriptors, listener or stop: a turn ends when something comes there. */
int larder__server_watch(larder__server *, int *fd);
/* One message; a code means goodbye. */
int larder__server_hear(larder__server *, larder__server_client *, uint16_t type, larder_reader *);
/* Bytes of cache for one more: `want`, or if it need not be exactly that, as much as there is room
 * for with everything that belongs to it. */
int larder__server_budget(larder__server *, const larder__cost *, uint64_t want, bool exactly,
                          uint64_t *out);
/* How it is now; free `clients` with larder__free. */
int larder__server_about(larder__server *, larder__status_conf *out);
/* Sends s->body. */
int larder__server_reply(larder__server *, larder__server_client *, larder__message);
/* The same at once, with descriptors, which go along with its first bytes. */
int larder__server_reply_with(larder__server *, larder__server_client *, larder__message,
                              const int *fds, size_t count);
int larder__server_flush(larder__server *, larder__server_client *); /* what is queued in c->out */
/* It has closed. Its good-bye may lie unread behind what it has no more use for: the end is when
 * all is read. */
void larder__server_deafen(larder__server_client *);
/* Says why and hangs up once that is sent. */
int larder__server_refuse(larder__server *, larder__server_client *, int code);
__attribute__((format(printf, 2, 3))) void larder__server_say(larder__server *, const char *, ...);

#endif
